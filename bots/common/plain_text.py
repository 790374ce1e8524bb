"""Replies as plain text, for networks that show no markup: emphasis and headings are words, code has its own lines."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from bots.common.markdown import MarkdownRenderer, is_web_url

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

ZERO_WIDTH_SPACE = "\u200b"
FENCE = "```"


class PlainTextRenderer(MarkdownRenderer):
    """Writes a syntax tree as text. What a link is, a platform says."""

    sources_heading = "Sources:"
    # A telephone shows about so many letters in a line, and not all of them as wide as others.
    max_table_width = 40

    def escape(self, text: str) -> str:
        """Return the text: nothing in it is markup."""
        return text

    def render_title(self, title: str) -> str:
        """Write the title of a source, which is no address."""
        return title.replace("://", f":{ZERO_WIDTH_SPACE}//")

    def heading(self, node: SyntaxTreeNode, text: str) -> str:
        """Write a heading as its words."""
        return text

    def quote(self, text: str) -> str:
        """Write a quotation with a mark before each line."""
        return "\n".join(f"> {line}" for line in text.split("\n"))

    def code_block(self, code: str, language: str) -> str:
        """Write a code block between fences."""
        body = code.strip("\n").replace(FENCE, f"``{ZERO_WIDTH_SPACE}`")
        return f"{FENCE}\n{body}\n{FENCE}" if body.strip() else ""

    def code_span(self, code: str, *, in_link: bool) -> str:
        """Write code within a line as its text."""
        return code

    def mark(self, node_type: str, text: str) -> str:
        """Write emphasis as its words."""
        return text

    def render_link(self, node: SyntaxTreeNode, url: str, in_link: bool) -> str:
        """Write a link, or its text where it leads to no address of the web."""
        label = self.render_inline(node.children, in_link=True) or node.content
        return label if in_link or not is_web_url(url) or not label.strip() else self.link(url, label)

    @abstractmethod
    def link(self, url: str, label: str) -> str:
        """Write a link; the label is text already."""
