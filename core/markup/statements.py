"""What a text says, in order: sentences as paragraphs, items and rows, with the headings above them and their code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from core.language.tokens import HAN, KANA
from core.markup.document import Block, to_plain
from core.markup.inline import ONLY_LINK, WAY
from core.markup.markdown import read_markdown
from core.markup.tables import join_cells, name_cells
from core.markup.writer import write_term, write_title

StatementKind = Literal["prose", "item", "row", "code", "heading", "label", "break"]

# Signs of full width have their own space; an address needs one before it to be a link. Korean separates its words.
_CJK_BLANK = re.compile(
    rf"(?<=[{HAN}{KANA}”])[ ](?=[{HAN}{KANA}“])|(?<=[，。！？；：、）」』》】])[ ](?!https?:)"
    r"|[ ](?=[，。！？；：、（）「」『』《》【】])"
)
# What generators of references write above a description: `**name**(parameters): type`, or a name alone.
_SIGNATURE = re.compile(r"(?:▸ )?\*\*[\w.$]{1,80}\*\*(?:\\?<[^()\n]{0,200}>)?\(")
_BARE_NAME = re.compile(r"[A-Za-z_$][\w$]*+(?:\.[\w$]++)+", re.ASCII)
# The label of a tab, or the title of a note, as the writer of Markdown leaves it.
_SENTENCE_ENDS = (".", "!", "?", "。", "！", "？")
_LABEL = re.compile(r"\*\*([^*\n]{1,200})\*\*")


@dataclass(frozen=True, slots=True)
class Statement:
    """Prose in one line, or unchanged code with its language.

    `named_text` is a row of a table with the names of its columns, where there are any. A label names what follows it,
    up to its code: that of a tab, or a line in bold. `level` is that of a heading, or the number of an item in an
    ordered list (0 for bullets).
    """

    kind: StatementKind
    text: str
    language: str = ""
    named_text: str = ""
    level: int = field(default=0, compare=False)

    @property
    def quotation(self) -> str:
        """The text that can be read alone."""
        return self.named_text or self.text


@lru_cache(maxsize=512)
def read_statements(text: str) -> tuple[Statement, ...]:
    """Return the statements of a passage. Those of one answer are read several times, so they are kept."""
    return tuple(_flatten(read_markdown(text)))


def _flatten(blocks: Sequence[Block]) -> Iterator[Statement]:
    for block in blocks:
        if block.kind == "heading":
            yield Statement("heading", block.text, level=block.level)
        elif block.kind == "code":
            yield Statement("code", block.text, block.language)
        elif block.kind == "table":
            yield from _read_rows(block)
        elif block.kind == "break":
            yield Statement("break", "")
        elif block.kind == "paragraph":
            yield from _read_prose(block.text, is_item=False)
        elif block.kind == "list" and block.level:
            for number, item in enumerate(block.children, max(block.level, 0)):
                yield from _flatten_container(item, number)
        else:
            yield from _flatten_container(block)


def _flatten_container(block: Block, number: int = 0) -> Iterator[Statement]:
    children = block.children
    if block.kind == "item":
        yield from _read_prose(block.text, is_item=True, number=number)
    elif block.kind == "definition":
        first = children[0] if children and children[0].kind == "paragraph" else None
        title = f"{write_term(block.text)} {first.text}" if first else write_title(block.text)
        yield from _read_prose(title, is_item=False)
        children = children[1:] if first else children
    elif block.kind == "tab":
        yield Statement("label", block.text)
    elif block.kind == "quote" and children and _LABEL.fullmatch(children[0].text):
        # The title of a note.
        children = children[1:]
    yield from _flatten(children)


def _read_rows(table: Block) -> Iterator[Statement]:
    for row in table.rows:
        cells = [cell if cell.strip("-–—") else "" for cell in row]
        columns = [to_plain(name) for name in table.header]
        yield Statement("row", join_cells(cells), named_text=name_cells(cells, columns))


def _read_prose(text: str, *, is_item: bool, number: int = 0) -> Iterator[Statement]:
    """Yield what a paragraph states: a table of contents, the signature of a function and a bare name state nothing."""
    line = " ".join(text.split())
    label = _LABEL.fullmatch(line)
    if not line or line.startswith(WAY) or ONLY_LINK.fullmatch(line):
        return
    if label and not is_item and not label[1].endswith(_SENTENCE_ENDS):
        yield Statement("label", label[1])
        return
    prose = _CJK_BLANK.sub("", line)
    is_signature = "): " in prose and _SIGNATURE.match(prose) and not prose.endswith((".", "!", "?", "。"))
    if not is_item and (is_signature or _BARE_NAME.fullmatch(prose)):
        yield Statement("break", "")
    else:
        yield Statement("item" if is_item else "prose", prose, level=number)
