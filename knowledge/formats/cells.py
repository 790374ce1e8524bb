"""Blocks as the text of a cell of a table, which holds nothing but inline Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core.markup.document import Block
from knowledge.formats.inline import make_code


def join_texts(blocks: Iterable[Block]) -> str:
    """Return what blocks say, a line for each."""
    return "\n".join(_iter_texts(blocks))


def _iter_texts(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if block.text:
            yield make_code(block.text) if block.kind == "code" else block.text
        for cells in (block.header, *block.rows):
            yield from filter(None, cells)
        yield from _iter_texts(block.children)
