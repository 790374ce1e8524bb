"""Notices of a bot that are in its journal and not begun."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from bots.daemon import gap_report
from bots.daemon.alerts import AlertSender
from bots.daemon.gap_report import GapReporter
from core.runtime.clock import ClockWatch
from core.storage.reports import ReportRepository
from tests.support.recording_bot import Bot, RecordingAdapter


class HashedAdapter(RecordingAdapter):
    """An adapter among those of a daemon."""

    __hash__ = object.__hash__


async def make_notices(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a report and an alert, and end before the first of them is begun."""
    monkeypatch.setattr(gap_report, "_get_monday", lambda now: now.astimezone() - timedelta(hours=10))
    monkeypatch.setattr(bot.processor, "_enqueue", lambda *_: None)
    bot.adapters["telegram"] = adapter = HashedAdapter("telegram")
    sender = AlertSender(bot.live, bot.processor.handler_for, {adapter: asyncio.create_task(adapter.open())})
    await asyncio.wait(sender.adapters.values())
    now = datetime.now(UTC)
    reports = ReportRepository(bot.journal.database)
    await GapReporter(sender, reports, bot.app.deps.library, ClockWatch()).post_due(now)
    await sender.report({"limit daily_cost": "The limit is used up."}, now)
