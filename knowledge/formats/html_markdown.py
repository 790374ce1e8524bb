"""HTML elements as Markdown: headings, paragraphs, lists, tables and code. Links keep their text only."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain, islice
from typing import Any
from urllib.parse import unquote

from core.markup.document import Block
from core.markup.writer import write_markdown

HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_BLOCK_TAGS = (
    "address article aside blockquote body center dd details div dl dt fieldset figcaption figure footer form header "
    "hgroup hr legend main p section summary table tbody td tfoot th thead tr"
)
BLOCK_TAGS = frozenset(_BLOCK_TAGS.split())
CODE_TAGS = frozenset(("code", "kbd", "samp", "tt"))
# What a table holds that is used for layout, or whose cells do not fit on a line.
NOT_IN_TABLES = ("table", "pre", "h1", "h2", "h3", "ul", "ol")
# So many times its cells a table may have when its rows are filled up.
MAX_TABLE_GROWTH = 10
_LINE_NUMBER_CLASSES = (
    "gutter hljs-ln-numbers line-number line-numbers line-numbers-rows linenodiv lineno linenos ln lnt"
)
LINE_NUMBER_CLASSES = frozenset(_LINE_NUMBER_CLASSES.split())
# What is a line of its own inside code.
LINE_TAGS = ("div", "li", "p", "tr")
_LANGUAGE = re.compile(r"\b(?:language|lang|highlight-source|highlight)-([a-z0-9+#]{1,20})\b")
NO_LANGUAGES = ("default", "none", "notranslate", "plaintext", "text")
_LANGUAGE_NAME = re.compile(r"[a-z0-9+#-]{1,20}")
# The elements in and around code that may name its language: so many of each.
MAX_LANGUAGE_DEPTH = 3
# The sign beside a heading that links to it: one without letters and digits.
_SIGN = re.compile(r"[\W_]{0,3}")
_TICKS = re.compile("`+")
# A line of a paragraph that Markdown takes for a heading, for a border or for the beginning of code or HTML.
_BLOCK_START = re.compile(r"(?im)^(?=`{3,}[^`\n]*$|~~~|#{1,6}(?: |$)|-{2,}$|<(?:!--|pre|script|style))")
_LINE_BREAK = "\v"
INDENT = "    "


class _Writer:
    """Collects blocks; the text of a paragraph waits until the next block begins."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._inline: list[str] = []
        # The last number of each open list, none for one without numbers; and the mark of an item that has no text yet.
        self._lists: list[int | None] = []
        self._mark = ""
        self._is_after_item = False

    def get_text(self) -> str:
        self.end_paragraph()
        return "".join(self._blocks)

    def write(self, text: str | None) -> None:
        if text:
            self._inline.append(text)

    def end_paragraph(self, prefix: str = "") -> None:
        lines = (" ".join(line.split()) for line in "".join(self._inline).split(_LINE_BREAK))
        self._inline.clear()
        if text := "\n".join(filter(None, lines)):
            self.add(prefix + text if prefix else _BLOCK_START.sub(r"\\", text))

    def open_list(self, is_ordered: bool) -> None:
        self.end_paragraph()
        self._lists.append(0 if is_ordered else None)

    def close_list(self) -> None:
        self.end_paragraph()
        if self._lists:
            self._lists.pop()
        self._mark = ""
        self._is_after_item = self._is_after_item and bool(self._lists)

    def open_item(self) -> None:
        self.end_paragraph()
        number = self._lists[-1] if self._lists else None
        if number is not None:
            self._lists[-1] = number + 1
        self._mark = "- " if number is None else f"{number + 1}. "

    def add(self, text: str) -> None:
        """Add a block, in its place in the lists that are open. Items of a list follow without an empty line."""
        is_item = bool(self._mark)
        indent = INDENT * (len(self._lists) - 1 if is_item else len(self._lists))
        lines = text.split("\n")
        rest = INDENT * len(self._lists)
        block = "\n".join([indent + self._mark + lines[0], *(rest + line if line else "" for line in lines[1:])])
        if self._blocks:
            self._blocks.append("\n" if is_item and self._is_after_item else "\n\n")
        self._blocks.append(block)
        self._is_after_item = is_item
        self._mark = ""


def render_markdown(root: Any, skipped: Collection[Any] = (), labels: Mapping[Any, str] | None = None) -> str:
    """Return the content of an element of a tree without comments as Markdown, without the elements in `skipped`.

    `labels` has words that are written above an element.
    """
    from lxml import etree

    writer = _Writer()
    # Without recursion: elements may be nested deeply.
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if event == "start":
            if labels and element in labels and element not in skipped:
                writer.end_paragraph()
                writer.add(f"**{labels[element]}**")
            if element in skipped or _is_label(element) or _write_whole(element, writer, skipped):
                walker.skip_subtree()
            else:
                _open(element, writer)
        else:
            if element not in skipped:
                _close(element.tag, writer)
            if element is not root:
                writer.write(element.tail)
    return writer.get_text()


def _write_whole(element: Any, writer: _Writer, skipped: Collection[Any]) -> bool:
    """Write an element whose content is not walked through; false for any other."""
    tag = element.tag
    if tag == "pre":
        _write_code(element, writer, skipped)
    elif tag == "table" and (rows := _read_rows(element, skipped)):
        writer.end_paragraph()
        writer.add(write_markdown([Block("table", header=tuple(rows[0]), rows=tuple(map(tuple, rows[1:])))]))
    elif tag in CODE_TAGS:
        text = " ".join("".join(iter_texts(element, skipped.__contains__)).split())
        writer.write(_format_code(text) if text else text)
    elif tag in HEADINGS:
        writer.end_paragraph()
        writer.write(_read_heading(element, skipped))
        writer.end_paragraph(HEADINGS[tag])
    else:
        return False
    return True


def _format_code(text: str) -> str:
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (1 + _count_ticks(text))
    return f"{ticks} {text} {ticks}"


def _count_ticks(text: str) -> int:
    """Return how many backticks follow each other at most."""
    return max(map(len, _TICKS.findall(text)), default=0)


def _open(element: Any, writer: _Writer) -> None:
    if element.tag in ("ul", "ol"):
        writer.open_list(element.tag == "ol")
    elif element.tag == "li":
        writer.open_item()
    elif element.tag == "br":
        writer.write(_LINE_BREAK)
    elif element.tag in BLOCK_TAGS:
        writer.end_paragraph()
    writer.write(element.text)


def _close(tag: str, writer: _Writer) -> None:
    if tag in ("ul", "ol"):
        writer.close_list()
    elif tag == "li" or tag in BLOCK_TAGS:
        writer.end_paragraph()


def iter_texts(root: Any, is_skipped: Callable[[Any], bool] = lambda _element: False) -> Iterator[str]:
    """Yield the pieces of text in an element, a line break for `br`, without those in the elements that are skipped."""
    from lxml import etree

    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if event != "start":
            yield element.tail or "" if element is not root else ""
        elif is_skipped(element):
            walker.skip_subtree()
        else:
            yield "\n" if element.tag == "br" else element.text or ""


def _is_label(element: Any) -> bool:
    """Return whether an element only repeats its neighbour: a heading's link, or the language of code."""
    return _is_link_beside_heading(element) or _is_language_label(element)


def _read_heading(heading: Any, skipped: Collection[Any]) -> str:
    """Return a heading without the sign, or the words at its end, that link to it."""

    def read(left_out: Any = None) -> str:
        return "".join(iter_texts(heading, lambda it: it in skipped or it is left_out or _is_heading_sign(it)))

    last = heading[-1] if len(heading) else None
    if last is None or (last.tail or "").strip() or not _links_to_heading(last, heading):
        return read()
    text = read(last)
    return text if text.strip() else read()


def _is_heading_sign(element: Any) -> bool:
    return element.tag == "a" and _SIGN.fullmatch("".join(iter_texts(element))) is not None


def _is_link_beside_heading(element: Any) -> bool:
    heading = element.getprevious() if element.tag == "a" else None
    if heading is None or heading.tag not in HEADINGS or (heading.tail or "").strip():
        return False
    return _links_to_heading(element, heading)


def _links_to_heading(element: Any, heading: Any) -> bool:
    """Return whether an element is a link to a heading, or to the part of the page that the heading begins."""
    address = element.get("href") or ""
    parent = heading.getparent()
    ids = {heading.get("id"), None if parent is None else parent.get("id")}
    return element.tag == "a" and address.startswith("#") and unquote(address[1:]) in ids


def _is_language_label(element: Any) -> bool:
    """Return whether an element before code names its language, as the fence will."""
    code = element.getnext() if element.tag in ("span", "div", "p") and not len(element) else None
    if code is None or code.tag != "pre" or (element.tail or "").strip():
        return False
    text = (element.text or "").strip().lower()
    return "lang" in element.get("class", "").split() or (text != "" and text == _find_language(code))


def _has_line_numbers(element: Any) -> bool:
    return not LINE_NUMBER_CLASSES.isdisjoint(element.get("class", "").split())


def _write_code(element: Any, writer: _Writer, skipped: Collection[Any]) -> None:
    """Write code as it is, without the numbers of its lines."""
    writer.end_paragraph()
    if code := _read_code(element, skipped).strip("\n").rstrip():
        fence = "`" * max(3, 1 + _count_ticks(code))
        writer.add(f"{fence}{_find_language(element)}\n{code}\n{fence}")


class _CodeText:
    """Collects code. What is a line of its own ends with a line break, whether the page writes it or not."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._line_starts: list[int] = []
        # The text behind a line may bring the line break itself.
        self._is_line_ended = False

    def get_text(self) -> str:
        return "".join(self._pieces)

    def add(self, text: str | None) -> None:
        if text:
            self._pieces += ["\n", text] if self._is_line_ended and not text.startswith("\n") else [text]
            self._is_line_ended = False

    def open_line(self) -> None:
        if self._is_line_ended or (self._pieces and not self._pieces[-1].endswith("\n")):
            self._pieces.append("\n")
        self._is_line_ended = False
        self._line_starts.append(len(self._pieces))

    def close_line(self) -> None:
        is_empty = self._line_starts.pop() == len(self._pieces)
        self._is_line_ended = self._is_line_ended or is_empty or not self._pieces[-1].endswith("\n")


def _read_code(root: Any, skipped: Collection[Any]) -> str:
    from lxml import etree

    code = _CodeText()
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        is_left_out = element in skipped or _has_line_numbers(element)
        is_line = element.tag in LINE_TAGS and not is_left_out
        if event == "end":
            if is_line:
                code.close_line()
            code.add(element.tail if element is not root else None)
        elif is_left_out:
            walker.skip_subtree()
        else:
            if is_line:
                code.open_line()
            code.add("\n" if element.tag == "br" else element.text)
    return code.get_text()


def _find_language(element: Any) -> str:
    """Return the language that an attribute or the classes of code name, or of what holds it."""
    inner = islice(element.iterdescendants("code"), MAX_LANGUAGE_DEPTH)
    outer = element.iterancestors()
    for holder in chain(inner, (element,), islice(outer, MAX_LANGUAGE_DEPTH)):
        name = (holder.get("data-language") or holder.get("data-lang") or "").lower()
        if not _LANGUAGE_NAME.fullmatch(name):
            match = _LANGUAGE.search(holder.get("class", "").lower())
            name = match[1] if match else ""
        if name:
            return "" if name in NO_LANGUAGES else name
    return ""


def _read_rows(table: Any, skipped: Collection[Any]) -> list[list[str]]:
    """Return the cells of a table, or nothing if it is one of layout."""
    if next(table.iterdescendants(*NOT_IN_TABLES), None) is not None:
        return []
    rows = [
        [_read_cell(cell, skipped) for cell in row.iterchildren("td", "th") if cell not in skipped]
        for row in _iter_rows(table, skipped)
    ]
    rows = [row for row in rows if any(row)]
    width = max(map(len, rows), default=0)
    # One long row beside many short ones would make a table many times larger than the page.
    is_ragged = width * len(rows) > MAX_TABLE_GROWTH * sum(map(len, rows))
    return [] if width <= 1 or is_ragged else [row + [""] * (width - len(row)) for row in rows]


def _iter_rows(table: Any, skipped: Collection[Any]) -> Iterator[Any]:
    from lxml import etree

    walker = etree.iterwalk(table, events=("start",))
    for _, element in walker:
        if element in skipped:
            walker.skip_subtree()
        elif element.tag == "tr":
            yield element


def _read_cell(cell: Any, skipped: Collection[Any]) -> str:
    return " ".join(render_markdown(cell, skipped).split())
