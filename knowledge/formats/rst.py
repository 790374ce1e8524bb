"""reStructuredText as blocks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice, zip_longest
from types import MappingProxyType
from typing import Any

from core.markup.document import Block
from core.markup.hidden_code import strip_hidden
from core.markup.inline import (
    MAX_NOTE_CHARS,
    MAX_NOTE_MARKS,
    join_lines,
    name_label,
    normalize_label,
    write_short_codes,
)
from core.markup.markdown import read_markdown
from core.markup.tables import join_texts
from core.markup.templates import fill_values
from core.markup.writer import MAX_HEADING_LEVEL
from knowledge.formats.html import read_fragment_blocks
from knowledge.formats.inline import escape, find_sign, make_code, make_link
from knowledge.parsing.limits import map_parser_errors

# Nothing that a reader of the page sees.
_BOLD = re.compile(r"\*\*[^*\n]{1,200}\*\*")
_HIDDEN = frozenset(
    ("comment", "image", "label", "meta", "pending", "raw", "substitution_definition", "target", "title")
)
_METADATA = frozenset(("html_theme", "nocomments", "nosearch", "orphan", "tocdepth", "no-search", "allow_comments"))
_PARAMETERS = frozenset(("param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "var", "ivar", "cvar"))
# Where what a field describes belongs, of a resource of HTTP.
_HTTP_FIELDS = {
    "query": "Query parameter",
    "form": "Form parameter",
    "json": "JSON",
    "<json": "Request JSON",
    ">json": "Response JSON",
    "<jsonarr": "Request JSON array",
    ">jsonarr": "Response JSON array",
    "reqheader": "Request header",
    "<header": "Request header",
    "resheader": "Response header",
    ">header": "Response header",
    "statuscode": "Status",
}
_FIELD_NAMES = {"return": "Returns", "rtype": "Return type", "returntype": "Return type"}
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*")
# Definitions of substitutions may hold others; nobody nests more.
_MAX_SUBSTITUTION_DEPTH = 3
_MAX_SUBSTITUTION_CHARS = 1000
_MAX_HOPS = 5
# How far from its line a block is looked for: docutils counts some from their last line.
_LINE_WINDOW = 6
_MAX_SCAN = 500
# Nobody writes that many headings. docutils takes a millisecond for each: what has more is text as it stands.
_MAX_ADORNMENTS = 5_000
_NO_LANGUAGES = ("default", "none", "text")

# The letters of a list begin at these.
_FIRST_LETTERS = {"loweralpha": "a", "upperalpha": "A"}


@map_parser_errors
def read_rst(text: str, names: Mapping[str, str] = MappingProxyType({})) -> tuple[Block, ...]:
    """Return the blocks of a document of reStructuredText, with Sphinx's directives and roles. Raises `FormatError`.

    `names` are the titles and values of what its references lead to elsewhere, by the references.
    """
    # It takes half a second, and few sources need it.
    from knowledge.formats.rst_parser import parse

    lines = fill_values(text, names).splitlines()
    if sum(_ADORNMENT.fullmatch(line) is not None for line in lines) > _MAX_ADORNMENTS:
        return tuple(_read_plain(lines))
    return _Reader(parse(lines), lines, names).read()


def _read_plain(lines: Sequence[str]) -> Iterator[Block]:
    """Yield the paragraphs of lines in which no markup is looked for."""
    for is_text, group in groupby(enumerate(lines, 1), lambda line: bool(line[1].strip())):
        if is_text:
            numbers, texts = zip(*group, strict=True)
            yield Block("paragraph", escape("\n".join(texts)), start_line=numbers[0], end_line=numbers[-1])


class _Reader:
    """Turns docutils' nodes into blocks, in order. `_cursor` is the line up to which the source is read."""

    def __init__(self, document: Any, lines: Sequence[str], names: Mapping[str, str]) -> None:
        self._document = document
        self._lines = lines
        self._cursor = 1
        self._level = 0
        self._language = ""
        self._inline = _InlineWriter(document, names)
        self._readers: dict[str, Callable[[Any], Iterable[Block]]] = {
            "attribution": lambda it: [self._make("paragraph", it, f"— {self._inline.write(it)}")],
            "bullet_list": self._read_list,
            "citation": lambda it: self._wrap("definition", it, escape(it[0].astext())),
            "container": self._read_container,
            "definition_list_item": self._read_definition,
            "block_quote": lambda it: self._wrap("quote", it),
            "doctest_block": lambda it: [self._make("code", it, strip_hidden(it.astext()), language="python")],
            "enumerated_list": self._read_list,
            "field": self._read_field,
            "footnote": lambda it: [] if self._inline.has_placed(it) else self._read_children(it),
            "line_block": self._read_line_block,
            "literal_block": self._read_code,
            "math_block": lambda it: [self._make("code", it, it.astext(), language="math")],
            "option_list_item": self._read_option,
            "section": self._read_section,
            "system_message": self._read_message,
            "table": self._read_table,
            "transition": lambda it: [self._make("break", it)],
        }

    def read(self) -> tuple[Block, ...]:
        return tuple(_order_lines(self._read_children(self._document), max(1, len(self._lines))))

    def _read_children(self, node: Any) -> list[Block]:
        return [block for child in node.children for block in self._read_node(child)]

    def _read_node(self, node: Any) -> Iterable[Block]:
        """Return the blocks of a node. What is not known is read through."""
        if node.tagname in _HIDDEN:
            return ()
        if node.tagname in ("paragraph", "caption"):
            text = self._inline.write(node)
            return [self._make("paragraph", node, text)] if text else ()
        return self._readers.get(node.tagname, self._read_children)(node)

    def _make(self, kind: Any, node: Any, text: str = "", **fields: Any) -> Block:
        start, end = self._locate(node)
        return Block(kind, text, start_line=start, end_line=end, **fields)

    def _locate(self, node: Any) -> tuple[int, int]:
        """Return the first and the last line of a leaf of the tree; docutils' own line is near it, or missing."""
        raw_lines = (node.rawsource or node.astext()).strip("\n").split("\n")
        first_line = raw_lines[0].strip()
        hint = node.line or 0
        candidates = range(max(self._cursor, hint - _LINE_WINDOW) if hint else self._cursor, len(self._lines) + 1)
        near = islice(candidates, 2 * _LINE_WINDOW if hint else _MAX_SCAN)
        found = (number for number in near if first_line and first_line in self._lines[number - 1])
        self._cursor = start = next(found, max(hint, self._cursor))
        return start, start + len(raw_lines) - 1

    def _wrap(self, kind: Any, node: Any, text: str = "") -> list[Block]:
        line = node.line or 0
        children = tuple(self._read_children(node))
        return [Block(kind, text, children, start_line=line, end_line=line)] if children or text else []

    def _read_section(self, node: Any) -> Iterator[Block]:
        self._level += 1
        yield self._make_heading(node[0], self._inline.write(node[0]))
        yield from self._read_children(node)
        self._level -= 1

    def _make_heading(self, node: Any, text: str) -> Block:
        return self._make("heading", node, text, level=min(max(self._level, 1), MAX_HEADING_LEVEL))

    def _read_list(self, node: Any) -> list[Block]:
        items = tuple(item for child in node.children for item in self._read_item(child))
        start = (node.get("start", 1) or -1) if node.tagname == "enumerated_list" else 0
        letter = _FIRST_LETTERS.get(node.get("enumtype", "")) if start > 1 or len(items) == 1 else None
        if letter:
            # It goes on from another one, or is a name: "J. Smith".
            suffix = node.get("suffix", ".")
            named = [(chr(ord(letter) + number), item) for number, item in enumerate(items, start - 1)]
            texts = [
                replace(item, kind="paragraph", text=f"{sign}{suffix} {item.text}", children=()) for sign, item in named
            ]
            return [block for text, item in zip(texts, items, strict=True) for block in (text, *item.children)]
        return [Block("list", children=items, level=start)] if items else []

    def _read_item(self, node: Any) -> list[Block]:
        blocks = self._read_children(node)
        if blocks and blocks[0].kind == "paragraph":
            return [replace(blocks[0], kind="item", children=tuple(blocks[1:]))]
        return [Block("item", children=tuple(blocks))] if blocks else []

    def _read_definition(self, node: Any) -> list[Block]:
        terms = [self._inline.write(child) for child in node.children if child.tagname == "term"]
        classifiers = [f" ({self._inline.write(child)})" for child in node.children if child.tagname == "classifier"]
        bodies = [child for child in node.children if child.tagname == "definition"]
        start, _ = self._locate(node[0])
        children = tuple(block for body in bodies for block in self._read_children(body))
        return [
            Block("definition", ", ".join(terms) + "".join(classifiers), children, start_line=start, end_line=start)
        ]

    def _read_field(self, node: Any) -> list[Block]:
        """Read a field: of a docstring, or what a page says of itself."""
        name = node[0].astext().strip()
        # What a theme is told has more names behind it.
        if name.lower().partition(".")[0] in _METADATA or not node[1].children:
            return []
        kind, _, subject = name.partition(" ")
        # Its type may stand before its name.
        term = make_code(subject.split()[-1]) if kind in _PARAMETERS and subject else _FIELD_NAMES.get(kind, "")
        if kind in ("type", "raises", "raise", "except", "exception", "vartype") and subject:
            term = f"{'Type of' if 'type' in kind else 'Raises'} {make_code(subject)}"
        if kind in _HTTP_FIELDS and subject:
            *types, subject = subject.split()
            term = f"{_HTTP_FIELDS[kind]} {make_code(subject)}" + (f" ({escape(' '.join(types))})" if types else "")
        return self._wrap("definition", node[1], term or (name[:1].upper() + name[1:]))

    def _read_option(self, node: Any) -> list[Block]:
        options = ", ".join(make_code(option.astext()) for option in node[0].children)
        return self._wrap("definition", node[1], options)

    def _read_line_block(self, node: Any) -> list[Block]:
        lines = list(self._iter_block_lines(node))
        return [self._make("paragraph", node, "\n".join(lines))] if any(lines) else []

    def _iter_block_lines(self, node: Any) -> Iterator[str]:
        for child in node.children:
            if child.tagname == "line_block":
                yield from self._iter_block_lines(child)
            else:
                yield self._inline.write(child)

    def _read_code(self, node: Any) -> list[Block]:
        code = strip_hidden(node.astext().strip("\n"))
        language = node.get("language", self._language)
        return [self._make("code", node, code, language="" if language in _NO_LANGUAGES else language)] if code else []

    def _read_message(self, node: Any) -> list[Block]:
        """Read what docutils could not: a heading where it expects none, or a table whose borders do not meet."""
        literal = next((child for child in node.children if child.tagname == "literal_block"), None)
        if literal is None or " directive" in node[0].astext():
            return []
        lines = [line.strip() for line in literal.astext().split("\n")]
        texts = [line for line in lines if line and not _ADORNMENT.fullmatch(line)]
        if len(texts) == 1:
            return [self._make_heading(literal, escape(texts[0]))]
        return self._read_code(literal)

    def _read_container(self, node: Any) -> list[Block]:
        kind = node.get("kind", "group")
        title = self._inline.write(node[0]) if node.children and node[0].tagname == "title" else ""
        if kind == "highlight":
            self._language = node["language"]
        if kind == "markdown":
            return list(read_markdown("\n" * (node[0].line - 1) + node[0].astext()))
        if kind == "raw":
            start, end = self._locate(node)
            return [replace(block, start_line=start, end_line=end) for block in read_fragment_blocks(node[0].astext())]
        if kind == "list-table":
            return self._read_list_table(node, title)
        return self._read_children(node) if kind in ("group", "highlight") else self._wrap(kind, node, title)

    def _read_list_table(self, node: Any, title: str) -> list[Block]:
        rows: list[tuple[str, ...]] = []
        lists = (child for child in node.children if child.tagname == "bullet_list")
        for row in (row for rows_list in lists for row in rows_list.children):
            cell_lists = [child for child in row.children if child.tagname == "bullet_list"]
            rows.append(tuple(self._read_cell(cell) for cells in cell_lists for cell in cells.children))
        return self._make_table(node, title, rows, node["header_rows"])

    def _read_table(self, node: Any) -> list[Block]:
        title = next((self._inline.write(child) for child in node.children if child.tagname == "title"), "")
        rows: list[tuple[str, ...]] = []
        header_count = 0
        for group in (part for tgroup in node.children for part in tgroup.children):
            if group.tagname in ("thead", "tbody"):
                rows += self._read_rows(group)
                header_count += len(group.children) if group.tagname == "thead" else 0
        return self._make_table(node, title, rows, header_count)

    def _read_rows(self, group: Any) -> Iterator[tuple[str, ...]]:
        """Yield rows as wide as the table: a cell that spans others is in its first place."""
        spans: dict[int, int] = {}
        for row in group.children:
            cells: list[str] = []
            for entry in row.children:
                while spans.get(len(cells), 0):
                    spans[len(cells)] -= 1
                    cells.append("")
                width = 1 + entry.get("morecols", 0)
                spans.update(dict.fromkeys(range(len(cells), len(cells) + width), entry.get("morerows", 0)))
                cells += [self._read_cell(entry), *[""] * (width - 1)]
            yield tuple(cells)

    def _read_cell(self, node: Any) -> str:
        return join_texts(self._read_children(node))

    def _make_table(self, node: Any, title: str, rows: Sequence[tuple[str, ...]], header_count: int) -> list[Block]:
        """Return a table below its title. Several rows of names are one, and a first row in bold has names, too."""
        line = node.line or 0
        if not header_count and len(rows) > 1 and all(map(_BOLD.fullmatch, rows[0])):
            rows = [tuple(cell.strip("*") for cell in rows[0]), *rows[1:]]
            header_count = 1
        header = tuple(" ".join(filter(None, cells)) for cells in zip_longest(*rows[:header_count], fillvalue=""))
        body = tuple(row for row in rows[header_count:] if any(row))
        caption = [Block("paragraph", title, start_line=line, end_line=line)] if title else []
        table = Block("table", header=header, rows=body, start_line=line, end_line=max(line, self._cursor))
        return [*caption, table] if body or any(header) else caption


def _order_lines(blocks: Iterable[Block], last_line: int, start: int = 1) -> Iterator[Block]:
    """Yield blocks whose lines are in the document, in order, and hold those of the blocks inside."""
    for block in blocks:
        start = min(max(block.start_line, start), last_line)
        children = tuple(_order_lines(block.children, last_line, start))
        if children and not block.start_line:
            start = children[0].start_line
        end = max([min(block.end_line, last_line), start, *(child.end_line for child in children)])
        yield replace(block, children=children, start_line=start, end_line=end)
        start = max([start, *(child.start_line for child in children)])


def _find_labels(document: Any) -> dict[str, str]:
    """Return the titles of the sections that have a name to refer to them by."""
    labels: dict[str, str] = {}
    names: list[str] = []
    for node in document.findall():
        if node.tagname == "target":
            names += node["names"]
            continue
        if node.tagname == "section":
            labels.update(dict.fromkeys(names, node[0].astext()))
        names = []
    return labels


def _find_notes(document: Any) -> dict[int, Any]:
    """Return the short footnotes that are marked in few places, by the ids of the nodes that are their marks.

    They can stand there. Those that have no name belong to the marks without one, in order.
    """
    notes = list(document.findall(lambda node: node.tagname == "footnote"))
    by_name = {name: note for note in notes for name in note["names"]}
    unnamed = {
        sign: iter([each for each in notes if each.get("auto") == sign and not each["names"]]) for sign in (1, "*")
    }
    found: dict[int, Any] = {}
    for mark in document.findall(lambda node: node.tagname == "footnote_reference"):
        note = (
            by_name.get(mark["refname"]) if "refname" in mark else next(unnamed.get(mark.get("auto"), iter(())), None)
        )
        if note is not None and mark.parent.tagname != "substitution_definition":
            found[id(mark)] = note
    counts = Counter(map(id, found.values()))
    return {mark: note for mark, note in found.items() if counts[id(note)] <= MAX_NOTE_MARKS and _is_short(note)}


def _is_short(note: Any) -> bool:
    paragraphs = [child for child in note.children if child.tagname != "label"]
    is_paragraph = [child.tagname for child in paragraphs] == ["paragraph"]
    return is_paragraph and len(note.astext()) <= MAX_NOTE_CHARS and not _has_mark(note)


def _has_mark(node: Any) -> bool:
    return next(iter(node.findall(lambda child: child.tagname == "footnote_reference")), None) is not None


class _InlineWriter:
    """Writes the text of a node as inline Markdown."""

    def __init__(self, document: Any, names: Mapping[str, str]) -> None:
        self._names = names
        self._definitions = document.substitution_defs
        self._substitutions: dict[str, str] = {}
        self._depth = 0
        self._targets: dict[str, Any] = {}
        anonymous_targets = []
        for target in document.findall(lambda node: node.tagname == "target"):
            self._targets.update(dict.fromkeys((*target["names"], *target["dupnames"]), target))
            if target.get("anonymous"):
                anonymous_targets.append(target)
        self._next_anonymous = iter(anonymous_targets)
        self._notes = _find_notes(document)
        self._placed_notes = {id(note) for note in self._notes.values()}
        self._labels = {normalize_label(name): title for name, title in names.items()} | _find_labels(document)

    def write(self, node: Any) -> str:
        """Return what is in a node, in one line."""
        return join_lines(self._write_children(node))

    def has_placed(self, note: Any) -> bool:
        """Return whether a footnote stands where its marks are."""
        return id(note) in self._placed_notes

    def _write_children(self, node: Any) -> str:
        """Return what is in a node. A mark that means nothing is a piece of text of its own."""
        pieces: list[str] = []
        for is_plain, children in groupby(node.children, lambda child: child.tagname in ("#text", "problematic")):
            if is_plain:
                pieces.append(escape("".join(child.astext() for child in children)))
                continue
            for child in children:
                if child.tagname == "footnote_reference":
                    pieces[-1:] = [piece.rstrip() for piece in pieces[-1:]]
                    note = self._notes.get(id(child))
                    pieces.append(f" ({self.write(note[-1])})" if note is not None else "")
                else:
                    pieces.append(self._write_node(child))
        return "".join(pieces)

    def _write_node(self, node: Any) -> str:
        name = node.tagname
        if name in ("literal", "math", "title_reference"):
            return make_code(node.astext())
        if name == "substitution_reference":
            return self._substitute(node)
        if name in _HIDDEN:
            return ""
        if link := self._names.get(node.get("role", "")):
            return link
        label = node.get("label", "")
        text = escape(self._labels.get(label) or name_label(node.astext())) if label else self._write_children(node)
        if name == "reference":
            return make_link(text, self._find_address(node))
        mark = {"strong": "**", "emphasis": "*"}.get(name, "")
        return f"{mark}{text}{mark}" if text.strip() else text

    def _find_address(self, reference: Any) -> str:
        target = next(self._next_anonymous, None) if reference.get("anonymous") else reference
        hops = 0
        while target is not None and "refname" in target and "refuri" not in target and hops < _MAX_HOPS:
            target = self._targets.get(target["refname"])
            hops += 1
        return str(target.get("refuri", "")) if target is not None else ""

    def _substitute(self, node: Any) -> str:
        """Return what a name stands for; the name itself where the document does not say, as of a version."""
        name = node["refname"]
        definition = self._definitions.get(name)
        if definition is None or self._depth >= _MAX_SUBSTITUTION_DEPTH:
            shown = self._names.get(f"|{name}|") or find_sign(f"|{name}|") or write_short_codes(node.astext())
            return escape(shown) if definition is None else ""
        if name not in self._substitutions:
            self._depth += 1
            text = self._write_children(definition)
            self._depth -= 1
            self._substitutions[name] = text if len(text) <= _MAX_SUBSTITUTION_CHARS else ""
        return self._substitutions[name]
