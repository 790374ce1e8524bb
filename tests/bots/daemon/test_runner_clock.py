"""A day of a daemon whose clock is set an hour back, a day forward, a day back, and right again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from bots.daemon.alerts import AlertRules, Watched
from core.observability.metrics import MetricsRecorder
from core.runtime.clock import ClockWatch
from core.runtime.timers import run_periodically
from core.settings import Settings
from core.storage.activity import ActivityRepository
from core.storage.chat_history import ChatHistory
from core.storage.message_lookup import MessageLookup
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.storage.refresh_state import RefreshStateRepository
from core.storage.retention import erase_expired
from core.storage.usage import UsageRepository
from core.types import HANDOFF_COMMAND, ConversationKey, Message, Origin, Reply, SourceState
from knowledge.ingestion.refresh import RefreshContext
from knowledge.ingestion.scheduler import RefreshScheduler
from knowledge.ports import Store
from tests.support.knowledge import WordEmbedder
from tests.support.timelapse import WallClock, run_fast

HOUR_S = 3600.0
MINUTE_H = 1 / 60
POLL_INTERVAL = timedelta(minutes=4)
START = datetime(2026, 3, 4, tzinfo=UTC)
CHAT = ConversationKey("telegram", "-1", "")
MESSAGE = Message("1", CHAT, "42", "Ann", "How?", START, bot="9", addressed=True)
# Of the time that passes, in hours: when the clock is set, and by how much.
JUMPS_H = {3.0: -1.0, 6.0: 24.0, 9.0: -24.0, 15.0: 1.0}
# When the model is away: across jumps, for longer and for shorter than the alert waits.
OUTAGES_H = ((2.95, 4.0), (5.98, 6.02), (8.95, 10.0))


@dataclass
class Day:
    """What happened, with the hours that had passed."""

    started_at: float = field(default_factory=time.monotonic)
    refreshes: list[tuple[str, float]] = field(default_factory=list)
    problems: dict[str, list[float]] = field(default_factory=dict)
    erasures: list[float] = field(default_factory=list)

    def hours(self) -> float:
        return (time.monotonic() - self.started_at) / HOUR_S

    async def reach(self, hours: float) -> None:
        await asyncio.sleep((hours - self.hours()) * HOUR_S)

    def refreshed(self, name: str) -> list[float]:
        return [hours for source, hours in self.refreshes if source == name]

    def spans(self, key: str) -> list[tuple[float, float]]:
        """Return from when until when a problem was there."""
        spans: list[tuple[float, float]] = []
        for hours in self.problems.get(key, []):
            is_same = bool(spans) and hours - spans[-1][1] < 1.5 * MINUTE_H
            spans[-1:] = [(spans[-1][0], hours)] if is_same else [*spans[-1:], (hours, hours)]
        return spans


class Recorder(MetricsRecorder):
    """Notes when sources are refreshed."""

    def __init__(self, day: Day) -> None:
        self._day = day

    def record_refresh(self, source: str, outcome: str, seconds: float) -> None:
        assert outcome == "succeeded"
        self._day.refreshes.append((source, self._day.hours()))


@asynccontextmanager
async def refreshing(
    settings: Settings, journal: Journal, store: Store, embedder: WordEmbedder, day: Day
) -> AsyncIterator[None]:
    """Refresh the sources as a daemon does."""
    states = RefreshStateRepository(journal.database)
    context = RefreshContext(settings.sources, store, embedder, settings.data_dir, 200, states)

    async def ignore(_names: Collection[str]) -> None:
        return None

    # It looks more rarely than usual, so that the day is shorter.
    scheduler = RefreshScheduler(
        settings,
        context,
        states,
        ignore,
        metrics_recorder=Recorder(day),
        poll_interval=POLL_INTERVAL,
        store_poll_interval=timedelta(hours=2),
    )
    async with scheduler.run():
        yield


@dataclass
class Limits:
    """Two limits that count what the journal says of the last minutes, for one person."""

    journal: Journal

    async def use_up(self) -> None:
        await self.journal.record_message(MESSAGE)
        await self.journal.begin_answer(MESSAGE, None)
        await self.journal.mark_answered(MESSAGE, Reply("So."))
        origin = Origin(root_id="1", purpose="escalation")
        call = replace(MESSAGE, id="call", origin=origin, command=HANDOFF_COMMAND)
        await self.journal.record_message(call)

    async def read(self) -> tuple[int, bool]:
        """Return the answers of the last ten minutes, and whether people were called in the last hour."""
        answers = await ChatHistory(self.journal.database).count_answers_to(replace(MESSAGE, id="2"), 600)
        return answers, await MessageLookup(self.journal.database).has_recent_handoff(MESSAGE, HOUR_S)


async def test_every_schedule_alert_and_limit_of_a_day_with_jumps(
    tmp_path: Path, store: Store, embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = _make_settings(tmp_path)
    journal = await Journal.open(tmp_path / "journal.db")
    run_fast(monkeypatch, speed=1e5)
    wall_clock = WallClock(START)
    wall_clock.install(monkeypatch)
    day = Day()
    limits = Limits(journal)
    clock = ClockWatch()
    endpoints = {"model": True}
    watched = _watch(journal, clock, endpoints)
    rules = AlertRules(settings.alerts, watched)

    async def check() -> None:
        for key in await rules.find_problems(datetime.fromtimestamp(wall_clock.time(), UTC)):
            day.problems.setdefault(key, []).append(day.hours())

    async def erase() -> None:
        day.erasures.append(day.hours())
        await erase_expired(settings, journal)

    async def break_model() -> None:
        for down_at, up_at in OUTAGES_H:
            await day.reach(down_at)
            endpoints["model"] = False
            await day.reach(up_at)
            endpoints["model"] = True

    async with (
        refreshing(settings, journal, store, embedder, day),
        run_periodically(1, clock.look),
        run_periodically(1, check),
        run_periodically(24 * 60, erase),
    ):
        outages = asyncio.create_task(break_model())
        for hours, step_h in JUMPS_H.items():
            await day.reach(hours - MINUTE_H)
            if step_h == -24:
                await limits.use_up()
                assert await limits.read() == (1, True)
            await day.reach(hours)
            wall_clock.offset_s += step_h * HOUR_S
            if step_h == -24:
                assert await limits.read() == (0, False), "nobody waits for a day"
        await day.reach(24.2)
        await outages
    await journal.close()

    often_at = day.refreshed("often")
    gaps = [later - earlier for earlier, later in pairwise([*often_at, 24.2])]
    assert max(gaps) < 0.75 * 1.1 + 5 * MINUTE_H, "at the latest after its interval, its jitter, and a look"
    assert 28 <= len(often_at) <= 32 + len(JUMPS_H), "a step may bring one forward"
    # Noon of the first day comes after the step forward, and again when the clock shows it.
    assert day.refreshed("noon") == pytest.approx([0, 6, 9, 13], abs=5 * MINUTE_H)
    assert day.erasures == pytest.approx([0, 24], abs=MINUTE_H)
    outage_spans = [(down_at + 5 * MINUTE_H, up_at) for down_at, up_at in OUTAGES_H if up_at - down_at > 5 * MINUTE_H]
    _assert_spans(day.spans("endpoint model"), outage_spans)
    _assert_spans(day.spans("clock"), [(hours, hours + 1) for hours in JUMPS_H])
    assert set(day.problems) == {"endpoint model", "clock"}, "no source counts as stale"


def _assert_spans(spans: Sequence[tuple[float, float]], expected: Sequence[tuple[float, float]]) -> None:
    assert len(spans) == len(expected)
    for span, expected_span in zip(spans, expected, strict=True):
        assert span == pytest.approx(expected_span, abs=2.5 * MINUTE_H)


def _make_settings(folder: Path) -> Settings:
    (folder / "docs").mkdir()
    (folder / "docs" / "a.md").write_text("Rocket 1 is out.", "utf-8")
    source = {"kind": "files", "path": folder / "docs"}
    sources = {
        "often": {**source, "refresh": {"minutes": 45}},
        "noon": {**source, "refresh": {"cron": "0 12 * * *", "timezone": "UTC"}},
    }
    alerts = {"chats": ["telegram:-1"], "down_minutes": 5}
    return Settings.model_validate({"data_dir": folder, "alerts": alerts, "sources": sources})


def _watch(journal: Journal, clock: ClockWatch, endpoints: Mapping[str, bool]) -> Watched:
    async def get_states() -> Sequence[SourceState]:
        return ()

    database = journal.database
    live = LiveSettings(Settings(), RuntimeOverrides(database))
    return Watched(
        get_states, dict, lambda: endpoints, live, UsageRepository(database), ActivityRepository(database), clock
    )
