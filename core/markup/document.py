"""A document as a tree of blocks: what the reader of each format makes, and what is cut, quoted and written from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

BlockKind = Literal[
    "heading", "paragraph", "code", "list", "item", "table", "quote", "admonition", "tab", "definition", "break"
]

_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\([^()\s]{0,500}\)")
# Code ends at the next tick, whatever follows it; other marks are none within a word.
_SPAN = re.compile(
    r"(?<![\w\\])(?:(`{1,3})(?=\S)([^`\n]++)(?<=\S)\1"
    r"|(\*{1,3}|_{1,3}|`{1,3})(?=\S)([^\n]{1,200}?)(?<=[^\s\\])\3(?:(?<=`)|(?!\w)))"
)
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document, with those inside it.

    `text` is code as it stands (`code`); else inline Markdown: of a heading, a paragraph or an item (whose further
    blocks are `children`), the title of an admonition, the label of a tab, the term of a definition. A line break that
    a reader sees is a newline in it. `level` is that of a heading (1 to 6), or the first number of an ordered list (0
    for bullets, -1 for numbers from 0). `language` is that of code, or empty. `header` and `rows` are the cells of a
    table, inline Markdown too; a table without names of columns has no header. Lines are those of the document, 1-based
    and inclusive; 0 where it has none. `row_lines` are those where the rows begin, if the reader knows them.
    """

    kind: BlockKind
    text: str = ""
    children: tuple[Block, ...] = ()
    level: int = 0
    language: str = ""
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    start_line: int = 0
    end_line: int = 0
    row_lines: tuple[int, ...] = ()


def to_plain(text: str) -> str:
    """Return inline Markdown as a reader sees it, in one line.

    >>> to_plain("The `run` **command** of [the guide](https://x.org)")
    'The run command of the guide'
    """
    text = _SPAN.sub(r"\2\4", _LINK.sub(r"\1", text))
    return " ".join(_ESCAPE.sub(r"\1", text).split())
