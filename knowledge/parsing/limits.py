"""Limits of a document: its unpacked size, its parts, its time."""

from __future__ import annotations

import io
import time
import zipfile
import zlib
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MAX_UNPACKED_BYTES = 200 << 20
MAX_FILES = 10_000
MAX_PARTS = 5_000
MAX_CHARACTERS = 4_000_000
MAX_SECONDS = 60.0
# What libraries raise for a part that is damaged: such a part does not cost the document.
DAMAGES = (
    ArithmeticError, AttributeError, EOFError, LookupError, RecursionError, SyntaxError, TypeError, ValueError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


class FormatError(Exception):
    """A document cannot be read; the message says why in a few words."""


class ParseLimits:
    """The remaining time and text that one document may take."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + MAX_SECONDS
        self._characters_left = MAX_CHARACTERS
        self._parts_left = MAX_PARTS

    def consume(self, text: str) -> str:
        """Return a part's text. Raises `FormatError` when the document takes more than it may."""
        self._characters_left -= len(text)
        self._parts_left -= 1
        if self._characters_left < 0 or self._parts_left < 0:
            raise FormatError("it holds more than can be taken")
        if time.monotonic() > self._deadline:
            raise FormatError(f"it cannot be read within {MAX_SECONDS:g} s")
        return text


def check_archive(data: bytes) -> None:
    """Refuse what would unpack into far more than it is. Office documents are ZIP archives. Raises `FormatError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError) as error:
        raise FormatError("it is damaged or encrypted") from error
    # A reader takes no more of an entry than is declared here, so that a lie is cut off.
    if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_UNPACKED_BYTES:
        raise FormatError("it is too large when unpacked")


def map_parser_errors(read_document: Callable[P, T]) -> Callable[P, T]:
    """Turn whatever a library raises on a damaged document into `FormatError`: they raise nearly everything."""

    @wraps(read_document)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read_document(*args, **kwargs)
        except FormatError:
            raise
        except (RecursionError, MemoryError) as error:
            raise FormatError("it is nested too deeply") from error
        except Exception as error:
            raise FormatError(f"it is damaged ({type(error).__name__})") from error

    return wrapper
