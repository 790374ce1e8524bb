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
from core.storage.tables import audit, messages, replies
from core.types import ConversationKey
from tests.support.forgetting import ANN, ANN_ID, BOB, KEPT_IN_CHAT, OWNER, SAID, WORD, find_columns, opened
from tests.support.recording_bot import Bot, Sender
from tests.support.scripted import Body

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


@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("is_quoted", [False, True], ids=["forwarded", "quoted"])
async def test_what_the_bot_told_goes_from_other_platforms_too(
    tmp_path: Path, *, is_quoted: bool, is_everywhere: bool
) -> None:
    """Who has the same id there is another person."""
    told = f"In all chats since Monday: 12 questions.\n\n1. How does it start?\n2. {SAID} is it?\n3. What is new?"
    brought = {"text": "What is this?", "quoted": told} if is_quoted else {"text": told, "is_forwarded": True}
    other = Sender("300", ANN_ID, "discord")
    async with opened(tmp_path, JournalSettings(), discord={"token": {"env": "DISCORD"}}) as bot:
        await bot.deliver(ANN, f"{SAID} is it?")
        carried = await bot.deliver(other, quotes_bot=True, **brought)
        own = await bot.deliver(other, "What starts the launcher by a button?")
        await forget(bot, is_everywhere=is_everywhere)
        rows = await bot.journal.database.fetch_all(select(messages))
        assert not [row for row in rows if WORD in str(row)]
        by_other = {row.id: row.text for row in rows if row.author_id == ANN_ID}
        assert by_other == {carried.id: "What is this?" if is_quoted else "", own.id: own.text}


async def test_a_short_answer_within_a_long_thread_goes(tmp_path: Path) -> None:
    """Only the bot's answer stands there, none of her own words."""
    thread = (
        "Does anybody know when the engines of the second stage were last looked at by the people of the workshop? "
        "We would like to paint them before the winter comes, and nobody answers the telephone there."
    )
    async with opened(tmp_path, JournalSettings()) as bot:
        assert bot.model
        bot.model.replies["write"] = "The launcher starts by a red button below its handle [p1]."
        asked = await bot.deliver(ANN, "How does the launcher start?")
        rows = await bot.journal.database.fetch_all(select(messages.c.reply).filter_by(id=asked.id))
        quoted = f"{thread}\n\n{rows[0].reply}\n\n[1] Launcher (https://docs.example.org/start.md)"
        carried = await bot.deliver(Sender("-300", "44"), "What is this?", quoted=quoted, quotes_bot=True)
        other = await bot.deliver(Sender("-300", "44"), "And this?", quoted=thread, quotes_bot=True)
        await bot.deliver(ANN, "", "forget")
        left = await bot.journal.database.fetch_all(select(messages.c.id, messages.c.quoted).filter_by(chat="-300"))
        assert {row.id: row.quoted for row in left} == {carried.id: "", other.id: thread}


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


async def test_the_first_of_many_edits_is_known(tmp_path: Path) -> None:
    """So the last ones are not read."""
    chats = {"telegram:-100": {"mode": "draft"}}
    async with opened(tmp_path, JournalSettings(), gate={"drafts_to": "telegram:-200"}, chats=chats) as bot:
        asked = await bot.deliver(ANN, f"{SAID}, but does it start?")
        await bot.deliver(Sender("-200", "44"), "Who knows more of this?", quoted=asked.text, quotes_bot=True)
        for number in range(22):
            edit = replace(asked, text=f"How does it start, please {number}?", is_edit=True)
            await bot.processor.handler_for(bot.adapter("telegram"))(edit)
        text = await bot.journal.database.fetch_value(select(messages.c.text).filter_by(id=asked.id))
        assert text == "How does it start, please 19?"
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


async def test_a_lesson_is_not_told_once_it_is_rejected(tmp_path: Path) -> None:
    """Its source is not read anew yet."""
    async with opened(tmp_path, JournalSettings()) as bot:
        hint = await bot.deliver(ANN, f"Carl keeps the {WORD} in a box.", addressed=False)
        await bot.deliver(BOB, "Where is it kept?", "learn", reply_to=hint.id, quoted=hint.text)
        await bot.deliver(OWNER, "approve 1", "faq")
        await bot.app.refresh()
        await bot.deliver(OWNER, "reject 1", "faq")
        await bot.deliver(ANN, "", "forget")
        await bot.deliver(Sender("-300", "44"), "What is kept in a box?")
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("is_quoted", [False, True], ids=["follow-up", "quoted elsewhere"])
async def test_what_was_made_from_an_answer_from_a_lesson_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_quoted: bool
) -> None:
    """It cites no lesson."""
    lesson = f"Carl keeps the {WORD} in a box"

    def say(body: Body) -> str:
        return f"{lesson} [p1]." if WORD in str(body["messages"]) else "It starts by a button [p1]."

    monkeypatch.setattr("tests.support.forgetting.tell", say)
    async with opened(tmp_path, JournalSettings(), cache={"enabled": False}) as bot:
        hint = await bot.deliver(ANN, f"{lesson}.", addressed=False)
        await bot.deliver(BOB, "Where is it kept?", "learn", reply_to=hint.id, quoted=hint.text)
        await bot.deliver(OWNER, "approve 1", "faq")
        await bot.app.refresh()
        asked = await bot.deliver(Sender("-300", "44"), "What is kept in a box?")
        told = select(messages.c.reply).filter_by(id=asked.id)
        brought = {"quoted": await bot.journal.database.fetch_value(told), "quotes_bot": True} if is_quoted else {}
        follow_up = await bot.deliver(
            Sender("-400" if is_quoted else "-300", "46"), "How does the launcher start?", **brought
        )
        made = select(messages.c.reply, messages.c.citations).filter_by(id=follow_up.id)
        (row,) = await bot.journal.database.fetch_all(made)
        assert WORD in row.reply
        assert "answer 1" not in str(row.citations)
        await bot.deliver(OWNER, "reject 1", "faq")
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


@pytest.mark.parametrize(("who", "is_kept"), [("ann", True), ("Ann", False)])
async def test_cached_answers_of_a_chat_with_another_case_stay(tmp_path: Path, who: str, *, is_kept: bool) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await bot.deliver(Sender("Ann", "Ann", platform="http", is_private=True), "How does the launcher start?")
        await bot.deliver(Sender(who, who, platform="http", is_private=True), "Hello, hello?")
        await bot.deliver(Sender(who, who, platform="http", is_private=True), command="forget")
        scopes = [row.scope for row in await bot.journal.database.fetch_all(select(replies))]
        assert any('"Ann"' in scope for scope in scopes) is is_kept
