"""What a document may cost: its size when unpacked, its parts, its time."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

P = ParamSpec("P")

UNPACKED_BYTES = 200 << 20
MOST_FILES = 10_000
MOST_PARTS = 5_000
MOST_CHARACTERS = 4_000_000
SECONDS = 60.0


class FormatError(Exception):
    """A document cannot be read; the message says why in a few words."""


class Allowance:
    """What is left of the time and the text that one document may take."""

    def __init__(self) -> None:
        self._ends = time.monotonic() + SECONDS
        self._characters = MOST_CHARACTERS
        self._parts = MOST_PARTS

    def take(self, text: str) -> str:
        """Return a part's text. Raises `FormatError` when the document takes more than it may."""
        self._characters -= len(text)
        self._parts -= 1
        if self._characters < 0 or self._parts < 0:
            raise FormatError("it holds more than can be taken")
        if time.monotonic() > self._ends:
            raise FormatError(f"it cannot be read within {SECONDS:g} s")
        return text


def check_archive(data: bytes) -> None:
    """Refuse what would unpack into far more than it is. Office documents are ZIP archives. Raises `FormatError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError) as fault:
        raise FormatError("it is damaged or encrypted") from fault
    # A reader takes no more of an entry than is declared here, so that a lie is cut off.
    if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > UNPACKED_BYTES:
        raise FormatError("it is too large when unpacked")


def forgiving(read: Callable[P, str]) -> Callable[P, str]:
    """Turn whatever a library raises on a damaged document into `FormatError`: they raise nearly everything."""

    @wraps(read)
    def reading(*arguments: P.args, **named: P.kwargs) -> str:
        try:
            return read(*arguments, **named)
        except FormatError:
            raise
        except (RecursionError, MemoryError) as fault:
            raise FormatError("it is nested too deeply") from fault
        except Exception as fault:
            raise FormatError(f"it is damaged ({type(fault).__name__})") from fault

    return reading
