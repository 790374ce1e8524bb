"""Collects blocks that come one after the other, among them HTML, whose tags open and close blocks around others."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from core.markup.directives import ADMONITIONS
from core.markup.document import Block, BlockKind
from core.markup.inline import (
    HIDDEN_TAGS,
    HTML_TAGS,
    WEB,
    escape_tags,
    move_signs,
    name_logo,
    strip_permalink,
    write_code,
    write_link,
    write_short_codes,
)
from core.markup.tables import join_texts

# Python refuses to read a number of thousands of digits.
_LONG_REFERENCE = re.compile(r"&#\d{8,};?")
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(?P<close>/?)(?P<tag>[A-Za-z][A-Za-z0-9-]*+)"
    r"(?P<attributes>(?:\s(?>(?:[^<>\"']|\"[^\"]*\"|'[^']*')*))?)/?>"
    r"|<[!?][^<>]*>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"(?<![\w-])([\w-]++)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]++))")
# The columns of a table of GitBook that say where a card leads and how it looks.
_HIDDEN_COLUMN = re.compile(r"\sdata-(?:hidden|card-(?:target|cover))")
_BLANKS = re.compile(r"\s+")
_DASH = re.compile(r"^[-–—][ ](?=\S)")
_CODE_TAGS = frozenset(("code", "kbd", "samp", "tt"))
_INLINE_TAGS = _CODE_TAGS | frozenset(
    "a abbr b bdi cite del dfn em font i img ins mark q s small span strong sub sup time u var wbr".split()  # noqa: SIM905
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_TABS = frozenset(("tab", "tabitem", "tab-item", "tabpanel", "codetab", "code-tab"))
_GROUPS = frozenset(("codegroup", "code-group", "codetabs", "tabs", "tab-set", "tabset"))
# What stands in a tree of files, of which each folder may hold others.
_ENTRIES = frozenset(("folder", "file"))
_CARDS = frozenset(("card", "linkcard", "link-card", "doccard", "grid-item-card"))
_KINDS: dict[str, BlockKind] = {
    "ul": "list",
    "ol": "list",
    "li": "item",
    "table": "table",
    "blockquote": "quote",
    "details": "tab",
    "dd": "definition",
    "files": "list",
    "filetree": "list",
    **dict.fromkeys(_ENTRIES, "item"),
    **dict.fromkeys(_TABS, "tab"),
    **dict.fromkeys(ADMONITIONS, "admonition"),
}
# Of boxes; some have no sign.
_TYPES = {"warn": "Warning", "none": "", "default": ""}
_MAX_FRAMES = 40


@dataclass(slots=True)
class _Frame:
    """A block that has been opened by a tag, with what it holds so far."""

    tag: str
    kind: BlockKind | None = None
    label: str = ""
    level: int = 0
    start_line: int = 0
    blocks: list[Block] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    hidden_columns: set[int] = field(default_factory=set)
    has_header: bool = False
    labels: list[str] = field(default_factory=list)
    picture: str = ""


class BlockCollector:
    """Collects the blocks of a document, or of one block of it."""

    def __init__(self) -> None:
        self._frames = [_Frame("")]
        self._text = ""
        self._code: str | None = None
        self._hidden_tag = ""
        self._links: list[tuple[int, str]] = []
        # Where each tag of code that is open begins.
        self._code_starts: list[int] = []
        self._moved_start = 0
        self._line = 0
        # What the picture is said to show that is all of a title of the page, and its line.
        self.picture_title: tuple[str, int] | None = None

    @property
    def is_in_group(self) -> bool:
        """Return whether the next code is one of several with a label each."""
        return self._frames[-1].tag in _GROUPS

    def add(self, block: Block) -> None:
        """Add a block that is complete."""
        self._end_text()
        self._frames[-1].blocks.append(block)

    def finish(self) -> tuple[Block, ...]:
        """Return the blocks; what is still open ends here."""
        self._end_text()
        while len(self._frames) > 1:
            self._close_frame()
        return tuple(self._frames[0].blocks)

    def add_html(self, text: str, line: int) -> None:
        """Read HTML that begins on a line."""
        position = 0
        self._line = line
        for markup in _MARKUP.finditer(text):
            self._add_data(text[position : markup.start()])
            self._line += text.count("\n", position, markup.end())
            position = markup.end()
            tag = (markup["tag"] or "").lower()
            if self._hidden_tag:
                self._hidden_tag = "" if markup["close"] and tag == self._hidden_tag else self._hidden_tag
            elif tag and markup["close"]:
                self._close(tag)
            elif tag:
                self._open(tag, _read_attributes(markup["attributes"]), markup[0].endswith("/>"))
                if tag == "th" and _HIDDEN_COLUMN.search(markup["attributes"]) and self._frames[-2:][0].rows:
                    self._frames[-2].hidden_columns.add(len(self._frames[-2].rows[-1]))
        self._add_data(text[position:])
        # What hides text hides it in its own block only.
        self._hidden_tag = ""
        self._end_text()

    def _add_data(self, data: str) -> None:
        if self._hidden_tag:
            return
        data = html.unescape(_LONG_REFERENCE.sub("", data))
        if self._code is not None:
            self._code += data
        else:
            # Only a tag makes another line.
            data = data if self._code_starts else escape_tags(data)
            self._text += _BLANKS.sub(" ", data)

    def _open(self, tag: str, attributes: Mapping[str, str], is_closed: bool) -> None:
        if self._code is not None:
            self._code += "\n" if tag == "br" else ""
        elif tag in HIDDEN_TAGS or "v-for" in attributes:
            # What Vue repeats for each of some data has names in place of these.
            self._hidden_tag = tag if not is_closed else ""
        elif tag == "br":
            self._text += "\n"
        elif is_closed and not attributes and tag not in HTML_TAGS:
            # An element that no browser knows shows nothing, and parts no text.
            return
        elif tag in _INLINE_TAGS:
            if tag in _CODE_TAGS:
                self._code_starts.append(len(self._text))
            self._moved_start = len(self._text)
            if tag == "a":
                self._links.append((len(self._text), attributes.get("href", "")))
            elif tag == "img" and (heading := self._find_frame("h1")):
                heading.picture = heading.picture or name_logo(attributes.get("alt", ""))
        else:
            self._end_text()
            self._open_block(tag, attributes, is_closed)

    def _open_block(self, tag: str, attributes: Mapping[str, str], is_closed: bool) -> None:
        if tag == "pre":
            self._code = ""
        elif tag == "hr":
            self._frames[-1].blocks.append(Block("break"))
        elif tag in ("td", "th", "tr") and self._find_frame("table"):
            self._open_cell(tag)
        elif tag != "p" and len(self._frames) < _MAX_FRAMES:
            label = escape_tags(attributes.get("title") or attributes.get("label", ""))
            description = escape_tags(attributes.get("text", ""))
            label = write_link(label, attributes.get("href", "")) if tag in _CARDS else label
            frame = _Frame(tag, label=label, start_line=self._line)
            frame.kind, frame.level = _get_kind(tag, label, tag not in HTML_TAGS or "label" in attributes)
            frame.labels = attributes["items"].split("|") if "items" in attributes else []
            if frame.kind == "admonition":
                kind = attributes.get("type", tag)
                frame.label = label or _TYPES.get(kind.lower(), ADMONITIONS.get(kind.lower(), kind.capitalize()))
            elif tag in _TABS and not label and self._frames[-1].labels:
                frame.label = self._frames[-1].labels.pop(0)
            if description:
                frame.blocks.append(Block("paragraph", description, start_line=self._line, end_line=self._line))
            self._frames.append(frame)
            if is_closed or attributes.get("end"):
                self._close_frame()

    def _open_cell(self, tag: str) -> None:
        while self._frames[-1].tag != "table":
            self._close_frame()
        table = self._frames[-1]
        if tag == "tr":
            table.rows.append([])
        else:
            table.rows = table.rows or [[]]
            table.has_header |= tag == "th" and len(table.rows) == 1
            self._frames.append(_Frame(tag))

    def _close(self, tag: str) -> None:
        if self._code is not None:
            if tag == "pre":
                code = self._code.strip("\n")
                self._code = None
                self.add(Block("code", code, start_line=self._line, end_line=self._line))
        elif tag in _CODE_TAGS:
            self._end_code()
        elif tag in ("sup", "sub"):
            self._text = self._text[: self._moved_start] + move_signs(self._text[self._moved_start :], tag)
        elif tag == "a" and self._links:
            start, address = self._links.pop()
            text = self._text[start:].strip()
            if text and not self._code_starts and address.startswith(WEB):
                self._text = self._text[:start] + write_link(text, address)
        elif tag not in _INLINE_TAGS:
            self._end_text()
            if frame := self._find_frame(tag):
                while self._frames[-1] is not frame:
                    self._close_frame()
                self._close_frame()

    def _end_code(self) -> None:
        start = self._code_starts.pop() if self._code_starts else len(self._text)
        code = self._text[start:]
        # What is code within code is written with it.
        if not self._code_starts and code.strip():
            self._text = self._text[:start] + write_code(code, self._text[:start][-1:])

    def _find_frame(self, tag: str) -> _Frame | None:
        return next((frame for frame in reversed(self._frames[1:]) if frame.tag == tag), None)

    def _end_text(self) -> None:
        self._links.clear()
        self._code_starts.clear()
        if not self._text and self._code is None:
            return
        text = "\n".join(" ".join(line.split()) for line in self._text.split("\n") if line.strip())
        self._text = ""
        if self._code is not None:
            code = self._code.strip("\n")
            self._code = None
            if code.strip():
                self._frames[-1].blocks.append(Block("code", code, start_line=self._line, end_line=self._line))
        if text.count("`") % 2:
            text = text.replace("`", "")
        if text:
            text = write_short_codes(text)
            self._frames[-1].blocks.append(Block("paragraph", text, start_line=self._line, end_line=self._line))

    def _close_frame(self) -> None:
        frame = self._frames.pop()
        parent = self._frames[-1]
        if frame.tag in ("td", "th"):
            if parent.rows:
                parent.rows[-1].append(join_texts(frame.blocks))
        elif frame.tag in ("summary", "dt"):
            parent.label = _join_line(frame.blocks)
        elif frame.picture and not frame.blocks:
            self.picture_title = self.picture_title or (frame.picture, frame.start_line)
        else:
            blocks = _close_blocks(frame, parent)
            parent.blocks += [
                block if block.end_line else replace(block, start_line=frame.start_line, end_line=self._line)
                for block in blocks
            ]


def _read_attributes(text: str) -> dict[str, str]:
    return {
        match[1].lower(): html.unescape(_LONG_REFERENCE.sub("", next(filter(None, match.groups()[1:]), "")))
        for match in _ATTRIBUTE.finditer(text)
    }


def _get_kind(tag: str, label: str, is_component: bool) -> tuple[BlockKind | None, int]:
    """Return what a tag is as a block, None where it only holds others, and its level."""
    if tag in _HEADINGS:
        return "heading", _HEADINGS[tag]
    kind = _KINDS.get(tag)
    if kind is None and label and tag not in _GROUPS and is_component:
        kind = "definition" if tag in _CARDS else "tab"
    return kind, int(tag == "ol")


def _close_blocks(frame: _Frame, parent: _Frame) -> list[Block]:
    """Return a block that is complete; what it holds, where it is none itself."""
    children = tuple(frame.blocks)
    kind = frame.kind
    block = None
    if kind == "heading" and children:
        block = Block("heading", strip_permalink(_join_line(children)), level=frame.level)
    elif kind == "table":
        all_rows = [_hide_cells(row, frame.hidden_columns) for row in frame.rows]
        header, *rows = all_rows if frame.has_header else [[], *all_rows]
        cells = tuple(tuple(row) for row in rows if any(row))
        table = Block("table", header=tuple(header), rows=cells)
        return [*children, *([table] if cells or any(header) else [])]
    elif frame.tag in _ENTRIES and frame.label:
        block = Block("item", frame.label, (Block("list", children=children),) if children else ())
    elif kind == "item":
        block = make_item(children)
    elif kind == "list" and len(children) == 1 and children[0].kind == "list":
        # As a list of Markdown is, of which a component makes a tree.
        block = children[0]
    elif kind == "list" and children:
        items = tuple(child if child.kind == "item" else make_item((child,)) for child in children)
        block = Block("list", children=items, level=frame.level)
    elif frame.tag == "dd":
        block = Block("definition", parent.label, children)
    elif kind in ("tab", "admonition", "definition") and frame.label:
        block = Block(kind, frame.label, children)
    elif kind in ("quote", "admonition") and children:
        # A box without a title.
        block = Block("quote", children=children)
    return [block] if block else list(children)


def _hide_cells(row: list[str], columns: set[int]) -> list[str]:
    return [cell for number, cell in enumerate(row) if number not in columns] if columns else row


def make_item(blocks: tuple[Block, ...], start_line: int = 0, end_line: int = 0) -> Block:
    """Return the item of a list: its first paragraph, or its heading, is its text."""
    has_text = bool(blocks) and blocks[0].kind in ("paragraph", "heading")
    # Of an icon, the dash behind it is left.
    text = _DASH.sub("", blocks[0].text) if has_text else ""
    return Block("item", text, blocks[has_text:], start_line=start_line, end_line=end_line)


def _join_line(blocks: Sequence[Block]) -> str:
    """Return blocks as one line of inline Markdown."""
    return " ".join(join_texts(blocks).split())


def split_tabs(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return the tabs that headings begin: those of the level of the first one."""
    level = next((block.level for block in blocks if block.kind == "heading"), 0)
    starts = [number for number, block in enumerate(blocks) if (block.kind, block.level) == ("heading", level)]
    first = starts[0] if starts else len(blocks)
    tabs: list[Block] = []
    for start, end in pairwise([*starts, len(blocks)]):
        children = tuple(blocks[start + 1 : end])
        tabs.append(replace(blocks[start], kind="tab", level=0, children=children, end_line=blocks[end - 1].end_line))
    return (*blocks[:first], *tabs)
