"""Documents that were read as blocks: by heading; long sections between blocks, items, rows and sentences.

The units of a document are what is never cut: a paragraph, an item, a row, short code. A chunk is a range of units,
written as Markdown with what is around them: the header of the table, the label of the tab.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile, zip_longest
from pathlib import PurePosixPath

from core.language.tokens import estimate_tokens, measure_tokens
from core.markup.document import Block, to_plain
from core.markup.inline import name_label
from core.markup.markdown import read_markdown
from core.markup.tables import name_cells
from core.markup.writer import MAX_HEADING_LEVEL, holds_code, write_markdown, write_title
from knowledge.chunking.lines import (
    HARD_MAX,
    LineRange,
    Lines,
    Piece,
    Section,
    complete_paths,
    split_line,
    to_pieces,
)
from knowledge.ports import Chunk, Document

# The kind of all chunks: their text is Markdown, whatever the document was.
KIND = "markdown"
MAX_HEADING_LENGTH = 1_000
# Of an item that is repeated above the items inside it.
MAX_REPEATED_TEXT = 100
# A number names no page: of several versions in a file, the first one is no title.
_WORD = re.compile(r"[^\W\d_]{2,}")
_VERSION = re.compile(r"\d\.\d")
# A line in bold that is no sentence names what is below it.
_LABEL = re.compile(r"\*\*[^*\n]{1,120}(?<![.!。！])\*\*")


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is not cut: a block, or a part of the last of the blocks `around` it, which are those of the document."""

    block: Block
    around: tuple[Block, ...] = ()

    @property
    def text(self) -> str:
        """The unit as Markdown; of a table its row."""
        text = write_markdown([self.block])
        return text.rpartition("\n")[2] if text.startswith("|") and self.around else text


def chunk_blocks(document: Document, blocks: Sequence[Block], tokens: int) -> list[Chunk]:
    """Cut a document into chunks of about `tokens`. Their titles are the headings above them."""
    units = [unit for block in _lift_headings(blocks) for unit in _divide(block, tokens)]
    if not units:
        return []
    # Each unit is a line whose size is known: sections are packed as those of other texts.
    lines = Lines([unit.text for unit in units])
    parts = [unit.block for unit in units]
    sections = _complete_paths(_make_sections(parts), parts, document)
    pieces = to_pieces(lines, sections, tokens, lambda section: _get_units(section.span))
    return [
        chunk
        for piece in _attach_headings(pieces, parts)
        for chunk in _make_chunks(units[piece.span.start - 1 : piece.span.end], piece.title, tokens)
    ]


def _complete_paths(sections: Sequence[Section], blocks: Sequence[Block], document: Document) -> list[Section]:
    """Return sections below the title of the page: the heading above all others, or one that says what the file says.

    Of several headings of the first level, each is the title of what is below it; the page has what can be read of
    its file's name. What stands above the only one belongs to it, too.
    """
    levels = [block.level for block in blocks if block.kind == "heading"]
    level = _find_title_level(blocks)
    first = next((section.path[:1] for section in sections if section.path), ())
    name = _WORD.findall(PurePosixPath(document.path).stem.lower())
    if first and name and levels[0] == min(levels) and all(word.removesuffix("s") in first[0].lower() for word in name):
        return [replace(section, path=first + section.path[section.path[:1] == first :]) for section in sections]
    if levels.count(1) == 1 and levels.index(1) == 1:
        # The name below a logo is above the title, and no section.
        heading = next(to_plain(block.text[:MAX_HEADING_LENGTH]) for block in blocks if _is_title(block, 1))
        title = heading or _name_page(document.path)
        return [replace(each, path=each.path if each.path[:1] == (title,) else (title,)) for each in sections]
    root = document.title or _name_page(document.path)
    titles = {to_plain(block.text[:MAX_HEADING_LENGTH]) for block in blocks if _is_title(block, level)}
    own_titles = {text for text in titles if _WORD.search(text) and not _VERSION.search(text)}
    completed = complete_paths(sections, root, allow_single_root=_is_title(blocks[0], level) or levels[:1] == [1])
    pairs = zip(sections, completed, strict=True)
    return [section if section.path and section.path[0] in own_titles else whole for section, whole in pairs]


def _name_page(path: str) -> str:
    """Return what can be read of the name of a file; the first one of a folder has the name of that."""
    parts = PurePosixPath(path)
    folder = parts.parent.name if parts.stem.strip("_").lower() in ("index", "readme") else ""
    return name_label(folder or parts.stem) or parts.name


def _attach_headings(pieces: Sequence[Piece], blocks: Sequence[Block]) -> Iterator[Piece]:
    """Yield pieces, of which none ends in the headings, or in the label, of the next one."""
    start = 0
    for piece, following in zip_longest(pieces, pieces[1:]):
        start = start or piece.span.start
        end = piece.span.end if following is None else _find_text_end(blocks, start, piece.span.end)
        if following is None or (end < start and following.path != piece.path):
            end = piece.span.end
        if end >= start:
            yield Piece(LineRange(start, end), piece.path)
        start = 0 if end == piece.span.end else end + 1


def _find_text_end(blocks: Sequence[Block], start: int, end: int) -> int:
    """Return the number of the last block of a piece that does not name what follows `end`; below `start`: none."""
    level = MAX_HEADING_LEVEL + 1 if blocks[end].kind != "heading" else blocks[end].level
    while end >= start:
        block = blocks[end - 1]
        is_label = block.kind == "paragraph" and _LABEL.fullmatch(block.text)
        if not is_label and (block.kind != "heading" or block.level >= level):
            break
        end -= 1
        level = block.level or level
    return end


def _find_title_level(blocks: Sequence[Block]) -> int:
    """Return the lowest level of a title: that of the first heading, if it begins the page and is above all others."""
    levels = [block.level for block in blocks if block.kind == "heading"]
    return levels[0] if blocks[0].kind == "heading" and levels[0] < min(levels[1:], default=0) else 1


def _is_title(block: Block, level: int) -> bool:
    return block.kind == "heading" and block.level <= level


def _get_units(span: LineRange) -> list[LineRange]:
    return [LineRange(number, number) for number in range(span.start, span.end + 1)]


def _lift_headings(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks of which none holds a heading: what is below one belongs to it, wherever it stands.

    Those of a quotation or a note name nothing outside of it, and become text in bold.
    """
    for block in blocks:
        if block.kind in ("quote", "admonition"):
            yield _lower_headings(block)
        elif block.kind not in ("table", "list") and any(child.kind == "heading" for child in block.children):
            if block.text and block.text != block.children[0].text:
                yield Block(
                    "paragraph", write_title(block.text), start_line=block.start_line, end_line=block.start_line
                )
            yield from _lift_headings(block.children)
        else:
            yield block


def _lower_headings(block: Block) -> Block:
    if block.kind == "heading":
        return replace(block, kind="paragraph", text=write_title(block.text), level=0)
    return replace(block, children=tuple(map(_lower_headings, block.children))) if block.children else block


def _make_sections(blocks: Sequence[Block]) -> list[Section]:
    """Return the sections of blocks, which are counted from 1. A heading without a body opens its first subsection."""
    sections: list[Section] = []
    open_headings: list[tuple[int, str]] = []
    start = 1
    for number, block in enumerate(blocks, 1):
        if block.kind != "heading":
            continue
        previous = blocks[number - 2] if number > 1 else None
        opens_subsection = previous is not None and previous.kind == "heading" and previous.level < block.level
        if number > start and not opens_subsection:
            sections.append(Section(_join_names(open_headings), start, number - 1))
            start = number
        name = to_plain(block.text[:MAX_HEADING_LENGTH]) or "(untitled)"
        open_headings = [*(heading for heading in open_headings if heading[0] < block.level), (block.level, name)]
    return [*sections, Section(_join_names(open_headings), start, len(blocks))]


def _join_names(headings: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Return the names of headings, of which each is below the one before it, without a name that repeats that."""
    return tuple(name for name, _ in groupby(name for _, name in headings))


def _divide(block: Block, tokens: int, around: tuple[Block, ...] = ()) -> Iterator[_Unit]:
    """Yield the units of a block: it alone where it fits into a chunk, or cannot be cut."""
    is_container = bool(block.children or block.rows or block.kind == "code")
    if not is_container or measure_tokens(write_markdown([block])) <= tokens:
        yield _Unit(block, around)
        return
    around = (*around, block)
    if block.kind == "code":
        yield from (_Unit(part, around) for part in _cut_code(block, tokens))
    elif block.kind == "table":
        for row, (line, last_line) in zip(block.rows, _find_row_lines(block), strict=True):
            part = replace(block, rows=(row,), start_line=line, end_line=last_line, row_lines=())
            is_long = estimate_tokens(write_markdown([part])) > 2 * tokens
            if is_long and holds_code(row):
                # Its code is cut as code.
                for inner in read_markdown(write_markdown([part])):
                    yield from _divide(_set_lines(inner, line), tokens, around[:-1])
                continue
            if is_long:
                # It is cut between sentences, of which none needs the marks of a row.
                part = replace(part, kind="paragraph", text=name_cells(row, block.header), header=(), rows=())
            yield _Unit(part, around[:-1] if is_long else around)
    elif block.kind == "item" and block.text:
        yield _Unit(Block("paragraph", block.text, start_line=block.start_line, end_line=block.start_line), around)
    for child in block.children:
        yield from _divide(child, tokens, around)


def _find_row_lines(table: Block) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line of each row; where a row may have several, and none is known, about those."""
    count = len(table.rows)
    starts = table.row_lines
    if not starts:
        # Names of columns, and a line below them, stand above the rows.
        head_size = (table.end_line - table.start_line + 1) - count
        is_one_each = head_size <= 2
        height = 1.0 if is_one_each else (head_size + count) / count
        first = max(table.start_line, table.end_line - count + 1) if is_one_each else table.start_line
        starts = tuple(min(first + int(number * height), table.end_line) for number in range(count))
    for start, following in zip_longest(starts, starts[1:]):
        yield start, max(start, table.end_line if following is None else following - 1)


def _set_lines(block: Block, line: int) -> Block:
    children = tuple(_set_lines(child, line) for child in block.children)
    return replace(block, children=children, start_line=line, end_line=line)


def _cut_code(block: Block, tokens: int) -> Iterator[Block]:
    """Yield code as parts of whole lines, cut at blank lines where there are enough."""
    code = block.text.split("\n")
    first_line = _find_code_start(block, len(code))
    pieces = [(piece, first_line + number) for number, line in enumerate(code) for piece in _cut_line(line, tokens)]
    lines, numbers = zip(*pieces, strict=True)
    sizes = [measure_tokens(f"{line}\n") for line in lines]
    start = 0
    size = 0.0
    for number, line in enumerate(lines, 1):
        size += sizes[number - 1]
        next_size = size + sizes[number] if number < len(lines) else math.inf
        if next_size > tokens or (size > tokens / 2 and not line.strip()):
            end_line = min(numbers[number - 1], block.end_line)
            start_line = min(numbers[start], end_line)
            yield replace(block, text="\n".join(lines[start:number]), start_line=start_line, end_line=end_line)
            start = number
            size = 0.0


def _find_code_start(block: Block, size: int) -> int:
    """Return the line of the first line of code: with fences, the second one of its block.

    Where more is left out, as options or what prepares an example, that is most often above.
    """
    others = block.end_line - block.start_line + 1 - size
    return block.end_line - size if others > 2 else block.start_line + (others > 0)


def _cut_line(line: str, tokens: int) -> list[str]:
    return split_line(line, tokens) if measure_tokens(line) > HARD_MAX * tokens else [line]


def _make_chunks(units: Sequence[_Unit], title: str, tokens: int) -> list[Chunk]:
    start = next((unit.block.start_line for unit in units if unit.block.start_line), 1)
    end = max(start, *(unit.block.end_line for unit in units))
    text = write_markdown(_strip_breaks(_join(units, 0))).strip()
    if estimate_tokens(text) <= 2 * tokens:
        return [Chunk(text, title, start, end, KIND)] if text else []
    return [Chunk(piece, title, start, end, KIND) for piece in split_line(text, tokens)]


def _strip_breaks(blocks: list[Block]) -> list[Block]:
    """Return blocks without the rules at their ends, which divide them from nothing."""
    start = next((number for number, block in enumerate(blocks) if block.kind != "break"), len(blocks))
    end = next((number for number in range(len(blocks), start, -1) if blocks[number - 1].kind != "break"), start)
    return blocks[start:end]


def _join(units: Iterable[_Unit], depth: int) -> list[Block]:
    """Return units as the blocks that they are parts of."""
    blocks: list[Block] = []
    for _, group in groupby(units, lambda unit: id(_get_origin(unit, depth))):
        parts = list(group)
        whole = _get_origin(parts[0], depth)
        blocks += _restore(whole, parts, depth + 1) if len(parts[0].around) > depth else [whole]
    return blocks


def _get_origin(unit: _Unit, depth: int) -> Block:
    return unit.around[depth] if len(unit.around) > depth else unit.block


def _restore(whole: Block, units: Sequence[_Unit], depth: int) -> list[Block]:
    """Return a block with only those parts of it: with its title, and the number of its first item.

    Of an item whose text is in another chunk, only what is inside it is left, unless that would be taken for others.
    """
    parts = _join(units, depth)
    first = _get_origin(units[0], depth)
    if whole.kind == "code":
        return [replace(whole, text="\n".join(part.text for part in parts).strip("\n"))]
    if whole.kind == "table":
        return [replace(whole, row_lines=(), rows=tuple(row for part in parts for row in part.rows))]
    if whole.kind == "item":
        has_text = first.text == whole.text and first.kind == "paragraph"
        is_begun = has_text or (not whole.text and first is whole.children[0])
        return [replace(whole, children=tuple(parts[has_text:]))] if is_begun else parts
    if whole.kind == "list":
        outside = list(takewhile(lambda part: part.kind != "item", parts))
        if len(outside) < len(parts) and any(part.kind == "list" for part in outside):
            # The items of a list inside an item are no neighbours of those around it.
            text = first.text if len(first.text) <= MAX_REPEATED_TEXT else "…"
            parts = [replace(first, text=text, children=tuple(outside)), *parts[len(outside) :]]
            outside = []
        level = whole.level and (max(whole.level, 0) + bool(outside) + _find(whole.children, first) or whole.level)
        items = tuple(parts[len(outside) :])
        return [*outside, *([replace(whole, level=level, children=items)] if items else [])]
    return [replace(whole, children=tuple(_strip_breaks(parts)))]


def _find(blocks: Sequence[Block], wanted: Block) -> int:
    return next(number for number, block in enumerate(blocks) if block is wanted)
