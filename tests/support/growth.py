"""Whether processor time grows with a text or with its square: by the ratio of two sizes, on a noisy machine."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

Run = Callable[[str], object]
T = TypeVar("T")
# For four times the text what is linear takes four times as long, and what is quadratic sixteen times.
FACTOR = 4
MAX_RATIO = 9.0
# What else runs on a processor slows this down as well: what is not linear is so every time.
TRIES = 4
# How often a test looks for what is known to grow faster: what else runs can hide it once.
ATTEMPTS = 3
# How often the shorter text is read, and for how long in all.
MIN_RUNS = 2
MAX_RUNS = 8
MIN_MEASURED_S = 0.01
# What hostile texts repeat.
UNITS = (
    "`",
    "\n",
    " ",
    "\t",
    "<",
    "<!--",
    "[",
    "](",
    "*",
    "_",
    "a",
    "A",
    "a.",
    "a_",
    "a-",
    "-",
    "#",
    "1",
    "1.",
    "|",
    "'",
    '"',
    "=",
    ":",
    "a ",
    "@",
    "https://",
    "x\n\n",
    "0,",
    "。",
    "中",
    "[1]",
    "(",
    "{",
    "~",
    "\n ",
    "`a",
    "> ",
    "\\",
    "/",
    "&",
    "*a",
    "**a",
    "a@",
    "|-",
    "[[",
    "![",
    "!\n",
    "- ",
    "?",
)

# The timer comes again after so many seconds of processor time.
AGAIN_S = 0.05
# Of `weakref` and of hypothesis.
COLLECTOR_CALLBACKS = ("_remove", "gc_callback")


@dataclass(frozen=True)
class Growth:
    """What is measured: texts of `quick_size` characters first; those that take `quick_s` are looked at closely.

    These may not take longer than `max_s` at `size` characters. From `min_s` on, the ratio to a quarter of it counts.
    """

    quick_size: int
    quick_s: float
    size: int
    min_s: float
    max_s: float = 1.0


# A linear pattern takes 10 to 100 ns a character, a quadratic one at least 30 us for 400 on the fastest machine so far.
# One that takes less would not come to `min_s` at ten times the size: it need not be looked at closely.
PATTERN_LIMITS = Growth(400, 0.000028, 4000, 0.003)


@dataclass(frozen=True)
class Text:
    """A text of any size: `unit` repeated, after `start` and before `end`."""

    start: str
    unit: str
    end: str

    def make(self, size: int) -> str:
        """Return the text with about so many characters between its start and its end."""
        return self.start + self.unit * (size // len(self.unit) + 1) + self.end

    def __str__(self) -> str:
        return f"{self.start!r} + {self.unit!r} * n + {self.end!r}"


class TooSlow(BaseException):
    """Something used up its processor time."""


def find_growth(run: Run, texts: Iterable[Text], limits: Growth) -> str:
    """Return for which text a function grows faster than the text, and why, or an empty string."""
    with _raising_when_slow():
        return next((reason for text in texts if (reason := _find_growth(run, text, limits))), "")


def _find_growth(run: Run, text: Text, limits: Growth) -> str:
    reason = ""
    try:
        for _ in range(TRIES):
            if not (reason := _measure_growth(run, text, limits)):
                return ""
    except TooSlow:
        return f"{text} takes more than {limits.max_s} s at {limits.size}"
    return reason if _goes_on_growing(run, text, limits) else ""


def _measure_growth(run: Run, text: Text, limits: Growth) -> str:
    quick_text = text.make(limits.quick_size)
    with _cpu_limit(limits.max_s):
        # By the clock on the wall, which is fine-grained: what else the machine does can only make it longer.
        if any(measure(run, quick_text, time.perf_counter) < limits.quick_s for _ in range(2)):
            return ""
    whole_text = text.make(limits.size)
    part = text.make(limits.size // FACTOR)
    with _cpu_limit(limits.max_s):
        seconds = measure(run, whole_text)
    if seconds <= limits.min_s:
        return ""
    with _cpu_limit(MIN_RUNS * limits.max_s):
        part_s = _measure_mean(run, part)
    if seconds <= part_s * MAX_RATIO:
        return ""
    with _cpu_limit(limits.max_s):
        seconds = min(seconds, measure(run, whole_text))
    if seconds <= limits.min_s or seconds <= part_s * MAX_RATIO:
        return ""
    return f"{text}: {part_s:.5f} s, then {seconds:.5f} s"


def _goes_on_growing(run: Run, text: Text, limits: Growth) -> bool:
    """Return whether the next step is as steep: that a message no longer fits in one piece is not growth."""
    seconds = min(measure(run, text.make(limits.size)) for _ in range(2))
    longer_text = text.make(FACTOR * limits.size)
    with suppress(TooSlow), _cpu_limit(seconds * MAX_RATIO):
        run(longer_text)
        return False
    return True


def _measure_mean(run: Run, text: str) -> float:
    """Return the processor time of one run on average. The clock may be coarse: what is quick runs several times."""
    runs = 0
    total_s = 0.0
    while runs < MIN_RUNS or (runs < MAX_RUNS and total_s < MIN_MEASURED_S):
        total_s += measure(run, text)
        runs += 1
    return total_s / runs


def measure(run: Callable[[T], object], text: T, clock: Callable[[], float] = time.thread_time) -> float:
    """Return the processor time of one run, in seconds."""
    # A collection reads all that was ever imported: it would be blamed on the text during which it happens.
    gc.disable()
    try:
        started_at = clock()
        run(text)
        return clock() - started_at
    finally:
        gc.enable()


@contextmanager
def _raising_when_slow() -> Iterator[None]:
    """Let `_cpu_limit` raise `TooSlow` in the block: to say so for each of thousands of texts would cost more."""
    previous = signal.signal(signal.SIGVTALRM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, previous)


@contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in the block after so much processor time."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _stop(number: int, frame: FrameType | None) -> None:
    # In a callback of the garbage collector an exception would be lost, and reported as such. The timer comes again.
    if frame is None or frame.f_code.co_name not in COLLECTOR_CALLBACKS:
        raise TooSlow
