"""Markdown as the terminal shows it. Apart from the tables of `console`, which need none of it and start sooner."""

from __future__ import annotations

from markdown_it import MarkdownIt
from rich.markdown import Markdown


class _OnlyWebLinks(MarkdownIt):
    """A parser to which an address outside the web is text: what a click on it would start is not ours to offer."""

    def validateLink(self, url: str) -> bool:
        return url.startswith(("http://", "https://"))


def rendered(markdown: str) -> Markdown:
    """Return Markdown to be printed. HTML in it is text: rich would leave the tags out, and whole blocks with them."""
    parser = _OnlyWebLinks().enable(["strikethrough", "table"]).disable(["html_block", "html_inline"])
    shown = Markdown("")
    shown.markup, shown.parsed = markdown, parser.parse(markdown)
    return shown
