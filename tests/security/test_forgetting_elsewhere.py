"""Words of a person that others carried to other places go with them: answers, lessons, posts, and the audit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from core.settings.messaging import JournalSettings
from core.storage.erasure import erase_on_platform
from core.storage.tables import audit, messages
from core.types import ConversationKey
from tests.support.forgetting import ANN, ANN_ID, BOB, KEPT_IN_CHAT, OWNER, SAID, WORD, find_columns, opened
from tests.support.recording_bot import Bot, Sender

pytestmark = pytest.mark.usefixtures("time_lapse")

ALONE = Sender("43", "43", is_private=True)
ANSWERED = f"{SAID}, as somebody said."


async def forget(bot: Bot, *, is_everywhere: bool) -> None:
    """Let Ann give the command in her chat, or the operator forget her everywhere."""
    if is_everywhere:
        await erase_on_platform(bot.journal.database, "telegram", ANN_ID, datetime.now(UTC).date())
    else:
        await bot.deliver(ANN, "", "forget")


@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("place", [BOB, ALONE], ids=["here", "elsewhere"])
@pytest.mark.parametrize(
    "brought",
    [
        {"text": ANSWERED, "is_forwarded": True, "quotes_bot": True},
        {"text": ANSWERED, "is_forwarded": True},
        {"text": "What is this?", "quoted": ANSWERED, "quotes_bot": True},
        {"text": "What is this?", "quoted": ANSWERED, "is_forwarded": True},
    ],
    ids=["forwarded", "forwarded from nobody", "quoted", "shared"],
)
async def test_an_answer_that_somebody_carries_on_goes(
    tmp_path: Path, brought: dict[str, Any], place: Sender, *, is_everywhere: bool
) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, f"{SAID} is it?")
        await bot.deliver(place, **brought)
        own = await bot.deliver(place, "What starts the launcher by a button?")
        await forget(bot, is_everywhere=is_everywhere)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        text = select(messages.c.text).filter_by(id=own.id)
        assert await bot.journal.database.fetch_value(text) == own.text, "what others say themselves stays"


@pytest.mark.parametrize("place", [BOB, Sender("-300", "1")], ids=["here", "elsewhere"])
async def test_a_list_of_questions_that_an_owner_carries_on_goes(tmp_path: Path, place: Sender) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, f"{SAID} is it?")
        told = f"In all chats since Monday: 12 questions.\n\n1. How does it start?\n2. {SAID} is it?\n3. What is new?"
        forward = await bot.deliver(place, told, is_forwarded=True, quotes_bot=True)
        await bot.deliver(place, "What is this?", quoted=told, quotes_bot=True)
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        assert await bot.journal.database.fetch_value(select(messages.c.author_id).filter_by(id=forward.id)), (
            "it was there"
        )


async def test_words_that_somebody_edited_out_before_go(tmp_path: Path) -> None:
    """Who has written what they should not takes it out first, and then gives the command."""
    chats = {"telegram:-100": {"mode": "draft"}}
    async with opened(tmp_path, JournalSettings(), gate={"drafts_to": "telegram:-200"}, chats=chats) as bot:
        asked = await bot.deliver(ANN, f"{SAID}, but does it start?")
        await bot.deliver(BOB, "What does this mean?", quoted=asked.text, reply_to=asked.id)
        for text in (f"How does it start without {WORD}?", "How does it start?"):
            edit = replace(asked, text=text, is_edit=True)
            await bot.processor.handler_for(bot.adapter("telegram"))(edit)
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("decision", ["reject 1", "edit 1 Nobody knows."])
@pytest.mark.parametrize("asker", [Sender("-100", "44"), Sender("-300", "44")], ids=["here", "elsewhere"])
async def test_what_was_answered_from_a_lesson_goes_once_it_is_no_knowledge(
    tmp_path: Path, asker: Sender, decision: str
) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        hint = await bot.deliver(ANN, f"Carl keeps the {WORD} in a box.", addressed=False)
        await bot.deliver(BOB, "Where is it kept?", "learn", reply_to=hint.id, quoted=hint.text)
        await bot.deliver(OWNER, "approve 1", "faq")
        await bot.app.refresh()
        await bot.deliver(asker, "What is kept in a box?")
        assert WORD in bot.output()
        await bot.deliver(OWNER, decision, "faq")
        await bot.app.refresh()
        await bot.deliver(ANN, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("timeline", ["home", "list/4", "tag/diving", "home@news"])
async def test_a_post_in_a_timeline_goes(tmp_path: Path, timeline: str) -> None:
    """Nobody can give a command there."""
    settings = {"mastodon": {"url": "https://social.example.org", "token": {"env": "MASTODON"}}}
    comments = {"chats": [f"mastodon:{timeline}"], "needs_citation": False, "min_relevance": None}
    ann = Sender("mentions", "ann@example.org", "mastodon")
    async with opened(tmp_path, JournalSettings(), auto_comment=comments, **settings) as bot:
        key = ConversationKey("mastodon", timeline, "17")
        await bot.deliver(ann, f"{SAID}. How does it start?", addressed=False, is_post=True, key=key)
        await bot.deliver(ann, "", "forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_the_audit_has_no_words_behind_a_command_that_takes_none(tmp_path: Path) -> None:
    owners = {"owners": ["telegram:1", f"telegram:{ANN_ID}"]}
    async with opened(tmp_path, JournalSettings(), administration=owners) as bot:
        await bot.deliver(ANN, f"my key is {WORD}", "reload")
        await bot.deliver(ANN, "", "forget")
        assert await bot.journal.database.fetch_value(select(audit.c.command)) == "reload"
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize(
    "gate", [{"mode": "off"}, {"chats": ["telegram:-5"]}, {"answers_in_10_min": 1}], ids=["off", "unlisted", "loop"]
)
async def test_who_wants_to_be_forgotten_is_so_wherever_the_bot_is_silent(
    tmp_path: Path, gate: dict[str, object]
) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(ANN, SAID)
        settings = bot.live.settings
        bot.live.settings = settings.model_copy(
            update={"gate": settings.gate.model_copy(update={**gate, "chats": tuple(gate.get("chats", ()))})}
        )
        await bot.deliver(ANN, "", "help")
        bot.output()
        await bot.deliver(ANN, "", "forget")
        assert "Forgotten" in bot.output()
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
