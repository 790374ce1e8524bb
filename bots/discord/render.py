"""From our Markdown to Discord's.

Discord's clients know a part of Markdown and much that a model does not mean: mentions, emoji, spoilers. So the text is
parsed and written again: what Discord has no form for is put into words and lines, everything else in the text that it
would take for markup is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bots.common.markdown import WORD_JOINER, MarkdownRenderer, is_web_url
from bots.common.message_split import MarkdownSplitter, utf16_length
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MAX_UNITS = 2000
# A link takes so much; a bare address has to fit into a message.
MAX_URL_CHARS = 512
MAX_ADDRESS_CHARS = 1800

# What stays in one piece as long as it fits: a link, inline code, an escaped character, a word.
_ATOM = re.compile(
    r"\[(?:\[[^\[\]\n]{0,200}\]|\\.|[^\[\]\n\\]){0,400}\]\(<[^>\n]{1,600}>\)"
    r"|``[^\n]{1,600}?``|`[^`\n]{1,600}`|<https?://[^<>\s]{1,1900}>|\\.|\S+?(?=[\s\[`<\\]|$)|\s+|."
)
_ADDRESS_BEHIND = re.compile(r"\]\(<(https?://[^<>\s]+)>\)")
_SPLITTER = MarkdownSplitter(_ATOM, utf16_length)
# A command that the bot's own help names stays: it can be clicked.
_MARKUP = re.compile(
    r"[\\*_~`|\[\]]|<(?=[@#:/a-z])(?!/[a-z_-]{1,32}:\d{1,20}>)|(?<=<@)(?=[!&]?\d)|(?<=@)(?=(?:everyone|here)\b)",
    re.IGNORECASE,
)
_LINE_START = re.compile(r"^([^\S\n]*)(#{1,3}\s|-#\s|>{1,3}\s|[-+*]\s)", re.MULTILINE)
_NUMBERED_ITEM = re.compile(r"^([^\S\n]*\d+)(\.\s)", re.MULTILINE)
_INLINE_MARKS = {"strong": "**", "em": "*", "s": "~~"}
_URL_ESCAPES = str.maketrans({"<": "%3C", ">": "%3E", "\\": "%5C", " ": "%20", "\n": ""})


def split_message(markdown: str, limit: int = MAX_UNITS) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units."""
    return _SPLITTER.split(markdown, limit)


def render(markdown: str, citations: Sequence[Citation] = (), reserved_units: int = 0) -> list[str]:
    """Return a reply as messages that Discord accepts: numbered sources at the end, at least one message.

    Each leaves room for `reserved_units` UTF-16 units more.
    """
    limit = MAX_UNITS - reserved_units
    return _DiscordRenderer(citations).render_reply(markdown, lambda text: split_message(text, limit))


def to_markdown(markdown: str, citations: Sequence[Citation] = ()) -> str:
    """Return Markdown in Discord's dialect: links that do not unfold, mentions that notify nobody."""
    return _DiscordRenderer(citations).render(markdown)


def to_plain(text: str, max_chars: int = 0) -> list[str]:
    """Return rendered text with the addresses of its links written out, in pieces of at most `max_chars`."""
    return split_message(_ADDRESS_BEHIND.sub(r"] (\1)", text), max_chars or MAX_UNITS)


def escape_markup(text: str) -> str:
    """Return running text with everything escaped that Discord would take for markup or a mention."""
    escaped = _MARKUP.sub(lambda match: f"\\{match[0]}" if match[0] else WORD_JOINER, text)
    escaped = _NUMBERED_ITEM.sub(r"\1\\\2", escaped)
    return _LINE_START.sub(r"\1\\\2", escaped)


class _DiscordRenderer(MarkdownRenderer):
    """Writes a syntax tree in Discord's dialect."""

    bullet = "-"

    max_table_width = 72

    def is_linkable(self, url: str) -> bool:
        return is_web_url(url) and len(url) <= MAX_URL_CHARS

    def has_room(self, url: str) -> bool:
        return is_web_url(url) and len(url) <= MAX_ADDRESS_CHARS

    def escape(self, text: str) -> str:
        return escape_markup(text)

    def render_token(self, match: re.Match[str], *, in_link: bool) -> str:
        return escape_markup(match[0]) if in_link else self.render_citation(match, in_link=False)

    def address(self, url: str) -> str:
        return _link_without_preview(url) if is_web_url(url) else self.escape(url)

    def render_title(self, title: str) -> str:
        return escape_markup(" ".join(title.split()))[:200]

    def render_path(self, citation: Citation) -> str:
        return super().render_path(citation) if citation.title else ""

    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        text = " ".join(text.split())
        level = len(node.markup) if set(node.markup) == {"#"} else (1 if node.tag == "h1" else 2)
        if not text:
            return ""
        return f"{'#' * level} {text}" if level <= 3 else f"**{text.replace('**', '')}**"

    def quote(self, text: str) -> str:
        # There is no quote within a quote.
        return "\n".join(f"> {line.removeprefix('> ')}" for line in text.splitlines())

    def code_block(self, code: str, language: str) -> str:
        # Three backticks end a block anywhere.
        body = code.rstrip("\n").replace("```", f"`{WORD_JOINER}``")
        return f"```{language}\n{body}\n```" if body.strip() else ""

    def code_span(self, code: str, *, in_link: bool) -> str:
        one_line = " ".join(code.split("\n")).strip()
        if "`" not in one_line:
            return f"`{one_line}`" if one_line else ""
        # Discord knows no longer marks than two, and removes a space only beside a backtick.
        text = re.sub("`{2,}", lambda ticks: WORD_JOINER.join(ticks[0]), one_line)
        return f"``{' ' * text.startswith('`')}{text}{' ' * text.endswith('`')}``"

    def list_item(self, item: SyntaxTreeNode, marker: str, depth: int) -> str:
        first = ""
        rest: list[str] = []
        for child in item.children:
            block = self.render_block(child, depth + 1)
            if not first and not rest and child.type == "paragraph":
                first = block
            elif block.strip():
                # A fence opens only at the start of a line, and the lists below are indented already.
                is_block_element = child.type in ("fence", "code_block", "table", "bullet_list", "ordered_list")
                rest.append(block if is_block_element else _indent(block, depth + 1))
        return "\n".join([f"{'  ' * depth}{marker} {_indent(first, depth + 1).lstrip()}", *rest])

    def mark(self, node_type: str, text: str) -> str:
        mark = _INLINE_MARKS.get(node_type, "") if text.strip() else ""
        return f"{mark}{text}{mark}"

    def link(self, url: str, label: str) -> str:
        # Discord shows a link whose text looks like an address as it was written, to protect against deception.
        label = re.sub(r"(https?):(//)", rf"\1:{WORD_JOINER}\2", label)
        return f"[{label}]({_link_without_preview(url)})"

    def render_link(self, node: SyntaxTreeNode, url: str, in_link: bool) -> str:
        label = self.render_inline(node.children, in_link=True) or escape_markup(node.content)
        if not self.is_linkable(url):
            # Too long for a separate link.
            return f"{label} ({self.address(url)})" if self.has_room(url) and not in_link else label
        if in_link:
            return label
        plain_label = self.plain_text(node.children)
        return _link_without_preview(url) if not plain_label.strip() or plain_label == url else self.link(url, label)


def _indent(text: str, depth: int) -> str:
    return "\n".join(f"{'  ' * depth}{line}" for line in text.splitlines())


def _link_without_preview(url: str) -> str:
    """Return an address so that Discord shows no preview of it."""
    return f"<{url.translate(_URL_ESCAPES)}>"
