"""What waits is judged again by what holds when it is shown: the configuration may have changed since it was made."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bots.daemon import gap_report
from core.errors import PlatformUnavailable
from core.messaging.commands import digest
from core.messaging.feedback import rating_buttons
from core.messaging.gaps import find_gaps
from core.settings import Settings
from core.storage.moved_chats import record_move
from core.storage.tables import messages
from core.types import DOWN, RATING_COMMAND, ConversationKey, Message
from tests.support.notices import make_notices
from tests.support.recording_bot import Bot, Sender, open_bot

OWNER = Sender("1", "1", is_private=True)
GROUP = Sender("-100")
TEAM = Sender("-200", "42")
ALERTS_CHAT = "-300"
QUESTION = "What is the payroll of the zeppelin?"
# The title of a document of the second source.
WORD = "numbat"


def make_settings(folder: Path, audience: Sequence[str] = ("everyone",), **changes: Any) -> Settings:
    for name, text in {"docs": "# Launcher\n\nIt starts by a button.\n", "team": f"# {WORD}\n\n{QUESTION}\n"}.items():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "a.md").write_text(text, "utf-8")
    sources = {
        "docs": {"kind": "files", "path": str(folder / "docs")},
        "plans": {"kind": "files", "path": str(folder / "team"), "audience": audience},
        "taught": {"kind": "learned"},
    }
    values = {
        "data_dir": str(folder / "data"),
        "sources": sources,
        "agents": {"manual": {"sources": ["docs"]}, "secret": {"sources": ["plans"]}},
        "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
        "telegram": {"token": {"env": "TELEGRAM"}},
        "administration": {"owners": ["telegram:1"]},
        "alerts": {"chats": [f"telegram:{ALERTS_CHAT}"]},
        **changes,
    }
    return Settings.model_validate(values)


async def ask_in_vain(bot: Bot) -> None:
    """Ask a question whose answer somebody finds bad, so that it is told of."""
    message = await bot.deliver(GROUP, QUESTION)
    key = ConversationKey("telegram", GROUP.chat, rating_buttons.THREAD)
    await bot.deliver(GROUP, DOWN, RATING_COMMAND, reply_to=message.id, key=key)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    await bot.journal.database.write(update(messages).values(received_at=yesterday))
    bot.output()


async def resume(bot: Bot) -> str:
    """Go on with what waits, and return what is shown."""
    await bot.processor.resume(bot.adapter("telegram"))
    await bot.processor.join()
    return bot.output()


@pytest.mark.parametrize("owners", [[], ["telegram:1"]], ids=["no owner any more", "owner"])
@pytest.mark.parametrize("command", ["digest", "audit", "faq", "status", "stats"])
async def test_who_is_no_owner_any_more_gets_no_reply_that_waited(
    tmp_path: Path, command: str, owners: Sequence[str]
) -> None:
    """Every source is for everyone: only the role said that all chats may be told of."""
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        await ask_in_vain(bot)
        await bot.deliver(Sender(GROUP.chat, "1"), "", "pause")
        bot.adapter("telegram").sink_error = PlatformUnavailable("away")
        key = ConversationKey("telegram", OWNER.chat)
        given = Message("9", key, "1", "Ann", "", datetime.now(UTC), command=command, private=True, addressed=True)
        await bot.processor.handler_for(bot.adapter("telegram"))(given)
        async with asyncio.timeout(60):
            while (await bot.journal.get_delivery(given, None))[1] is None:
                await asyncio.sleep(0.01)
    async with open_bot(make_settings(tmp_path, administration={"owners": owners}), is_read=True) as bot:
        shown_text = await resume(bot)
        assert ("Reply(text=" in shown_text) == bool(owners)
        assert ("Only this bot's admins" in shown_text) != bool(owners)


@pytest.mark.parametrize("is_left", [False, True], ids=["no administrator any more", "administrator"])
@pytest.mark.parametrize("command", ["digest", "audit", "faq"])
async def test_who_is_no_administrator_any_more_gets_no_reply_that_waited(
    tmp_path: Path, command: str, *, is_left: bool
) -> None:
    """On Slack and Discord such a reply is for the eyes of its author alone."""
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        await ask_in_vain(bot)
        await bot.deliver(Sender(GROUP.chat, "1"), "add 42", "admins")
        bot.adapter("telegram").sink_error = PlatformUnavailable("away")
        key = ConversationKey("telegram", GROUP.chat)
        given = Message("given", key, "42", "Ann", "", datetime.now(UTC), command=command, addressed=True)
        await bot.processor.handler_for(bot.adapter("telegram"))(given)
        async with asyncio.timeout(60):
            while (await bot.journal.get_delivery(given, None))[1] is None:
                await asyncio.sleep(0.01)
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        if not is_left:
            await bot.deliver(Sender(GROUP.chat, "1"), "remove 42", "admins")
        bot.output()
        shown_text = await resume(bot)
        assert ("Reply(text=" in shown_text, "Only this bot's admins" in shown_text) == (is_left, not is_left)


@pytest.mark.parametrize("audience", [["owners"], ["everyone"]], ids=["closed", "open"])
async def test_a_command_is_judged_again_before_its_reply_is_shown(
    tmp_path: Path, audience: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source is closed while the reply is made, which takes a moment."""
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        await ask_in_vain(bot)

        async def find_and_reload(*arguments: Any, **options: Any) -> object:
            gaps = await find_gaps(*arguments, **options)
            await bot.dispatcher.context.reload(make_settings(tmp_path, audience))
            return gaps

        monkeypatch.setattr(digest, "find_gaps", find_and_reload)
        await bot.deliver(Sender(GROUP.chat, "1"), "", "digest")
        assert (WORD in bot.output()) == (audience == ["everyone"])


@pytest.mark.parametrize("audience", [["owners"], ["everyone"]], ids=["closed", "open"])
async def test_a_report_that_waited_tells_of_nothing_that_was_closed_since(
    tmp_path: Path, audience: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        await ask_in_vain(bot)
        await make_notices(bot, monkeypatch)
    async with open_bot(make_settings(tmp_path, audience), is_read=True) as bot:
        assert (f"nearest page: {WORD}" in await resume(bot)) == (audience == ["everyone"])


@pytest.mark.parametrize("chats", [[], [f"telegram:{ALERTS_CHAT}"]], ids=["told no more", "told"])
async def test_a_chat_that_gets_no_alerts_any_more_gets_none_that_waited(
    tmp_path: Path, chats: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        await ask_in_vain(bot)
        await make_notices(bot, monkeypatch)
    async with open_bot(make_settings(tmp_path, alerts={"chats": chats}), is_read=True) as bot:
        shown_text = await resume(bot)
        assert [QUESTION in shown_text, "is used up" in shown_text] == 2 * [bool(chats)]


async def test_nobody_is_called_so_that_notices_are_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP and on forges people choose their names. What is theirs they may forget."""
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        await ask_in_vain(bot)
        with monkeypatch.context() as patch:
            await make_notices(bot, patch)
        await bot.deliver(Sender(ALERTS_CHAT, "kimas"), "", "forget")
        bot.output()
        shown_text = await resume(bot)
        assert [QUESTION in shown_text, "is used up" in shown_text] == [True, True]


async def test_a_reply_to_a_notice_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notice has no author that could have been forgotten."""
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        with monkeypatch.context() as patch:
            await make_notices(bot, patch)
        await resume(bot)
        await bot.journal.database.write(update(messages).filter_by(purpose="alert").values(reply_id="900"))
        sender = Sender(ALERTS_CHAT, "43")
        question = await bot.deliver(sender, "How does the launcher start?", reply_to="900", quotes_bot=True)
        state = await bot.journal.database.fetch_value(select(messages.c.state).filter_by(id=question.id))
        assert state == "answered"


async def test_a_report_is_not_posted_where_less_may_be_told_of_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source is closed while the report is written, which may take a model some seconds."""
    async with open_bot(make_settings(tmp_path), is_read=True) as bot:
        await ask_in_vain(bot)

        async def find_and_reload(*arguments: Any, **options: Any) -> object:
            gaps = await find_gaps(*arguments, **options)
            await bot.dispatcher.context.reload(make_settings(tmp_path, ["owners"]))
            return gaps

        monkeypatch.setattr(gap_report, "find_gaps", find_and_reload)
        await make_notices(bot, monkeypatch)
        assert WORD not in str(await bot.journal.get_pending("telegram"))


@pytest.mark.parametrize("has_question", [False, True], ids=["/learn", "answer to a question"])
@pytest.mark.parametrize("audience", [["owners"], ["everyone"]], ids=["closed to the team", "opened"])
async def test_a_lesson_tells_of_what_could_be_seen_when_its_words_were_written(
    tmp_path: Path, audience: Sequence[str], *, has_question: bool
) -> None:
    """The team saw a source when somebody wrote a message, and sees it no more when somebody learns from that."""
    values = {"handoff": {"trusted": ["telegram:42"]}}
    hint = f"How long is the {WORD} countdown?" if has_question else f"The {WORD} countdown takes a minute."
    async with open_bot(make_settings(tmp_path, ["telegram:-200"], **values), is_read=True) as bot:
        hinted = await bot.deliver(Sender(TEAM.chat, "43"), hint, addressed=False)
    async with open_bot(make_settings(tmp_path, audience, **values), is_read=True) as bot:
        if has_question:
            await bot.deliver(TEAM, "It takes a minute.", reply_to=hinted.id, quoted=hint, addressed=False)
        else:
            await bot.deliver(TEAM, "How long is the countdown?", "learn", reply_to=hinted.id, quoted=hint)
        await bot.deliver(Sender(TEAM.chat, "1"), "approve 1", "faq")
        await bot.app.refresh(["taught"])
        found = await bot.app.store.search("countdown", None, ["taught"], 9)
        assert bool(found) == (audience == ["everyone"])


@pytest.mark.parametrize("audience", [["owners"], ["telegram:-200"], ["everyone"]], ids=["closed", "same", "opened"])
async def test_lessons_are_read_where_all_that_they_tell_of_is_seen(tmp_path: Path, audience: Sequence[str]) -> None:
    """A lesson was taught where the team saw a source; the list of lessons is read by whoever is there now."""
    values = {"handoff": {"trusted": ["telegram:42"]}, "administration": {"owners": ["telegram:1"]}}
    async with open_bot(make_settings(tmp_path, ["telegram:-200"], **values), is_read=True) as bot:
        await bot.deliver(TEAM, "How long?", "learn", reply_to="8", quoted=f"The {WORD} countdown takes a minute.")
    async with open_bot(make_settings(tmp_path, audience, **values), is_read=True) as bot:
        for command in ("", "list 1"):
            await bot.deliver(Sender(TEAM.chat, "1"), command, "faq")
            assert (WORD in bot.output()) == (audience != ["owners"])
            await bot.deliver(OWNER, command, "faq")
            assert WORD in bot.output()


async def test_the_journal_says_all_that_an_answer_was_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody gets a role while their question is looked at, and loses it later."""
    person = Sender("42", "42", is_private=True)
    async with open_bot(make_settings(tmp_path, ["admins"]), is_read=True) as bot:
        begin_answer = bot.journal.begin_answer

        async def begin_and_appoint(message: Message, labels: frozenset[str] | None = None) -> str:
            text = await begin_answer(message, labels)
            await bot.dispatcher.context.overrides.change(message, "telegram:-100", "admin.42", "added")
            return text

        with monkeypatch.context() as patch:
            patch.setattr(bot.journal, "begin_answer", begin_and_appoint)
            asked = await bot.deliver(person, QUESTION)
        assert "Reply(text=" in bot.output()
        await bot.dispatcher.context.overrides.change(asked, "telegram:-100", "admin.42", None)
        await bot.deliver(person, asked.id, "why")
        assert not {"plans", "secret", WORD}.intersection(re.findall(r"\w+", bot.output()))


async def test_an_administrator_of_a_group_that_was_upgraded_can_be_removed(tmp_path: Path) -> None:
    """What owners set in a group holds under its new id: a right that nobody can take away would last for ever."""
    admin = Sender("42", "42", is_private=True)
    before = Sender(GROUP.chat, "1")
    after = Sender("-1009", "1")
    async with open_bot(make_settings(tmp_path, ["admins"]), is_read=True) as bot:
        await bot.deliver(before, "add 42", "admins")
        await bot.deliver(before, "off", "mode")
        await bot.deliver(before, "0.7", "threshold")
        await bot.deliver(after, "0.9", "threshold")
        await record_move(bot.journal.database, "telegram", before.chat, after.chat)
    async with open_bot(make_settings(tmp_path, ["admins"]), is_read=True) as bot:
        await bot.deliver(admin, QUESTION)
        assert WORD in bot.output()
        await bot.deliver(after, "remove 42", "admins")
        await bot.deliver(admin, QUESTION)
        assert WORD not in bot.output()
        await bot.deliver(after, QUESTION)
        assert "Reply(text=" not in bot.output()
        assert bot.live.threshold("telegram:-1009") == 0.9
        # An answer that was under way still has the former id.
        assert bot.live.mode("telegram:-100", private=False) == "off"
