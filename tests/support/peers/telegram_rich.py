"""How Telegram reads the HTML of a rich message (Bot API 10.1 and later), strictly: what is not documented is refused.

`parse_rich_html` returns the blocks as the API shows them, and the text with its entities as an app shows it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from tests.support.peers.telegram_text import Entity, ParseError, units

Json = dict[str, Any]

MAX_CHARS = 32_768
MAX_BLOCKS = 500
MAX_DEPTH = 16
MAX_COLUMNS = 20
_STYLES = {
    **dict.fromkeys(("b", "strong"), "bold"),
    **dict.fromkeys(("i", "em"), "italic"),
    **dict.fromkeys(("u", "ins"), "underline"),
    **dict.fromkeys(("s", "strike", "del"), "strikethrough"),
    "code": "code",
    "mark": "marked",
    "sub": "subscript",
    "sup": "superscript",
    "tg-spoiler": "spoiler",
}
_INLINE = {*_STYLES, "a", "tg-math", "br"}
_HEADINGS = tuple(f"h{size}" for size in range(1, 7))
_BLOCKS = {*_HEADINGS, "p", "pre", "footer", "hr", "ul", "ol", "blockquote", "table", "tg-math-block", "details"}
_INNER = {"li", "tr", "th", "td", "summary", "caption", "cite"}
_VOID = ("br", "hr")
_ATTRIBUTES = {
    "a": {"href": r"(?:https?://|mailto:|tel:|tg://user\?id=\d+|#).*"},
    "code": {"class": r"language-.+"},
    "ol": {"start": r"-?\d{1,9}", "type": "[aAiI1]", "reversed": ""},
    "li": {"value": r"-?\d{1,9}", "type": "[aAiI1]"},
    "table": {"bordered": "", "striped": "", "compact": ""},
    "details": {"open": ""},
    **{
        tag: {"colspan": r"\d+", "rowspan": r"\d+", "align": "left|center|right", "valign": "top|middle|bottom"}
        for tag in ("td", "th")
    },
}
_TAG = re.compile(r"<(/?)([a-z][a-z0-9-]*)((?:\s+[a-z-]+(?:=\"[^\"<>]*\")?)*)\s*/?>")
_ATTRIBUTE = re.compile(r"([a-z-]+)(?:=\"([^\"]*)\")?")
_ENTITY_NAMES = "lt|gt|amp|quot|apos|nbsp|hellip|mdash|ndash|lsquo|rsquo|ldquo|rdquo"
_REFERENCE = re.compile(rf"&(?:{_ENTITY_NAMES}|#\d{{1,7}}|#x[0-9a-fA-F]{{1,6}});")


@dataclass(slots=True)
class Element:
    """One element with what is in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    @property
    def elements(self) -> list[Element]:
        return [child for child in self.children if isinstance(child, Element)]

    @property
    def source(self) -> str:
        """Return the text of an element that holds nothing else."""
        if self.elements:
            raise ParseError(f'Unexpected tag within "{self.tag}"')
        return "".join(str(child) for child in self.children)


@dataclass(frozen=True, slots=True)
class RichContent:
    """A rich message: its blocks as the API shows them, its text and what stands in it as an app shows it."""

    blocks: list[Json]
    text: str
    entities: list[Entity]


def parse_rich_html(html: str) -> RichContent:
    """Return what the HTML of a rich message stands for. Raises `ParseError`."""
    root = _parse_tree(html)
    blocks = _to_blocks(root)
    if not blocks:
        raise ParseError("Rich message must be non-empty")
    drawing = _Drawing()
    drawing.draw_blocks(blocks, "")
    _check_limits(blocks, "".join(drawing.pieces))
    return RichContent(blocks, "".join(drawing.pieces), drawing.entities)


def _parse_tree(html: str) -> Element:
    root = Element("")
    stack = [root]
    position = 0
    while position < len(html):
        if html[position] == "<":
            tag = _TAG.match(html, position)
            if tag is None:
                raise ParseError(f"Unclosed or malformed start tag at character {position}")
            position = tag.end()
            _take_tag(tag, stack)
            continue
        reference = _REFERENCE.match(html, position)
        if reference is None and html[position] == "&" and re.match(r"&\w+;", html[position:]):
            raise ParseError(f"Unsupported entity at character {position}")
        piece = unescape(reference[0]) if reference else html[position]
        stack[-1].children.append(piece)
        position += len(reference[0]) if reference else 1
    if len(stack) > 1:
        raise ParseError(f'Can\'t find end tag corresponding to start tag "{stack[-1].tag}"')
    return root


def _take_tag(tag: re.Match[str], stack: list[Element]) -> None:
    name = tag[2]
    if tag[1]:
        if stack.pop().tag != name or not stack:
            raise ParseError(f'Unmatched end tag "{name}"')
        return
    if name not in _INLINE | _BLOCKS | _INNER:
        raise ParseError(f'Unsupported start tag "{name}"')
    attributes = {key: unescape(value) for key, value in _ATTRIBUTE.findall(tag[3])}
    for key, value in attributes.items():
        pattern = _ATTRIBUTES.get(name, {}).get(key)
        if pattern is None or not re.fullmatch(pattern, value, re.DOTALL):
            raise ParseError(f'Unexpected attribute {key}="{value}" of "{name}"')
    element = Element(name, attributes)
    stack[-1].children.append(element)
    if name not in _VOID:
        stack.append(element)


def _to_blocks(parent: Element) -> list[Json]:
    """Return the blocks in an element, which has no text beside them."""
    blocks = []
    for child in parent.children:
        if isinstance(child, str):
            if not child.isspace():
                raise ParseError(f'Text outside of a block in "{parent.tag}"')
        elif child.tag not in ("summary", "cite"):
            blocks.append(_to_block(child))
    return blocks


def _to_block(element: Element) -> Json:
    match element.tag:
        case "p" | "footer":
            return {"type": {"p": "paragraph"}.get(element.tag, element.tag), "text": _to_text(element)}
        case "hr":
            return {"type": "divider"}
        case "pre":
            return _to_preformatted(element)
        case "tg-math-block":
            return {"type": "mathematical_expression", "expression": _get_formula(element)}
        case "ul" | "ol":
            return {"type": "list", "items": _to_items(element)}
        case "blockquote":
            return {"type": "blockquote", "blocks": _to_inner_blocks(element)}
        case "table":
            return _to_table(element)
        case "details":
            summary = [child for child in element.elements if child.tag == "summary"]
            if len(summary) != 1:
                raise ParseError("Details without a summary")
            return {"type": "details", "summary": _to_text(summary[0]), "blocks": _to_blocks(element)}
    if element.tag in _HEADINGS:
        return {"type": "heading", "text": _to_text(element), "size": int(element.tag[1])}
    raise ParseError(f'"{element.tag}" is no block')


def _to_inner_blocks(element: Element) -> list[Json]:
    """Return the blocks of an item or a quotation, where text alone is a paragraph."""
    if any(child.tag in _BLOCKS for child in element.elements):
        return _to_blocks(element)
    return [{"type": "paragraph", "text": _to_text(element)}]


def _to_items(element: Element) -> list[Json]:
    number = int(element.attributes.get("start", "1"))
    items = []
    for item in element.elements:
        if item.tag != "li":
            raise ParseError(f'"{item.tag}" in a list')
        is_ordered = element.tag == "ol"
        number = int(item.attributes.get("value", number))
        label = {"label": f"{number}.", "value": number, "type": "1"} if is_ordered else {"label": "•"}
        items.append({**label, "blocks": _to_inner_blocks(item)})
        number += 1
    if not items or any(isinstance(child, str) and not child.isspace() for child in element.children):
        raise ParseError("A list without items, or with text beside them")
    return items


def _to_preformatted(element: Element) -> Json:
    code = element.elements[0] if element.elements else element
    if code is not element and (code.tag != "code" or len(element.children) != 1):
        raise ParseError('Unexpected tag within "pre"')
    language = code.attributes.get("class", "").removeprefix("language-") if code is not element else ""
    if not code.source.strip():
        raise ParseError('Empty "pre"')
    return {"type": "pre", "text": code.source, **({"language": language} if language else {})}


def _get_formula(element: Element) -> str:
    if not element.source.strip():
        raise ParseError(f'Empty "{element.tag}"')
    return element.source


def _to_table(element: Element) -> Json:
    rows = [_to_row(row) for row in element.elements if row.tag != "caption"]
    if not rows or max(map(len, rows)) > MAX_COLUMNS:
        raise ParseError("A table without rows, or with too many columns")
    flags = {f"is_{name}": True for name in element.attributes}
    return {"type": "table", "cells": rows, **flags}


def _to_row(row: Element) -> list[Json]:
    if row.tag != "tr" or any(cell.tag not in ("td", "th") for cell in row.elements):
        raise ParseError(f'Unexpected "{row.tag}" in a table')
    return [
        {
            "align": cell.attributes.get("align", "left"),
            "valign": cell.attributes.get("valign", "top"),
            **({"text": text} if (text := _to_text(cell, may_be_empty=True)) else {}),
            **({"is_header": True} if cell.tag == "th" else {}),
        }
        for cell in row.elements
    ]


def _to_text(element: Element, *, may_be_empty: bool = False) -> Any:
    """Return what is in an element as a rich text: a string, a span, or a list of them."""
    spans: list[Any] = []
    for child in element.children:
        if isinstance(child, str):
            text = " " if child.isspace() and child != "\xa0" else child
            if spans and isinstance(spans[-1], str):
                # Line breaks are spaces, and many spaces are one.
                spans[-1] += "" if text == " " and spans[-1].endswith((" ", "\n")) else text
            else:
                spans.append(text)
        elif child.tag == "br":
            spans = [*spans[:-1], f"{spans[-1]}\n"] if spans and isinstance(spans[-1], str) else [*spans, "\n"]
        else:
            spans.append(_to_span(child))
    if not may_be_empty and not spans:
        raise ParseError(f'Empty "{element.tag}"')
    return spans[0] if len(spans) == 1 else spans


def _to_span(element: Element) -> Json:
    if element.tag == "tg-math":
        return {"type": "mathematical_expression", "expression": _get_formula(element)}
    if element.tag == "a":
        if "href" not in element.attributes or any(child.tag == "a" for child in element.elements):
            raise ParseError("A link without an address, or within a link")
        return {"type": "url", "text": _to_text(element), "url": element.attributes["href"]}
    if element.tag not in _STYLES:
        raise ParseError(f'"{element.tag}" within text')
    if element.tag == "code" and element.attributes:
        raise ParseError("A language of code that is no block")
    return {"type": _STYLES[element.tag], "text": _to_text(element)}


def _check_limits(blocks: Sequence[Json], text: str) -> None:
    if len(text) > MAX_CHARS:
        raise ParseError("RICH_MESSAGE_TOO_LONG")
    if _count(blocks) > MAX_BLOCKS:
        raise ParseError("RICH_MESSAGE_BLOCKS_TOO_MUCH")
    if _get_depth(blocks) > MAX_DEPTH:
        raise ParseError("RICH_MESSAGE_DEPTH_TOO_BIG")


def _count(value: Any) -> int:
    """Count blocks, items and rows."""
    if isinstance(value, list):
        return sum(map(_count, value))
    column_count = len(value.get("cells", ())) + 1
    return column_count + _count(value.get("blocks", [])) + _count(value.get("items", []))


def _get_depth(value: Any) -> int:
    """Return how deep blocks and the spans in them are nested."""
    if isinstance(value, list):
        return max(map(_get_depth, value), default=0)
    if not isinstance(value, dict):
        return 0
    return 1 + max(
        (_get_depth(value[name]) for name in ("blocks", "items", "cells", "text") if name in value), default=0
    )


class _Drawing:
    """The text of a rich message as an app shows it, with the entities that text messages have, too."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.entities: list[Entity] = []
        self._length = 0

    def draw_blocks(self, blocks: Sequence[Json], indent: str) -> None:
        for number, block in enumerate(blocks):
            if number:
                self._add(f"\n{indent}" if indent else "\n\n")
            self._draw_block(block, indent)

    def _draw_block(self, block: Json, indent: str) -> None:
        start = self._length
        match block["type"]:
            case "divider":
                self._add("———")
            case "mathematical_expression":
                self._add(block["expression"])
            case "pre":
                self._add(block["text"])
                self._note("pre", start, language=block.get("language", ""))
            case "list":
                for number, item in enumerate(block["items"]):
                    self._add(f"\n{indent}" if number else "")
                    self._add(f"{item['label']} ")
                    self.draw_blocks(item["blocks"], f"{indent}  ")
            case "blockquote" | "details":
                self._draw_span(block.get("summary", ""))
                self.draw_blocks(block["blocks"], indent)
                self._note("blockquote", start)
            case "table":
                self._draw_table(block["cells"])
            case _:
                self._draw_span(block["text"])
                self._note("bold" if block["type"] == "heading" else block["type"], start)

    def _draw_table(self, rows: Sequence[Sequence[Json]]) -> None:
        """Draw the columns below each other."""
        texts = [[_to_plain_text(cell.get("text", "")) for cell in row] for row in rows]
        widths = [max(len(row[column]) for row in texts if column < len(row)) for column in range(len(texts[0]))]
        for number, row in enumerate(rows):
            self._add("\n" if number else "")
            for column, cell in enumerate(row):
                start = self._length
                self._draw_span(cell.get("text", ""))
                padding = " " * (widths[column] - (self._length - start)) if column + 1 < len(row) else ""
                self._add(f"{padding} | " if column + 1 < len(row) else "")

    def _draw_span(self, span: Any) -> None:
        start = self._length
        if isinstance(span, str):
            self._add(span)
        elif isinstance(span, list):
            for item in span:
                self._draw_span(item)
        elif span["type"] == "mathematical_expression":
            self._add(span["expression"])
            self._note("math", start)
        else:
            self._draw_span(span["text"])
            is_link = span["type"] == "url"
            self._note("text_link" if is_link else span["type"], start, url=span.get("url", ""))

    def _add(self, text: str) -> None:
        self.pieces.append(text)
        self._length += units(text)

    def _note(self, kind: str, start: int, **extra_fields: str) -> None:
        attributes = {name: value for name, value in extra_fields.items() if value}
        self.entities.append({"type": kind, "offset": start, "length": self._length - start, **attributes})


def _to_plain_text(text: Any) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, list):
        return "".join(map(_to_plain_text, text))
    return _to_plain_text(text.get("text", text.get("expression", "")))
