"""The terminal: streamed answers with numbered links, progress bars, tables. Quiet where nobody is watching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from bots.common.terminal import printable
from core.types import Passage

if TYPE_CHECKING:
    from bots.cli.check import Finding
    from knowledge.ingestion.sync import SyncReport


MARKS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "error": "[red]error[/]"}


def without_name(source: str, reason: str) -> str:
    """Return why a source failed without its name before it, for a line that begins with the name."""
    return reason.removeprefix(f"source {source}: ")


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
