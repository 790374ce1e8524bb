"""Whoever is forgotten while a draft or its notice waits is in neither, also where others have asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from bots.daemon.posting import start_post
from core.errors import PlatformUnavailable
from core.messaging.drafts import Drafts
from core.settings.messaging import JournalSettings
from core.storage.tables import messages
from tests.support.forgetting import (
    ANN,
    ANN_ID,
    BOB,
    KEPT_IN_CHAT,
    SAID,
    WORD,
    find_columns,
    forget_ann,
    opened,
)
from tests.support.recording_bot import Sender

pytestmark = pytest.mark.usefixtures("time_lapse")

SLACK = {"bot_token": {"env": "A"}, "app_token": {"env": "B"}}


@pytest.fixture(params=["sqlite", "postgresql"])
def journal_settings(request: pytest.FixtureRequest) -> Any:
    return JournalSettings() if request.param == "sqlite" else request.getfixturevalue("postgres_journal")


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["as it is", "forgotten"])
@pytest.mark.parametrize("answer", ["It starts by a button [p1].", f"{SAID} [p1]."], ids=["without her", "with her"])
async def test_no_notice_that_waits_has_words_that_somebody_else_forwarded(
    tmp_path: Path, journal_settings: JournalSettings, answer: str, *, is_forgotten: bool
) -> None:
    """Bob has forwarded her question, and the platform of the team is away."""
    gate = {"mode": "draft", "drafts_to": "slack:C1", "wait_s": 0}
    async with opened(tmp_path, journal_settings, gate=gate, slack=SLACK) as bot:
        assert bot.model
        bot.model.replies["write"] = answer
        bot.processor.drafts.start_post = start_post
        team = bot.adapter("slack")
        team.sink_error = PlatformUnavailable("away")
        for adapter in (team, bot.adapter("telegram")):
            bot.processor.handler_for(adapter)
        forwarded = {"is_forwarded": True, "quoted_authors": (ANN_ID,)}
        asking = asyncio.create_task(bot.deliver(BOB, f"{SAID}, how does the launcher start?", **forwarded))
        waiting = select(messages.c.delivery).where(messages.c.purpose == "draft", messages.c.delivery.is_not(None))
        async with asyncio.timeout(600):
            while WORD not in str(await bot.journal.database.fetch_all(waiting)):
                await asyncio.sleep(0.1)
        if is_forgotten:
            await forget_ann(bot)
            assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
        team.sink_error = None
        bot.output()
        await asking
        assert (WORD in bot.output()) != is_forgotten
        await bot.processor.drafts.sweep()
        await bot.processor.join()
        assert WORD not in bot.output(), "what is left is told of once"


@pytest.mark.parametrize("decision", [{"command": "post"}, {"command": "edit", "text": " Press the button."}])
async def test_a_decision_brings_back_nothing_that_was_forgotten_while_it_was_made(
    tmp_path: Path, journal_settings: JournalSettings, monkeypatch: pytest.MonkeyPatch, decision: Mapping[str, str]
) -> None:
    """A platform says who reads, or an endpoint moderates other words: that takes seconds."""
    chats = {"telegram:-100": {"mode": "draft", "drafts_to": "telegram:-200"}}
    async with opened(tmp_path, journal_settings, chats=chats) as bot:
        bot.dispatcher.context.drafts.start_post = start_post
        await bot.deliver(ANN, f"Carl keeps the {WORD} in a box.", addressed=False)
        question = await bot.deliver(BOB, "and what about it, how does the launcher start?")
        own_row = {"author_id": question.author_id, "id": question.id}
        [row] = await bot.journal.database.fetch_all(select(messages).filter_by(**own_row))
        # As a model completes it from the conversation.
        trace = {**row.delivery["trace"], "query": f"how does it start with the {WORD} that Carl keeps in a box"}
        statement = update(messages).filter_by(**own_row).values(delivery={**row.delivery, "trace": trace})
        await bot.journal.database.write(statement)
        find_fault = Drafts._find_fault

        async def find_and_forget(drafts: Drafts, *arguments: Any, **options: Any) -> str:
            fault = await find_fault(drafts, *arguments, **options)
            await forget_ann(bot)
            return fault

        monkeypatch.setattr(Drafts, "_find_fault", find_and_forget)
        await bot.deliver(Sender("-200", "1"), f"{row.number}{decision.get('text', '')}", decision["command"])
        [row] = await bot.journal.database.fetch_all(select(messages).filter_by(**own_row))
        assert row.state == "answered"
        assert await find_columns(bot.journal.database, *KEPT_IN_CHAT) == set()
