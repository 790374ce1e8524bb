"""Four platforms, a model and the real daemon as a process: who asked what, and what people see of it in the end.

Every answer is long enough for several messages, and each of its paragraphs says which question it belongs to. So what
is shown in a chat says by itself whether an answer is lost, cut off, or there twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp
import psutil

from core.catalogue import ENGLISH
from tests.lab.benchmarks.load_model import QUESTION_PATTERN
from tests.lab.benchmarks.load_platforms import SECRETS, Chat, Discord, Http, Platform, Slack, Telegram
from tests.support.deployment import ROOT, Deployment
from tests.support.free_ports import free_port
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.scripted import Body, get_agent

PARAGRAPHS = 12
FILLER = "Administrators{0} configure{0} repositories{0}, strategies{0}, citations{0}, thresholds{0}, chats{0}. " * 5
READY_S = 120
# A message without a question's marker that is this short is a placeholder that was left.
MAX_STUB_CHARS = 40
MARKER = re.compile(r"K\d{5}")
UNFINISHED = ("received", "answering", "sending")
# The platform's own tries are over (Slack), or nobody told the bot of the chat (Discord): no question for the bot.
NEVER_TAKEN = "never taken"
# The answer failed, and its asker was told so.
APOLOGIZED = "apologized"
APOLOGY = ENGLISH.answer_failed.partition("{")[0].strip()


def reply_to(body: Body) -> str:
    """Return what the model says: a long answer that names its question in every paragraph."""
    purpose = get_agent(body)
    text = str(body["messages"][-1]["content"])
    questions = QUESTION_PATTERN.findall(text)
    markers = MARKER.findall(questions[-1] if questions else text)
    if purpose == "context":
        return f"1\nThey want to know: {questions[-1] if questions else text}"
    if purpose not in ("write", "talk") or not markers:
        return questions[-1] if questions else "the question"
    return "\n\n".join(
        f"{markers[-1]} part {number:02} of {PARAGRAPHS}. {FILLER.format(number)}"
        for number in range(1, PARAGRAPHS + 1)
    )


@dataclass(slots=True)
class SentQuestion:
    """A question: where, by which marker it is known, and its id on the platform."""

    chat: Chat
    marker: str
    id: str = ""


def judge_answer(marker: str, reply: str, texts: Sequence[str]) -> str:
    """Return what a chat shows of the reply that the journal has: "whole", "lost", "cut off", or "twice"."""
    expected = _find_parts(marker, [reply])
    numbers = _find_parts(marker, texts)
    if not expected:
        # No model wrote it: quoted passages, or a note.
        beginning = _squash(reply)[:60]
        return "whole" if beginning and beginning in _squash(" ".join(texts)) else "lost"
    if not numbers:
        return "lost"
    if len(numbers) != len(set(numbers)):
        return "twice"
    return "whole" if numbers == expected else "cut off"


def _find_parts(marker: str, texts: Sequence[str]) -> list[int]:
    return [int(number) for text in texts for number in re.findall(rf"{marker} part (\d\d) of", text)]


def _squash(text: str) -> str:
    """Return a text without what platforms write in different ways."""
    return re.sub(r"\[[\d, ]+\]|<[^>]*>|\(http[^)]*\)|[^a-z]", "", text.lower())


class Connects(Protocol):
    """Something that the daemon connects to."""

    async def connected(self) -> bool: ...


class Daemon:
    """The daemon, as a process that is killed and started again."""

    def __init__(self, deployment: Deployment, platforms: Sequence[Connects], port: int) -> None:
        self._deployment = deployment
        self._platforms = platforms
        self._port = port
        self._server: asyncio.subprocess.Process | None = None
        self.pid = 0
        self.ready_s: list[float] = []

    async def open(self) -> None:
        """Start the process that everything is imported in."""
        self._server = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.lab.soak.fork_server",
            cwd=ROOT,
            env=self._deployment.variables(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._server.stdout is not None
        await self._server.stdout.readline()

    async def close(self) -> None:
        """End all processes."""
        await self.kill()
        if self._server is not None:
            self._server.kill()
            await self._server.wait()

    async def start(self) -> None:
        """Start the daemon, and wait until it is connected everywhere."""
        assert self._server is not None
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        started_at = time.monotonic()
        log = str(self._deployment.folder / "daemon.log")
        request = {"arguments": ["--config", str(self._deployment.config), "run"], "log": log}
        self._server.stdin.write(json.dumps(request).encode() + b"\n")
        self.pid = int(await self._server.stdout.readline())
        async with asyncio.timeout(READY_S):
            while not (await self.metrics()).get("kimas_ready") or not all(
                [await platform.connected() for platform in self._platforms]
            ):
                assert self.is_running(), self._deployment.log()[-3000:]
                await asyncio.sleep(0.05)
        self.ready_s.append(time.monotonic() - started_at)

    def is_running(self) -> bool:
        """Return whether the process is there."""
        return bool(self.pid) and psutil.pid_exists(self.pid)

    async def kill(self, number: int = signal.SIGKILL) -> None:
        """End it by a signal, at once or in order, and wait until it is gone."""
        pid, self.pid = self.pid, 0
        if not pid:
            return
        # Its workers end when they have nobody to work for.
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        while psutil.pid_exists(pid):
            await asyncio.sleep(0.01)

    async def metrics(self) -> dict[str, float]:
        """Return what the daemon reports of itself; nothing while it does not."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(5)) as session,
                session.get(f"http://127.0.0.1:{self._port}/metrics") as answer,
            ):
                lines = [line.rsplit(" ", 1) for line in (await answer.text()).splitlines() if not line.startswith("#")]
        except (aiohttp.ClientError, TimeoutError):
            return {}
        return {name: float(value) for name, value in lines}


class World:
    """The platforms with their people, the model, and one daemon that is killed and started again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.journal = folder / "data" / "journal.db"
        self.chance = random.Random(seed)
        self.platforms: dict[str, Platform] = {}
        self.chats: dict[str, list[Chat]] = {}
        self.questions: list[SentQuestion] = []
        self.model: LanguageModelPeer
        self.daemon: Daemon

    async def ask(self, name: str, places: Collection[str] = ()) -> SentQuestion:
        """Let somebody ask in a chat of the platform with this name, in one of `places` (`platform:chat`) if any."""
        platform = self.platforms[name]
        chats = [chat for chat in self.chats[name] if not places or f"{name}:{chat.id}" in places]
        question = SentQuestion(self.chance.choice(chats), f"K{len(self.questions):05}")
        self.questions.append(question)
        mention = "" if question.chat.private else platform.mention
        text = f"{mention}{question.marker}: how does the gate decide when to speak?"
        # Each by another person: many answers to one account look like a loop of two bots.
        question.id = await platform.say(question.chat, text, len(self.questions) % 900)
        return question

    def count_pending(self) -> int:
        """Return how many messages the journal has not finished."""
        with closing(sqlite3.connect(self.journal, timeout=30)) as connection:
            marks = ", ".join("?" * len(UNFINISHED))
            query = f"SELECT count(*) FROM messages WHERE state IN ({marks})"  # noqa: S608
            return int(connection.execute(query, UNFINISHED).fetchone()[0])

    def outcomes(self) -> dict[tuple[str, str, str], tuple[str, str, str]]:
        """Return the state, the reason and the reply of every message in the journal."""
        with closing(sqlite3.connect(self.journal, timeout=30)) as connection:
            rows = connection.execute("SELECT platform, chat, id, state, reason, reply FROM messages").fetchall()
        return {tuple(row[:3]): (row[3], row[4] or "", row[5] or "") for row in rows}

    async def wait_until_finished(self, timeout_s: float) -> None:
        """Wait until everything asked is in the journal and finished."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            outcomes = await asyncio.to_thread(self.outcomes)
            if all((item.chat.platform, item.chat.id, item.id) in outcomes for item in self.questions):
                break
            await asyncio.sleep(0.3)
        while await asyncio.to_thread(self.count_pending) and time.monotonic() < deadline:
            await asyncio.sleep(0.3)

    def _count_apologies(self) -> Counter[tuple[str, str]]:
        """Return how many apologies stand in each chat, by platform and chat."""
        posts = [
            (platform, chat.id)
            for platform, chats in self.chats.items()
            for chat in chats
            for message in self.platforms[platform].get_messages(chat)
            if APOLOGY in message.text
        ]
        # The network over HTTP is told of a failure in a state of its own; each event counts once.
        failed_ids = {(item["chat"], item["event_id"]) for item in self._callbacks if item["state"] == "failed"}
        return Counter([*posts, *(("http", chat) for chat, _ in failed_ids)])

    @property
    def _callbacks(self) -> Sequence[Mapping[str, str]]:
        callbacks: Sequence[Mapping[str, str]] = self.platforms["http"].peer.callbacks  # type: ignore[attr-defined]
        return callbacks

    def judge(self) -> tuple[Counter[tuple[str, str]], list[str]]:
        """Return how many answers there are of each platform and outcome, and a line for each that is not whole.

        A message of the bot that is no part of any answer is "orphaned".
        """
        outcomes = self.outcomes()
        counts = Counter[tuple[str, str]]()
        problems = list[str]()
        apologies = self._count_apologies()
        for item in self.questions:
            platform = item.chat.platform
            texts = [message.text for message in self.platforms[platform].get_messages(item.chat)]
            state, reason, reply = outcomes.get((platform, item.chat.id, item.id), ("", "", ""))
            outcome = judge_answer(item.marker, reply, texts) if state else NEVER_TAKEN
            if outcome == "lost" and state == "failed" and apologies[platform, item.chat.id] > 0:
                apologies[platform, item.chat.id] -= 1
                outcome = APOLOGIZED
            counts[platform, outcome] += 1
            if outcome not in ("whole", APOLOGIZED):
                part_numbers = [
                    re.findall(rf"{item.marker} part (\d\d)", text) for text in texts if item.marker in text
                ]
                problems.append(
                    f"{outcome}: {platform} {item.chat.id} {item.marker} {item.id} {state} {reason} {part_numbers}"
                )
        for platform, chats in self.chats.items():
            for chat in chats:
                for message in self.platforms[platform].get_messages(chat):
                    if len(message.text) < MAX_STUB_CHARS and not MARKER.search(message.text):
                        counts[platform, "orphaned"] += 1
                        if platform != "telegram":
                            problems.append(f"orphaned: {platform} {chat.id} {message.text[:80]!r}")
        return counts, problems


@asynccontextmanager
async def open_world(
    folder: Path,
    seed: int,
    *,
    chats: int = 30,
    tokens_per_s: float = 1500,
    settings: Mapping[str, object] | None = None,
) -> AsyncIterator[World]:
    """Open the platforms and the model, read the sources, and start the daemon."""
    world = World(folder, seed)
    async with AsyncExitStack() as stack:
        platforms: list[Platform] = [Telegram(), Discord(), Slack(), Http()]
        for platform in platforms:
            await platform.open(stack)
            world.platforms[platform.name] = platform
            # Private chats of Discord are unknown to a bot that was away when they began: docs/discord.md.
            private = 0 if platform.name == "discord" else chats // 3
            world.chats[platform.name] = platform.chats(chats, private)
        world.platforms["telegram"].peer.limit_per_chat = None  # type: ignore[attr-defined]
        world.platforms["slack"].peer.limits = {}  # type: ignore[attr-defined]
        world.model = await stack.enter_async_context(
            LanguageModelPeer(ttft_s=0.05, tokens_per_s=tokens_per_s, reply=reply_to)
        )
        port = free_port()
        http = {**world.platforms["http"].settings(), "partials": True}
        platform_settings = {platform.name: platform.settings() for platform in platforms}
        configuration = {
            "sources": {"guide": {"kind": "files", "path": str(ROOT / "docs" / "groups.md")}},
            "models": {"main": {"base_url": world.model.base_url, "model": "peer", "max_tokens": 4096}},
            "metrics": {"port": port},
            "run": {"grace_s": 5},
            **platform_settings,
            "http": http,
            **(settings or {}),
        }
        deployment = Deployment(folder, configuration, SECRETS)
        await asyncio.to_thread(deployment.call, "ingest")
        world.daemon = Daemon(deployment, platforms, port)
        stack.push_async_callback(world.daemon.close)
        await world.daemon.open()
        await world.daemon.start()
        yield world
