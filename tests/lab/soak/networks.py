"""SIGKILLs aimed at one social network or forge: every answer is whole and there once, and never a third bot.

    python -m tests.lab.soak.kills --platform mastodon --kills 50

People ask, and on social networks write posts that the bot may comment on. Below a third of them two other bots are at
once; below another third one is, and a second one comes while the daemon is down, if it has not commented by then.
"""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.lab.benchmarks.load_model import QUESTION_PATTERN
from tests.lab.soak.kills import AIM_S, Aim, Aiming
from tests.lab.soak.world import APOLOGY, MARKER, READY_S, UNFINISHED, Daemon
from tests.support.deployment import ROOT, Deployment
from tests.support.free_ports import free_port
from tests.support.peers import bluesky, github, gitlab, mastodon
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.scripted import Body, get_agent

PARTS = 4
WORDS = "The gate decides when the bot speaks, and every silence has a reason that the journal keeps. " * 3
MAX_BOTS = 2
POLL_S = 0.5
FINISH_S = 180
OUTCOMES = ("whole", "silent", "apologized", "lost", "cut off", "twice")
FAULTS = ("lost", "cut off", "twice")


@dataclass(slots=True)
class Said:
    """What somebody wrote: a question, or a post that may be commented on."""

    id: str
    marker: str
    is_post: bool = False
    bots: int = 0


class Network(ABC):
    """One network with people. `calls` are those that a kill is aimed at, with how many of each."""

    name = ""
    calls: Mapping[str, int]
    looks: Sequence[str] = ()
    has_posts = True
    peer: Any

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the network's section of a configuration."""

    @abstractmethod
    async def ask(self, text: str, number: int) -> str:
        """Let somebody ask, and return the id of the question in the journal."""

    @abstractmethod
    def get_texts(self) -> list[str]:
        """Return what the bot wrote, the oldest first."""

    async def post(self, text: str) -> str:
        """Let somebody write a post."""
        raise NotImplementedError

    async def reply_as_bot(self, post_id: str, number: int) -> None:
        """Let another bot comment."""
        raise NotImplementedError

    def list_bots(self, post_id: str) -> list[str]:
        """Return who commented right below a post, "us" for this bot."""
        return []

    async def connected(self) -> bool:
        """Return whether the daemon has spoken to the network."""
        # The first look of all only notes what is there; it is over when there is a second one.
        return all(self.peer.calls.count(call) > 1 for call in self.looks)


class Mastodon(Network):
    name = "mastodon"
    calls = MappingProxyType(
        {"POST statuses": 2, "GET statuses/{}": 1, "GET statuses/{}/context": 1, "GET notifications": 1}
    )

    def __init__(self) -> None:
        self.peer = mastodon.MastodonPeer()
        self.peer.max_chars = 800

    def settings(self) -> dict[str, Any]:
        return {"url": self.peer.url, "token": {"env": "SOAK_TOKEN"}}

    async def ask(self, text: str, number: int) -> str:
        return str(await self.peer.say(self.peer.account(f"p{number}"), f"@kimas {text}"))

    async def post(self, text: str) -> str:
        return str(await self.peer.say(self.peer.account("author"), f"{text} #games"))

    async def reply_as_bot(self, post_id: str, number: int) -> None:
        robot = self.peer.account(f"robot{number}", "bots.example", bot=True)
        await self.peer.say(robot, "What a day!", reply_to=post_id)

    def list_bots(self, post_id: str) -> list[str]:
        authors = [item.author for item in self.peer.statuses.values() if item.reply_to == post_id]
        return ["us" if author == mastodon.BOT else author.acct for author in authors]

    def get_texts(self) -> list[str]:
        return [status.text for status in self.peer.posts()]

    async def connected(self) -> bool:
        return bool(self.peer.streams["hashtag games"] and self.peer.streams["user"])


class Bluesky(Network):
    name = "bluesky"
    calls = MappingProxyType(
        {"POST putRecord": 3, "GET getPostThread": 2, "GET listNotifications": 1, "GET getListFeed": 1}
    )
    looks = ("GET listNotifications", "GET getListFeed")

    def __init__(self) -> None:
        self.peer = bluesky.BlueskyPeer()
        self._author = self.peer.account("author")
        self.peer.lists = {"games": {self._author.handle}}
        self.peer.followers = {self._author.handle}

    def settings(self) -> dict[str, Any]:
        account = {"handle": bluesky.BOT.handle, "app_password": {"env": "SOAK_TOKEN"}, "url": self.peer.url}
        return {**account, "comment_below": ["followers"]}

    async def ask(self, text: str, number: int) -> str:
        return str(self.peer.say(self.peer.account(f"p{number}"), f"@{bluesky.BOT.handle} {text}"))

    async def post(self, text: str) -> str:
        return str(self.peer.say(self._author, text))

    async def reply_as_bot(self, post_id: str, number: int) -> None:
        self.peer.say(self.peer.account(f"robot{number}", bot=True), "What a day!", reply_to=post_id)

    def list_bots(self, post_id: str) -> list[str]:
        authors = [item.author for item in self.peer.posts_by_uri.values() if item.reply_to == post_id]
        return ["us" if author == bluesky.BOT else author.handle for author in authors]

    def get_texts(self) -> list[str]:
        return [post.text for post in self.peer.posts()]


class Github(Network):
    name = "github"
    calls = MappingProxyType(
        {
            "POST issues/{}/comments": 1,
            "GET issues/{}": 1,
            "POST issues/{}/labels": 1,
            "mutation AddComment": 1,
            "query Discussion": 1,
        }
    )
    looks = ("GET issues/comments", "query ChangedDiscussions")
    has_posts = False

    def __init__(self) -> None:
        self.peer = github.GithubPeer()
        self.peer.repositories[github.REPOSITORY].can_write = True

    def settings(self) -> dict[str, Any]:
        access = {"token": {"env": "SOAK_TOKEN"}, "api_url": self.peer.url, "poll_s": POLL_S}
        return {**access, "repositories": [github.REPOSITORY], "discussions": True, "answered_label": "answered"}

    async def ask(self, text: str, number: int) -> str:
        person = f"p{number}"
        if number % 2:
            return f"discussions/{self.peer.discussions.open(text, f'@kimas {text}', person)}"
        return f"issues/{self.peer.open(text, f'@kimas {text}', person)}"

    def get_texts(self) -> list[str]:
        return [note.text for note in [*self.peer.posts(), *self.peer.discussions.posts()]]


class Gitlab(Network):
    name = "gitlab"
    calls = MappingProxyType(
        {
            "POST issues/{}/notes": 1,
            "GET issues/{}": 1,
            "PUT issues/{}": 1,
            "GET issues": 1,
            "GET issues/{}/notes": 1,
        }
    )
    looks = ("GET issues",)
    has_posts = False

    def __init__(self) -> None:
        self.peer = gitlab.GitlabPeer()
        self.peer.repositories[github.REPOSITORY].can_write = True

    def settings(self) -> dict[str, Any]:
        access = {"token": {"env": "SOAK_TOKEN"}, "api_url": self.peer.url, "poll_s": POLL_S}
        return {**access, "projects": [github.REPOSITORY], "answered_label": "answered"}

    async def ask(self, text: str, number: int) -> str:
        return f"issues/{self.peer.open(text, f'@kimas {text}', f'p{number}')}"

    def get_texts(self) -> list[str]:
        return [note.text for note in self.peer.posts()]


NETWORKS: dict[str, type[Network]] = {kind.name: kind for kind in (Mastodon, Bluesky, Github, Gitlab)}


def reply_to(body: Body) -> str:
    """Return what the model says: an answer of several posts that names its question in each part."""
    text = str(body["messages"][-1]["content"])
    questions = QUESTION_PATTERN.findall(text)
    markers = MARKER.findall(questions[-1] if questions else text)
    if get_agent(body) not in ("write", "talk") or not markers:
        return questions[-1] if questions else "the question"
    return "\n\n".join(f"{markers[-1]} part {number:02} of {PARTS}. {WORDS}" for number in range(1, PARTS + 1))


@dataclass(slots=True)
class Trial:
    """One network, the real daemon as a process, and what was said so far."""

    network: Network
    daemon: Daemon
    journal: Path
    chance: random.Random
    said: list[Said] = field(default_factory=list)

    async def ask(self) -> None:
        """Let somebody ask."""
        number = len(self.said)
        marker = f"K{number:05}"
        # Each by another person: many answers to one account look like a loop of two bots.
        self.said.append(Said("", marker))
        self.said[-1].id = await self.network.ask(f"{marker}: how does the gate decide when to speak?", number)

    async def post(self) -> None:
        """Let somebody write a post, with none, one or two comments of other bots."""
        number = len(self.said)
        item = Said("", f"K{number:05}", is_post=True, bots=self.chance.choice((0, 1, 2)))
        self.said.append(item)
        item.id = await self.network.post(f"{item.marker}: how does the gate decide when to speak?")
        for robot in range(item.bots):
            await self.network.reply_as_bot(item.id, robot)

    async def overtake(self) -> None:
        """Let a second bot comment where one has and this one has not."""
        for item in self.said:
            if item.is_post and item.bots == 1 and "us" not in self.network.list_bots(item.id):
                item.bots = MAX_BOTS
                await self.network.reply_as_bot(item.id, 1)

    async def wait_until_finished(self) -> None:
        """Wait until everything that the journal has is finished, and all questions are in it."""
        deadline = time.monotonic() + FINISH_S
        while time.monotonic() < deadline:
            outcomes = await asyncio.to_thread(self._read_outcomes)
            is_heard = all(item.id in outcomes for item in self.said if not item.is_post)
            if is_heard and not any(state in UNFINISHED for state, _ in outcomes.values()):
                return
            await asyncio.sleep(0.3)

    def _read_outcomes(self) -> dict[str, tuple[str, str]]:
        with closing(sqlite3.connect(self.journal, timeout=30)) as connection:
            rows = connection.execute("SELECT id, state, reason FROM messages").fetchall()
        return {row[0]: (row[1], row[2] or "") for row in rows}

    def judge(self) -> tuple[Counter[tuple[str, str]], list[str]]:
        """Return how many answers and comments ended how, and a line for each fault."""
        outcomes = self._read_outcomes()
        text = "\n".join(self.network.get_texts())
        counts = Counter[tuple[str, str]]()
        problems = [f"rule broken: {violation}" for violation in self.network.peer.violations]
        apologies = text.count(APOLOGY)
        for item in self.said:
            numbers = [int(number) for number in re.findall(rf"{item.marker} part (\d\d) of", text)]
            state, reason = outcomes.get(item.id, ("not heard of", ""))
            outcome = _judge_parts(numbers)
            if outcome == "lost" and item.is_post:
                outcome = "silent"
            elif outcome == "lost" and state == "failed" and apologies:
                apologies -= 1
                outcome = "apologized"
            counts["comments" if item.is_post else "answers", outcome] += 1
            if outcome in FAULTS:
                problems.append(f"{outcome}: {item.id} {item.marker} {state} {reason} {numbers}")
            bots = self.network.list_bots(item.id) if item.is_post else []
            if "us" in bots[MAX_BOTS:] or bots.count("us") > 1:
                problems.append(f"a bot too many: {item.id} {bots} {state} {reason}")
        return counts, problems


def _judge_parts(numbers: Sequence[int]) -> str:
    if not numbers:
        return "lost"
    if len(numbers) != len(set(numbers)):
        return "twice"
    return "whole" if numbers == [*range(1, PARTS + 1)] else "cut off"


@asynccontextmanager
async def open_trial(folder: Path, name: str, seed: int) -> AsyncIterator[Trial]:
    """Open a network and a model, read the sources, and start the daemon."""
    network = NETWORKS[name]()
    async with (
        network.peer,
        LanguageModelPeer(ttft_s=0.05, tokens_per_s=1500, reply=reply_to) as model,
    ):
        port = free_port()
        feeds = {"mastodon": "mastodon:tag/games", "bluesky": "bluesky:list/games"}
        comments = {"chats": [feeds[name]] if name in feeds else [], "needs_citation": False, "deadline_s": READY_S}
        configuration = {
            "sources": {"guide": {"kind": "files", "path": str(ROOT / "docs" / "groups.md")}},
            "models": {"main": {"base_url": model.base_url, "model": "peer", "max_tokens": 4096}},
            "metrics": {"port": port},
            "run": {"grace_s": 5},
            "auto_comment": comments,
            name: network.settings(),
        }
        secret = network.peer.password if name == "bluesky" else network.peer.token
        deployment = Deployment(folder, configuration, {"SOAK_TOKEN": secret})
        await asyncio.to_thread(deployment.call, "ingest")
        daemon = Daemon(deployment, [network], port)
        try:
            await daemon.open()
            await daemon.start()
            yield Trial(network, daemon, folder / "data" / "journal.db", random.Random(seed))
        finally:
            await daemon.close()


async def kill_again_and_again(trial: Trial, kills: int) -> int:
    """Kill the daemon so often, at each call in turn; return how many kills met their aim."""
    network = trial.network
    aims = [
        Aim(network.name, method, number, when)
        for method, count in network.calls.items()
        for number in range(1, count + 1)
        for when in ("before", "after", "soon")
    ]
    rounds = [trial.chance.sample(aims, len(aims)) for _ in range(kills // len(aims) + 1)]
    aiming = Aiming({network.name: network}, trial.daemon, trial.chance)
    hit_count = 0
    for number, aim in enumerate([aim for some in rounds for aim in some][:kills]):
        aiming.aim(aim)
        # Two, so that both kinds of topics on GitHub are asked in.
        await asyncio.gather(trial.ask(), trial.ask())
        if network.has_posts:
            await trial.post()
        try:
            async with asyncio.timeout(AIM_S):
                await aiming.hit.wait()
            hit_count += 1
        except TimeoutError:
            aiming.disarm()
            await trial.daemon.kill()
        if network.has_posts:
            await trial.overtake()
        await trial.daemon.start()
        if number % 10 == 9:
            print(f"{number + 1} kills, {hit_count} as aimed", flush=True)
    return hit_count


async def run(folder: Path, name: str, kills: int, seed: int) -> bool:
    """Kill so many times; return whether nothing was lost, cut off or doubled, and no third bot commented."""
    started_at = time.monotonic()
    async with open_trial(folder, name, seed) as trial:
        hit_count = await kill_again_and_again(trial, kills)
        await trial.wait_until_finished()
        counts, problems = trial.judge()
        ready_s = sorted(trial.daemon.ready_s)[len(trial.daemon.ready_s) // 2]
    for kind in ("answers", "comments"):
        figures = {outcome: counts[kind, outcome] for outcome in OUTCOMES}
        print(f"{name} {kind}: " + ", ".join(f"{count} {outcome}" for outcome, count in figures.items() if count))
    print(*problems, sep="\n")
    seconds = time.monotonic() - started_at
    print(f"{kills} kills, {hit_count} as aimed, {seconds:.0f} s; ready again in {ready_s:.1f} s (p50)")
    return not problems
