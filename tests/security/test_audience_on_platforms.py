"""Closed stays closed on every platform: rights, lessons, roles, faults and forgetting, at one bot that is on all.

All platforms have people and chats of the same names. Adapters have tests of their own, and so has `bots/api`.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import ValidationError
from sqlalchemy import select, update

from bots.daemon.bootstrap import make_live_settings, open_app
from core.llm import repetition
from core.messaging.feedback import rating_buttons
from core.settings import Settings
from core.storage.lessons import TaughtAnswerRepository
from core.storage.messages import Journal
from core.storage.tables import messages, metadata
from core.types import DOWN, RATING_COMMAND, RETRY, ConversationKey, Message
from knowledge.parsing.parser import ThreadParser
from tests.support.knowledge import WordEmbedder
from tests.support.recording_bot import Bot, Sender, repeat
from tests.support.scripted import ScriptedPeer

pytestmark = pytest.mark.usefixtures("time_lapse")

QUESTION = "When is the release date of the launcher?"
# In the closed source's text, title, path and name, and in the agent's name and description.
CLOSED_WORDS = ("numbat", "bilby", "dunnart", "quokka", "quoll", "wombat")
LESSON = "kultarr"
SECRETS: dict[str, dict[str, Any]] = {
    "telegram": {"token": {"env": "TELEGRAM"}},
    "discord": {"token": {"env": "DISCORD"}},
    "slack": {"bot_token": {"env": "SLACK"}, "app_token": {"env": "SLACK_APP"}},
    "mastodon": {"url": "https://social.example", "token": {"env": "MASTODON"}},
    "http": {"secret": {"env": "HTTP"}, "callback_url": "http://127.0.0.1:9/", "allow_private": ["127.0.0.1"]},
}


@dataclass(frozen=True)
class Place:
    """A platform: the team's chat, the public one, and people by the ids that they have there."""

    platform: str
    team: Sender
    public: Sender
    suffix: str = ""

    def get_id(self, number: int) -> str:
        return f"{number}{self.suffix}"

    def in_private(self, number: int) -> Sender:
        person = self.get_id(number)
        chat = person if self.platform in ("telegram", "mastodon") else f"D{number}"
        return Sender(chat, person, self.platform, is_private=True)

    def in_public(self, number: int) -> Sender:
        return replace(self.public, author=self.get_id(number))

    def in_team(self, number: int) -> Sender:
        # On Mastodon all in public is one chat: the team is one person there.
        return self.team if self.team.is_private else replace(self.team, author=self.get_id(number))


HANDLE = "@social.example"
OWNER = 1
MEMBER = 42
OTHER = 43
PLACES = (
    Place("telegram", Sender("-200"), Sender("-100")),
    Place("discord", Sender("200", platform="discord"), Sender("100", platform="discord")),
    Place("slack", Sender("C200", platform="slack"), Sender("C100", platform="slack")),
    Place(
        "mastodon",
        Sender(f"7{HANDLE}", f"7{HANDLE}", "mastodon", is_private=True),
        Sender("mentions", platform="mastodon"),
        HANDLE,
    ),
    Place("http", Sender("200", platform="http"), Sender("100", platform="http")),
)
TEAMS = [f"{place.platform}:{place.team.chat}" for place in PLACES]


def list_teachers() -> list[Sender]:
    return [sender for place in PLACES for sender in (place.in_team(MEMBER), place.in_private(MEMBER))]


def make_settings(folder: Path, documents: Path, model: ScriptedPeer | None, audience: Sequence[str]) -> Settings:
    closed = {"audience": audience}
    values = {
        "data_dir": str(folder / "data"),
        "sources": {
            "docs": {"kind": "files", "path": str(documents / "docs")},
            "quokka": {"kind": "files", "path": str(documents / "team"), **closed},
            "taught": {"kind": "learned"},
            "taught-team": {"kind": "learned", **closed},
        },
        "agents": {
            "manual": {"sources": ["docs", "taught"], "description": "The launcher, for everyone"},
            "quoll": {"sources": ["quokka", "taught-team"], "description": "wombat: release date of the launcher"},
        },
        "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
        **SECRETS,
        "administration": {"owners": [f"{place.platform}:{place.get_id(OWNER)}" for place in PLACES]},
        "handoff": {"trusted": [f"{person.platform}:{person.author}" for person in list_teachers()]},
        "gate": {"mode": "mention", "answers_in_10_min": 200, "wait_s": 0, "cooldown_s": 0},
        "budget": {"deadline_s": 6000},
        "cache": {"enabled": True},
    }
    if model:
        values["models"] = {"main": {"base_url": model.base_url, "model": "peer"}}
    return Settings.model_validate(values)


@pytest.fixture(autouse=True)
def _repetitions_are_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetition, "ECHO_SHARE", 2.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the knowledge in its store."""
    folder = tmp_path_factory.mktemp("platforms")
    texts = {
        "docs/start.md": "# Launcher\n\nThe release date of the launcher is announced on the site.\n",
        "team/dunnart.md": "# bilby\n\nThe release date of the launcher is the first of May, numbat.\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir()
        (folder / path).write_text(text, "utf-8")
    async with open_app(
        make_settings(folder, folder, None, ["owners"]), embedder=WordEmbedder(), parser=ThreadParser()
    ) as app:
        await app.refresh()
    return folder


@asynccontextmanager
async def opened(
    folder: Path, ingested: Path, audience: Sequence[str] = (*TEAMS, "owners"), model: ScriptedPeer | None = None
) -> AsyncIterator[Bot]:
    if not (folder / "data").exists():
        shutil.copytree(ingested / "data", folder / "data")
    settings = make_settings(folder, ingested, model, audience)
    journal = await Journal.open(settings.data_dir / "journal.db")
    live = make_live_settings(settings, journal.database)
    try:
        async with open_app(
            settings, embedder=WordEmbedder(), parser=ThreadParser(), database=journal.database, live=live
        ) as app:
            bot = Bot(app, journal, None, model, live)
            yield bot
            await bot.processor.drain(60)
    finally:
        await journal.close()


def repeating_model() -> ScriptedPeer:
    return ScriptedPeer(write=repeat, talk=repeat, look_back=repeat)


def find_words(bot: Bot, *words: str) -> set[str]:
    """Return the words among all that was shown, and that the model was told, since they were last looked for."""
    shown_text = (bot.output() + bot.get_requests()).lower()
    return {word for word in words if word in shown_text}


async def get_told(bot: Bot, sender: Sender, question: str = QUESTION, *words: str) -> set[str]:
    find_words(bot)
    await bot.deliver(sender, question)
    return find_words(bot, *(words or CLOSED_WORDS))


async def teach(bot: Bot, sender: Sender, question: str) -> None:
    await bot.deliver(sender, question, "learn", quoted=f"It takes {LESSON} seconds.")


async def approve_all(bot: Bot) -> None:
    repository = TaughtAnswerRepository(bot.journal.database)
    answers = await repository.list_answers("pending", reader=None)
    assert len(answers) == len(PLACES)
    for answer in answers:
        await bot.deliver(PLACES[0].in_private(OWNER), f"approve {answer.number}", "faq")
    await bot.app.refresh(["taught", "taught-team"])


async def test_an_outsider_gets_nothing_by_any_door(tmp_path: Path, ingested: Path) -> None:
    async with repeating_model() as model, opened(tmp_path, ingested, model=model) as bot:
        for place in PLACES:
            first = await bot.deliver(place.in_team(MEMBER), QUESTION)
            await bot.journal.database.write(update(messages).filter_by(id=first.id).values(reply_id="9001"))
            assert set(CLOSED_WORDS[:3]) <= find_words(bot, *CLOSED_WORDS), place.platform
            for sender in (place.in_public(OWNER), place.in_private(MEMBER)):
                await try_doors(bot, sender, first)
                assert find_words(bot, *CLOSED_WORDS) == set(), sender
            assert await get_told(bot, place.in_private(OWNER)), place.platform


async def try_doors(bot: Bot, sender: Sender, first: Message) -> None:
    own = await bot.deliver(sender, QUESTION)
    for text in ("And what else is known about it?", QUESTION.upper()):
        await bot.deliver(sender, text)
    for command in ("sources", "status", "digest", "audit", "faq"):
        await bot.deliver(sender, "", command)
    for text in ("", first.id, own.id):
        await bot.deliver(sender, text, "why")
    for text in ("on quokkas", "off nothing"):
        await bot.deliver(sender, text, "sources")
    key = ConversationKey(sender.platform, sender.chat, rating_buttons.THREAD)
    for choice in (DOWN, RETRY):
        for target in (first.id, own.id):
            await bot.deliver(sender, choice, RATING_COMMAND, reply_to=target, key=key)
    for text in ("", "Is it this?"):
        await bot.deliver(sender, text, quoted="It is", quotes_bot=True, reply_to="9001")


@pytest.mark.parametrize("later_audience", [["owners"], ["telegram:-999", "owners"]])
async def test_what_a_team_taught_stays_closed_when_its_chat_has_another_id(
    tmp_path: Path, ingested: Path, later_audience: Sequence[str]
) -> None:
    questions = {place.platform: f"How long is the countdown on {place.platform}?" for place in PLACES}
    async with opened(tmp_path, ingested) as bot:
        for place in PLACES:
            await teach(bot, place.in_team(MEMBER), questions[place.platform])
        await approve_all(bot)
        for place in PLACES:
            question = questions[place.platform]
            assert await get_told(bot, place.in_team(OTHER), question, LESSON), place.platform
            assert not await get_told(bot, place.in_public(OTHER), question, LESSON), place.platform
    async with opened(tmp_path, ingested, later_audience) as bot:
        for is_refreshed in (False, True):
            for place in PLACES:
                for sender in (place.in_team(OTHER), place.in_public(OTHER)):
                    assert not await get_told(bot, sender, questions[place.platform], LESSON), (sender, is_refreshed)
            await bot.app.refresh()


async def test_what_the_bot_has_said_to_the_team_is_taught_nowhere(tmp_path: Path, ingested: Path) -> None:
    """An owner replies to it in public, which some platforms let people do, or quotes it there."""
    async with repeating_model() as model, opened(tmp_path, ingested, model=model) as bot:
        for place in PLACES:
            first = await bot.deliver(place.in_team(MEMBER), QUESTION)
            await bot.journal.database.write(update(messages).filter_by(id=first.id).values(reply_id="9001"))
            said = "The release date of the launcher is the first of May, numbat."
            for reply_to in ("9001", ""):
                own = {"quoted": said, "quotes_bot": True, "reply_to": reply_to}
                await bot.deliver(place.in_public(OWNER), "When is it?", "learn", **own)
        assert await TaughtAnswerRepository(bot.journal.database).list_answers(reader=None) == []


@pytest.mark.parametrize("teacher", [OWNER, MEMBER], ids=["owner", "administrator"])
async def test_what_somebody_with_a_role_taught_in_private_goes_to_nobody_else(
    tmp_path: Path, ingested: Path, teacher: int
) -> None:
    async with opened(tmp_path, ingested, ["admins", "owners"]) as bot:
        for place in PLACES:
            await bot.deliver(place.in_public(OWNER), f"add {place.get_id(MEMBER)}", "admins")
            await teach(bot, place.in_private(teacher), f"How long is the countdown on {place.platform}?")
        await approve_all(bot)
        for place in PLACES:
            for sender in (place.in_public(OTHER), place.in_public(teacher), place.in_private(OTHER)):
                question = f"How long is the countdown on {place.platform}?"
                assert not await get_told(bot, sender, question, LESSON), sender


async def test_an_administrator_of_one_platform_is_nobody_on_another(tmp_path: Path, ingested: Path) -> None:
    async with opened(tmp_path, ingested, ["admins"]) as bot:
        for place in PLACES:
            await bot.deliver(place.in_public(OWNER), f"add {place.get_id(MEMBER)}", "admins")
            admins = {other.platform for other in PLACES if await get_told(bot, other.in_private(MEMBER))}
            assert admins == {place.platform}
            assert not await get_told(bot, place.in_public(MEMBER))
            assert not await get_told(bot, place.in_private(OTHER))
            await bot.deliver(place.in_public(OWNER), f"remove {place.get_id(MEMBER)}", "admins")


@pytest.mark.parametrize("place", PLACES, ids=[place.platform for place in PLACES])
def test_an_audience_on_a_platform_that_was_removed_is_a_fault(ingested: Path, place: Place) -> None:
    values = make_settings(ingested, ingested, None, [f"{place.platform}:{place.team.chat}"]).model_dump(mode="json")
    values[place.platform] = None
    with pytest.raises(ValidationError, match="where no bot is configured: add its section, or remove the entry"):
        Settings.model_validate(values)


async def test_a_fault_of_the_configuration_names_no_source(tmp_path: Path, ingested: Path) -> None:
    faults = (
        "kimas.yaml:7: evidence.weights.quokka: at most 10",
        "kimas.yaml:9: knowledge: quoll is no agent",
        "quokka: /srv/dunnart is missing",
    )
    async with opened(tmp_path, ingested) as bot:
        for place in PLACES:
            for bot.reload_error in faults:
                await bot.deliver(place.in_public(OWNER), "", "reload")
                assert find_words(bot, *CLOSED_WORDS) == set(), place.platform
            await bot.deliver(place.in_private(OWNER), "", "reload")
            assert find_words(bot, *CLOSED_WORDS), place.platform


async def test_who_forgets_leaves_neither_words_nor_a_name_on_any_platform(tmp_path: Path, ingested: Path) -> None:
    async with repeating_model() as model, opened(tmp_path, ingested, model=model) as bot:
        word = "zanzibar"
        repository = TaughtAnswerRepository(bot.journal.database)
        for place in PLACES:
            public = place.in_public(MEMBER)
            await bot.deliver(public, f"My key is {word}, when is the release date of the launcher?")
            for command in ("status", "pause", "nothing", "refresh"):
                await bot.deliver(public, f"my key is {word}", command)
            await bot.deliver(place.in_public(OTHER), "and what about it?")
            await teach(bot, place.in_team(MEMBER), f"How long is the countdown on {place.platform}?")
            (answer,) = await repository.list_answers("pending", reader=None)
            await bot.deliver(place.in_private(OWNER), f"approve {answer.number}", "faq")
            assert word in await read_journal(bot)
            await bot.deliver(public, "", "forget")
            assert word not in await read_journal(bot), place.platform
            await bot.deliver(place.in_private(OWNER), "", "forget")
            await bot.deliver(place.in_team(MEMBER), "", "forget")
        approved = await repository.list_answers("approved", reader=None)
        assert len(approved) == len(PLACES)
        assert {answer.reviewer for answer in approved} == {""}


async def read_journal(bot: Bot) -> str:
    rows = [await bot.journal.database.fetch_all(select(table)) for table in metadata.sorted_tables]
    return str(rows).lower()
