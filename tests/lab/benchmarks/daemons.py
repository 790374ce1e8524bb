"""Two daemons on one PostgreSQL: a thousand messages in a minute over 200 chats, and one daemon killed in the middle.

The platform and the model are in this process, each daemon is one, and so is the database. The killed one is the one
that receives the messages. What people saw is compared with what they asked, and the journal says who took over when.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from psycopg import sql

from tests.lab.benchmarks.figures import Figure, percentile
from tests.support.deployment import Deployment
from tests.support.forked import ForkedProcess
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.postgresql import PostgresServer, run_server
from tests.support.peers.telegram import PostedMessage, TelegramPeer

PLACEHOLDER = "…"
START_S = 120.0
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of what. The model takes `model_s` for an answer; `kill_after_s` None kills nobody."""

    messages: int
    chats: int
    seconds: float
    daemons: int = 2
    workers: int = 32
    model_s: float = 1.0
    lease_s: float = 5.0
    kill_after_s: float | None = None
    max_wait_s: float = 30.0
    question: str = "What is thing number {number}?"
    # What the daemons' configurations have besides; without sources they answer from the model alone.
    settings: Mapping[str, Any] = field(default_factory=dict)


FULL = Shape(1000, 200, 60, kill_after_s=30)
# Everything is asked at once, and the model's time is most of an answer's.
SATURATED = Shape(96, 96, 0, workers=4, model_s=4.0)


@dataclass(slots=True)
class Outcome:
    """What one run showed: how often each message was answered, and the times of the journal and of people."""

    answers: Mapping[int, int]
    placeholders: int = 0
    out_of_order: int = 0
    waits_s: list[float] = field(default_factory=list)
    duration_s: float = 0.0
    leader_s: float = 0.0
    takeover_s: float = 0.0
    taken_over: int = 0
    shares: list[int] = field(default_factory=list)

    @property
    def lost(self) -> int:
        return sum(count == 0 for count in self.answers.values())

    @property
    def twice(self) -> int:
        return sum(count > 1 for count in self.answers.values())


class Fleet:
    """The daemons of one run, their platform, their model and their journal."""

    def __init__(self, folder: Path, shape: Shape, server: PostgresServer) -> None:
        self.folder = folder
        self.shape = shape
        self.server = server
        self.database = server.create_database()
        self.telegram = TelegramPeer()
        self.model = LanguageModelPeer(reply=_reply, ttft_s=shape.model_s)
        self.deployments: list[Deployment] = []
        self.processes: list[asyncio.subprocess.Process | ForkedProcess] = []
        self.questions: dict[int, tuple[int, int, float]] = {}

    async def open(self, stack: AsyncExitStack) -> None:
        """Start everything, and wait until the first daemon listens and all are there."""
        await stack.enter_async_context(self.telegram)
        await stack.enter_async_context(self.model)
        for number in range(self.shape.daemons):
            directory = self.folder / f"daemon-{number}"
            directory.mkdir(parents=True)
            environment = {"BOT_TOKEN": self.telegram.token, **self.server.environment}
            self.deployments.append(Deployment(directory, self._settings(), environment))
            self.processes.append(await stack.enter_async_context(self.deployments[-1].daemon()))
        async with asyncio.timeout(START_S):
            while not all("daemon.ready" in item.log() for item in self.deployments) or not self.telegram.offsets:
                for deployment, process in zip(self.deployments, self.processes, strict=True):
                    assert process.returncode is None, deployment.log()
                await asyncio.sleep(LOOK_S)

    def _settings(self) -> dict[str, Any]:
        journal = self.server.settings(self.database).model_copy(update={"lease_s": self.shape.lease_s})
        return {
            "journal": json.loads(journal.model_dump_json(exclude_none=True)),
            "models": {"main": {"base_url": self.model.base_url, "model": "peer", "price_prompt": 0}},
            "strategies": {"allowed": ["none"]},
            "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": self.telegram.api_url},
            "run": {"workers": self.shape.workers, "grace_s": 2},
            "cache": {"enabled": False},
            "feedback": {"thumbs": False},
            # One account asks all that comes from a chat.
            "gate": {"answers_in_10_min": 200},
            "log": {"format": "json"},
            **self.shape.settings,
        }

    async def ask(self) -> None:
        """Ask everything, spread over the time and the chats."""
        started_at = time.monotonic()
        pause_s = self.shape.seconds / self.shape.messages
        for number in range(self.shape.messages):
            await asyncio.sleep(max(0.0, started_at + number * pause_s - time.monotonic()))
            chat = -1000 - number % self.shape.chats
            text = f"@{self.telegram.username} {self.shape.question.format(number=number)}"
            message_id = self.telegram.say(chat, text)
            self.questions[number] = (chat, message_id, time.monotonic())

    async def kill_leader(self) -> tuple[float, float, int]:
        """Kill the daemon that receives; return after how long another one did, and had all of its messages."""
        (leader,) = self._rows("SELECT owner FROM leases WHERE name LIKE 'bot:%'")
        index = next(number for number, item in enumerate(self.deployments) if str(leader[0]) in item.log())
        states = "state IN ('received', 'answering', 'sending')"
        unfinished_query = f"SELECT count(*) FROM messages WHERE {states} AND owner = '{leader[0]}'"  # noqa: S608
        self.processes[index].send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
        leader_s = 0.0
        unfinished_count = int(self._rows(unfinished_query)[0][0])
        async with asyncio.timeout(10 * self.shape.lease_s):
            while not leader_s or self._rows(unfinished_query)[0][0]:
                if not leader_s and self._rows("SELECT owner FROM leases WHERE name LIKE 'bot:%'") != [leader]:
                    leader_s = time.monotonic() - killed_at
                await asyncio.sleep(LOOK_S)
        return leader_s, time.monotonic() - killed_at, unfinished_count

    async def wait_until_finished(self) -> None:
        """Wait until everything is answered, or until no answer comes for `settle_s`: the rest is lost."""
        last_progress_at = time.monotonic()
        open_count = self.shape.messages
        while open_count and time.monotonic() - last_progress_at < self.shape.max_wait_s:
            await asyncio.sleep(0.2)
            count = sum(not answers for answers in self.answers().values())
            if count < open_count:
                last_progress_at = time.monotonic()
                open_count = count
        # An answer too many would come now.
        await asyncio.sleep(1)

    def answers(self) -> dict[int, list[PostedMessage]]:
        """Return the bot's messages that answer each message of people."""
        by_question = defaultdict[tuple[int, int], list[PostedMessage]](list)
        for chat in self.telegram.chats.values():
            for message in chat.messages.values():
                if message.from_bot and message.reply_to and "Thing number" in message.text:
                    by_question[chat.id, message.reply_to].append(message)
        return {number: by_question[chat, message_id] for number, (chat, message_id, _) in self.questions.items()}

    def outcome(self) -> Outcome:
        """Compare what people saw with what they asked."""
        answers = self.answers()
        outcome = Outcome({number: len(messages) for number, messages in answers.items()})
        posted = [item for chat in self.telegram.chats.values() for item in chat.messages.values() if item.from_bot]
        outcome.placeholders = sum(message.text == PLACEHOLDER for message in posted)
        newest = dict[int, float]()
        for number, messages in answers.items():
            chat, _, asked_at = self.questions[number]
            for message in messages:
                shown_at = next(at for at, text in message.history if "Thing number" in text)
                outcome.waits_s.append(shown_at - asked_at)
                outcome.out_of_order += shown_at < newest.get(chat, 0.0)
                newest[chat] = max(shown_at, newest.get(chat, 0.0))
                outcome.out_of_order += f"number {number} " not in message.text
        outcome.duration_s = max(newest.values(), default=0.0) - min(at for _, _, at in self.questions.values())
        outcome.shares = [item.log().count('"message.answered"') for item in self.deployments]
        return outcome

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.server.execute(sql.SQL(query), self.database)


def _reply(body: Mapping[str, Any]) -> str:
    numbers = re.findall(r"thing number (\d+)", json.dumps(body["messages"]))
    return f"Thing number {numbers[-1] if numbers else '?'} is a thing."


async def run(folder: Path, shape: Shape, server: PostgresServer) -> Outcome:
    """Run one shape and return its outcome."""
    async with AsyncExitStack() as stack:
        fleet = Fleet(folder, shape, server)
        await fleet.open(stack)
        ask_task = asyncio.create_task(fleet.ask())
        times = (0.0, 0.0, 0)
        if shape.kill_after_s is not None:
            await asyncio.sleep(shape.kill_after_s)
            times = await fleet.kill_leader()
        await ask_task
        await fleet.wait_until_finished()
        outcome = fleet.outcome()
        outcome.leader_s, outcome.takeover_s, outcome.taken_over = times
    return outcome


async def measure(folder: Path) -> list[Figure]:
    with run_server() as server:
        killed = await run(folder / "killed", FULL, server)
        two = await run(folder / "two", SATURATED, server)
        single_daemon = await run(folder / "one", replace(SATURATED, daemons=1), server)
    waits = killed.waits_s
    return [
        Figure("daemons: messages", len(killed.answers), "messages"),
        Figure("daemons: lost", killed.lost, "times", 0.5),
        Figure("daemons: answered twice", killed.twice, "times", 0.5),
        Figure("daemons: out of order", killed.out_of_order, "times", 0.5),
        Figure("daemons: placeholders left by the kill", killed.placeholders, "messages"),
        Figure("daemons: of the killed one, taken over", killed.taken_over, "messages"),
        Figure("daemons: another one receives after", killed.leader_s, "s", FULL.lease_s),
        Figure("daemons: all is taken over after", killed.takeover_s, "s", FULL.lease_s),
        Figure("daemons: wait for an answer p50", percentile(waits, 0.5), "s"),
        Figure("daemons: wait for an answer p95", percentile(waits, 0.95), "s"),
        Figure("daemons: saturated, one daemon", len(single_daemon.answers) / single_daemon.duration_s, "answers/s"),
        Figure("daemons: saturated, two daemons", len(two.answers) / two.duration_s, "answers/s"),
        # The figure's limit is an upper one: the time of two, as a share of one's.
        Figure("daemons: time of two over that of one", two.duration_s / single_daemon.duration_s, "x", 1 / 1.7),
    ]
