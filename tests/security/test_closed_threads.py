"""What was said in a thread is not told elsewhere once the thread is closed, also where the telling was under way."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from core.errors import PlatformUnavailable
from core.messaging.feedback import rating_buttons
from core.messaging.journaling import RecordedSink
from core.messaging.policy.permissions import Permissions
from core.settings.messaging import JournalSettings
from core.storage.closed_threads import close_thread
from core.storage.tables import messages, taught_answers
from core.types import DOWN, RATING_COMMAND, ConversationKey, Message, Reply
from tests.support.forgetting import ANN, BOB, OWNER, OWNER_ALONE, WORD, opened, shows
from tests.support.notices import make_notices
from tests.support.recording_bot import Bot

pytestmark = pytest.mark.usefixtures("time_lapse")

CLOSED = ConversationKey("telegram", ANN.chat, "issues/1")
OTHER = ConversationKey("telegram", ANN.chat, "issues/2")
QUESTION = "How does the launcher start?"


@pytest.fixture(params=["sqlite", "postgresql"])
def journal_settings(request: pytest.FixtureRequest) -> Any:
    return JournalSettings() if request.param == "sqlite" else request.getfixturevalue("postgres_journal")


async def close(bot: Bot) -> None:
    assert await close_thread(bot.journal.database, CLOSED.platform, CLOSED.chat, CLOSED.thread)


@pytest.mark.parametrize("is_closed", [False, True], ids=["as it is", "closed"])
@pytest.mark.parametrize("waits_for", ["people", "its platform"])
async def test_no_hint_is_posted_to_an_answer_in_a_thread_closed_meanwhile(
    tmp_path: Path,
    journal_settings: JournalSettings,
    monkeypatch: pytest.MonkeyPatch,
    waits_for: str,
    *,
    is_closed: bool,
) -> None:
    wait_s = 30 if waits_for == "people" else 0
    gate = {"mode": "auto", "threshold": 0, "wait_s": wait_s, "cooldown_s": 0, "repeated": "point"}
    async with opened(tmp_path, journal_settings, gate=gate) as bot:
        assert bot.model
        bot.model.replies["write"] = f"It starts by the {WORD} button [p1]."
        await bot.deliver(ANN, QUESTION, key=CLOSED)
        bot.output()
        adapter = bot.adapter("telegram")
        adapter.sink_error = None if wait_s else PlatformUnavailable("away")

        async def wait(_seconds: float) -> bool:
            if is_closed:
                await close(bot)
            adapter.sink_error = None
            bot.output()
            return True

        monkeypatch.setattr(bot.processor._handler if wait_s else bot.processor, "_wait_for_humans", wait)
        await bot.deliver(BOB, QUESTION, key=OTHER, addressed=False)
        assert (WORD in bot.output()) != is_closed


async def test_a_conversation_goes_on_in_the_thread_that_was_closed_meanwhile(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All who read it there have read what was said before."""
    async with opened(tmp_path, journal_settings) as bot:
        await bot.deliver(ANN, f"{QUESTION} With {WORD}?", key=CLOSED)
        bot.output()
        finish = RecordedSink.finish

        async def close_and_finish(sink: RecordedSink, reply: Reply) -> None:
            await close(bot)
            await finish(sink, reply)

        monkeypatch.setattr(RecordedSink, "finish", close_and_finish)
        await bot.deliver(BOB, "and what about it?", key=CLOSED)
        assert shows(bot, WORD)


async def ask_in_vain(bot: Bot) -> None:
    """Ask a question, below an issue, whose answer somebody finds bad, so that it is told of."""
    asked = await bot.deliver(ANN, f"{QUESTION} With {WORD}?", key=CLOSED)
    key = ConversationKey("telegram", ANN.chat, rating_buttons.THREAD)
    await bot.deliver(BOB, DOWN, RATING_COMMAND, reply_to=asked.id, key=key)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    await bot.journal.database.write(update(messages).values(received_at=yesterday))
    bot.output()


@pytest.mark.parametrize("is_closed", [False, True], ids=["as it is", "closed"])
async def test_a_digest_is_not_shown_with_what_was_closed_right_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_closed: bool
) -> None:
    async with opened(tmp_path, JournalSettings()) as bot:
        await ask_in_vain(bot)
        finish = RecordedSink.finish
        written = list[str]()

        async def close_and_finish(sink: RecordedSink, reply: Reply) -> None:
            written.append(reply.text)
            if is_closed and len(written) == 1:
                await close(bot)
            await finish(sink, reply)

        monkeypatch.setattr(RecordedSink, "finish", close_and_finish)
        await bot.deliver(OWNER, "", "digest", key=OTHER)
        assert (WORD in written[0], WORD in bot.output()) == (True, not is_closed)
        # Who may read everything goes on doing so.
        await bot.deliver(OWNER_ALONE, "", "digest")
        assert WORD in bot.output()


@pytest.mark.parametrize("is_closed", [False, True], ids=["as it is", "closed"])
async def test_a_report_that_waited_quotes_no_thread_that_was_closed_since(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch, *, is_closed: bool
) -> None:
    async with opened(tmp_path, journal_settings, alerts={"chats": ["telegram:-300"]}) as bot:
        await ask_in_vain(bot)
        with monkeypatch.context() as patch:
            await make_notices(bot, patch)
        if is_closed:
            await close(bot)
        assert WORD in str(await bot.journal.database.fetch_all(select(messages.c.text).filter_by(purpose="report")))
        await bot.processor.resume(bot.adapter("telegram"))
        await bot.processor.join()
        assert (WORD in bot.output()) != is_closed


async def test_a_lesson_of_a_thread_closed_meanwhile_is_listed_there_alone(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform says who reads there, which may take it seconds."""
    async with opened(tmp_path, journal_settings) as bot:
        said = await bot.deliver(ANN, f"Carl keeps the {WORD} in a box.", key=CLOSED, addressed=False)
        read_closed_labels = Permissions.read_closed_labels

        async def close_and_read(permissions: Permissions, message: Message, labels: Collection[str]) -> frozenset[str]:
            await close(bot)
            return await read_closed_labels(permissions, message, labels)

        monkeypatch.setattr(Permissions, "read_closed_labels", close_and_read)
        await bot.deliver(BOB, "Where is it?", "learn", key=CLOSED, reply_to=said.id, quoted=said.text)
        query = select(taught_answers.c.in_restricted_thread)
        assert [tuple(row) for row in await bot.journal.database.fetch_all(query)] == [(True,)]
