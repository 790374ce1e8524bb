"""Writes the blocks of one document as Markdown, within its limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.markup.document import Block
from core.markup.writer import write_markdown
from knowledge.parsing.limits import ParseLimits


def write_within_limits(parts: Iterable[Sequence[Block]]) -> str:
    """Return the parts of a document as Markdown. Raises `FormatError` as soon as it takes more than it may."""
    limits = ParseLimits()
    return "\n\n".join(limits.consume(write_markdown(part)) for part in parts)
