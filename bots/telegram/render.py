"""From our Markdown to Telegram's HTML.

Telegram knows a handful of tags and counts the text without them. Everything that it has no tag for is put into words
and lines: headings become bold, tables are drawn in a monospaced block, lists get bullets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from bots.common.markdown import WORD_JOINER, MarkdownRenderer, is_web_url
from bots.common.message_split import split_html, strip_tags
from core.types import Citation

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

MAX_UNITS = 4096

_LINK = re.compile(r'<a href="(https?://[^"<>]*)">((?:[^<]|<(?!/?a\b))*)</a>')
_INLINE_TAGS = {"strong": "b", "em": "i", "s": "s"}


def split_message(html: str, limit: int = MAX_UNITS) -> list[str]:
    """Split into parts of at most `limit` UTF-16 units of text."""
    return split_html(html, limit)


def render(markdown: str, citations: Sequence[Citation] = (), asker_username: str = "") -> list[str]:
    """Return a reply as messages that Telegram accepts: HTML, numbered sources at the end, at least one message."""
    return _HtmlRenderer(citations, asker_username).render_reply(markdown, split_message)


def write_out_links(html: str) -> str:
    """Return the text of HTML alone, with the addresses behind its links.

    >>> write_out_links('See <a href="https://example.org/?a&amp;b">the <b>guide</b></a>.')
    'See the guide (https://example.org/?a&b).'
    """
    return strip_tags(_LINK.sub(lambda link: link[2] if link[1] == link[2] else f"{link[2]} ({link[1]})", html))


def to_html(markdown: str, citations: Sequence[Citation] = (), asker_username: str = "") -> str:
    """Return Markdown as HTML for Telegram's parse mode.

    The user `asker_username` may be mentioned; all other mentions are disarmed.
    """
    return _HtmlRenderer(citations, asker_username).render(markdown)


class _HtmlRenderer(MarkdownRenderer):
    """Writes a syntax tree as HTML."""

    sources_heading = "<b>Sources</b>"
    # A citation becomes a link, and a mention must not notify anybody: in code it does not, and can be copied.
    token = re.compile(
        r"\[(?P<number>\d{1,4})\]|(?<![\w@])@(?:(?P<name>[a-zA-Z]\w{2,63})(?P<package>/[\w.-]{1,200}\b)?|\Z)"
    )

    def __init__(self, citations: Sequence[Citation], asker_username: str) -> None:
        super().__init__(citations)
        self._asker_username = asker_username.lower()

    def escape(self, text: str) -> str:
        return escape(text, quote=False)

    def render_token(self, match: re.Match[str], *, in_link: bool) -> str:
        if match["number"] is not None:
            return self.render_citation(match, in_link=in_link)
        if match["name"] and self._asker_username == match["name"].lower() and not match["package"]:
            return match[0]
        # In a link there is no code, and an @ at the end stands before a name in bold.
        if in_link or not match["name"]:
            return f"@{WORD_JOINER}{match[0][1:]}"
        return self.code_span(match[0], in_link=False)

    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        return f"<b>{text}</b>" if text else ""

    def quote(self, text: str) -> str:
        # Telegram has no quote within a quote.
        inner = re.sub("</?blockquote>", "", text)
        return f"<blockquote>{inner}</blockquote>" if inner else ""

    def code_block(self, code: str, language: str) -> str:
        body = self.escape(code.rstrip("\n"))
        if not body.strip():
            return ""
        return f'<pre><code class="language-{language}">{body}</code></pre>' if language else f"<pre>{body}</pre>"

    def table(self, drawing: str) -> str:
        return f"<pre>{self.escape(drawing)}</pre>"

    def code_span(self, code: str, *, in_link: bool) -> str:
        # A link around code would be lost: Telegram's entities for the two cannot contain each other.
        return self.escape(code) if in_link else f"<code>{self.escape(code)}</code>"

    def mark(self, node_type: str, text: str) -> str:
        tag = _INLINE_TAGS.get(node_type)
        return f"<{tag}>{text}</{tag}>" if tag and text else text

    def link(self, url: str, label: str) -> str:
        return f'<a href="{escape(url)}">{label}</a>'

    def render_link(self, node: SyntaxTreeNode, url: str, in_link: bool) -> str:
        if in_link or not is_web_url(url):
            return self.render_inline(node.children, in_link=in_link)
        label = self.render_inline(node.children, in_link=True)
        return self.link(url, label) if label.strip() else self.address(url)
