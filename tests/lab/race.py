"""Fifty posts a minute on a social network, with the preset `olympic-bot` and two other bots below each post.

    python -m tests.lab.race mastodon --minutes 2
    python -m tests.lab.race bluesky --minutes 2

The adapter, the journal and the line from post to comment are those of the daemon, the network is the strict peer over
sockets, and the services take as long as in the races of the tests: all on the real clock, so that other load of the
machine counts. It prints how long the first comments took, and ends with exit code 1 where there was a third bot, a cap
or a quiet hour was not kept, or a post was paid for twice.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web

from bots.bluesky.adapter import BlueskyAdapter
from bots.bluesky.connection import BlueskyIntervals
from bots.mastodon.adapter import MastodonAdapter
from bots.mastodon.connection import MastodonIntervals
from core.answering.pipeline import answer
from core.llm.role_models import RoleChatModel
from core.ports import Adapter, Sink
from core.settings import Settings
from core.storage.messages import Journal
from core.types import Question, Reply
from tests.support import bluesky_helpers, mastodon_helpers
from tests.support.fixtures import parts
from tests.support.journalled_bot import MemoryPositions
from tests.support.peers import bluesky, mastodon
from tests.support.peers.language_model import BODY
from tests.support.race_helpers import (
    COMMENT,
    TOKENS_PER_S,
    Sight,
    SlowLibrary,
    SlowPeer,
    drawn,
    key_terms,
    listening,
    number_in,
    on_peer,
)
from tests.support.scripted import Body
from tests.support.wiring import make_processor

POSTS_PER_MINUTE = 50
MAX_BOTS = 2
# For so long a post is watched: comments come in ten seconds or not at all.
WATCHED_S = 13.0
CAP = 12
# How many posts each of the two short parts has, in which nothing or only so much is to be said.
SHORT_POSTS = 20
US = "us"


class CountingPeer(SlowPeer):
    """A model that counts for which post a comment was written."""

    def __init__(self) -> None:
        super().__init__(write=COMMENT, rewrite_keyword=key_terms)
        self.paid = Counter[tuple[int, str]]()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Body = request[BODY]
        self.paid[number_in(str(body["messages"])), str(body["model"])] += 1
        return await super()._chat(request)


class OnMastodon:
    """A hashtag on the peer."""

    chats = ("mastodon:tag/games",)

    def __init__(self) -> None:
        self.peer = mastodon.MastodonPeer()

    def make_adapter(self, configuration: Settings, folder: Path) -> Adapter:
        timelines = configuration.auto_comment.get_chats("mastodon")
        settings = mastodon_helpers.settings(self.peer, folder)
        return MastodonAdapter(settings, MemoryPositions(), timelines, MastodonIntervals())

    async def ready(self) -> None:
        await self.peer.until_streaming("hashtag games")

    async def post(self, text: str) -> str:
        return await self.peer.say(self.peer.account("games"), f"{text} #games")

    async def reply(self, post: str, name: str) -> None:
        robot = self.peer.account(name, "bots.example", bot=True)
        await self.peer.say(robot, "What a jump!", reply_to=post)

    def below(self, post: str) -> list[str]:
        authors = [item.author for item in self.peer.statuses.values() if item.reply_to == post]
        return [US if author == mastodon.BOT else author.username for author in authors]


class OnBluesky:
    """A list on the peer, whose author has agreed."""

    chats = ("bluesky:list/games",)

    def __init__(self) -> None:
        self.peer = bluesky.BlueskyPeer()
        self._author = self.peer.account("author")
        self.peer.lists = {"games": {self._author.handle}}

    def make_adapter(self, configuration: Settings, folder: Path) -> Adapter:
        feeds = configuration.auto_comment.get_chats("bluesky")
        settings = bluesky_helpers.settings(self.peer, folder, comment_below=(self._author.did,))
        return BlueskyAdapter(settings, MemoryPositions(), feeds, None, BlueskyIntervals())

    async def ready(self) -> None:
        await self.peer.until_polled("GET getListFeed")

    async def post(self, text: str) -> str:
        return self.peer.say(self._author, text)

    async def reply(self, post: str, name: str) -> None:
        self.peer.say(self.peer.account(name, bot=True), "What a jump!", reply_to=post)

    def below(self, post: str) -> list[str]:
        authors = [item.author for item in self.peer.posts_by_uri.values() if item.reply_to == post]
        return [US if author == bluesky.BOT else author.handle.partition(".")[0] for author in authors]


Network = OnMastodon | OnBluesky
NETWORKS: dict[str, Callable[[], Network]] = {"mastodon": OnMastodon, "bluesky": OnBluesky}


@dataclass
class Watched:
    """A post: when our comment was there, after so many seconds, and when the model was asked for it."""

    id: str
    comment_s: float = 0.0


@dataclass
class Race:
    """A series of posts on one network."""

    network: Network
    posts: dict[int, Watched] = field(default_factory=dict)

    async def run(self, numbers: range) -> None:
        """Let posts be written at an even pace, and watch each."""
        watching = []
        started_at = time.monotonic()
        for index, number in enumerate(numbers):
            await asyncio.sleep(started_at + index * 60 / POSTS_PER_MINUTE - time.monotonic())
            watching.append(asyncio.create_task(self._watch(number)))
        await asyncio.gather(*watching)

    async def _watch(self, number: int) -> None:
        network = self.network
        item = self.posts[number] = Watched(await network.post(f"Diving, race {number}: who won the final?"))
        started_at = time.monotonic()
        pending = sorted(zip(drawn(number).competitors, ("first", "second"), strict=True))
        while (elapsed := time.monotonic() - started_at) < WATCHED_S:
            while pending and elapsed >= pending[0][0]:
                await network.reply(item.id, pending.pop(0)[1])
            if not item.comment_s and US in network.below(item.id):
                item.comment_s = elapsed
            await asyncio.sleep(0.02)


async def run_part(network: Network, folder: Path, numbers: range, **changes: object) -> tuple[Race, CountingPeer]:
    """Run the bot with these settings of `auto_comment` while posts are written; return what was seen."""
    race = Race(network)
    model = CountingPeer()
    async with network.peer, model:
        library = SlowLibrary()
        model.clock = library.clock
        model.tokens_per_s = TOKENS_PER_S
        settings = on_peer(model.base_url, network.chats)
        comments = settings.auto_comment.model_copy(update=changes)
        settings = settings.model_copy(update={"auto_comment": comments})
        models = RoleChatModel.open(settings.models)
        assert models is not None
        line = parts(library, models, settings)

        async def comment(question: Question, sink: Sink) -> Reply:
            return await answer(question, sink, line)

        journal = await Journal.open(folder / "journal.db")
        try:
            await models.warm_up()
            processor = make_processor(settings, journal, comment)
            adapter = network.make_adapter(settings, folder)
            receive = Sight().receiver(processor.handler_for(adapter))
            async with listening(adapter, receive, processor, network):  # type: ignore[arg-type]
                await race.run(numbers)
        finally:
            await models.close()
            await journal.close()
    return race, model


def judge(name: str, race: Race, model: CountingPeer, max_comments: int | None = None) -> list[str]:
    """Print a line of figures, and return what went wrong."""
    network = race.network
    below = {number: network.below(item.id) for number, item in race.posts.items()}
    ours = [number for number, bots in below.items() if US in bots]
    times = sorted(race.posts[number].comment_s for number in ours)
    positions = Counter(bots.index(US) + 1 for bots in below.values() if US in bots)
    problems = [f"position 3 or more: post {number}" for number in ours if US in below[number][MAX_BOTS:]]
    problems += [f"two comments: post {number}" for number in ours if below[number].count(US) > 1]
    problems += [f"paid twice: {key}" for key, count in model.paid.items() if count > 1 and key[0] in race.posts]
    problems += [f"a rule of the network: {violation}" for violation in network.peer.violations]
    if max_comments is not None and len(ours) > max_comments:
        problems.append(f"{len(ours)} comments where {max_comments} are allowed")
    figures = f"{name}: {len(race.posts)} posts, {len(ours)} comments"
    if times:
        p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
        figures += f"; first comment after {p50:.1f} s (p50), {p95:.1f} s (p95), {times[-1]:.1f} s (max)"
        figures += f"; {positions[1]} as the first, {positions[2]} as the second"
    print(figures, flush=True)
    return problems


async def run(name: str, minutes: float, folder: Path) -> list[str]:
    """Race, and then race with a cap and in a quiet hour; return what went wrong."""
    make = NETWORKS[name]
    now = datetime.now().astimezone()
    quiet_hours = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"
    parts_by_title = {
        "race": (range(int(minutes * POSTS_PER_MINUTE)), {}, None),
        f"per_hour: {CAP}": (range(SHORT_POSTS), {"per_hour": CAP}, CAP),
        f"quiet_hours: {quiet_hours}": (range(SHORT_POSTS), {"quiet_hours": quiet_hours}, 0),
    }
    problems = []
    for title, (numbers, changes, max_comments) in parts_by_title.items():
        with TemporaryDirectory(dir=folder) as part_folder:
            race, model = await run_part(make(), Path(part_folder), numbers, **changes)
        problems += judge(f"{name}, {title}", race, model, max_comments)
    return problems


def main() -> None:
    """Run it by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--minutes", type=float, default=2.0)
    options = parser.parse_args()
    print(f"load at the beginning: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with TemporaryDirectory() as folder:
        problems = asyncio.run(run(options.network, options.minutes, Path(folder)))
    print(*problems, sep="\n")
    print(f"load at the end: {os.getloadavg()[0]:.1f}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
