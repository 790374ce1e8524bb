"""Races for a position below a post, against two competitors of 3 to 12 s each, on any network.

The whole way is real: the preset's settings, the network's adapter and its peer over sockets, the journal, the line
from the question to the cited comment, a language model over HTTP. Only the services take as long as they are told, on
the clock of `time_lapse`: how busy this machine is makes no difference.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Protocol

from aiohttp import web
from sqlalchemy import select

from core.answering.pipeline import answer
from core.llm.role_models import RoleChatModel
from core.messaging.inbox import Inbox
from core.ports import Adapter, MessageHandler, Sink
from core.settings import Settings
from core.settings.yaml_file import read_yaml
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Message, Passage, Question, Reply
from tests.support.fixtures import InMemoryLibrary, parts, passage
from tests.support.peers.language_model import BODY, split_pieces
from tests.support.scripted import Body, ScriptedPeer
from tests.support.waiting import until
from tests.support.wiring import make_processor, running

PRESET = Path(__file__).parents[2] / "config/presets/olympic-bot.yaml"
# So many races that two of them are not yet a twentieth.
RACES = 44
AT_ONCE = 8
CHATS = 32  # so many that hardly ever two posts of one are raced for at the same time
WARM_UP = 1000
HOPELESS = range(2000, 2004)  # both competitors are faster than the services can be
CLOSE = range(3000, 3006)  # the second competitor comes right before the services are done
AHEAD_S = 0.5
# The age of a post counts by the clock on the wall, which has nothing to do with that of the races: no post is old.
LATER_S = 3600.0
US = "us"
COMPETITORS = ("first", "second")
COMMENT = (
    "The pair from Brazil won the diving final today [p1]. What a show, and what a crowd to cheer them on! "
    "Whoever missed it should watch the last two dives again."
)
TOKENS_PER_S = 40
NUMBER = re.compile(r"race (\d+)")
WITHHELD = re.compile(r"^2 replies of bots below the post already|auto_comment\.deadline_s")
NEWS = passage("news", "The pair from Brazil won the diving final of the race today.", source="news")


@dataclass(frozen=True)
class Race:
    """Seconds that everything takes: two competitors, the light model, the search, the first tokens."""

    competitors: tuple[float, float]
    light: float
    search: float
    first_token: float
    first_token_of_other: float


def drawn(number: int) -> Race:
    chance = random.Random(number)
    quickest, slowest = (0.5, 1.5) if number in HOPELESS else (3, 12)
    first = chance.uniform(quickest, slowest)
    second = chance.uniform(quickest, slowest)
    light = chance.uniform(0.2, 0.7)
    search = chance.uniform(0.3, 1.8)
    # Most first tokens come soon, some late, and a few take so long that the other provider is faster.
    late = 0.5 + chance.expovariate(1.5)
    other = chance.uniform(0.5, 1.5)
    if number in CLOSE:
        late = 1.0
        second = light + search + late + len(split_pieces(COMMENT)) / TOKENS_PER_S - AHEAD_S
        first = second / 2
    return Race((first, second), light, search, late, other)


def number_in(words: str) -> int:
    result = NUMBER.search(words)
    assert result, words
    return int(result[1])


def key_terms(body: Body) -> str:
    return json.dumps({"terms": ["diving final", f"race {number_in(str(body['messages']))}"]})


@dataclass
class Clock:
    """What the services themselves took for each race, in seconds."""

    elapsed_s: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))

    @contextmanager
    def timed(self, number: int, stage: str) -> Iterator[None]:
        started_at = time.monotonic()
        try:
            yield
        finally:
            self.elapsed_s[number][stage] = time.monotonic() - started_at

    def permits(self, number: int) -> bool:
        """Return whether the services, one after the other, were faster than the slower competitor and the deadline."""
        return sum(self.elapsed_s[number].values()) < min(max(drawn(number).competitors), 10.0)


class SlowPeer(ScriptedPeer):
    """Takes as long as the race says, whoever asks."""

    clock: Clock

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Body = request[BODY]
        number = number_in(str(body["messages"]))
        name = str(body["model"])
        race = drawn(number)
        waits = {"qwen-turbo": race.light, "qwen-plus": race.first_token, "gpt-5-nano": race.first_token_of_other}
        with self.clock.timed(number, name):
            await asyncio.sleep(waits[name])
            return await super()._chat(request)


@dataclass
class SlowLibrary(InMemoryLibrary):
    passages: Sequence[Passage] = (NEWS,)
    clock: Clock = field(default_factory=Clock)

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        if agent == "news":
            number = number_in(f"{query} {dense_query}")
            with self.clock.timed(number, "search"):
                await asyncio.sleep(drawn(number).search)
        return await super().search(agent, query, limit, dense_query=dense_query)


def on_peer(base_url: str, chats: Sequence[str]) -> Settings:
    """Return the preset's settings for these chats, with all endpoints replaced."""
    data: dict[str, Any] = dict(read_yaml(PRESET).data)
    models = data["models"]
    for fallback in (models["main"], *models["main"]["fallbacks"].values(), models["light"]):
        del fallback["api_key"]
        fallback["base_url"] = base_url
    comments = data["auto_comment"]
    # Nobody posts so much in an hour that a series fits into it.
    comments |= {"chats": list(chats), "per_hour": None}
    return Settings.model_validate({**data, "gate": {}})


class Network(Protocol):
    """A network, as those see it who write there. `chats` are where posts are, named as in the configuration."""

    chats: Sequence[str]

    async def ready(self) -> None:
        """Wait until the adapter listens."""
        ...

    async def post(self, chat: str, number: int, text: str) -> str:
        """Write a post and return its id."""
        ...

    async def reply(self, post: str, competitor: str) -> None:
        """Write a competitor's reply below a post."""
        ...

    def below(self, post: str) -> Sequence[str]:
        """Return the bots below a post, competitors and `US`, as the network shows them."""
        ...


@dataclass
class Sight:
    """When competitors' replies were in the journal, by post, and when our own comment was written."""

    journaled_at: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    written_at: dict[str, float] = field(default_factory=dict)

    def receiver(self, receive: MessageHandler) -> MessageHandler:
        async def take(message: Message) -> None:
            await receive(message)
            if message.is_by_bot:
                self.journaled_at[message.reply_to or message.key.thread].append(time.monotonic())

        return take

    def counts(self, post: str) -> bool:
        """Return whether the network had shown us too many competitors before there was anything to post."""
        return sum(at < self.written_at[post] for at in self.journaled_at[post] if post in self.written_at) >= len(
            COMPETITORS
        )


@dataclass
class DatedSink:
    """Implements `Sink` over another one, and notes when the comment is there to be posted."""

    sink: Sink
    post: str
    sight: Sight

    async def open(self) -> None:
        await self.sink.open()

    async def update(self, text: str) -> None:
        await self.sink.update(text)

    async def finish(self, reply: Reply) -> None:
        self.sight.written_at[self.post] = time.monotonic()
        await self.sink.finish(reply)

    async def fail(self, text: str) -> None:
        await self.sink.fail(text)


@dataclass
class Series:
    """All races of one test. `posts` holds the ids by number, `ends` what the journal says of each in the end."""

    network: Network
    clock: Clock = field(default_factory=Clock)
    sight: Sight = field(default_factory=Sight)
    posts: dict[int, str] = field(default_factory=dict)
    ends: dict[int, tuple[str, str]] = field(default_factory=dict)

    async def run(self, chat: str, number: int) -> None:
        post = self.posts[number] = await self.network.post(chat, number, f"Diving, race {number}: who won the final?")
        competitors = asyncio.gather(
            *(self._post_reply(name, at, post) for name, at in zip(COMPETITORS, drawn(number).competitors, strict=True))
        )
        # Who comes after us changes nothing any more.
        await until(lambda: US in self.network.below(post) or competitors.done())
        if US in self.network.below(post):
            competitors.cancel()
        with suppress(asyncio.CancelledError):
            await competitors

    async def _post_reply(self, name: str, seconds: float, post: str) -> None:
        await asyncio.sleep(seconds)
        await self.network.reply(post, name)

    def position(self, number: int) -> int:
        """Return where we came in: 1 for the first, 0 where we stayed silent."""
        comments = self.network.below(self.posts[number])
        return comments.index(US) + 1 if US in comments else 0

    def judge(self) -> None:
        """Assert that we were among the first two wherever the services' time permits it, and never the third.

        What comes between our last look and the post nobody can count where the network does not compare: such a race
        is lost, but nobody's fault.
        """
        positions = {number: self.position(number) for number in self.posts}
        permitted = [number for number in range(RACES) if self.clock.permits(number)]
        won = [number for number in permitted if positions[number] in (1, 2)]
        third = [number for number, position in positions.items() if position > 2]
        outputs = [positions[number] for number in sorted(positions)]
        print(f"{len(won)} of {len(permitted)} permitted races of {RACES} won; positions {outputs}; third in {third}")
        print("lost:", {number: self.ends[number] for number in permitted if number not in won})
        counted_ends = [self.ends[number] for number, post in self.posts.items() if self.sight.counts(post)]
        assert len(counted_ends) >= len(HOPELESS)
        assert [end for end in counted_ends if end[0] != "silent" or not WITHHELD.search(end[1])] == []
        # Nor does it take long to be told of a competitor.
        late_numbers = [number for number in CLOSE if positions[number]]
        assert len(late_numbers) <= 1
        assert [positions[number] for number in HOPELESS] == [0] * len(HOPELESS)
        assert len(permitted) > RACES / 2
        assert len(won) / len(permitted) > 0.95
        silent_ends = [self.ends[number] for number, position in positions.items() if not position]
        assert all(state == "silent" and reason for state, reason in silent_ends), silent_ends


async def raced(folder: Path, network: Network, make: Callable[[Settings], Adapter]) -> Series:
    """Run all races on a network with the adapter that is made for it; return how they ended."""
    series = Series(network)
    async with SlowPeer(write=COMMENT, rewrite_keyword=key_terms) as model:
        model.clock = series.clock
        model.tokens_per_s = TOKENS_PER_S
        settings = on_peer(model.base_url, network.chats)
        models = RoleChatModel.open(settings.models)
        assert models is not None
        line = parts(SlowLibrary(clock=series.clock), models, settings)

        async def comment(question: Question, sink: Sink) -> Reply:
            return await answer(question, DatedSink(sink, question.id, series.sight), line)

        journal = await Journal.open(folder / "journal.db")
        try:
            await models.warm_up()
            processor = make_processor(settings, journal, comment)
            adapter = make(settings)
            async with listening(adapter, series.sight.receiver(processor.handler_for(adapter)), processor, network):
                await _run_all(series)
            series.ends = {number: await get_end(journal, post) for number, post in series.posts.items()}
        finally:
            await models.close()
            await journal.close()
    return series


@asynccontextmanager
async def listening(
    adapter: Adapter, receive: MessageHandler, processor: Inbox, network: Network
) -> AsyncIterator[None]:
    """Have the adapter listen; what the bot has begun is brought to its end after it."""
    async with running(adapter, processor, receive, drain_s=0):
        async with asyncio.timeout(10):
            await network.ready()
        yield
        assert await processor.drain(10) == 0


async def _run_all(series: Series) -> None:
    chats = cycle([chat.partition(":")[2] for chat in series.network.chats])
    # The first answer of a process loads what all others find loaded.
    await series.run(next(chats), WARM_UP)
    del series.posts[WARM_UP]
    mixed = [*range(RACES), *CLOSE, *HOPELESS]
    random.Random(0).shuffle(mixed)
    numbers = iter(mixed)

    async def lane() -> None:
        for number in numbers:
            await series.run(next(chats), number)

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))


async def get_end(journal: Journal, post: str) -> tuple[str, str]:
    """Return the state of a message in the journal, and the reason for it."""
    query = select(messages.c.state, messages.c.reason).where(messages.c.id == post)
    async with journal.database.connect() as connection:
        row = (await connection.execute(query)).one()
    return str(row.state), str(row.reason)
