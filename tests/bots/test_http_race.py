"""Races for a place below a post, against two rivals of 3 to 12 s each, in a fifth of the time.

The whole way is real: the preset's settings, signed events and callbacks over sockets, the journal, the line from the
question to the cited comment, a language model over HTTP. Only the services take as long as they are told.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from core.answer import answer
from core.llm import RoleModels
from core.ports import Sink
from core.settings import Settings
from core.types import Passage, Question, Reply
from core.yaml_file import read_yaml
from tests.bots.http_stand import Stand, standing
from tests.core.scripted import Body, ScriptedPeer
from tests.core.stand import ShelfLibrary, parts, passage
from tests.peers.callback import US
from tests.peers.language_model import BODY

PRESET = Path(__file__).parents[2] / "config/presets/olympic-bot.yaml"
SCALE = 0.2
RACES = 40
AT_ONCE = 6
WARM_UP = 1000
HOPELESS = range(2000, 2004)  # both rivals are faster than the services can be
COMMENT = (
    "The pair from Brazil won the diving final today [p1]. What a show, and what a crowd to cheer them on! "
    "Whoever missed it should watch the last two dives again."
)
TOKENS_PER_S = 40
NUMBER = re.compile(r"race (\d+)")
NEWS = passage("news", "The pair from Brazil won the diving final of the race today.", source="news")
RULES = passage("rules", "A dive of the final is scored by seven judges.", source="background")


@dataclass(frozen=True)
class Race:
    """Seconds that everything takes, unscaled: two rivals, the light model, the search, the first tokens."""

    rivals: tuple[float, float]
    light: float
    search: float
    first_token: float
    first_token_of_other: float


@dataclass
class Clock:
    """What the services themselves took for each race, in seconds: how fast this machine is, is not their fault."""

    spent: dict[int, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))

    @contextmanager
    def timed(self, number: int, stage: str) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            self.spent[number][stage] = time.monotonic() - started

    def permits(self, number: int) -> bool:
        """Say whether the services, one after the other, were faster than the slower rival and the deadline."""
        return sum(self.spent[number].values()) < SCALE * min(max(drawn(number).rivals), 10.0)


def drawn(number: int) -> Race:
    chance = random.Random(number)
    quickest, slowest = (0.5, 1.5) if number in HOPELESS else (3, 12)
    first, second = chance.uniform(quickest, slowest), chance.uniform(quickest, slowest)
    light, search = chance.uniform(0.2, 0.7), chance.uniform(0.3, 1.8)
    # Most first tokens come soon, some late, and a few take so long that the other provider is faster.
    return Race((first, second), light, search, 0.5 + chance.expovariate(1.5), chance.uniform(0.5, 1.5))


def number_in(words: str) -> int:
    found = NUMBER.search(words)
    assert found, words
    return int(found[1])


def key_terms(body: Body) -> str:
    return json.dumps({"terms": ["diving final", f"race {number_in(str(body['messages']))}"]})


class SlowPeer(ScriptedPeer):
    """Takes as long as the race says, whoever asks."""

    clock: Clock

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body: Body = request[BODY]
        number, name = number_in(str(body["messages"])), str(body["model"])
        race = drawn(number)
        waits = {"qwen-turbo": race.light, "qwen-plus": race.first_token, "gpt-5-nano": race.first_token_of_other}
        with self.clock.timed(number, name):
            await asyncio.sleep(SCALE * waits[name])
            return await super()._chat(request)


@dataclass
class SlowLibrary(ShelfLibrary):
    passages: Sequence[Passage] = (NEWS, RULES)
    clock: Clock = field(default_factory=Clock)

    async def search(self, agent: str, query: str, limit: int, *, dense: str = "") -> Sequence[Passage]:
        if agent == "news":
            number = number_in(f"{query} {dense}")
            with self.clock.timed(number, "search"):
                await asyncio.sleep(SCALE * drawn(number).search)
        return await super().search(agent, query, limit, dense=dense)


def scaled(base_url: str) -> Settings:
    """Return the preset's settings with all times scaled and all endpoints replaced."""
    data: dict[str, Any] = dict(read_yaml(PRESET).data)
    models = data["models"]
    for one in (models["main"], *models["main"]["fallbacks"].values(), models["light"]):
        del one["api_key"]
        one["base_url"] = base_url
        for name in ("timeout_s", "first_token_s", "hedge_after_s"):
            if name in one:
                one[name] *= SCALE
    data["budget"]["deadline_s"] *= SCALE
    comments = {**data.get("auto_comment", {}), "chats": ["http:games"], "per_hour": None, "deadline_s": 10 * SCALE}
    return Settings.model_validate({**data, "auto_comment": comments, "gate": {}})


@dataclass
class Track:
    """All races of one test, and where we came in: 1 for the first, 0 where we stayed silent."""

    stand: Stand
    places: dict[int, int] = field(default_factory=dict)

    async def run(self, number: int) -> None:
        race, thread = drawn(number), f"post-{number}"
        text = f"Diving, race {number}: who won the final?"
        rivals = asyncio.gather(
            *(self._rival(name, at, thread) for name, at in zip(("first", "second"), race.rivals, strict=True))
        )
        await self._send(thread, "post", "Games", text)
        shown = self.stand.peer.shown["games", thread]
        # Who comes after us changes nothing any more.
        while US not in shown and not rivals.done():
            await asyncio.sleep(0.01)
        if US in shown:
            rivals.cancel()
        with suppress(asyncio.CancelledError):
            await rivals
        await asyncio.sleep(0.1)
        self.places[number] = shown.index(US) + 1 if US in shown else 0

    async def _rival(self, name: str, seconds: float, thread: str) -> None:
        await asyncio.sleep(SCALE * seconds)
        self.stand.peer.shown["games", thread].append(name)
        await self._send(f"{thread}-{name}", "comment", name, "What a jump!", thread=thread, bot=True)

    async def _send(self, number: str, kind: str, name: str, text: str, *, thread: str = "", bot: bool = False) -> None:
        author = {"id": name, "name": name, "bot": bot}
        sent_at = datetime.now(UTC).isoformat()
        event = {"id": number, "chat": "games", "author": author, "text": text, "kind": kind, "sent_at": sent_at}
        assert await self.stand.send({**event, **({"thread": thread} if thread else {})}) == [202]


async def test_we_are_among_the_first_two_or_silent_never_the_third(tmp_path: Path) -> None:
    async with SlowPeer(write=COMMENT, rewrite_keyword=key_terms) as model:
        model.clock = clock = Clock()
        model.tokens_per_s = TOKENS_PER_S / SCALE
        settings = scaled(model.base_url)
        models = RoleModels.open(settings.models)
        assert models is not None
        line = parts(SlowLibrary(clock=clock), models, settings)

        async def comment(question: Question, sink: Sink) -> Reply:
            return await answer(question, sink, line)

        async with standing(tmp_path, comment, configuration=settings) as stand:
            track = Track(stand)
            lanes = asyncio.Semaphore(AT_ONCE)

            async def in_turn(number: int) -> None:
                async with lanes:
                    await track.run(number)

            await models.warm_up()
            # The first answer of a process loads what all others find loaded.
            await track.run(WARM_UP)
            del track.places[WARM_UP]
            await asyncio.gather(*(in_turn(number) for number in (*range(RACES), *HOPELESS)))
            await stand.settled()
            finals = {one["thread"]: one for one in stand.peer.of("final")}
            silences = [await stand.state(f"post-{number}") for number, place in track.places.items() if not place]
        await models.close()
    assert [track.places[number] for number in HOPELESS] == [0] * len(HOPELESS)
    permitted = [number for number in range(RACES) if clock.permits(number)]
    won = [number for number in permitted if track.places[number] in (1, 2)]
    print(f"{len(won)} of {len(permitted)} permitted races of {RACES}; places {sorted(track.places.values())}")
    assert len(permitted) > RACES / 2
    assert max(track.places.values()) <= 2
    assert len(won) / len(permitted) > 0.95
    assert all(one["citations"] for one in finals.values())
    assert all(state == "silent" and reason for state, reason in silences)
