"""Cron expressions and refresh schedules: when recurring work is due next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from apscheduler.triggers.cron import CronTrigger


DEFAULT_JITTER = 0.1
CRON_FIELDS = ("minute", "hour", "day", "month", "day_of_week")
# In cron's numbering; 7 is Sunday too.
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# A larger number means never: dates do not reach that far.
MAX_MINUTES = 100 * 366 * 24 * 60.0


@dataclass(frozen=True, slots=True)
class RefreshSchedule:
    """A schedule: every `minutes` after the last start (0: never), or at the times of a cron expression.

    `jitter` is the maximum delay, as a share of the interval (with cron: of the interval between the next two times).
    `timezone` is for cron; "" is the machine's.
    """

    minutes: float = 0
    cron: str = ""
    timezone: str = ""
    jitter: float = DEFAULT_JITTER

    def next_after(self, last: datetime, jitter_fraction: float = 0.0) -> datetime | None:
        """Return the next time after `last` (time-zone aware), or None; `jitter_fraction` (0 to 1) scales the delay."""
        if not self.cron:
            minutes = min(self.minutes, MAX_MINUTES) * (1 + self.jitter * jitter_fraction)
            return last + timedelta(minutes=minutes) if minutes else None
        cron = parse_cron(self.cron, self.timezone)
        next_time = cron.next_after(last)
        if next_time is None or not self.jitter:
            return next_time
        time_after_next = cron.next_after(next_time) or next_time
        return next_time + (time_after_next - next_time) * self.jitter * jitter_fraction


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The times of a cron expression in a time zone: those of all triggers, which count in UTC.

    A time that a clock change skips comes an hour later. A time that it repeats comes once, unless the expression
    fixes no hour or no minute (`is_frequent`): frequent work continues in the repeated hour.
    """

    triggers: Sequence[CronTrigger]
    zone: tzinfo
    is_frequent: bool

    def next_after(self, last: datetime) -> datetime | None:
        """Return the next time after `last` (time-zone aware), or None for never."""
        local_time = last.astimezone(self.zone)
        # The library misses the midnight after a clock change, so it computes in a zone without changes.
        fire_time = _next_fire_time(self.triggers, local_time.replace(tzinfo=UTC))
        next_time = None if fire_time is None else _from_wall_time(fire_time, self.zone, last)
        later_offset = (last + timedelta(days=1)).astimezone(self.zone).utcoffset() or timedelta()
        if not self.is_frequent or later_offset >= (local_time.utcoffset() or timedelta()):
            return next_time
        repeated_time = _next_fire_time(self.triggers, last.astimezone(UTC) + later_offset)
        if (
            repeated_time is None
            or (repeated_time - later_offset).astimezone(self.zone).replace(tzinfo=UTC, fold=0) != repeated_time
        ):
            return next_time
        return min(next_time or repeated_time - later_offset, repeated_time - later_offset)


def parse_cron(expression: str, timezone: str) -> CronSchedule:
    """Return the schedule of an expression of five fields.

    As in cron, 0 and 7 are Sunday, and if both a day of the month and a weekday are set, either one matches. Raises
    `ValueError` for an invalid expression, for one without any time, and for an unknown time zone.

    >>> from datetime import UTC, datetime
    >>> parse_cron("30 6 * * mon-fri", "UTC").next_after(datetime(2026, 1, 2, 7, tzinfo=UTC)).isoformat()
    '2026-01-05T06:30:00+00:00'
    """
    from apscheduler.triggers.cron import CronTrigger

    zone = _get_timezone(timezone)
    parts = expression.split()
    if len(parts) != len(CRON_FIELDS):
        raise ValueError(f"cron {expression!r}: five fields are needed: minute, hour, day, month and weekday")
    fields = dict(zip(CRON_FIELDS, parts, strict=True))
    try:
        fields["day_of_week"] = _convert_weekdays(fields["day_of_week"])
        field_variants = [fields]
        if all(not fields[name].startswith("*") for name in ("day", "day_of_week")):
            field_variants = [fields | {"day_of_week": "*"}, fields | {"day": "*"}]
        triggers = [CronTrigger(**variant, timezone=UTC) for variant in field_variants]
        has_next = _next_fire_time(triggers, datetime.now(UTC)) is not None
    except ValueError as error:
        raise ValueError(f"cron {expression!r}: {error}") from error
    if not has_next:
        raise ValueError(f"cron {expression!r}: there is no such day")
    return CronSchedule(triggers, zone, is_frequent=any(fields[name].startswith("*") for name in ("minute", "hour")))


def _get_timezone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else _local_zone()
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"timezone {name!r} is unknown; use a name such as Europe/Berlin or UTC") from error


def _local_zone() -> tzinfo:
    from apscheduler.triggers.cron import CronTrigger

    zone: tzinfo = CronTrigger().timezone
    return zone


def _from_wall_time(wall_time: datetime, zone: tzinfo, last: datetime) -> datetime:
    """Return when a zone's clock shows a time after `last`: in a repeated hour the first time, if possible."""
    first = wall_time.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return first if first > last else wall_time.replace(tzinfo=zone, fold=1).astimezone(UTC)


def _next_fire_time(triggers: Sequence[CronTrigger], last: datetime) -> datetime | None:
    # The library's result includes the moment itself.
    moment = last + timedelta(microseconds=1)
    fire_times = [
        fire_time for trigger in triggers if (fire_time := trigger.get_next_fire_time(None, moment)) is not None
    ]
    return min(fire_times) if fire_times else None


def _convert_weekdays(field: str) -> str:
    """Return a field of weekdays in the library's numbering, which begins with Monday."""
    if field in ("*", "?"):
        return "*"
    days: set[int] = set()
    for part in field.lower().split(","):
        match = re.fullmatch(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/([1-9]\d*))?", part)
        if not match:
            raise ValueError(f"{part!r} is no weekday")
        first, last = ("0", "6") if match[1] else (match[2], match[3] or match[2])
        begin = _weekday_number(first)
        end = _weekday_number(last)
        # fri-mon and fri-7 cross the end of the week.
        end += 7 if end < begin else 0
        days.update((day - 1) % 7 for day in range(begin, end + 1, int(match[4] or 1)))
    return ",".join(map(str, sorted(days)))


def _weekday_number(name: str) -> int:
    if name in WEEKDAYS:
        return WEEKDAYS.index(name)
    if re.fullmatch(r"[0-7]", name):
        return int(name)
    raise ValueError(f"{name!r} is no weekday: 0 to 7 (0 and 7 are Sunday) or {', '.join(WEEKDAYS)}")
