"""What retells the journal is judged again before it is shown: a list, an explanation, a hint to an earlier answer.

Ann forgets right before that, or while the platform is away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from core.errors import PlatformUnavailable
from core.messaging.feedback import rating_buttons
from core.settings.messaging import JournalSettings
from core.storage.tables import messages
from core.types import DOWN, RATING_COMMAND, ConversationKey
from tests.support.forgetting import (
    ANN,
    ANN_ID,
    BOB,
    KEPT_IN_CHAT,
    OWNER_ALONE,
    WORD,
    find_columns,
    forget_ann,
    forget_before_showing,
    opened,
    shows,
)
from tests.support.recording_bot import Bot, Sender

pytestmark = pytest.mark.usefixtures("time_lapse")

QUESTION = f"How does the launcher start with {WORD}?"
LESSON = f"The porter keeps {WORD} keys in a box."
# Which command tells of it, and who gives it.
RETELLING = [("why hers", BOB), ("why others", BOB), ("faq", OWNER_ALONE), ("faq list 1", BOB), ("digest", OWNER_ALONE)]


@pytest.fixture(params=["sqlite", "postgresql"])
def journal_settings(request: pytest.FixtureRequest) -> Any:
    return JournalSettings() if request.param == "sqlite" else request.getfixturevalue("postgres_journal")


@asynccontextmanager
async def told(folder: Path, journal_settings: JournalSettings, command: str) -> AsyncIterator[tuple[Bot, str, str]]:
    """Open a bot whose journal has words of Ann for a command; yield it with the name of that and its arguments."""
    administration = {"owners": ["telegram:1"]}
    async with opened(folder, journal_settings, administration=administration) as bot:
        assert bot.model
        hers = await bot.deliver(ANN, QUESTION)
        key = ConversationKey("telegram", ANN.chat, rating_buttons.THREAD)
        await bot.deliver(ANN, DOWN, RATING_COMMAND, reply_to=hers.id, key=key)
        await bot.deliver(BOB, "How does it start?", "learn", reply_to="8", quoted=LESSON, quoted_authors=(ANN_ID,))
        bot.model.replies["write"] = "It starts by a button [p1]."
        bot.model.replies["rewrite"] = f"How do I use the {WORD} key of the launcher?"
        others = await bot.deliver(BOB, "and what about it?")
        await bot.deliver(Sender(ANN.chat, "1"), f"add {BOB.author}", "admins")
        bot.output()
        name, _, arguments = command.partition(" ")
        yield bot, name, {"hers": hers.id, "others": others.id}.get(arguments, arguments)


@pytest.mark.parametrize(("command", "reader"), RETELLING, ids=[command for command, _ in RETELLING])
async def test_no_command_tells_of_a_person_who_is_forgotten_right_before(
    tmp_path: Path,
    journal_settings: JournalSettings,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    reader: Sender,
) -> None:
    async with told(tmp_path, journal_settings, command) as (bot, name, arguments):
        await bot.deliver(reader, arguments, name)
        assert shows(bot, WORD)
        bot.output()
        written = forget_before_showing(monkeypatch, bot)
        await bot.deliver(reader, arguments, name)
        assert (WORD in written[0], WORD in bot.output()) == (True, False)
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["as it is", "forgotten"])
@pytest.mark.parametrize(("command", "reader"), RETELLING, ids=[command for command, _ in RETELLING])
async def test_no_command_tells_after_an_outage_of_a_person_forgotten_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, reader: Sender, *, is_forgotten: bool
) -> None:
    """The reply that waits has no words; it is told anew."""
    async with told(tmp_path, JournalSettings(), command) as (bot, name, arguments):
        adapter = bot.adapter("telegram")
        adapter.sink_error = PlatformUnavailable("away")
        waiting = list[Any]()

        async def wait(_seconds: float) -> bool:
            rows = await bot.journal.database.fetch_all(select(messages.c.delivery).filter_by(command=name))
            waiting.extend(row.delivery["text"] for row in rows if row.delivery)
            if is_forgotten:
                await forget_ann(bot)
            adapter.sink_error = None
            bot.output()
            return True

        monkeypatch.setattr(bot.processor, "_wait_for_humans", wait)
        await bot.deliver(reader, arguments, name)
        assert waiting == [""]
        assert (WORD in bot.output()) != is_forgotten
        if is_forgotten:
            assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()


async def close_docs(bot: Bot) -> None:
    """Close the source that the answer was made from."""
    values = bot.new_settings.model_dump(exclude_unset=True)
    for section in (values["sources"]["docs"], values["agents"]["manual"]):
        section["audience"] = ["owners"]
    await bot.dispatcher.context.reload(bot.new_settings.model_validate(values))


@pytest.mark.parametrize("happen", [None, forget_ann, close_docs], ids=["as it is", "forgotten", "closed"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["the same run", "the next run"])
async def test_no_hint_is_posted_after_an_outage_to_what_may_not_be_told_by_then(
    tmp_path: Path,
    journal_settings: JournalSettings,
    monkeypatch: pytest.MonkeyPatch,
    happen: Callable[[Bot], Awaitable[None]] | None,
    *,
    is_restarted: bool,
) -> None:
    """None of Ann's own words is in the hint, by which it could be found: the bot has answered her with it."""
    gate = {"mode": "auto", "threshold": 0, "wait_s": 0, "cooldown_s": 0, "repeated": "point"}
    async with opened(tmp_path, journal_settings, gate=gate) as bot:
        assert bot.model
        bot.model.replies["write"] = f"It starts by the {WORD} button [p1]."
        await bot.deliver(ANN, "How does the launcher start?")
        bot.model.replies["write"] = "It starts by a button [p1]."
        adapter = bot.adapter("telegram")
        adapter.sink_error = PlatformUnavailable("away")

        async def wait(_seconds: float) -> bool:
            assert WORD in str(await bot.journal.database.fetch_all(select(messages.c.delivery)))
            if happen:
                await happen(bot)
            adapter.sink_error = None
            bot.output()
            return not is_restarted

        monkeypatch.setattr(bot.processor, "_wait_for_humans", wait)
        await bot.deliver(BOB, "How does the launcher start?", addressed=False)
        if is_restarted:
            await bot.processor.resume(adapter)
            await bot.processor.join()
        assert (WORD in bot.output()) == (happen is None)
        if happen == forget_ann:
            assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
