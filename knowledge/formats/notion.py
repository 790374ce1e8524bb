"""Pages of Notion as Markdown: their blocks are written as HTML first."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from knowledge.formats.html import read_fragment
from knowledge.parsing.limits import FormatError
from knowledge.web.values import as_mappings, dig, to_line, to_text

LISTS = {"bulleted_list_item": "ul", "to_do": "ul", "numbered_list_item": "ol"}
# What stands before a block's text, between it and what is nested in it, and behind that.
FRAMES = {
    **dict.fromkeys(LISTS, ("<li>", "", "</li>")),
    **{f"heading_{level}": (f"<h{level + 1}>", f"</h{level + 1}>", "") for level in range(1, 5)},
    "toggle": ("<details><summary>", "</summary>", "</details>"),
    "quote": ("<blockquote>", "", "</blockquote>"),
    "callout": ('<div class="admonition">', "", "</div>"),
    "divider": ("<hr>", "", ""),
}


def write_page(blocks: Sequence[Mapping[str, Any]], properties: Sequence[str]) -> str:
    """Return a page as Markdown: its blocks, then the lines of its properties. Raises `FormatError`."""
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in properties)
    try:
        return read_fragment("".join(_write_blocks(blocks)) + (f"<ul>{lines}</ul>" if lines else ""))
    except RecursionError as error:
        raise FormatError("it is nested too deeply") from error


def _write_blocks(blocks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield blocks as HTML, where neighbouring items are one list."""
    for tag, group in groupby(blocks, key=lambda block: LISTS.get(to_line(block.get("type")), "")):
        content = "".join(map(_write_block, group))
        yield f"<{tag}>{content}</{tag}>" if tag else content


def _write_block(block: Mapping[str, Any]) -> str:
    kind = to_line(block.get("type"))
    content = dig(block, kind)
    children = as_mappings(block.get("children"))
    if kind == "table":
        return _write_table(content, children)
    if kind == "code":
        language = html.escape(to_line(dig(content, "language")).replace(" ", "-"))
        return f'<pre data-language="{language}">{html.escape(join_texts(dig(content, "rich_text")))}</pre>'
    if kind == "equation":
        return f"<p><code>{html.escape(to_text(dig(content, 'expression')))}</code></p>"
    # Pictures, files and bookmarks have a caption; columns and synced blocks are what is in them.
    text = _write_rich_text(dig(content, "rich_text") or dig(content, "caption"))
    before, between, after = FRAMES.get(kind, ("<p>", "</p>", ""))
    return before + text + between + "".join(_write_blocks(children)) + after


def _write_table(content: Any, rows: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for number, row in enumerate(rows):
        tag = "th" if number == 0 and dig(content, "has_column_header") is True else "td"
        cells = dig(row, "table_row", "cells")
        cells = cells if isinstance(cells, list) else []
        lines.append("".join(f"<{tag}>{_write_rich_text(cell)}</{tag}>" for cell in cells))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _write_rich_text(texts: Any) -> str:
    return "".join(map(_write_text, as_mappings(texts)))


def _write_text(part: Mapping[str, Any]) -> str:
    text = html.escape(get_plain_text(part)).replace("\n", "<br>")
    return f"<code>{text}</code>" if dig(part, "annotations", "code") is True else text


def join_texts(texts: Any) -> str:
    """Return pieces of text as one, as `get_plain_text` does."""
    return "".join(map(get_plain_text, as_mappings(texts)))


def get_plain_text(part: Any) -> str:
    """Return a piece of text without formatting, and without anybody's name."""
    return "somebody" if dig(part, "mention", "type") == "user" else to_text(dig(part, "plain_text"))
