"""Writes blocks as Markdown that reads as the same blocks again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby

from core.markup.document import Block, BlockKind
from core.markup.escapes import drop_escapes, guard_line

MIN_FENCE = 3
MAX_HEADING_LEVEL = 6

_BACKTICKS = re.compile(r"`+")
_STRONG = re.compile(r"\*\*(?=[^\s*])([^*]+)(?<=\S)\*\*")
_TERM_ENDS = (".", ":", "?", "!", "。", "：", "？", "！")
_OPEN_ENDS = (*_TERM_ENDS, ",", ";", "，", "；", " and", " or", " +")
# What begins an item of a list in a cell, by how deep it is, and such a beginning.
BULLETS = "•◦▪"
_CELL_ITEM = re.compile(rf"[{BULLETS}][ ]|\d{{1,9}}\.[ ]")
# Where code of several lines begins in a cell.
_FENCE = re.compile(r"^`{3,}", re.MULTILINE)
_LINK = re.compile(r"\[[^\[\]\n]{1,300}\]\([^()\s]{1,500}\)")


def write_markdown(blocks: Sequence[Block]) -> str:
    """Return blocks as Markdown.

    >>> write_markdown([Block("heading", "Start", level=2), Block("paragraph", "# is a comment")])
    '## Start\\n\\n\\\\# is a comment'
    """
    return "\n\n".join(filter(None, map(_write_block, blocks)))


def _write_block(block: Block) -> str:
    writers: dict[BlockKind, Callable[[Block], str]] = {
        "heading": _write_heading,
        "paragraph": lambda paragraph: _guard(paragraph.text),
        "code": _write_code,
        "list": _write_list,
        "item": lambda item: _write_item(item, "- "),
        "table": _write_table,
        "break": lambda _: "---",
        "definition": _write_definition,
    }
    return writers.get(block.kind, _write_container)(block)


def _write_heading(block: Block) -> str:
    return f"{'#' * min(max(block.level, 1), MAX_HEADING_LEVEL)} {' '.join(drop_escapes(block.text).split())}"


def _guard(text: str) -> str:
    """Return prose whose lines cannot be read as the start of another block, and stay lines."""
    lines: list[str] = []
    for line in filter(None, map(str.strip, drop_escapes(text).split("\n"))):
        lines.append(guard_line(line, lines[-1] if lines else ""))
    return "  \n".join(lines)


def _write_code(block: Block) -> str:
    longest_run = max(map(len, _BACKTICKS.findall(block.text)), default=0)
    fence = "`" * max(MIN_FENCE, longest_run + 1)
    return f"{fence}{block.language}\n{block.text}\n{fence}"


def _write_list(block: Block) -> str:
    is_tight = not any(child.kind != "list" for item in block.children for child in item.children)
    markers = [f"{number}. " if block.level else "- " for number, _ in enumerate(block.children, max(block.level, 0))]
    items = [_write_item(item, marker) for item, marker in zip(block.children, markers, strict=True)]
    return ("\n" if is_tight else "\n\n").join(items)


def _write_item(item: Block, marker: str) -> str:
    is_tight = all(child.kind == "list" for child in item.children)
    parts = [_guard(item.text), *map(_write_block, item.children)]
    text = ("\n" if is_tight else "\n\n").join(filter(None, parts))
    return marker + _indent(text, " " * len(marker))


def _indent(text: str, margin: str) -> str:
    """Indent all lines but the first."""
    first_line, *lines = text.split("\n")
    return "\n".join([first_line, *(f"{margin}{line}" if line else "" for line in lines)])


def _write_table(block: Block) -> str:
    """Write rows as a table; those with code of several lines, or without names of columns, as a list."""
    if not any(block.header):
        return "\n".join(_write_row_as_item(row, ()) for row in block.rows)
    width = max(map(len, [block.header, *block.rows]))
    names = _write_row([" ".join(name.split()) for name in block.header], width)
    head = f"{names}\n|{'---|' * width}"
    parts: list[str] = [] if block.rows else [head]
    for is_list, rows in groupby(block.rows, key=holds_code):
        if is_list:
            parts += [_write_row_as_item(row, block.header) for row in rows]
        else:
            parts.append("\n".join([head, *(_write_row(row, width) for row in rows)]))
    return "\n\n".join(parts)


def holds_code(row: Sequence[str]) -> bool:
    """Return whether a cell of a row has code of several lines."""
    return any(map(_FENCE.search, row))


def _write_row(cells: Sequence[str], width: int) -> str:
    padded_cells = [*map(_write_cell, cells), *[""] * (width - len(cells))]
    # They may be quoted in one line.
    return drop_escapes("| " + " | ".join(cell.replace("|", "\\|") for cell in padded_cells) + " |")


def _write_row_as_item(row: Sequence[str], header: Sequence[str]) -> str:
    """Write a row as an item, whose first cell says what the others are about; the one beside it needs no name.

    Of a row of links, each is an item.
    """
    if holds_code(row):
        names = ["", *header[1 : len(row)]] if len(header) > 2 else []
        if holds_code(row[:1]):
            names = list(header[: len(row)])
        cells = zip(names + [""] * (len(row) - len(names)), map(_split_cell, row), strict=True)
        return "- " + _indent("\n\n".join(part for name, parts in cells for part in _name_parts(name, parts)), "  ")
    if len(row) > 1 and all(map(_CELL_ITEM.match, filter(None, row))):
        # Lists that stand beside each other are one.
        return "\n".join(_write_cell_item(" ".join(line.split())) for cell in row for line in cell.split("\n") if line)
    first, *others = list(filter(None, map(_write_cell, row))) or [""]
    if all(map(_LINK.fullmatch, (first, *others))):
        # Of a wall of logos, none is about the others.
        return "\n".join(f"- {link}" for link in (first, *others))
    rest = "; ".join(others)
    return f"- {_guard(f'{write_term(first, is_bold=False)} {rest}' if rest else first)}"


def _write_cell_item(line: str) -> str:
    """Write a line of a list in a cell as an item; one without a mark goes on with the item above."""
    item = _CELL_ITEM.match(line)
    if item is None:
        return f"  {_guard(line)}"
    mark = item[0] if item[0][0].isdecimal() else "  " * BULLETS.index(line[0]) + "- "
    return mark + _guard(line[item.end() :])


def _name_parts(name: str, parts: Sequence[str]) -> list[str]:
    """Return the parts of a cell with the name of its column, if that is to be said."""
    if not name or not parts:
        return list(parts)
    return [f"{name}:", *parts] if _FENCE.match(parts[0]) else [f"{name}: {parts[0]}", *parts[1:]]


def _split_cell(cell: str) -> list[str]:
    """Return the texts of a cell, each as one line, and the code between them."""
    parts: list[str] = []
    lines: list[str] = []
    fence = ""
    for line in cell.split("\n"):
        opening = None if fence else _FENCE.match(line)
        if opening:
            parts.append(_write_cell("\n".join(lines)))
            lines = []
            fence = opening[0]
        lines.append(line)
        if line == fence and not opening:
            parts.append("\n".join(lines))
            lines = []
            fence = ""
    return list(filter(None, [*parts, "\n".join(lines) if fence else _write_cell("\n".join(lines))]))


def _write_cell(cell: str) -> str:
    """Return a cell as one line, with a semicolon between lines that are no sentences, items, nor parts of one."""
    pieces: list[str] = []
    for line in filter(None, (" ".join(line.split()) for line in cell.split("\n"))):
        is_part = line[0].islower() or line[0] == "(" or _CELL_ITEM.match(line)
        goes_on = pieces and (is_part or pieces[-1].rstrip("*_").endswith(_OPEN_ENDS))
        pieces += [" " if goes_on else "; ", line] if pieces else [line]
    return "".join(pieces)


def _write_definition(block: Block) -> str:
    first, *others = block.children or (Block("paragraph"),)
    if first.kind == "paragraph":
        text = f"{write_term(block.text)} {first.text}" if first.text else write_title(block.text)
        return write_markdown([Block("paragraph", text), *others])
    return write_markdown([Block("paragraph", write_term(block.text)), first, *others])


def write_term(text: str, *, is_bold: bool = True) -> str:
    """Return what is explained, as it stands before that: with a colon, where it does not end a sentence itself.

    >>> write_term("Speed"), write_term("From:"), write_term("**_To:_**", is_bold=False)
    ('**Speed**:', '**From:**', '**_To:_**')
    """
    title = write_title(text) if is_bold else text
    return title if title.rstrip("*_").endswith(_TERM_ENDS) else f"{title}:"


def write_title(text: str) -> str:
    """Return a title in bold, which it, or a part of it, may already be.

    >>> write_title("See *the* **new** way")
    '**See *the* new way**'
    """
    is_bold = text.startswith("**") and text.endswith("**")
    if not is_bold and "`" not in text:
        text = _STRONG.sub(r"\1", text)
    return text if is_bold or not text else f"**{text}**"


def _write_container(block: Block) -> str:
    """Write what has a title and blocks: a tab, or what is quoted, a quotation or an admonition.

    What is unfolded may be code with the same title.
    """
    is_named = block.kind == "tab" and block.children[:1] and block.children[0].kind == "tab"
    title = "" if is_named and block.children[0].text == block.text else write_title(block.text)
    text = write_markdown([Block("paragraph", title), *block.children])
    if block.kind == "tab":
        return text
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))
