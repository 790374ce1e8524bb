"""Word documents as blocks: everything that a reader sees, however deep it is wrapped, and nothing that was deleted.

What is not known is walked into: insertions, content controls, smart tags and what is yet to be invented hide no text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from core.markup.document import Block
from core.markup.markdown import read_markdown
from core.markup.tables import join_texts
from knowledge.formats.html import read_fragment
from knowledge.formats.inline import escape, make_code, make_link, shift
from knowledge.formats.limited_text import write_within_limits
from knowledge.formats.numbering import MAX_LEVEL, Label, Numbering
from knowledge.formats.ooxml import (
    Element,
    Package,
    Relation,
    choose_alternative,
    find,
    find_all,
    get_attribute,
    get_name,
    is_on,
    read_formula,
)
from knowledge.formats.symbols import has_symbols, read_symbol, read_symbols
from knowledge.parsing.limits import map_parser_errors
from knowledge.web.charsets import decode_page

# What was deleted or moved away, what a field is made from, and what guides Word but is not shown.
_UNSEEN = frozenset(("del", "moveFrom", "delText", "delInstrText", "rt", "tblGrid", "binData", "fldData", "posOffset"))
_CHARACTERS = {"tab": " ", "ptab": " ", "cr": "\n", "noBreakHyphen": "-"}
_CODE_STYLE = re.compile(r"code|source|preformatted|verbatim|listing|console|terminal|macro", re.IGNORECASE)
_CODE_FONT = re.compile(
    r"courier|consolas|menlo|monaco|lucida console|fixedsys|mono(?:space)?\b|cascadia", re.IGNORECASE
)
# Apple Pages calls the first level "Heading".
_HEADING_STYLE = re.compile(r"heading(?: ([1-9]))?$", re.IGNORECASE)
_ADDRESS = re.compile(r"\s*HYPERLINK\s+\"([^\"]{1,2000})\"", re.IGNORECASE)
# A cell that several rows share says in each of them what it says, while that is short.
MAX_SHARED_CHARS = 200
MAX_SPAN = 64
MAX_OPEN_FIELDS = 20
MAX_INSTRUCTION_CHARS = 4000
# Where struck text begins and ends; no text of XML holds it.
_STRUCK = "\0"
_CHECKBOXES = {True: "☒ ", False: "☐ "}


@map_parser_errors
def read_docx(data: bytes) -> str:
    """Return a Word document as Markdown. Raises `FormatError`."""
    return write_within_limits([block] for block in read_blocks(data))


def read_blocks(data: bytes) -> list[Block]:
    """Return the blocks of a Word document."""
    package = Package(data)
    reader = _Reader(package)
    return reader.read_blocks(package.read_document())


@dataclass(frozen=True, slots=True)
class _Style:
    """What a style says of its text, together with those that it is based on."""

    name: str = ""
    level: int = 0
    list_id: str = ""
    list_level: int = 0
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class _Item:
    """A paragraph of a list, before its list is put together."""

    label: Label
    block: Block


@dataclass(slots=True)
class _Line:
    """The text of a paragraph while it is read: its pieces, each code or inline Markdown, and what hangs on it."""

    pieces: list[tuple[bool, str]] = field(default_factory=list)
    # Fields that are open: what each is made from, and the number of the piece where it starts.
    fields: list[tuple[str, int]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    def add(self, text: str, *, is_code: bool = False) -> None:
        if text:
            self.pieces.append((is_code, text if is_code else escape(text)))

    def cut(self, start: int) -> str:
        """Take the pieces from a number on, and return them as inline Markdown."""
        text = _write_pieces(self.pieces[start:])
        del self.pieces[start:]
        return text

    def strike(self, start: int) -> None:
        """Mark the pieces from a number on as struck out."""
        text = _join_pieces(self.pieces[start:])
        del self.pieces[start:]
        words = text.strip()
        self.pieces.append((False, text.replace(words, f"{_STRUCK}{words}{_STRUCK}") if words else text))

    def link(self, start: int, address: str) -> None:
        """Make the pieces from a number on a link."""
        if address:
            self.pieces.append((False, make_link(self.cut(start), address)))

    @property
    def text(self) -> str:
        """The whole as inline Markdown."""
        return _write_pieces(self.pieces).strip()

    @property
    def is_code(self) -> bool:
        """Return whether all that is seen of it is code."""
        return bool(self.pieces) and all(is_code or not text.strip() for is_code, text in self.pieces)


def _is_unseen(name: str) -> bool:
    """Return whether an element is not shown; those with names such as `rPr` are the properties of others."""
    return name in _UNSEEN or name.endswith("Pr")


def _write_pieces(pieces: Iterable[tuple[bool, str]]) -> str:
    # Struck pieces that touch are one.
    return _join_pieces(pieces).replace(_STRUCK * 2, "").replace(_STRUCK, "~~")


def _join_pieces(pieces: Iterable[tuple[bool, str]]) -> str:
    runs = ((is_code, "".join(text for _, text in run)) for is_code, run in groupby(pieces, lambda piece: piece[0]))
    return "".join(make_code(text) if is_code else text for is_code, text in runs)


class _Reader:
    """Reads the elements of one document."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._relations: dict[str, Relation] = package.get_relations(package.main_path)
        self._numbering = Numbering(package.read_related(package.main_path, "numbering"))
        self._styles = _read_styles(package.read_related(package.main_path, "styles"))
        self._notes = {
            f"{kind}:{get_attribute(note, 'id')}": note
            for kind in ("footnote", "endnote")
            for note in self._read_notes(f"{kind}s")
        }

    def _read_notes(self, kind: str) -> Iterable[Element]:
        root = self._package.read_related(self._package.main_path, kind)
        return () if root is None else (note for note in root if not get_attribute(note, "type"))

    def read_blocks(self, node: Element) -> list[Block]:
        """Return the blocks below an element."""
        return _join_code(_make_lists(list(self._read_body(node))))

    def _read_body(self, node: Element) -> Iterator[Block | _Item]:
        """Yield the blocks below an element, and the items of its lists."""
        for child in node:
            name = get_name(child)
            if _is_unseen(name):
                continue
            if name == "p":
                yield from self._read_paragraph(child)
            elif name == "tbl":
                yield from self._read_table(child)
            elif name == "AlternateContent":
                form = choose_alternative(child)
                yield from self._read_body(form) if form is not None else ()
            elif name == "altChunk":
                yield from self._read_page(child)
            elif name == "r":
                yield from self._read_line([child])
            else:
                yield from self._read_body(child)

    def _read_page(self, node: Element) -> Iterator[Block]:
        """Yield the blocks of a page of HTML that another program has put into the document."""
        relation = self._relations.get(get_attribute(node, "id"))
        path = relation.target if relation and not relation.is_external else ""
        if path.lower().endswith((".htm", ".html", ".xhtml")) and path in self._package.paths:
            yield from read_markdown(read_fragment(decode_page(self._package.read_bytes(path), "")))

    def _read_line(self, nodes: Iterable[Element]) -> Iterator[Block]:
        line = _Line()
        for node in nodes:
            self._read_inline(node, line, _Style())
        text = line.text
        if text:
            yield Block("paragraph", text)
        yield from line.blocks

    def _read_paragraph(self, node: Element) -> Iterator[Block | _Item]:
        properties = find(node, "pPr")
        style = self._styles.get(get_attribute(find(properties, "pStyle"), "val"), _Style())
        # A table of contents repeats the headings.
        if style.name.lower().startswith("toc "):
            return
        line = _Line()
        for child in node:
            self._read_inline(child, line, style)
        text = line.text
        if text:
            yield self._make_block(text, line, style, properties)
        yield from line.blocks

    def _make_block(self, text: str, line: _Line, style: _Style, properties: Element | None) -> Block | _Item:
        direct_level = get_attribute(find(properties, "outlineLvl"), "val")
        level = int(direct_level) + 1 if direct_level in tuple("012345678") else style.level
        label = self._count(style, properties)
        if level and level <= MAX_LEVEL + 1:
            number = (f"{label.number}." if label.number else label.text) if label else ""
            return Block("heading", f"{escape(number)} {text}".strip(), level=level)
        if label is not None:
            return _Item(label, Block("item", f"{escape(label.text)} {text}".strip()))
        if style.is_code or line.is_code:
            return Block("code", "".join(piece for _, piece in line.pieces).strip("\n"))
        if style.name.lower() in ("quote", "intense quote"):
            return Block("quote", children=(Block("paragraph", text),))
        return Block("paragraph", text)

    def _count(self, style: _Style, properties: Element | None) -> Label | None:
        numbers = find(properties, "numPr")
        list_id = get_attribute(find(numbers, "numId"), "val") or style.list_id
        level = get_attribute(find(numbers, "ilvl"), "val")
        return self._numbering.count(list_id, min(int(level), MAX_LEVEL) if level.isdecimal() else style.list_level)

    def _read_inline(self, node: Element, line: _Line, style: _Style) -> None:
        name = get_name(node)
        reader = _INLINE_READERS.get(name)
        if reader is not None:
            reader(self, node, line, style)
        elif name in _CHARACTERS:
            line.add(_CHARACTERS[name], is_code=style.is_code)
        elif not _is_unseen(name):
            self._read_children(node, line, style)

    def _read_children(self, nodes: Iterable[Element], line: _Line, style: _Style) -> None:
        for child in nodes:
            self._read_inline(child, line, style)

    def _read_run(self, node: Element, line: _Line, style: _Style) -> None:
        properties = find(node, "rPr")
        if is_on(find(properties, "vanish")):
            return
        run_style = self._styles.get(get_attribute(find(properties, "rStyle"), "val"), _Style())
        font = get_attribute(find(properties, "rFonts"), "ascii")
        is_code = style.is_code or run_style.is_code or _CODE_FONT.search(font) is not None
        start = len(line.pieces)
        self._read_children(node, line, replace(style, is_code=is_code))
        position = get_attribute(find(properties, "vertAlign"), "val")
        if position in ("superscript", "subscript"):
            line.pieces[start:] = [
                (code, shift(text, is_raised=position == "superscript")) for code, text in line.pieces[start:]
            ]
        is_struck = is_on(find(properties, "strike")) or is_on(find(properties, "dstrike"))
        # A mark of a field holds no text; what it ends is as it was written.
        if is_struck and start < len(line.pieces):
            line.strike(start)

    def _read_symbol(self, node: Element, line: _Line, style: _Style) -> None:
        code = get_attribute(node, "char")
        line.add(read_symbol(get_attribute(node, "font"), code), is_code=style.is_code)

    def _read_text(self, node: Element, line: _Line, style: _Style) -> None:
        text = node.text or ""
        if has_symbols(text):
            text = read_symbols(get_attribute(find(node.getparent(), "rPr", "rFonts"), "ascii"), text)
        line.add(text, is_code=style.is_code)

    def _read_break(self, node: Element, line: _Line, style: _Style) -> None:
        line.add("\n" if get_attribute(node, "type") in ("", "textWrapping") else " ", is_code=style.is_code)

    def _read_formula(self, node: Element, line: _Line, _: _Style) -> None:
        line.add(read_formula(node))

    def _read_ruby(self, node: Element, line: _Line, style: _Style) -> None:
        self._read_children(node, line, style)
        reading = "".join(word.text or "" for part in find_all(node, "rt") for word in find_all(part, "t"))
        line.add(f"({reading})")

    def _read_alternative(self, node: Element, line: _Line, style: _Style) -> None:
        form = choose_alternative(node)
        self._read_children(form if form is not None else (), line, style)

    def _read_drawing(self, node: Element, line: _Line, _: _Style) -> None:
        line.blocks += self._package.read_drawing(node, self._relations)

    def _read_box(self, node: Element, line: _Line, _: _Style) -> None:
        line.blocks += self.read_blocks(node)

    def _read_note(self, node: Element, line: _Line, _: _Style) -> None:
        """Put a note behind the paragraph that refers to it first."""
        kind = get_name(node).removesuffix("Reference")
        note = self._notes.pop(f"{kind}:{get_attribute(node, 'id')}", None)
        line.blocks += self.read_blocks(note) if note is not None else []

    def _read_field_mark(self, node: Element, line: _Line, _: _Style) -> None:
        """Keep of a field its result: what it is made from may hold fields of its own, and is not shown."""
        match get_attribute(node, "fldCharType"):
            case "begin" if len(line.fields) < MAX_OPEN_FIELDS:
                box = find(node, "ffData", "checkBox")
                if box is not None:
                    checked = find(box, "checked")
                    line.add(_CHECKBOXES[is_on(find(box, "default") if checked is None else checked)])
                line.fields.append(("", len(line.pieces)))
            case "separate" if line.fields:
                line.cut(line.fields[-1][1])
            case "end" if line.fields:
                instruction, start = line.fields.pop()
                line.link(start, _find_address(instruction))

    def _read_instruction(self, node: Element, line: _Line, _: _Style) -> None:
        if line.fields:
            instruction, start = line.fields[-1]
            line.fields[-1] = (f"{instruction}{node.text or ''}"[:MAX_INSTRUCTION_CHARS], start)

    def _read_link(self, node: Element, line: _Line, style: _Style) -> None:
        start = len(line.pieces)
        self._read_children(node, line, style)
        address = _find_address(get_attribute(node, "instr"))
        relation = self._relations.get(get_attribute(node, "id"))
        if relation is not None and relation.is_external:
            address = relation.target
        line.link(start, address)

    def _read_table(self, node: Element) -> Iterator[Block]:
        rows = [row for row in _find_rows(node) if find(row, "trPr", "del") is None]
        cells = [[cell for cell in _find_cells(row) if find(cell, "tcPr", "cellDel") is None] for row in rows]
        if len(cells) == 1 and len(cells[0]) == 1:
            # A frame around text, not a table.
            yield from self.read_blocks(cells[0][0])
            return
        texts: list[list[str]] = []
        for row in cells:
            texts.append(self._read_row(row, texts[-1] if texts else []))
        is_titled = len(cells) > 1 and len(cells[0]) == 1 and len(cells[1]) > 1
        if is_titled:
            yield Block("paragraph", texts.pop(0)[0])
        if texts:
            yield Block("table", header=tuple(texts[0]), rows=tuple(map(tuple, texts[1:])))

    def _read_row(self, cells: Sequence[Element], row_above: Sequence[str]) -> list[str]:
        texts: list[str] = []
        for cell in cells:
            properties = find(cell, "tcPr")
            merge = find(properties, "vMerge")
            text = join_texts(self.read_blocks(cell))
            if merge is not None and get_attribute(merge, "val") in ("", "continue") and len(texts) < len(row_above):
                shared_text = row_above[len(texts)]
                text = text or (shared_text if len(shared_text) <= MAX_SHARED_CHARS else "")
            span = get_attribute(find(properties, "gridSpan"), "val")
            texts += [text] + [""] * (min(int(span), MAX_SPAN) - 1 if span.isdecimal() else 0)
        return texts


# What is not walked into, by the names of the elements.
_INLINE_READERS: dict[str, Callable[[_Reader, Element, _Line, _Style], None]] = {
    "r": _Reader._read_run,
    "t": _Reader._read_text,
    "sym": _Reader._read_symbol,
    "br": _Reader._read_break,
    "oMath": _Reader._read_formula,
    "ruby": _Reader._read_ruby,
    "AlternateContent": _Reader._read_alternative,
    "chart": _Reader._read_drawing,
    "relIds": _Reader._read_drawing,
    "txbxContent": _Reader._read_box,
    "footnoteReference": _Reader._read_note,
    "endnoteReference": _Reader._read_note,
    "fldChar": _Reader._read_field_mark,
    "instrText": _Reader._read_instruction,
    "hyperlink": _Reader._read_link,
    "fldSimple": _Reader._read_link,
}


def _find_address(instruction: str) -> str:
    match = _ADDRESS.match(instruction)
    return match[1] if match else ""


def _find_rows(node: Element) -> Iterator[Element]:
    """Yield the rows of a table, also those within content controls."""
    return _find_parts(node, "tr")


def _find_cells(node: Element) -> Iterator[Element]:
    """Yield the cells of a row."""
    return _find_parts(node, "tc")


def _find_parts(node: Element, wanted: str) -> Iterator[Element]:
    for child in node:
        if get_name(child) == wanted:
            yield child
        elif not _is_unseen(get_name(child)):
            yield from _find_parts(child, wanted)


def _read_styles(root: Element | None) -> dict[str, _Style]:
    nodes = (
        {get_attribute(node, "styleId"): node for node in root if get_name(node) == "style"} if root is not None else {}
    )
    styles: dict[str, _Style] = {}
    for identifier in list(nodes):
        chain: list[str] = []
        base_id = identifier
        while base_id in nodes and base_id not in styles and base_id not in chain:
            chain.append(base_id)
            base_id = get_attribute(find(nodes[base_id], "basedOn"), "val")
        style = styles.get(base_id, _Style())
        for name in reversed(chain):
            style = _read_style(nodes[name], style)
            styles[name] = style
    return styles


def _read_style(node: Element, base: _Style) -> _Style:
    name = get_attribute(find(node, "name"), "val")
    heading = _HEADING_STYLE.match(name)
    outline_level = get_attribute(find(node, "pPr", "outlineLvl"), "val")
    level = base.level
    if outline_level.isdecimal():
        # The tenth level is that of text.
        level = int(outline_level) + 1 if int(outline_level) <= MAX_LEVEL else 0
    elif heading:
        level = int(heading[1] or 1)
    elif name.lower() == "title":
        level = 1
    font = get_attribute(find(node, "rPr", "rFonts"), "ascii")
    is_code = _CODE_STYLE.search(name) is not None or _CODE_FONT.search(font) is not None
    numbers = find(node, "pPr", "numPr")
    list_level = get_attribute(find(numbers, "ilvl"), "val")
    return replace(
        base,
        name=name,
        level=level,
        list_id=get_attribute(find(numbers, "numId"), "val") or base.list_id,
        list_level=min(int(list_level), MAX_LEVEL) if list_level.isdecimal() else base.list_level,
        is_code=base.is_code or is_code,
    )


def _make_lists(parts: Sequence[Block | _Item]) -> list[Block]:
    """Return blocks, with the paragraphs of lists put together into lists."""
    blocks: list[Block] = []
    for is_item, run in groupby(parts, lambda part: isinstance(part, _Item)):
        if is_item:
            blocks += _nest([part for part in run if isinstance(part, _Item)])
        else:
            blocks += [part for part in run if isinstance(part, Block)]
    return blocks


def _nest(items: Sequence[_Item]) -> list[Block]:
    """Return items as lists, deeper ones within those above them."""
    lists: list[tuple[int, list[Block]]] = []
    position = 0
    while position < len(items):
        item = items[position]
        end = position + 1
        while end < len(items) and items[end].label.level > item.label.level:
            end += 1
        block = replace(item.block, children=tuple(_nest(items[position + 1 : end])))
        number = item.label.number
        first_number, blocks = lists[-1] if lists else (0, [])
        if blocks and number == (first_number + len(blocks) if first_number else 0):
            blocks.append(block)
        else:
            lists.append((number, [block]))
        position = end
    return [Block("list", level=number, children=tuple(blocks)) for number, blocks in lists]


def _join_code(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks with lines of code that follow each other as one block."""
    joined: list[Block] = []
    for kind, run in groupby(blocks, lambda block: block.kind):
        members = list(run)
        joined += [Block("code", "\n".join(block.text for block in members))] if kind == "code" else members
    return joined
