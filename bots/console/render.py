"""Replies in the terminal: live Markdown with numbered sources."""

from __future__ import annotations

import time

from markdown_it import MarkdownIt
from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.style import Style
from rich.text import Text

from bots.common.markdown import is_web_url, make_parser
from core.formatting import strip_control_characters
from core.types import Citation, Reply

REDRAWS_PER_SECOND = 12


class _WebLinksOnlyParser(MarkdownIt):
    """A parser that treats links outside the web as text: a click must not start other programs."""

    def validateLink(self, url: str) -> bool:
        return is_web_url(url)


def _render_markdown(markdown: str) -> Markdown:
    """Return Markdown to be printed. HTML in it is text: rich would leave the tags out, and whole blocks with them."""
    document = Markdown("")
    document.markup = strip_control_characters(markdown)
    document.parsed = make_parser(_WebLinksOnlyParser).parse(document.markup)
    return document


class ConsoleSink:
    """Shows one reply: live Markdown in a terminal, the finished text elsewhere. `close` it, whatever happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._last_redraw_at = 0.0

    async def open(self) -> None:
        """Show that work has begun."""
        if self._console.is_terminal:
            self._live = Live(
                Text("…", style="dim"),
                console=self._console,
                transient=True,
                auto_refresh=False,
                vertical_overflow="ellipsis",
            )
            self._live.start(refresh=True)

    async def update(self, text: str) -> None:
        """Redraw, as often as an eye can follow."""
        now = time.monotonic()
        if self._live and now - self._last_redraw_at > 1 / REDRAWS_PER_SECOND:
            self._last_redraw_at = now
            self._live.update(_render_markdown(text), refresh=True)

    async def finish(self, reply: Reply) -> None:
        """Print the reply and its sources for good."""
        self.close()
        if self._console.is_terminal:
            self._console.print(_render_markdown(reply.text))
        else:
            self._console.print(Text(strip_control_characters(reply.text)), soft_wrap=True)
        if reply.citations:
            self._console.print()
            for citation in reply.citations:
                self._console.print(format_citation(citation), soft_wrap=True)

    async def fail(self, text: str) -> None:
        """Print what went wrong."""
        self.close()
        self._console.print(Text(strip_control_characters(text), style="red"), soft_wrap=True)

    def close(self) -> None:
        """Give the terminal back as it was, with its cursor. Idempotent."""
        if self._live:
            self._live.stop()
            self._live = None


def format_citation(citation: Citation) -> Text:
    """Return "[1] title  where", with the link behind it where the terminal can."""
    url = strip_control_characters(citation.url)
    line = Text.assemble((f"[{citation.n}] ", "bold"), strip_control_characters(citation.title or citation.path), "  ")
    line.append(
        url or strip_control_characters(f"{citation.source}: {citation.place}"),
        style=Style(color="cyan", link=url or None),
    )
    return line
