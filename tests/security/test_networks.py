"""People and chats of one HTTP network mean nothing in another one, that has the same names or had them.

An owner of a network appoints, teaches, forgets and asks; namesakes in another network get and lose nothing by it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bots.daemon.bootstrap import open_app
from core.settings import Settings
from core.storage.erasure import count_on_platform, erase_on_platform
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from knowledge.parsing.parser import ThreadParser
from tests.support.knowledge import WordEmbedder
from tests.support.recording_bot import MEMBER, Bot, Sender

OWNER = "1"
QUESTION = "When is the release date of the launcher?"
CLOSED_WORD = "numbat"


def make_settings(folder: Path, audience: Sequence[str], networks: Sequence[str], **changes: Any) -> Settings:
    http = {"secret": {"env": "HTTP"}, "callback_url": "http://127.0.0.1:9/", "allow_private": ["127.0.0.1"]}
    closed = {"audience": audience}
    return Settings.model_validate(
        {
            "data_dir": str(folder / "data"),
            "sources": {
                "docs": {"kind": "files", "path": str(folder / "docs")},
                "quokka": {"kind": "files", "path": str(folder / "team"), **closed},
                "taught": {"kind": "learned", **closed},
            },
            "agents": {"manual": {"sources": ["docs"]}, "quoll": {"sources": ["quokka", "taught"]}},
            "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
            "http": http,
            "bots": {name: {"http": http} for name in networks},
            "administration": {"owners": [f"http:{OWNER}@shop", f"http:{OWNER}@store"]},
            "gate": {"mode": "mention", "answers_in_10_min": 200, "wait_s": 0, "cooldown_s": 0},
            **changes,
        }
    )


@asynccontextmanager
async def opened(
    folder: Path, audience: Sequence[str], networks: Sequence[str] = ("shop",), **changes: Any
) -> AsyncIterator[Bot]:
    for name, text in (("docs", "It is announced on the site."), ("team", f"It is the first of May, {CLOSED_WORD}.")):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "launcher.md").write_text(f"# Launcher\n\nThe release date of the launcher. {text}\n", "utf-8")
    settings = make_settings(folder, audience, networks, **changes)
    settings.data_dir.mkdir(exist_ok=True)
    journal = await Journal.open(settings.data_dir / "journal.db")
    try:
        async with open_app(settings, embedder=WordEmbedder(), parser=ThreadParser(), database=journal.database) as app:
            await app.refresh()
            bot = Bot(app, journal, None, None)
            yield bot
            await bot.processor.drain(60)
    finally:
        await journal.close()


def in_network(name: str, chat: str, author: str = MEMBER, *, is_private: bool = False) -> Sender:
    """Return somebody as the daemon knows them; the network without a name is ""."""
    suffix = f"@{name}" if name else ""
    return Sender(chat + suffix, author + suffix, "http", is_private=is_private)


async def is_told(bot: Bot, sender: Sender, text: str = QUESTION) -> bool:
    bot.output()
    await bot.deliver(sender, text)
    return CLOSED_WORD in bot.output()


NAMESAKES = ["", "store"]


@pytest.mark.parametrize("other", NAMESAKES)
async def test_an_administrator_is_one_in_the_network_where_an_owner_said_so(tmp_path: Path, other: str) -> None:
    async with opened(tmp_path, ["admins"], ("shop", "store")) as bot:
        await bot.deliver(in_network("shop", "room", OWNER), f"add {MEMBER}", "admins")
        assert await is_told(bot, in_network("shop", "talk", is_private=True))
        assert not await is_told(bot, in_network(other, "talk", is_private=True))
        await bot.deliver(in_network(other, "room"), "", "pause")
        assert not await is_told(bot, in_network(other, "room"))
        assert "Launcher" in str(await ask(bot, in_network(other, "room"))), "a namesake cannot pause it"


async def ask(bot: Bot, sender: Sender) -> str:
    bot.output()
    await bot.deliver(sender, QUESTION)
    return bot.output()


@pytest.mark.parametrize("other", NAMESAKES)
async def test_a_chat_of_the_audience_is_that_of_its_network(tmp_path: Path, other: str) -> None:
    async with opened(tmp_path, ["http:room@shop"], ("shop", "store")) as bot:
        assert await is_told(bot, in_network("shop", "room"))
        assert not await is_told(bot, in_network(other, "room"))
        # A name within a name: the last one counts, and only the daemon writes it.
        assert not await is_told(bot, in_network("store", "room@shop"))


async def test_people_of_another_network_are_not_forgotten_with_their_namesakes(tmp_path: Path) -> None:
    networks = ("shop", "store", "")
    async with opened(tmp_path, ["owners"], ("shop", "store")) as bot:
        database = bot.journal.database
        for name in networks:
            await bot.deliver(in_network(name, "room"), QUESTION)
        await bot.deliver(in_network("store", "room"), "", "forget")
        counts = [
            (await count_on_platform(database, "http", in_network(name, "").author)).finished_count for name in networks
        ]
        assert counts[0] == counts[2] > counts[1]
        await erase_on_platform(database, "http", MEMBER, datetime.now(UTC).date())
        assert (await count_on_platform(database, "http", f"{MEMBER}@shop")).finished_count == counts[0]


@pytest.mark.parametrize("other", NAMESAKES)
async def test_a_namesake_of_a_trusted_person_teaches_nothing_by_answering(tmp_path: Path, other: str) -> None:
    handoff = {"trusted": [f"http:{MEMBER}@shop"]}
    async with opened(tmp_path, ["http:room@shop"], ("shop", "store"), handoff=handoff) as bot:
        repository = TaughtAnswerRepository(bot.journal.database)
        for name, count in ((other, 0), ("shop", 1)):
            # Nobody addressed the bot, so the question is open.
            question = await bot.deliver(in_network(name, "room", "7"), "How long is the countdown?", addressed=False)
            await bot.deliver(in_network(name, "room"), "It takes 9 s.", addressed=False, reply_to=question.id)
            assert len(await repository.list_answers("pending", reader=None)) == count


async def test_what_a_network_of_another_name_taught_is_not_told(tmp_path: Path) -> None:
    """The network was renamed: what has its former name is not taken for the same, nor is it anybody else's."""
    async with opened(tmp_path, ["http:room@shop"]) as bot:
        await bot.deliver(
            in_network("shop", "room", OWNER), "How long is the countdown?", "learn", quoted=f"It takes {CLOSED_WORD}."
        )
        repository = TaughtAnswerRepository(bot.journal.database)
        (answer,) = await repository.list_answers("pending", reader=None)
        await bot.deliver(in_network("shop", "room", OWNER), f"approve {answer.number}", "faq")
        await bot.deliver(in_network("shop", "room", OWNER), f"add {MEMBER}", "admins")
        await bot.app.refresh()
        assert await is_told(bot, in_network("shop", "room"), "How long is the countdown?")
    async with opened(tmp_path, ["http:room@store", "admins"], ("store",)) as bot:
        for name in ("store", ""):
            # In the room of the audience, the closed source itself tells it.
            assert await is_told(bot, in_network(name, "room"), "How long is the countdown?") == (name == "store")
            assert not await is_told(bot, in_network(name, "talk", is_private=True)), "administrators were of `shop`"
        sources = {
            passage.source for sink in bot.adapter("http").sinks for reply in sink.replies for passage in reply.passages
        }
        assert "taught" not in sources


@pytest.mark.parametrize("learned_from", ["", "8"], ids=["the command", "a message that was never received"])
async def test_what_was_taught_in_private_is_not_listed_once_others_read(tmp_path: Path, learned_from: str) -> None:
    """Somebody joins: what was said in the chat until then is not told there, and so are lessons from it."""
    alone, among_others = (in_network("shop", "room", OWNER, is_private=is_private) for is_private in (True, False))
    taught = {"reply_to": learned_from, "quoted": f"It takes {CLOSED_WORD}."}
    async with opened(tmp_path, ["everyone"]) as bot:
        await bot.deliver(alone, "How long is the countdown?", "learn", **taught)
        await bot.deliver(among_others, "Who keeps the key?", "learn", quoted="The porter keeps it.")
        for text in ("", "list 1", "list 2"):
            bot.output()
            await bot.deliver(among_others, text, "faq")
            shown_text = bot.output()
            assert (CLOSED_WORD in shown_text, "porter" in shown_text) == (False, text != "list 1")
            await bot.deliver(alone, text, "faq")
            assert (CLOSED_WORD in bot.output()) == (text != "list 2")
