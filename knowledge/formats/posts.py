"""What people wrote to services as Markdown. It imports little: worker processes load it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from core.markup.markdown import read_markdown
from core.markup.writer import write_markdown


def write_thread(texts: Sequence[str]) -> str:
    """Return the messages of a thread as Markdown."""
    first, *replies = texts or [""]
    parts = [clean_markdown(first), *(f"Reply: {clean_markdown(reply)}" for reply in replies if reply.strip())]
    return "\n\n".join(filter(None, parts))


def clean_markdown(text: str) -> str:
    """Return a user's text without invisible markup, with its headings below those of the document."""
    blocks = (
        replace(block, level=block.level + 2) if block.kind == "heading" else block for block in read_markdown(text)
    )
    return write_markdown(list(blocks))


def format_day(seconds: float) -> str:
    """Return the day of a time, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d") if seconds else "at an unknown time"
