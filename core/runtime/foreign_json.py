"""JSON from outside: bounded, and read off the event loop unless it is short."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

# More than a few kilobytes are read off the event loop. Their values are made while nothing else runs, so there may be
# so many, and of a long text one in so many characters: the rest of it is text.
MAX_INLINE_BYTES = 8 * 1024
MAX_JSON_VALUES = 100_000
MIN_CHARS_PER_VALUE = 50
_STRING = re.compile(r'"[^"\\]*+(?>(?:\\.[^"\\]*+)*)"?', re.DOTALL)

Result = TypeVar("Result")


class JsonTooComplex(ValueError):
    """JSON with too many values, or nested too deeply. Its message is appended to the sender's name."""


def _decode(content: bytes) -> str:
    return content.decode(json.detect_encoding(content), "surrogatepass")


async def read_json(
    content: bytes,
    convert: Callable[[Any], Result],
    *,
    decode: Callable[[bytes], str] = _decode,
    max_values: int = MAX_JSON_VALUES,
    max_inline_bytes: int = MAX_INLINE_BYTES,
) -> Result:
    """Return what `convert` makes of the values of a JSON text.

    In a thread, unless it has at most `max_inline_bytes`. Raises `JsonTooComplex`, `json.JSONDecodeError` and
    `UnicodeDecodeError` for what is no JSON, and what `convert` raises.
    """
    if len(content) <= max_inline_bytes:
        return _convert(content, convert, decode, max_values)
    return await asyncio.to_thread(_convert, content, convert, decode, max_values)


def _convert(
    content: bytes, convert: Callable[[Any], Result], decode: Callable[[bytes], str], max_values: int
) -> Result:
    text = decode(content)
    limit = max(max_values, len(text) // MIN_CHARS_PER_VALUE)
    # What somebody wrote may be full of commas: only those outside of texts count.
    if _count_values(text) > limit and _count_values(_STRING.sub("", text)) > limit:
        raise JsonTooComplex(f"answered with more than {max_values} values")
    try:
        return convert(_load(text))
    except RecursionError as error:
        raise JsonTooComplex("answered with JSON that is nested too deeply") from error


def _count_values(text: str) -> int:
    """Return about how many values there are: a comma precedes each but the first of a list or object."""
    return sum(map(text.count, ",[{"))


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError as error:
        # Python reads no number of more than 4,300 digits: that takes the square of their time.
        raise json.JSONDecodeError("a number has too many digits", "", 0) from error
