"""AsciiDoc as blocks: no library for Python reads it fast, safely and completely.

What a document includes was put into its place before (`includes.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import starmap
from types import MappingProxyType

from core.markup.document import Block, BlockKind, to_plain
from core.markup.front_matter import read_front_matter
from core.markup.inline import join_lines
from core.markup.tables import join_texts
from core.markup.writer import MAX_HEADING_LEVEL
from knowledge.formats.asciidoc_code import make_code
from knowledge.formats.asciidoc_inline import (
    MAX_VALUE_CHARS,
    renew_marks,
    resolve_attributes,
    resolve_code,
    resolve_counters,
    resolve_macros,
    resolve_quotes,
    write_inline,
)
from knowledge.formats.asciidoc_lines import (
    ATTRIBUTE_LINE,
    ENTRY,
    HEADING,
    TITLE,
    Line,
    choose_lines,
    drop_comments,
    find_titles,
    set_attribute,
)
from knowledge.formats.asciidoc_style import Style, read_style
from knowledge.formats.asciidoc_table import read_rows
from knowledge.formats.inline import escape
from knowledge.parsing.limits import map_parser_errors

_ATTRIBUTES = {"backend": "html5", "backend-html5": "", "basebackend": "html", "basebackend-html": "", "safe-mode": ""}
# Blocks in blocks that are read; nobody writes that many.
_MAX_DEPTH = 12
_UNDERLINE = re.compile(r"([=\-~^+])\1{2,}$")
_ANCHOR = re.compile(r"\[\[[^\[\]]*\]\]$")
_RULE = re.compile(r"(?:'{3,}|<{3,}|-{3}|\*{3}|(?:- ){2}-|(?:\* ){2}\*)$")
_DELIMITER = re.compile(r"(?:-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|--|\"{2}|[|,:!]={3,}|(```)[\w+#.,-]*)[ \t]*$")
_MACRO = re.compile(r"(?:(?:image|audio|video)::[^\s\[][^\[]*|(?!(?:xref|link)::)[a-z][\w-]*::[^\s\[]*)\[.*\]$")
# What is no text within one: a plus that attaches something to no item, a comment, a picture that should stand apart.
_NO_TEXT = re.compile(r"\+$|//|(?:image|video|audio|include)::[^\s\[][^\[]*\[[^\[\]]*\]$")
# A link without a text of its own.
_BARE_REFERENCE = re.compile(r"<<([^<>,\n]{1,300}),?>>|xref:([^\s\[\]]{1,300})\[\]")
_BARE_ADDRESS = re.compile(r"(?<![\w`+:/\[\"'\\])(https?://([^\s\[\]<>`]{1,500}?))(?=[.,;:!?)]{0,3}(?:\s|\Z))")
_ADMONITION = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):[ \t]+(.*)$")
_ITEM = re.compile(
    r"[ \t]*(?:(\*{1,20}|-|•|\.{1,20})|(\d+|[a-zA-Z])[.]|([ivxIVX]+)\)|<(?:\d+|\.)>(?:[ \t]+-(?=[ \t]))?)[ \t]+(\S.*)$"
)
_LIST_START = re.compile(r"[1-9]\d{0,8}")
_TERM = re.compile(r"[ \t]*(\S.*?|\S)(:{2,4}|;;)(?:[ \t]+(.*))?$")
_QUOTATION_MARK = re.compile(r"^>[ ]?")
_CHECKED = re.compile(r"\[[x*]\](?=[ \t])")
_AUTHOR = re.compile(
    r"(?:[\w.'’-]+(?: [\w.'’-]+){0,3}(?: <[^<>]*>)?(?:;.*)?|(?:[^<>\n]{1,100}<[^<>@\s]{1,100}@[^<>\s]{1,100}>){1,9}"
    r"|:.*)$"
)
_REVISION = re.compile(r"v?\d[\w.-]*(?:,.*)?$|v?[\d.]+:.*$|\d{4}-\d\d-\d\d.*$|v?\{rev\w+\}")
_ADMONITION_STYLES = ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
_CODE_STYLES = ("source", "listing", "literal", "example-code", "console")
# The last ones are drawings.
_SILENT_STYLES = ("comment", "pass", "toc", "index", "ditaa", "graphviz", "mermaid", "plantuml")
_UNDERLINES = "=-~^+"


@map_parser_errors
def read_asciidoc(text: str, names: Mapping[str, str] = MappingProxyType({})) -> tuple[Block, ...]:
    """Return the blocks of a document of AsciiDoc. Takes linear time. Raises `FormatError`.

    `names` are the titles and values of what its references lead to elsewhere, by the references.
    """
    values = {name.strip("{}").lower(): value for name, value in names.items() if name.startswith("{")}
    attributes = _ATTRIBUTES | values
    all_lines = text.splitlines() or [""]
    # That of Jekyll or Hugo.
    first_line, title, title_line = read_front_matter(all_lines)
    lines = list(choose_lines([""] * (first_line - 1) + all_lines[first_line - 1 :], dict(attributes)))
    titles = {**names, **find_titles(line.text for line in lines)}
    blocks = _Reader(lines, attributes, titles, 0).read()
    has_title = not title or any(block.kind == "heading" and block.level == 1 for block in blocks)
    heading = Block("heading", escape(title), level=1, start_line=title_line, end_line=title_line)
    return (*(() if has_title else (heading,)), *blocks)


class _Reader:
    """Reads lines from top to bottom. `_attributes` are those of the document, as they are set so far."""

    def __init__(
        self, lines: Sequence[Line], attributes: dict[str, str], titles: Mapping[str, str], depth: int
    ) -> None:
        self._lines = lines
        self._attributes = attributes
        self._titles = titles
        self._depth = depth
        self._number = 0
        self._blocks: list[Block] = []
        # Of the lists that the next line is inside of.
        self._markers: tuple[str, ...] = ()
        # Where a plus stands alone that attaches to an item, and how many lists that one is in.
        self._plus = (-1, 0)
        self._style = Style()
        self._is_header = False

    def read(self) -> list[Block]:
        while self._number < len(self._lines):
            line = self._lines[self._number].text
            if not line.strip():
                self._number += 1
            elif not self._read_about(line) and not self._read_heading(line):
                style = self._style
                self._style = Style()
                self._read_block(line, style)
        return self._blocks

    # Lines that are no content themselves.

    def _read_about(self, line: str) -> bool:
        """Read a line that says something of the document or of the next block: true if it is one."""
        if line == "+" or (line.startswith("//") and not line.startswith("///")):
            pass
        elif entry := ENTRY.match(line):
            self._read_entry(entry)
        elif _ANCHOR.match(line):
            pass
        elif ATTRIBUTE_LINE.match(line):
            read_style(resolve_attributes(line[1:-1], self._attributes), self._style)
        elif title := TITLE.match(line):
            self._style.title = title[1]
        else:
            return False
        self._number += 1
        return True

    def _read_entry(self, entry: re.Match[str]) -> None:
        value = entry[4] or ""
        while self._goes_on(value) and len(value) <= MAX_VALUE_CHARS:
            self._number += 1
            value = value.removesuffix(" \\").removesuffix(" +").rstrip() + " " + self._lines[self._number].text.strip()
        set_attribute(entry, value, self._attributes)

    def _goes_on(self, value: str) -> bool:
        """Return whether a value goes on in the next line: where that is marked, or where it is prose in the header."""
        line = self._lines[self._number + 1].text if self._number + 1 < len(self._lines) else ""
        is_other = line.startswith((":", "//")) or "<" in line or _MACRO.match(line)
        return bool(line) and (value.endswith(" \\") or (self._is_header and " " in value and not is_other))

    def _read_heading(self, line: str) -> bool:
        heading = HEADING.match(line)
        if self._depth and self._style.name not in ("discrete", "float"):
            # Nothing within a block begins a section; what was meant as one is the title of what follows.
            if heading and heading[1].startswith("=="):
                self._blocks.append(self._make_line(f"**{self._inline(heading[2])}**"))
                self._number += 1
            return bool(heading and heading[1].startswith("=="))
        size = 1
        if heading:
            level = len(heading[1])
            text = heading[2]
        elif self._is_underlined(line):
            level = _UNDERLINES.index(self._lines[self._number + 1].text[0]) + 1
            text = line
            size = 2
        else:
            return False
        start = self._lines[self._number].number
        end = self._lines[self._number + size - 1].number
        name = self._inline(text.removesuffix(" " + "=" * level))
        if name:
            level_shown = min(level, MAX_HEADING_LEVEL)
            self._blocks.append(Block("heading", name, level=level_shown, start_line=start, end_line=end))
        self._number += size
        self._style = Style()
        if level == 1:
            self._attributes.setdefault("doctitle", text[:MAX_VALUE_CHARS])
            self._skip_header()
        return True

    def _is_underlined(self, line: str) -> bool:
        following = self._lines[self._number + 1].text if self._number + 1 < len(self._lines) else ""
        is_line = _UNDERLINE.match(following) is not None and abs(len(following) - len(line)) <= 1
        return is_line and line[0].isalnum() and not _MACRO.match(line)

    def _skip_header(self) -> None:
        """Skip who wrote the document, and when, which may stand below attributes."""
        self._is_header = True
        for match in (_AUTHOR.match, _REVISION.match):
            while ENTRY.match(self._peek()) or self._peek().startswith("//"):
                self._read_about(self._peek())
            self._number += match(self._peek()) is not None
        self._is_header = False

    def _peek(self) -> str:
        """Return the line that is read, which is empty behind the last one."""
        return self._lines[self._number].text if self._number < len(self._lines) else ""

    # Blocks.

    def _read_block(self, line: str, style: Style) -> None:
        if delimiter := _DELIMITER.match(line):
            self._blocks += self._read_delimited(delimiter, style)
        elif _RULE.match(line) and style.name not in _CODE_STYLES:
            number = self._lines[self._number].number
            self._blocks.append(Block("break", start_line=number, end_line=number))
            self._number += 1
        elif _MACRO.match(line) and style.name not in _CODE_STYLES:
            # A table of contents, a file that could not be included, or a picture, which may have a caption.
            self._blocks += self._caption(style)
            self._number += 1
        elif _get_marker(line):
            start = _LIST_START.fullmatch(style.options.get("start", ""))
            self._blocks += [*self._caption(style), *self._read_list(self._markers, int(start[0]) if start else 1)]
        else:
            self._read_paragraph(line, style)

    def _caption(self, style: Style) -> list[Block]:
        return [self._make_line(self._inline(style.title))] if style.title else []

    def _make_line(self, text: str) -> Block:
        """Return a paragraph at the line that is read."""
        line = self._lines[min(self._number, len(self._lines) - 1)].number
        return Block("paragraph", text, start_line=line, end_line=line)

    def _inline(self, text: str) -> str:
        named = resolve_counters(_BARE_REFERENCE.sub(self._name, text), self._attributes)
        resolved = resolve_attributes(named, self._attributes)
        if "hide-uri-scheme" in self._attributes:
            resolved = _BARE_ADDRESS.sub(r"\1[\2]", resolved)
        return write_inline(renew_marks(resolved) if "compat-mode" in self._attributes else resolved)

    def _name(self, reference: re.Match[str]) -> str:
        """Return a reference with the title of what it leads to."""
        name = reference[1] or reference[2]
        title = self._titles.get(name) or self._titles.get(name.removeprefix("#"))
        return f"<<{name},{title}>>" if title else reference[0]

    def _read_inside(self, lines: Sequence[Line]) -> list[Block]:
        """Return the blocks of lines within a block. Where these are too many, they are code as they are."""
        if self._depth >= _MAX_DEPTH:
            return [make_code(lines, "")] if lines else []
        return _Reader(lines, self._attributes, self._titles, self._depth + 1).read()

    def _take_delimited(self, delimiter: str) -> list[Line]:
        """Take the lines up to the line that closes a block; without one, all that are left."""
        start = self._number + 1
        end = start
        while end < len(self._lines) and self._lines[end].text.rstrip() != delimiter:
            end += 1
        self._number = min(end + 1, len(self._lines))
        return list(self._lines[start:end])

    def _read_delimited(self, delimiter: re.Match[str], style: Style) -> list[Block]:
        mark = delimiter[0].strip()
        first_line = self._lines[self._number].number
        language = mark[3:] if delimiter[1] else ""
        caption = self._caption(style)
        lines = self._take_delimited("```" if delimiter[1] else mark)
        last_line = self._lines[self._number - 1].number
        if mark[0] in "/+" or style.name in _SILENT_STYLES:
            is_formula = mark[0] == "+" and style.name in ("stem", "latexmath", "asciimath")
            return [*caption, make_code(lines, "math")] if is_formula and lines else []
        if mark[0] in "|,:!" and mark[1] == "=":
            return [*caption, *self._read_table(lines, style, mark[0], first_line, last_line)]
        if style.name in _CODE_STYLES or language or mark[0] in ".`" or mark.startswith("----"):
            return self._read_code(lines, style, language, caption)
        kind = {"*": "sidebar", "_": "quote", '"': "quote"}.get(mark[0], "")
        return self._wrap(kind, style, self._read_inside(lines), first_line, last_line)

    def _wrap(self, kind: str, style: Style, children: list[Block], start: int, end: int) -> list[Block]:
        """Return what the style makes of the blocks inside."""
        title = self._inline(style.title)
        if style.name == "tabs":
            return [replace(block, kind="tab") if block.kind == "definition" else block for block in children]
        if style.name in _ADMONITION_STYLES:
            label = style.name.capitalize()
            text = f"{label}: {title}" if title else label
            return [Block("admonition", text, tuple(children), start_line=start, end_line=end)]
        if kind == "quote" or style.name in ("quote", "verse"):
            source = ", ".join(filter(None, (style.get_position(1), style.get_position(2))))
            credit = [self._make_credit(source, end)] if source else []
            children = [Block("quote", children=(*children, *credit), start_line=start, end_line=end)]
        elif kind == "sidebar":
            return [Block("admonition", title, tuple(children), start_line=start, end_line=end)]
        return _put_below(Block("paragraph", title, start_line=start, end_line=start), children)

    def _read_code(self, lines: Sequence[Line], style: Style, language: str, caption: list[Block]) -> list[Block]:
        if not any(line.text.strip() for line in lines):
            return []
        subs = style.options.get("subs", "")
        if "attributes" in subs or "normal" in subs:
            lines = [line._replace(text=resolve_code(line.text, self._attributes)) for line in lines]
        if "quotes" in subs or "normal" in subs:
            lines = [line._replace(text=resolve_quotes(line.text)) for line in lines]
        if "macros" in subs or "normal" in subs:
            lines = [line._replace(text=resolve_macros(line.text)) for line in lines]
        name = style.get_position(1) if style.name == "source" or not style.name else ""
        default = self._attributes.get("source-language", "") if style.name == "source" else ""
        language = name or style.options.get("language", "") or language or default
        code = make_code(lines, language.lower(), style.options.get("indent", ""))
        if style.options.get("role") in ("primary", "secondary") and caption:
            return [replace(caption[0], kind="tab", children=(code,), end_line=code.end_line)]
        return [*caption, code]

    def _read_table(self, lines: list[Line], style: Style, mark: str, start: int, end: int) -> list[Block]:
        is_csv = mark == "," or style.options.get("format") == "csv"
        separator = style.options.get("separator") or (mark if mark in ":!" else "|")
        lines = list(drop_comments(lines))
        texts = [line.text for line in lines]
        rows, is_first_row_header = read_rows(texts, style.options.get("cols", ""), separator, is_csv)
        has_header = bool(rows) and (style.has("header") or (is_first_row_header and not style.has("noheader")))
        # The style of a column is none of its header.
        header = tuple(self._write_cell(text, "") for text, _ in rows[0].cells) if has_header else ()
        written_rows = [(tuple(starmap(self._write_cell, row.cells)), row.line) for row in rows[has_header:]]
        body = [(cells, lines[line].number) for cells, line in written_rows if any(cells)]
        cells, row_lines = zip(*body, strict=True) if body else ((), ())
        table = Block("table", header=header, rows=cells, start_line=start, end_line=end, row_lines=row_lines)
        return [table] if body or header else []

    def _write_cell(self, text: str, kind: str) -> str:
        if kind == "a":
            blocks = self._read_inside([Line(0, line) for line in text.split("\n")])
            return join_texts(blocks)
        written = self._inline(_join_lines(text.split("\n")) if kind not in ("l", "v") else text)
        code = text if kind == "l" else to_plain(written) if kind == "m" else ""
        return f"`{code}`" if code and "`" not in text else written

    def _read_paragraph(self, line: str, style: Style) -> None:
        start = self._number
        end = start + 1
        while end < len(self._lines) and not self._ends_paragraph(self._lines[end].text):
            end += 1
        lines = self._lines[start:end]
        caption = self._caption(style)
        self._number = end
        if style.name in _SILENT_STYLES:
            return
        is_literal = line[0].isspace() and style.name != "normal"
        if is_literal or style.name in _CODE_STYLES:
            style.options.setdefault("indent", "0")
            lines = [line for line in lines if line.text != "+" and not line.text.startswith("//")]
            self._blocks += self._read_code(lines, style, "", caption)
            return
        lines = [line for line in lines if not _NO_TEXT.match(line.text)]
        if not style.name and (line.startswith("> ") or _is_quotation(lines)):
            self._blocks += [*caption, self._read_quotation(lines)]
            return
        admonition = _ADMONITION.match(line)
        if admonition:
            style.positions = [admonition[1]]
            lines = [lines[0]._replace(text=admonition[2]), *lines[1:]]
        is_verse = style.name == "verse"
        text = self._inline(_join_lines([line.text for line in lines], keeps_lines=is_verse or style.has("hardbreaks")))
        if not text:
            # A picture may have a caption.
            self._blocks += caption
            return
        first, last = lines[0].number, lines[-1].number
        paragraph = Block("paragraph", text, start_line=first, end_line=last)
        is_wrapped = style.name in (*_ADMONITION_STYLES, "quote") or is_verse
        if is_wrapped:
            self._blocks += self._wrap("", style, [paragraph], first, last)
        else:
            self._blocks += _put_below(caption[0], [paragraph]) if caption else [paragraph]

    def _read_quotation(self, lines: Sequence[Line]) -> Block:
        """Return a quotation as Markdown writes it, which may hold others, or one in quotes; the end may say whose."""
        inside = [line._replace(text=_QUOTATION_MARK.sub("", line.text)) for line in lines]
        *quoted, last = inside
        credit = [self._make_credit(last.text[2:].strip(), last.number)] if quoted and last.text[:3] == "-- " else []
        if _is_quotation(lines):
            quoted[0] = quoted[0]._replace(text=quoted[0].text[1:])
            quoted[-1] = quoted[-1]._replace(text=quoted[-1].text.rstrip()[:-1])
        blocks = self._read_inside(quoted if credit else inside)
        return Block("quote", children=(*blocks, *credit), start_line=lines[0].number, end_line=lines[-1].number)

    def _make_credit(self, source: str, line: int) -> Block:
        return Block("paragraph", f"— {self._inline(source)}", start_line=line, end_line=line)

    def _ends_paragraph(self, line: str) -> bool:
        if self._markers and (line == "+" or _get_marker(line) in self._markers):
            return True
        if line.startswith(":_") and ENTRY.match(line):
            # So begin the files of Red Hat, which are included without an empty line above.
            return True
        return not line.strip() or bool(_DELIMITER.match(line) or ATTRIBUTE_LINE.match(line) or _ANCHOR.match(line))

    # Lists. `markers` are those of the lists around an item: one of them ends it, any other begins a list inside.

    def _read_list(self, markers: tuple[str, ...], start: int = 1) -> list[Block]:
        """Read a list, which may start at another number. One of terms is their definitions."""
        marker = _get_marker(self._lines[self._number].text)
        items = []
        while self._number < len(self._lines) and _get_marker(self._lines[self._number].text) == marker:
            items.append(self._read_item((*markers, marker)))
        if marker[0] in ":;":
            return items
        level = start if marker[0] in ".1ai<" else 0
        first = items[0].start_line
        return [Block("list", children=tuple(items), level=level, start_line=first, end_line=items[-1].end_line)]

    def _read_item(self, markers: tuple[str, ...]) -> Block:
        first_line = self._lines[self._number]
        item = _ITEM.match(first_line.text)
        if item:
            self._number += 1
            text = self._inline(self._take_item_text(_CHECKED.sub("[x]", item[4], count=1)))
            children = self._read_attached(markers)
        else:
            terms, text = self._take_terms(markers[-1])
            last = self._lines[self._number - 1].number
            paragraph = Block("paragraph", self._inline(text), start_line=last, end_line=last)
            children = [*([paragraph] if paragraph.text else []), *self._read_attached(markers)]
            text = self._inline(", ".join(terms))
        last_line = self._lines[self._number - 1]
        end = max([first_line.number, *(block.end_line for block in children)]) if children else last_line.number
        kind: BlockKind = "item" if item else "definition"
        return Block(kind, text, tuple(children), start_line=first_line.number, end_line=end)

    def _take_item_text(self, first_text: str) -> str:
        texts = [first_text]
        while self._number < len(self._lines):
            line = self._lines[self._number].text
            if line == "+" or _get_marker(line) or self._ends_paragraph(line):
                break
            if not _NO_TEXT.match(line):
                texts.append(line)
            self._number += 1
        return _join_lines(texts)

    def _take_terms(self, marker: str) -> tuple[list[str], str]:
        """Take terms that share a description, and its text, which may be below an empty line."""
        terms: list[str] = []
        text = ""
        while not text and self._number < len(self._lines) and (term := _TERM.match(self._lines[self._number].text)):
            if term[2] != marker or (terms and _ITEM.match(self._lines[self._number].text)):
                break
            terms.append(term[1].rstrip())
            text = term[3] or ""
            self._number += 1
        following = self._find_next()
        line = self._lines[following].text if following < len(self._lines) else ""
        if text or (line and line != "+" and not _get_marker(line) and not self._begins_block(line)):
            self._number = self._number if text else following
            text = self._take_item_text(text)
        return terms, text

    def _begins_block(self, line: str) -> bool:
        return bool(self._ends_paragraph(line) or HEADING.match(line) or _MACRO.match(line) or TITLE.match(line))

    def _find_next(self) -> int:
        number = self._number
        while number < len(self._lines) and not self._lines[number].text.strip():
            number += 1
        return number

    def _read_attached(self, markers: tuple[str, ...]) -> list[Block]:
        """Read what belongs to an item below its text: what `+` attaches, lists inside it, literal text."""
        outer_blocks = self._blocks
        outer_markers = self._markers
        self._blocks = []
        self._markers = markers
        while self._read_part(markers):
            pass
        blocks = self._blocks
        self._blocks = outer_blocks
        self._markers = outer_markers
        return blocks

    def _read_part(self, markers: tuple[str, ...]) -> bool:
        number = self._find_next()
        if number == len(self._lines):
            return False
        is_apart = number > self._number
        line = self._lines[number].text
        following = self._lines[number + 1].text if number + 1 < len(self._lines) else ""
        if ATTRIBUTE_LINE.match(line) and _get_marker(following) and not is_apart:
            number += 1
            line = following
        marker = _get_marker(line)
        if line == "+" and number + 1 < len(self._lines):
            if is_apart and self._attaches_further_out(number, len(markers)):
                return False
            self._number = number + 1
            if _get_marker(following) in markers:
                # An item of a list around this one is attached to nothing.
                return False
            self._read_one()
        elif marker:
            self._number = number
            if marker in markers:
                return False
            self._blocks += self._read_list(markers)
        elif line.startswith("//") and not line.startswith("///") and not is_apart:
            self._number = number + 1
        elif self._is_text_of_item(line, is_apart):
            self._number = number
            self._read_paragraph(line, Style())
        else:
            return False
        return True

    def _is_text_of_item(self, line: str, is_apart: bool) -> bool:
        """Return whether a line is literal text below an item, or goes on below what is attached to one."""
        return line[0].isspace() if is_apart else bool(self._blocks) and not self._begins_block(line)

    def _attaches_further_out(self, plus: int, depth: int) -> bool:
        """Return whether the plus on a line attaches to an item of a list around one in so many lists."""
        if plus != self._plus[0]:
            # Each empty line above it leads to the item one list further out.
            self._plus = (plus, max(1, depth - plus + self._number))
        return depth > self._plus[1]

    def _read_one(self) -> None:
        """Read one block, with the lines that are about it."""
        while self._number < len(self._lines):
            line = self._lines[self._number].text
            if not line.strip():
                return
            if not self._read_about(line):
                style = self._style
                self._style = Style()
                self._read_block(line, style)
                return


def _is_quotation(lines: Sequence[Line]) -> bool:
    """Return whether a paragraph is a quotation in quotes, with who said it below."""
    if len(lines) < 2 or not lines[-1].text.startswith("-- "):
        return False
    return lines[0].text.startswith('"') and lines[-2].text.rstrip().endswith('"')


def _put_below(caption: Block, blocks: Sequence[Block]) -> list[Block]:
    """Return blocks below their caption, which stays with a paragraph."""
    if not caption.text or not blocks or blocks[0].kind != "paragraph":
        return [*([caption] if caption.text else []), *blocks]
    return [replace(blocks[0], text=f"{caption.text}\n{blocks[0].text}", start_line=caption.start_line), *blocks[1:]]


def _join_lines(texts: Iterable[str], *, keeps_lines: bool = False) -> str:
    """Return lines of prose as one, in which a line that ends at a plus, or each one, stays a line."""
    lines = [""]
    for text in map(str.rstrip, texts):
        ends_line = text.endswith(" +")
        lines[-1] += f"{text.removesuffix(' +').strip()}\n"
        lines += [""] if ends_line or keeps_lines else []
    return "\n".join(filter(None, map(join_lines, lines)))


def _get_marker(line: str) -> str:
    """Return which list a line is an item of, or an empty string."""
    item = _ITEM.match(line)
    if item is None:
        term = _TERM.match(line)
        return term[2] if term and not _MACRO.match(line) else ""
    if item[1]:
        return item[1]
    if item[2]:
        return "1" if item[2].isdigit() else "a"
    return "i" if item[3] else "<"
