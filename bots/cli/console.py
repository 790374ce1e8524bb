"""The terminal: streamed answers with numbered links, progress bars, tables. Quiet where nobody is watching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from bots.common.terminal import strip_control_characters
from core.observability.logs import make_redactor
from core.settings import Settings
from core.settings.loader import get_secret_values
from core.types import Passage

if TYPE_CHECKING:
    from knowledge.ingestion.refresh import RefreshResult
    from knowledge.ingestion.sync import SyncReport


LEVEL_LABELS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "error": "[red]error[/]"}
Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check looked at: `subject` is its path in the configuration, or its name."""

    level: Level
    subject: str
    text: str


def strip_source_prefix(source: str, reason: str) -> str:
    """Return why a source failed without its name before it, for a line that begins with the name."""
    return reason.removeprefix(f"source {source}: ")


def print_refresh_result(console: Console, reports: Sequence[SyncReport], failures: Mapping[str, str]) -> None:
    """Print what a refresh of several sources did, and why which of them failed, by name."""
    if reports:
        print_reports(console, reports)
    for name, reason in failures.items():
        message = f"{name} failed, what was known of it is kept: {strip_source_prefix(name, reason)}"
        console.print(strip_control_characters(message), style="red", markup=False, soft_wrap=True)


def print_reports(console: Console, reports: Sequence[SyncReport]) -> None:
    """Print what a refresh did, one line per source, skips and staleness below."""
    table = Table("source", box=None, header_style="bold", pad_edge=False)
    for heading in ("added", "updated", "deleted", "unchanged", "passages", "seconds"):
        table.add_column(heading, justify="right")
    for report in reports:
        counts = (report.added, report.updated, report.deleted, report.unchanged, report.passages)
        table.add_row(report.name, *map(str, counts), f"{report.seconds:.1f}")
    console.print(table)
    for report in reports:
        if report.skipped:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(report.skipped.items()))
            console.print(f"[dim]{escape(report.name)}: skipped {escape(reasons)}[/]", soft_wrap=True)
        if report.stale:
            console.print(
                f"[yellow]{escape(report.name)} is not up to date: {escape(strip_control_characters(report.stale))}[/]",
                soft_wrap=True,
            )


def print_passages(console: Console, passages: Sequence[Passage]) -> None:
    """Print search results: score, title, place, and the beginning of the text."""
    for rank, passage in enumerate(passages, 1):
        title = Text.assemble(
            (f"{rank:2}. ", "bold"), (f"{passage.score:.3f}  ", "green"), strip_control_characters(passage.title)
        )
        console.print(title, soft_wrap=True)
        line_range = f":{passage.start_line}-{passage.end_line}" if passage.start_line else ""
        console.print(
            Text(strip_control_characters(f"     {passage.source}: {passage.path}{line_range}"), style="cyan"),
            soft_wrap=True,
        )
        snippet = " ".join(strip_control_characters(passage.text).split())[:200]
        console.print(Text(f"     {snippet}", style="dim"), soft_wrap=True)


def redact_refresh_result(result: RefreshResult, settings: Settings) -> RefreshResult:
    """Return the same without the credentials that addresses in its messages may hold."""
    redact = make_redactor(get_secret_values(settings))
    reports = tuple(replace(report, stale=redact(report.stale)) for report in result.reports)
    failures = {name: redact(reason) for name, reason in result.failures.items()}
    return replace(result, reports=reports, failures=failures)


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print what a check found, one line each."""
    for finding in findings:
        console.print(
            f"{LEVEL_LABELS[finding.level]:>8} ",
            Text(strip_control_characters(f"{finding.subject}: {finding.text}")),
            soft_wrap=True,
        )
