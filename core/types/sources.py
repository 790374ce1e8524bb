"""The state of a stored source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SourceState:
    """The state of a stored source: its last refreshes, and when the next one is due.

    `error` is why the last try failed, "" after a success. `passages` and `documents` are what is stored, `unreadable`
    names what could not be read, and why, and `skipped` counts what was left out by rule, by reason. `repaired` counts
    what the last success read again because the store had lost passages of it. `unfilled` of the passages have no
    vector yet, so that they are found by words alone; `fill_error` is why the last try to make vectors failed. While
    this process reads the source, `documents_read` of `documents_to_read` are read; what it does takes `seconds_left`
    more. Times are None for "never" and, for `next_run`, for "only when asked".
    """

    name: str
    kind: str
    passages: int = 0
    documents: int = 0
    last_try: datetime | None = None
    last_success: datetime | None = None
    error: str = ""
    paused: bool = False
    running: bool = False
    next_run: datetime | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    repaired: int = 0
    unfilled: int = 0
    fill_error: str = ""
    documents_read: int = 0
    documents_to_read: int = 0
    seconds_left: float | None = None
