"""Words of a person that the bot knows from the rows of others alone go with both, in whichever order they forget."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bots.daemon.posting import start_post
from core.settings.messaging import JournalSettings
from core.storage.drafts import DraftRepository
from core.storage.tables import messages
from core.types import ConversationKey, Message
from tests.support.forgetting import ANN, ANN_ID, BOB, KEPT_IN_CHAT, SAID, WORD, find_columns, forget_ann, opened
from tests.support.recording_bot import NUMBERS, Bot, Sender

pytestmark = pytest.mark.usefixtures("time_lapse")

CARL = Sender("-100", "44")
TOPIC = ConversationKey("telegram", ANN.chat, "topic")
QUOTING: dict[str, Any] = {"quoted": SAID, "quoted_authors": (ANN_ID,), "key": TOPIC}
FOLLOW_UP = "and what about it, which button starts the launcher?"
TEAM = {"drafts_to": "telegram:-200", "threshold": 0, "cooldown_s": 0}


async def has_reply(bot: Bot, message_id: str) -> bool:
    rows = await bot.journal.database.fetch_all(select(messages.c.id, messages.c.reply))
    return any(row.id == message_id and row.reply for row in rows)


async def send(bot: Bot, sender: Sender, text: str, **changes: Any) -> Message:
    """Deliver a message, and do not wait for what comes of it."""
    values = {"key": ConversationKey("telegram", sender.chat), "addressed": True, **changes}
    message = Message(
        str(next(NUMBERS)), author_id=sender.author, author="", text=text, sent_at=datetime.now(UTC), **values
    )
    await bot.processor.handler_for(bot.adapter("telegram"))(message)
    return message


@pytest.mark.parametrize("is_bob_first", [False, True], ids=["her alone", "who quoted her first"])
@pytest.mark.parametrize("is_seen", [False, True], ids=["seen nowhere else", "seen elsewhere"])
async def test_what_was_answered_with_a_quotation_goes_with_both(
    tmp_path: Path, *, is_seen: bool, is_bob_first: bool
) -> None:
    async with opened(tmp_path, JournalSettings(), cache={"enabled": False}) as bot:
        if is_seen:
            elsewhere = ConversationKey("telegram", ANN.chat, "other")
            await bot.deliver(ANN, f"{SAID}.", addressed=False, key=elsewhere)
        await bot.deliver(BOB, "What does this mean, how does the launcher start?", **QUOTING)
        follow_up = await bot.deliver(CARL, FOLLOW_UP, key=TOPIC)
        assert "messages.reply" in await find_columns(bot.journal.database)
        if is_bob_first:
            await bot.deliver(BOB, command="forget")
            assert await has_reply(bot, follow_up.id) == is_seen, "only what nobody else is known for goes with him"
        await bot.deliver(ANN, command="forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("is_bob_first", [False, True], ids=["the first", "both"])
async def test_what_two_have_quoted_stays_until_both_forget(tmp_path: Path, *, is_bob_first: bool) -> None:
    async with opened(tmp_path, JournalSettings(), cache={"enabled": False}) as bot:
        await bot.deliver(BOB, "What does this mean, how does the launcher start?", **QUOTING)
        other = await bot.deliver(Sender("-100", "45"), "What does that mean for the launcher?", **QUOTING)
        await bot.deliver(BOB, command="forget")
        assert await has_reply(bot, other.id)
        if is_bob_first:
            await bot.deliver(ANN, command="forget")
            assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_a_draft_that_was_made_from_a_forgotten_row_is_looked_at(tmp_path: Path) -> None:
    """Bob is forgotten first: nothing but her own words says then that the draft has them."""
    async with opened(tmp_path, JournalSettings(), gate={**TEAM, "mode": "auto", "wait_s": 0}) as bot:
        bot.processor.drafts.start_post = start_post
        await bot.deliver(ANN, f"{SAID}.", addressed=False, key=ConversationKey("telegram", ANN.chat, "other"))
        await bot.deliver(BOB, "What does this mean, how does the launcher start?", **QUOTING)
        await bot.deliver(Sender(ANN.chat, "1"), "draft", "mode", key=TOPIC)
        question = await bot.deliver(CARL, FOLLOW_UP, key=TOPIC)
        drafts = DraftRepository(bot.journal.database)
        draft = await drafts.find_of(question)
        assert draft
        assert WORD in draft.reply.text
        await bot.deliver(BOB, command="forget")
        await forget_ann(bot)
        assert await drafts.find_of(question) is None
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_a_draft_that_was_made_from_a_later_message_is_looked_at(tmp_path: Path) -> None:
    """Carl's question waits for people, and Bob's answer is posted meanwhile."""
    async with opened(tmp_path, JournalSettings(), gate={**TEAM, "mode": "draft", "wait_s": 120}) as bot:
        bot.processor.drafts.start_post = start_post
        drafts = DraftRepository(bot.journal.database)
        waiting = asyncio.create_task(bot.deliver(CARL, FOLLOW_UP, addressed=False, key=TOPIC))
        await asyncio.sleep(0.3)
        asked = await send(bot, BOB, "What does this mean, how does the launcher start?", **QUOTING)
        async with asyncio.timeout(60):
            while not (draft := await drafts.find_of(asked)):
                await asyncio.sleep(0.05)
            await send(bot, Sender("-200", "1"), str(draft.number), command="post")
            while not await has_reply(bot, asked.id):
                await asyncio.sleep(0.05)
        question = await waiting
        draft = await drafts.find_of(question)
        assert draft
        assert WORD in draft.reply.text
        await forget_ann(bot)
        assert await drafts.find_of(question) is None


@pytest.mark.parametrize("last_text", ["", "And how does it stop?"], ids=["once", "twice"])
async def test_what_an_edit_forwards_is_of_who_wrote_it(tmp_path: Path, last_text: str) -> None:
    """Over HTTP a network may say so of an edit, too; what its author wrote afterwards changes nothing of it."""
    async with opened(tmp_path, JournalSettings(), gate={**TEAM, "mode": "draft", "wait_s": 0}) as bot:
        bot.processor.drafts.start_post = start_post
        question = await bot.deliver(BOB, "How does the launcher start?")
        edit = replace(question, is_edit=True, edit_id="e1")
        forward = {"is_forwarded": True, "quoted_authors": (ANN_ID,)}
        deliver = bot.processor.handler_for(bot.adapter("telegram"))
        await deliver(replace(edit, text=SAID, **forward))
        if last_text:
            await deliver(replace(edit, text=last_text, edit_id="e2"))
        await bot.processor.join()
        assert WORD in str(await bot.journal.database.fetch_all(select(messages.c.text, messages.c.reference)))
        await bot.deliver(ANN, command="forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def test_what_somebody_brings_of_their_own_is_theirs(tmp_path: Path) -> None:
    """A reply to their own message names no other author."""
    async with opened(tmp_path, JournalSettings(), cache={"enabled": False}) as bot:
        await bot.deliver(ANN, "What does this mean, how does the launcher start?", quoted=SAID, key=TOPIC)
        await bot.deliver(BOB, FOLLOW_UP, key=TOPIC)
        assert "messages.reply" in await find_columns(bot.journal.database)
        await bot.deliver(ANN, command="forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("is_to_bot", [False, True], ids=["alone", "in reply to an answer"])
async def test_a_poll_is_of_who_posts_it(tmp_path: Path, *, is_to_bot: bool) -> None:
    """It stands beside what it replies to, which stays where it was said to others."""
    async with opened(tmp_path, JournalSettings(), cache={"enabled": False}) as bot:
        asked = await bot.deliver(BOB, "What starts the launcher?", key=TOPIC)
        await bot.journal.database.write(update(messages).filter_by(id=asked.id).values(reply_id="77"))
        answer = await bot.journal.database.fetch_value(select(messages.c.reply).filter_by(id=asked.id))
        poll = {"quoted": SAID, "quoted_authors": (ANN_ID,)}
        if is_to_bot:
            poll |= {"quoted": f"{answer}\n\n{SAID}", "quotes_bot": True, "reply_to": "77"}
        await bot.deliver(ANN, "", key=TOPIC, **poll)
        await bot.deliver(CARL, FOLLOW_UP, key=TOPIC)
        assert "messages.reply" in await find_columns(bot.journal.database)
        elsewhere = ConversationKey("telegram", ANN.chat, "other")
        again = await bot.deliver(CARL, "What starts the launcher?", key=elsewhere)
        await bot.deliver(ANN, command="forget")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        assert await has_reply(bot, again.id), "the answer is none of her words"
