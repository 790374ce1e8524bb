"""Reading what an API answered: JSON of whatever shape, and text that is safe to keep."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

from core.errors import SourceError
from knowledge.web.addresses import shown
from knowledge.web.client import Response

# Line breaks and tabs are text; the rest is not seen, and breaks files and terminals.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")


async def read_json(response: Response) -> Any:
    """Return the reply as JSON values. Raises `SourceError` when it is something else."""
    try:
        # Off the event loop: a reply may hold megabytes.
        return await asyncio.to_thread(json.loads, response.text())
    except (ValueError, RecursionError) as fault:
        kind = response.headers.get("content-type", "nothing").split(";")[0]
        raise SourceError(f"{shown(response.url)} answered with {kind[:60]} instead of JSON") from fault


def text_of(value: Any) -> str:
    """Return a text without control characters; nothing for what is no text.

    JSON may hold half of a surrogate pair, which no file can: a question mark stands for it.
    """
    if not isinstance(value, str):
        return ""
    return _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n")).encode("utf-8", "replace").decode()


def line_of(value: Any, longest: int = 300) -> str:
    """Return a text as one line of at most `longest` characters."""
    return " ".join(text_of(value).split())[:longest]
