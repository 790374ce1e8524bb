"""The terminal: streamed answers with numbered links, progress bars, tables. Quiet where nobody is watching."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.style import Style
from rich.table import Table
from rich.text import Text

from core.counting import counted
from core.types import Citation, Passage, Reply

if TYPE_CHECKING:
    from rich.markdown import Markdown

    from bots.check import Finding
    from knowledge.sync import Progress as SyncProgress
    from knowledge.sync import SyncReport

REDRAWS_PER_SECOND = 12
# All but tab and newline: among them is what begins an escape sequence, by which a text would command the terminal.
CONTROLS = dict.fromkeys({*range(32), *range(127, 160)} - {ord("\t"), ord("\n")})
MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "error": "[red]error[/]"}


def console(*, stderr: bool = False) -> Console:
    """Return the terminal, or standard error."""
    return Console(stderr=stderr, highlight=False)


def print_json(value: object) -> None:
    """Print one object on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None) + "\n")


def printable(text: str) -> str:
    """Return a text without its control characters: sources, models and servers do not steer the terminal."""
    return text.translate(CONTROLS)


def without_name(source: str, reason: str) -> str:
    """Return why a source failed without its name before it, for a line that begins with the name."""
    return reason.removeprefix(f"source {source}: ")


class ConsoleSink:
    """Shows one reply: live Markdown in a terminal, the finished text elsewhere. `close` it, whatever happens."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._drawn = 0.0

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
        if self._live and now - self._drawn > 1 / REDRAWS_PER_SECOND:
            self._drawn = now
            self._live.update(_shown(text), refresh=True)

    async def finish(self, reply: Reply) -> None:
        """Print the reply and its sources for good."""
        self.close()
        if self._console.is_terminal:
            self._console.print(_shown(reply.text))
        else:
            self._console.print(Text(printable(reply.text)), soft_wrap=True)
        if reply.citations:
            self._console.print()
            for citation in reply.citations:
                self._console.print(source_line(citation), soft_wrap=True)

    async def fail(self, text: str) -> None:
        """Print what went wrong."""
        self.close()
        self._console.print(Text(printable(text), style="red"), soft_wrap=True)

    def close(self) -> None:
        """Give the terminal back as it was, with its cursor. Idempotent."""
        if self._live:
            self._live.stop()
            self._live = None


def _shown(markdown: str) -> Markdown:
    from bots.rendered import rendered

    return rendered(printable(markdown))


def source_line(citation: Citation) -> Text:
    """Return "[1] title  where", with the link behind it where the terminal can."""
    url = printable(citation.url)
    line = Text.assemble((f"[{citation.n}] ", "bold"), printable(citation.title or citation.path), "  ")
    line.append(url or printable(f"{citation.source}: {citation.path}"), style=Style(color="cyan", link=url or None))
    return line


@contextmanager
def ingest_progress(console: Console) -> Iterator[Callable[[SyncProgress], None]]:
    """Show one bar per source while the block runs; yields the function that moves them."""
    bars = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("documents"),
        TextColumn("{task.fields[passages]}"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    rows: dict[str, int] = {}

    def move(progress: SyncProgress) -> None:
        if progress.source not in rows:
            rows[progress.source] = int(bars.add_task(progress.source, total=None, passages=""))
        shown = f"{counted(progress.passages, 'passage')}, {progress.passages_per_second:.0f}/s"
        bars.update(
            rows[progress.source],  # type: ignore[arg-type]
            completed=progress.documents_done,
            total=progress.documents_total,
            description=f"{progress.source} [dim]{progress.stage}[/]",
            passages=shown if progress.passages else "",
        )

    with bars:
        yield move


def print_refreshed(console: Console, reports: Sequence[SyncReport], failures: Mapping[str, str]) -> None:
    """Print what a refresh of several sources did, and why which of them failed, by name."""
    if reports:
        print_reports(console, reports)
    for name, reason in failures.items():
        failure = f"{name} failed, what was known of it is kept: {without_name(name, reason)}"
        console.print(printable(failure), style="red", markup=False, soft_wrap=True)


def print_reports(console: Console, reports: Sequence[SyncReport]) -> None:
    """Print what a refresh did, one line per source, skips and staleness below."""
    table = Table("source", box=None, header_style="bold", pad_edge=False)
    for heading in ("added", "updated", "deleted", "unchanged", "passages", "seconds"):
        table.add_column(heading, justify="right")
    for report in reports:
        numbers = (report.added, report.updated, report.deleted, report.unchanged, report.passages)
        table.add_row(report.name, *map(str, numbers), f"{report.seconds:.1f}")
    console.print(table)
    for report in reports:
        if report.skipped:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(report.skipped.items()))
            console.print(f"[dim]{escape(report.name)}: skipped {escape(reasons)}[/]", soft_wrap=True)
        if report.stale:
            console.print(
                f"[yellow]{escape(report.name)} is not up to date: {escape(printable(report.stale))}[/]", soft_wrap=True
            )


def print_passages(console: Console, passages: Sequence[Passage]) -> None:
    """Print search results: score, title, place, and the beginning of the text."""
    for number, passage in enumerate(passages, 1):
        title = Text.assemble((f"{number:2}. ", "bold"), (f"{passage.score:.3f}  ", "green"), printable(passage.title))
        console.print(title, soft_wrap=True)
        lines = f":{passage.start_line}-{passage.end_line}" if passage.start_line else ""
        console.print(Text(printable(f"     {passage.source}: {passage.path}{lines}"), style="cyan"), soft_wrap=True)
        beginning = " ".join(printable(passage.text).split())[:200]
        console.print(Text(f"     {beginning}", style="dim"), soft_wrap=True)


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print what a check found, one line each."""
    for finding in findings:
        console.print(
            f"{MARKS[finding.level]:>8} ", Text(printable(f"{finding.subject}: {finding.text}")), soft_wrap=True
        )
