"""What worker processes are given to do by tests: a worker imports this module, so it imports next to nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from knowledge.parsing.limits import FormatError


@dataclass(frozen=True, slots=True)
class Pair:
    name: str
    values: tuple[int, ...]


def make_pairs(count: int) -> list[Pair]:
    return [Pair("half of a pair: \ud800", (number, number + 1)) for number in range(count)]


def refuse(reason: str) -> str:
    raise FormatError(reason)


def fail() -> str:
    raise ZeroDivisionError("secret detail")


def spin() -> str:
    while True:
        pass


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "awake"


def eat_memory(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


def write_much(megabytes: int) -> str:
    return "x" * (megabytes << 20)


def kill_self(number: int) -> str:
    os.kill(os.getpid(), number)
    return "still here"


def kill_self_once(mark_folder: str) -> str:
    # The mark is a folder: a worker writes no files.
    if not Path(mark_folder).is_dir():
        os.mkdir(mark_folder)
        os.kill(os.getpid(), signal.SIGKILL)
    return "second try"


def lie() -> int:
    return "no number"  # type: ignore[return-value]


def print_noise() -> str:
    print("noise", flush=True)
    return "quiet"


def look_around() -> dict[str, list[str]]:
    return {
        "environment": sorted(os.environ),
        "descriptors": sorted(os.listdir("/proc/self/fd")),
        "modules": sorted(sys.modules),
        "pid": [str(os.getpid())],
    }


def write_file(path: str) -> str:
    try:
        Path(path).write_text("x" * 10)
    except OSError as error:
        return type(error).__name__
    return "written"
