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


JITTER_SHARE = 0.1


CRON_FIELDS = ("minute", "hour", "day", "month", "day_of_week")


# As cron counts them; 7 is Sunday too.
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


# Whoever writes a larger number means never, and no calendar goes that far.
LONGEST_MINUTES = 100 * 366 * 24 * 60.0


@dataclass(frozen=True, slots=True)
class Timetable:
    """When something recurs: `minutes` after it began last (0: never), or at the times of a cron expression.

    `jitter` is the latest delay, as a share of the time to the next (with cron: of the time between the next two).
    `timezone` is for cron; "" means the machine's own.
    """

    minutes: float = 0
    cron: str = ""
    timezone: str = ""
    jitter: float = JITTER_SHARE

    def after(self, last: datetime, luck: float = 0.0) -> datetime | None:
        """Return the next time after `last` (with a time zone), or None for never; `luck` (0 to 1) is the delay's."""
        if not self.cron:
            minutes = min(self.minutes, LONGEST_MINUTES) * (1 + self.jitter * luck)
            return last + timedelta(minutes=minutes) if minutes else None
        cron = read_cron(self.cron, self.timezone)
        following = cron.after(last)
        if following is None or not self.jitter:
            return following
        second = cron.after(following) or following
        return following + (second - following) * self.jitter * luck


@dataclass(frozen=True, slots=True)
class Cron:
    """The times of a cron expression in a time zone: those of any of the triggers, which count in UTC.

    A time that a change of clocks leaves out comes an hour later. One that it repeats comes once, unless the expression
    names no hour or no minute (`often`): work that recurs all the time goes on in the hour that is repeated.
    """

    triggers: Sequence[CronTrigger]
    zone: tzinfo
    often: bool

    def after(self, last: datetime) -> datetime | None:
        """Return the next time after `last` (with a time zone), or None for never."""
        wall = last.astimezone(self.zone)
        # The library misses the midnight after a change of clocks: so it is asked by clocks that never change.
        time = _next(self.triggers, wall.replace(tzinfo=UTC))
        found = None if time is None else _on_the_clock(time, self.zone, last)
        later = (last + timedelta(days=1)).astimezone(self.zone).utcoffset() or timedelta()
        if not self.often or later >= (wall.utcoffset() or timedelta()):
            return found
        repeated = _next(self.triggers, last.astimezone(UTC) + later)
        if repeated is None or (repeated - later).astimezone(self.zone).replace(tzinfo=UTC, fold=0) != repeated:
            return found
        return min(found or repeated - later, repeated - later)


def read_cron(expression: str, timezone: str) -> Cron:
    """Return what an expression of five fields stands for.

    As cron has it, 0 and 7 are Sunday, and where both a day of the month and a weekday are named, either is enough.
    Raises `ValueError` for an expression that means nothing or never comes, and for an unknown time zone.
    """
    from apscheduler.triggers.cron import CronTrigger

    zone = _zone(timezone)
    parts = expression.split()
    if len(parts) != len(CRON_FIELDS):
        raise ValueError(f"cron {expression!r}: five fields are needed: minute, hour, day, month and weekday")
    fields = dict(zip(CRON_FIELDS, parts, strict=True))
    try:
        fields["day_of_week"] = _weekdays(fields["day_of_week"])
        kinds = [fields]
        if all(not fields[name].startswith("*") for name in ("day", "day_of_week")):
            kinds = [fields | {"day_of_week": "*"}, fields | {"day": "*"}]
        triggers = [CronTrigger(**kind, timezone=UTC) for kind in kinds]
        comes = _next(triggers, datetime.now(UTC)) is not None
    except ValueError as fault:
        raise ValueError(f"cron {expression!r}: {fault}") from fault
    if not comes:
        raise ValueError(f"cron {expression!r}: there is no such day")
    return Cron(triggers, zone, often=any(fields[name].startswith("*") for name in ("minute", "hour")))


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else _local_zone()
    except (ZoneInfoNotFoundError, ValueError, OSError) as fault:
        raise ValueError(f"timezone {name!r} is unknown; use a name such as Europe/Berlin or UTC") from fault


def _local_zone() -> tzinfo:
    from apscheduler.triggers.cron import CronTrigger

    zone: tzinfo = CronTrigger().timezone
    return zone


def _on_the_clock(time: datetime, zone: tzinfo, last: datetime) -> datetime:
    """Return when the clock of a zone shows a time after `last`: in an hour that is repeated, rather the first time."""
    first = time.replace(tzinfo=zone, fold=0).astimezone(UTC)
    return first if first > last else time.replace(tzinfo=zone, fold=1).astimezone(UTC)


def _next(triggers: Sequence[CronTrigger], last: datetime) -> datetime | None:
    # The library counts the moment itself in.
    moment = last + timedelta(microseconds=1)
    times = [time for one in triggers if (time := one.get_next_fire_time(None, moment)) is not None]
    return min(times) if times else None


def _weekdays(field: str) -> str:
    """Return a field of weekdays in the library's numbers, which begin with Monday."""
    if field in ("*", "?"):
        return "*"
    days: set[int] = set()
    for part in field.lower().split(","):
        match = re.fullmatch(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/([1-9]\d*))?", part)
        if not match:
            raise ValueError(f"{part!r} is no weekday")
        first, last = ("0", "6") if match[1] else (match[2], match[3] or match[2])
        begin, end = _weekday(first), _weekday(last)
        # fri-mon goes over the end of the week, and so does fri-7.
        end += 7 if end < begin else 0
        days.update((day - 1) % 7 for day in range(begin, end + 1, int(match[4] or 1)))
    return ",".join(map(str, sorted(days)))


def _weekday(name: str) -> int:
    if name in WEEKDAYS:
        return WEEKDAYS.index(name)
    if re.fullmatch(r"[0-7]", name):
        return int(name)
    raise ValueError(f"{name!r} is no weekday: 0 to 7 (0 and 7 are Sunday) or {', '.join(WEEKDAYS)}")
