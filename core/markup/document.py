"""A document as a tree of blocks: what the reader of each format makes, and what is cut, quoted and written from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BlockKind = Literal[
    "heading", "paragraph", "code", "list", "item", "table", "quote", "admonition", "tab", "definition", "break"
]


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a document, with those inside it.

    `text` is code as it stands (`code`); else inline Markdown: of a heading, a paragraph or an item (whose further
    blocks are `children`), the title of an admonition, the label of a tab, the term of a definition. A line break that
    a reader sees is a newline in it. `level` is that of a heading (1 to 6), or the first number of an ordered list (0
    for bullets). `language` is that of code, or empty. `header` and `rows` are the cells of a table, inline Markdown
    too; a table without names of columns has no header. Lines are those of the document, 1-based and inclusive; 0 where
    it has none.
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
