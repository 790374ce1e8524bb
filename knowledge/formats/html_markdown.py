"""HTML elements as blocks: headings, paragraphs, lists, notes, tables and code, and links to other hosts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from typing import Any
from urllib.parse import unquote, urlsplit

from core.markup.document import Block, BlockKind
from core.markup.inline import WEB, write_link
from core.markup.tables import join_texts
from core.markup.writer import write_markdown
from knowledge.formats.inline import escape, make_code, shift
from knowledge.formats.languages import is_language

HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_TAGS = (
    "address article aside blockquote body center dd details div dl dt fieldset figcaption figure footer form header "
    "hgroup hr legend main p section summary table tbody td tfoot th thead tr"
)
BLOCK_TAGS = frozenset(_BLOCK_TAGS.split())
CODE_TAGS = frozenset(("code", "kbd", "samp", "tt"))
STRUCK_TAGS = ("del", "s", "strike")
_INLINE_STYLE = re.compile(r"(?<![\w-])display\s*:\s*inline")
_STRUCK_STYLE = re.compile(r"(?<![\w-])text-decoration(?:-line)?\s*:[^;]{0,80}\bline-through\b")
# What a link may hold that is more than words.
_NO_WORDS = (
    *BLOCK_TAGS,
    *CODE_TAGS,
    *HEADINGS,
    "br",
    "button",
    "img",
    "li",
    "math",
    "ol",
    "picture",
    "pre",
    "svg",
    "ul",
)
# What a table holds that is used for layout, or whose cells do not fit on a line.
NOT_IN_TABLES = ("table", "pre", "h1", "h2", "h3")
# What only a table of which a cell is a name may hold.
LISTS = ("ul", "ol")
# Columns that a cell may cover, and the length of a text that is repeated in each row that it covers.
MAX_COLUMNS = 20
MAX_REPEATED_CHARS = 200
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
# Of the number that a list begins with.
MAX_DIGITS = 6
# The sign beside a heading that links to it: one without letters and digits.
_SIGN = re.compile(r"[\W_]{0,3}")
_LINE_BREAK = "\v"
# Classes of a note, as generators of documentation write them.
NOTE_CLASSES = frozenset(("admonition", "admonitionblock", "custom-block", "markdown-alert", "theme-admonition"))
_NOTE_TITLE = re.compile(r"(?:^|[-_ ])(?:title|heading|admonitionHeading\w*)(?:$|[-_ ])")
_QUOTE_KINDS: dict[str, BlockKind] = {"blockquote": "quote", "details": "admonition"}
# Lists in lists that are told apart; what is deeper is text of the last.
MAX_NESTING = 12


@dataclass(slots=True)
class _Frame:
    """What has begun and not ended: it ends with its element."""

    kind: BlockKind
    element: Any
    text: str = ""
    level: int = 0
    children: list[Block] = field(default_factory=list)


class _Builder:
    """Collects blocks; the text of a paragraph waits until the next block begins."""

    def __init__(self, host: str | None) -> None:
        self.host = host
        self._frames = [_Frame("paragraph", None)]
        # Each with whether it is Markdown already.
        self._inline: list[tuple[bool, str]] = []

    def finish(self) -> tuple[Block, ...]:
        self.end_paragraph()
        while len(self._frames) > 1:
            self._close_last()
        return tuple(self._frames[0].children)

    def write(self, text: str | None, is_markdown: bool = False) -> None:
        if text:
            # Code beside code would be one, with ticks in it.
            is_apart = is_markdown and text.startswith("`") and self._inline and self._inline[-1][1].endswith("`")
            self._inline.append((is_markdown, f" {text}" if is_apart else text))

    def end_paragraph(self) -> None:
        if text := self._take_text():
            self.add(Block("paragraph", text))

    def _take_text(self) -> str:
        groups = groupby(self._inline, lambda piece: piece[0])
        texts = ((is_markdown, "".join(text for _, text in pieces)) for is_markdown, pieces in groups)
        joined_text = "".join(text if is_markdown else escape(text) for is_markdown, text in texts)
        self._inline.clear()
        return "\n".join(filter(None, (" ".join(line.split()) for line in joined_text.split(_LINE_BREAK))))

    def add(self, block: Block) -> None:
        """Add a block to what is open. The first paragraph of an item is its text, and a list holds items only."""
        frame = self._frames[-1]
        if frame.kind == "item" and block.kind == "paragraph" and not frame.text and not frame.children:
            frame.text = block.text
        elif frame.kind == "list" and block.kind != "item":
            is_text = block.kind == "paragraph"
            frame.children.append(Block("item", block.text) if is_text else Block("item", children=(block,)))
        else:
            frame.children.append(block)

    def open(self, kind: BlockKind, element: Any, text: str = "", level: int = 0) -> None:
        """Begin what ends with an element; what is nested too deeply belongs to what holds it."""
        self.end_paragraph()
        if len(self._frames) <= MAX_NESTING:
            self._frames.append(_Frame(kind, element, text, level))

    def close(self, element: Any) -> None:
        """End what ends with an element."""
        if self._frames[-1].element is element:
            self.end_paragraph()
            while self._frames[-1].element is element:
                self._close_last()

    def open_item(self, element: Any) -> None:
        self.end_paragraph()
        if self._frames[-1].kind != "list":
            self.open("list", element.getparent())
        if self._frames[-1].kind == "list":
            self.open("item", element)

    def end_term(self, element: Any) -> None:
        """Begin what a term means, up to the next term. Terms that follow each other mean the same."""
        term = self._take_text()
        parent = element.getparent()
        frame = self._frames[-1]
        if frame.kind == "definition" and frame.element is parent:
            if not frame.children:
                frame.text = ", ".join(filter(None, (frame.text, term)))
                return
            self._close_last()
        self.open("definition", parent, term)

    def end_title(self, is_kept: bool) -> None:
        """Take the paragraph that ends as the title of the note that it begins. What is kept goes on with the next."""
        frame = self._frames[-1]
        if frame.kind == "admonition" and not frame.text and not frame.children:
            frame.text = self._take_text()
        elif not is_kept:
            self.end_paragraph()

    def _close_last(self) -> None:
        frame = self._frames.pop()
        if frame.children or (frame.text and frame.kind != "list"):
            self.add(Block(frame.kind, frame.text, tuple(frame.children), frame.level))


def render_markdown(
    root: Any, skipped: Collection[Any] = (), labels: Mapping[Any, str] | None = None, host: str | None = None
) -> str:
    """Return the content of an element as Markdown; the arguments are those of `read_html_blocks`."""
    return write_markdown(read_html_blocks(root, skipped, labels, host))


def read_html_blocks(
    root: Any, skipped: Collection[Any] = (), labels: Mapping[Any, str] | None = None, host: str | None = None
) -> tuple[Block, ...]:
    """Return the content of an element of a tree without comments, without the elements in `skipped`.

    `labels` has those of the elements that are the contents of tabs. With the `host` of the page, links to others stay.
    The blocks have no lines.
    """
    from lxml import etree

    builder = _Builder(host)
    # Without recursion: elements may be nested deeply.
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if event == "start":
            if labels and element in labels and element not in skipped:
                builder.open("tab", element, escape(labels[element]))
            if element in skipped or _is_label(element) or _write_whole(element, builder, skipped):
                walker.skip_subtree()
            else:
                _open(element, builder)
        else:
            if element not in skipped:
                _close(element, builder)
            if element is not root:
                builder.write(element.tail)
    return builder.finish()


def _write_whole(element: Any, builder: _Builder, skipped: Collection[Any]) -> bool:
    """Write an element whose content is not walked through; false for any other."""
    tag = element.tag
    if tag == "pre":
        holders = islice(element.iterancestors(), MAX_LANGUAGE_DEPTH)
        if not any(holder.tag == "td" and _has_line_numbers(holder) for holder in holders):
            _write_code(element, builder, skipped)
    elif tag == "table" and (table := _read_table(element, skipped)):
        builder.end_paragraph()
        captions = [caption for caption in element.iterchildren("caption") if caption not in skipped]
        for block in [*(block for caption in captions for block in read_html_blocks(caption, skipped)), table]:
            builder.add(block)
    elif tag in HEADINGS:
        builder.end_paragraph()
        if text := " ".join(_read_heading(element, skipped).split()):
            builder.add(Block("heading", escape(text), level=HEADINGS[tag]))
    elif tag == "hr":
        builder.end_paragraph()
        builder.add(Block("break"))
    else:
        return _write_words(element, builder, skipped)
    return True


def _write_words(element: Any, builder: _Builder, skipped: Collection[Any]) -> bool:
    """Write a formula, code or a link within a line; false for any other element."""
    tag = element.tag
    if tag in ("sup", "sub") and not len(element):
        builder.write(shift((element.text or "").strip(), is_raised=tag == "sup"))
        return True
    if tag == "sup" and _is_mark(element):
        # Alone, the number of a note would be a digit of what is before it.
        builder.write(f"[{element[0].text}]")
        return True
    if tag == "math":
        # As it was written, where the page says it.
        element = next(element.iterdescendants("annotation"), element)
    elif tag not in CODE_TAGS and tag != "a" and not _is_struck(element):
        return False
    text = "".join(iter_texts(element, skipped.__contains__))
    if tag in CODE_TAGS or tag == "math":
        builder.write(make_code(text), is_markdown=True)
        return True
    words = escape(" ".join(text.split()))
    address = _find_address(element, builder.host) if tag == "a" else ""
    if tag == "a" and not address:
        return False
    if words:
        builder.write(text[: len(text) - len(text.lstrip())])
        builder.write(write_link(words, address) if address else f"~~{words}~~", is_markdown=True)
        builder.write(text[len(text.rstrip()) :])
    return True


def _is_mark(element: Any) -> bool:
    """Return whether what is raised is nothing but a number that leads to a note."""
    is_link = len(element) == 1 and element[0].tag == "a" and not len(element[0])
    return is_link and (element[0].text or "").isdecimal() and not (element.text or "").strip("[(")


def _is_struck(element: Any) -> bool:
    """Return whether the words of an element are struck out, and are words alone."""
    style = element.get("style") or ""
    is_struck = element.tag in STRUCK_TAGS or ("line-through" in style and _STRUCK_STYLE.search(style) is not None)
    return is_struck and element.tag not in _NO_WORDS and next(element.iterdescendants(*_NO_WORDS), None) is None


def _is_block(element: Any) -> bool:
    """Return whether an element is a paragraph of its own: by its tag, unless its style says otherwise."""
    return element.tag in BLOCK_TAGS and not _INLINE_STYLE.search((element.get("style") or "").lower())


def _find_address(link: Any, host: str | None) -> str:
    """Return where a link of words alone leads, if that is another host than its page's."""
    address: str = link.get("href", "").strip()
    if host is None or not address.startswith(WEB) or any(True for _ in link.iterdescendants(*_NO_WORDS)):
        return ""
    try:
        return address if urlsplit(address).hostname not in (None, host) else ""
    except ValueError:
        return ""


def _open(element: Any, builder: _Builder) -> None:
    tag = element.tag
    if tag == "ul":
        builder.open("list", element)
    elif tag == "ol":
        start = element.get("start", "1")
        is_number = start.isdecimal() and len(start) <= MAX_DIGITS
        builder.open("list", element, level=(int(start) or -1) if is_number else 1)
    elif tag == "li":
        builder.open_item(element)
    elif tag in _QUOTE_KINDS:
        builder.open(_QUOTE_KINDS[tag], element)
    elif not NOTE_CLASSES.isdisjoint(element.get("class", "").split()):
        builder.open("admonition", element)
    elif tag == "br":
        builder.write(_LINE_BREAK)
    elif _is_block(element):
        # The title of a paragraph stays with it.
        if element.tag == "p" and _is_title(element.getprevious()):
            builder.write(_LINE_BREAK)
        else:
            builder.end_paragraph()
    builder.write(element.text)


def _is_title(element: Any) -> bool:
    """Return whether an element is the title of the paragraph below it, as Asciidoctor and DocBook write it."""
    return element is not None and _is_block(element) and "title" in element.get("class", "").split()


def _close(element: Any, builder: _Builder) -> None:
    if element.tag == "dt":
        builder.end_term(element)
    elif element.tag == "summary" or (element.tag in BLOCK_TAGS and _NOTE_TITLE.search(element.get("class", ""))):
        is_kept = _is_title(element) and element.getnext() is not None and element.getnext().tag == "p"
        builder.end_title(is_kept)
    elif _is_block(element):
        builder.end_paragraph()
    builder.close(element)


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


def _write_code(element: Any, builder: _Builder, skipped: Collection[Any]) -> None:
    """Write code as it is, without the numbers of its lines."""
    builder.end_paragraph()
    if code := _read_code(element, skipped).strip("\n").rstrip():
        builder.add(Block("code", code, language=_find_language(element)))


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
        # On the code itself, the class only asks a script for them.
        is_left_out = element is not root and (element in skipped or _has_line_numbers(element))
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
            classes = holder.get("class", "").lower()
            match = _LANGUAGE.search(classes)
            name = match[1] if match else classes if holder.tag == "code" and is_language(classes) else ""
        if name:
            return "" if name in NO_LANGUAGES else name
    return ""


def _read_table(table: Any, skipped: Collection[Any]) -> Block | None:
    """Return a table, or nothing if it is one of layout."""

    def has(*tags: str) -> bool:
        return next(table.iterdescendants(*tags), None) is not None

    if has(*NOT_IN_TABLES) or (has(*LISTS) and not has("th")):
        return None
    rows: list[tuple[str, ...]] = []
    # By column: the text of a cell that covers more rows, and how many.
    covering: dict[int, tuple[str, int]] = {}
    has_header = False
    for row in _iter_rows(table, skipped):
        cells = [cell for cell in row.iterchildren("td", "th") if cell not in skipped]
        texts = _read_row(cells, covering, skipped)
        if any(texts):
            is_header = row.getparent().tag == "thead" or all(cell.tag == "th" for cell in cells)
            has_header = has_header or (is_header and not rows)
            rows.append(texts)
    width = max(map(len, rows), default=0)
    # One long row beside many short ones would make a table many times larger than the page.
    if width <= 1 or width * len(rows) > MAX_TABLE_GROWTH * sum(map(len, rows)):
        return None
    if not has_header and all(sum(map(bool, row)) < 2 for row in rows):
        # One column of text beside pictures.
        return None
    filled_rows = [row + ("",) * (width - len(row)) for row in rows]
    return Block("table", header=filled_rows[0] if has_header else (), rows=tuple(filled_rows[has_header:]))


def _read_row(cells: Sequence[Any], covering: dict[int, tuple[str, int]], skipped: Collection[Any]) -> tuple[str, ...]:
    """Return the texts of a row, each in its column, with those of the cells above that cover it."""
    texts: list[str] = []

    def add_covering() -> None:
        while len(texts) in covering:
            text, count = covering.pop(len(texts))
            if count > 1:
                covering[len(texts)] = text, count - 1
            texts.append(text)

    for cell in cells:
        add_covering()
        text = _read_cell(cell, skipped)
        rows = _read_span(cell.get("rowspan"))
        for column in range(min(_read_span(cell.get("colspan")), MAX_COLUMNS)):
            if rows > 1 and len(covering) < MAX_COLUMNS:
                covering[len(texts)] = text if not column and len(text) <= MAX_REPEATED_CHARS else "", rows - 1
            texts.append("" if column else text)
    add_covering()
    return tuple(texts)


def _read_span(value: str | None) -> int:
    return int(value) if value and value.isdecimal() and len(value) <= MAX_DIGITS else 1


def _iter_rows(table: Any, skipped: Collection[Any]) -> Iterator[Any]:
    from lxml import etree

    walker = etree.iterwalk(table, events=("start",))
    for _, element in walker:
        if element in skipped:
            walker.skip_subtree()
        elif element.tag == "tr":
            yield element


def _read_cell(cell: Any, skipped: Collection[Any]) -> str:
    return join_texts(read_html_blocks(cell, skipped))
