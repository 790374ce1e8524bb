"""When recurring work is due, and that it goes on, whatever a run of it raises."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from core.observability.logs import configure_logs
from core.runtime.timers import run_periodically
from core.settings import LogSettings, RefreshSettings
from core.settings.cron import RefreshSchedule


async def test_a_run_that_fails_unexpectedly_is_logged_and_the_next_one_comes() -> None:
    log = io.StringIO()
    configure_logs(LogSettings(format="json"), log)
    runs: list[int] = []
    third = asyncio.Event()

    async def work() -> None:
        runs.append(1)
        if len(runs) == 3:
            third.set()
        raise RecursionError("too deep")

    async with run_periodically(0.02 / 60, work):
        await asyncio.wait_for(third.wait(), 60)
    event = json.loads(log.getvalue().splitlines()[0])
    assert (event["event"], event["error"], event["level"]) == ("recurring_work.failed", "too deep", "error")
    assert "Traceback" in event["exception"]


SATURDAY = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "next_times"),
    [
        ("0 8 * * *", "UTC", "2026-11-22T08:00"),
        ("1 8 * * *", "UTC", "2026-11-21T08:01"),
        ("*/15 * * * *", "UTC", "2026-11-21T08:15"),
        ("30 6 * * mon-fri", "Europe/Berlin", "2026-11-23T05:30"),
        ("30 6 * * mon-fri", "Asia/Shanghai", "2026-11-22T22:30"),
        # As cron has it: 0 and 7 are Sunday, 5 is Friday, and one of the two days is enough.
        ("0 0 * * 0", "UTC", "2026-11-22T00:00"),
        ("0 0 * * 7", "UTC", "2026-11-22T00:00"),
        ("0 0 * * 1-5", "UTC", "2026-11-23T00:00"),
        ("0 0 * * fri-mon", "UTC", "2026-11-22T00:00"),
        ("0 0 13 * 5", "UTC", "2026-11-27T00:00"),
        ("0 0 29 2 *", "UTC", "2028-02-29T00:00"),
    ],
)
def test_cron_means_what_it_means_to_cron(cron: str, zone: str, next_times: str) -> None:
    time = RefreshSchedule(cron=cron, timezone=zone, jitter=0).next_after(SATURDAY)
    assert time == datetime.fromisoformat(next_times).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone", "first", "times"),
    [
        # The clock leaves out 02:00 to 03:00 on 29 March 2026, and shows it twice on 25 October.
        ("0 0 * * *", "Europe/Berlin", "2026-03-28", ["28T23:00", "29T22:00", "30T22:00"]),
        ("30 0 * * mon", "Europe/Berlin", "2026-03-28", ["29T22:30"]),
        ("0 0 1 * *", "Europe/Berlin", "2026-03-30", ["31T22:00"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28", ["28T01:30", "29T01:30", "30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24", ["24T00:30", "25T00:30", "26T01:30"]),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25", ["25T00:00", "25T00:30", "25T01:00", "25T01:30", "26T01:00"]),
        ("15 * * * *", "Europe/Berlin", "2026-10-25", [f"25T{hour:02}:15" for hour in range(6)]),
        # Half an hour: 02:00 on 4 October 2026 is 02:30 at once.
        ("0 0 * * *", "Australia/Lord_Howe", "2026-10-03", ["03T13:30", "04T13:00"]),
    ],
)
def test_no_run_is_lost_when_the_clock_is_changed(cron: str, zone: str, first: str, times: list[str]) -> None:
    table = RefreshSchedule(cron=cron, timezone=zone, jitter=0)
    next_time = datetime.fromisoformat(first).replace(tzinfo=UTC) - timedelta(seconds=1)
    results = list[str]()
    for _ in times:
        next_time = table.next_after(next_time) or pytest.fail("it never comes again")
        results.append(f"{next_time:%dT%H:%M}")
    assert results == times


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", ""])
@pytest.mark.parametrize("cron", ["*/15 1-3 * * *", "*/20 * * * *", "30 2 * * *", "59 23 * * 6"])
def test_the_next_time_is_always_later(cron: str, zone: str) -> None:
    table = RefreshSchedule(cron=cron, timezone=zone, jitter=0)
    # The days on which one of these clocks is changed in 2026, and those before.
    for day in (45, 46, 65, 66, 79, 80, 86, 87, 93, 94, 275, 276, 296, 297, 303, 304):
        for hour in (0, 1, 6, 7, 15):
            last = datetime(2026, 1, 1, hour, 15, tzinfo=UTC) + timedelta(days=day)
            next_time = table.next_after(last)
            assert next_time is not None
            assert last < next_time <= last + timedelta(days=8)


@pytest.mark.parametrize(
    ("schedule_values", "expected_text"),
    [
        ({"cron": "61 * * * *"}, "61"),
        ({"cron": "* * *"}, "five fields"),
        ({"cron": "0 0 * * 8"}, "no weekday"),
        ({"cron": "0 0 * * someday"}, "no weekday"),
        ({"cron": "0 0 * * mon,"}, "no weekday"),
        ({"cron": "0 0 30 2 *"}, "no such day"),
        ({"cron": "0 0 * * *", "timezone": "Mars/Crater"}, "Mars/Crater"),
        ({"cron": "0 0 * * *", "timezone": "../../etc/passwd"}, "unknown"),
        ({"cron": "0 0 * * *", "minutes": 5}, "not both"),
        ({"timezone": "UTC"}, "belongs to cron"),
    ],
)
def test_a_plan_that_makes_no_sense_is_a_fault_of_the_configuration(
    schedule_values: dict[str, object], expected_text: str
) -> None:
    with pytest.raises(ValidationError, match=expected_text):
        RefreshSettings.model_validate(schedule_values)


def test_jitter_only_delays() -> None:
    hourly = RefreshSchedule(60, jitter=0.1)
    assert hourly.next_after(SATURDAY, 0) == SATURDAY + timedelta(minutes=60)
    assert hourly.next_after(SATURDAY, 1) == SATURDAY + timedelta(minutes=66)
    daily = RefreshSchedule(cron="0 8 * * *", timezone="UTC", jitter=0.5)
    assert daily.next_after(SATURDAY, 0.5) == SATURDAY + timedelta(days=1, hours=6)
    assert RefreshSchedule(0).next_after(SATURDAY) is None
    assert (RefreshSchedule(1e15).next_after(SATURDAY) or SATURDAY) > SATURDAY + timedelta(days=36_000)
