"""Values in the replies of services, which may be anything. It imports little: worker processes load it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")


def to_text(value: Any) -> str:
    """Return a text without control characters; an empty one for anything that is no text.

    JSON may hold half of a surrogate pair, which no file can store: it becomes a question mark.
    """
    if not isinstance(value, str):
        return ""
    return (
        _CONTROL_CHARACTERS.sub("", value.replace("\r\n", "\n").replace("\r", "\n")).encode("utf-8", "replace").decode()
    )


def to_line(value: Any, max_chars: int = 300) -> str:
    """Return a text as one line of at most `max_chars` characters."""
    return " ".join(to_text(value).split())[:max_chars]


def dig(data: Any, *keys: str) -> Any:
    """Return what lies at the end of some keys, or None."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def as_mappings(data: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; nothing for what is none."""
    return [item for item in data if isinstance(item, Mapping)] if isinstance(data, list) else []


def get_int(data: Mapping[str, Any], key: str) -> int:
    """Return a whole number, or 0."""
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
