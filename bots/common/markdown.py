"""Tables as every platform can show them: in columns of equal width, for a block of code."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode


def get_rows(table: SyntaxTreeNode) -> list[SyntaxTreeNode]:
    """Return the rows of a table, its head first."""
    return [row for section in table.children for row in section.children]


def render_table(rows: Sequence[Sequence[str]]) -> str:
    """Draw a table, its first row as the head, in columns of equal width."""
    widths = [max(_display_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join(
            cell + " " * (width - _display_width(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    return "\n".join(lines)


def _display_width(text: str) -> int:
    """Return how many columns a text takes in a monospaced block."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
