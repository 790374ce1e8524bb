"""Output of the commands: tables of refreshes, passages, findings and explained scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from bots.common.terminal import format_table
from core.formatting import pluralize, strip_control_characters, strip_source_prefix
from core.observability.logs import make_redactor
from core.settings import KnowledgeSettings, Settings
from core.settings.loader import get_secret_values
from core.types import Passage

if TYPE_CHECKING:
    from knowledge.ingestion.refresh import RefreshResult
    from knowledge.ingestion.sync import SyncReport
    from knowledge.retrieval.score_explanation import AgentExplanation, PassageExplanation, RoutingMethod

LEVEL_LABELS = {"ok": "[green]ok[/]", "warning": "[yellow]warning[/]", "error": "[red]error[/]"}
Level = Literal["ok", "warning", "error"]
MAX_MATCHED_TEXT_CHARS = 90
_ROUTING_DESCRIPTIONS = {
    "vectors": "routed by meaning: score = scale x ((1 - weight) x centroid + weight x mix-in)",
    "words": "routed by words: the embedding model does not know the query's, or did not answer",
    "option": "not routed: --agent names the agent",
    "off": "not routed: knowledge.routing is off, so every agent is asked",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a check: `subject` is a path in the configuration, or a name."""

    level: Level
    subject: str
    text: str


def print_refresh_result(console: Console, result: RefreshResult) -> None:
    """Print what a refresh did, and why sources failed."""
    if result.reports:
        print_reports(console, result.reports)
    print_failures(console, result)


def print_failures(console: Console, result: RefreshResult) -> None:
    """Print why sources failed: they could not be read, or no vectors could be made after that."""
    read_names = {report.name for report in result.reports}
    for name, reason in result.failures.items():
        outcome = "is found by words alone" if name in read_names else "failed, what was known of it is kept"
        message = f"{name} {outcome}: {strip_source_prefix(name, reason)}"
        console.print(strip_control_characters(message), style="red", markup=False, soft_wrap=True)


def make_table(left_headings: Sequence[str], right_headings: Sequence[str]) -> Table:
    """Return an empty table with columns of text on the left and columns of numbers on the right."""
    table = Table(*left_headings, box=None, header_style="bold", pad_edge=False)
    for heading in right_headings:
        table.add_column(heading, justify="right")
    return table


def print_reports(console: Console, reports: Sequence[SyncReport]) -> None:
    """Print what a refresh did, one line per source, skips and staleness below."""
    counted = ("added", "updated", "deleted", "unchanged", "passages", "by meaning", "seconds")
    table = make_table(["source"], counted)
    for report in reports:
        changes = (report.added, report.updated, report.deleted, report.unchanged)
        counts = (*changes, report.passages, report.passages - report.unfilled)
        table.add_row(report.name, *map(str, counts), f"{report.seconds:.1f}")
    console.print(table)
    for report in reports:
        if report.repaired:
            line = f"{report.name}: {describe_repair(report.repaired)}"
            console.print(line, style="yellow", markup=False, soft_wrap=True)
        if report.skipped:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(report.skipped.items()))
            console.print(f"[dim]{escape(report.name)}: skipped {escape(reasons)}[/]", soft_wrap=True)
        if report.stale:
            console.print(
                f"[yellow]{escape(report.name)} is not up to date: {escape(strip_control_characters(report.stale))}[/]",
                soft_wrap=True,
            )


def describe_repair(count: int) -> str:
    """Say of how many documents the store had lost passages."""
    return f"the store had lost passages of {pluralize(count, 'document')}, which were read again"


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
    """Return the result without the credentials that URLs in its messages may contain."""
    redact = make_redactor(get_secret_values(settings))
    reports = tuple(replace(report, stale=redact(report.stale)) for report in result.reports)
    failures = {name: redact(reason) for name, reason in result.failures.items()}
    return replace(result, reports=reports, failures=failures)


def print_findings(console: Console, findings: Sequence[Finding]) -> None:
    """Print the findings of a check, one line each."""
    for finding in findings:
        console.print(
            f"{LEVEL_LABELS[finding.level]:>8} ",
            Text(strip_control_characters(f"{finding.subject}: {finding.text}")),
            soft_wrap=True,
        )


@dataclass(frozen=True, slots=True)
class SearchExplanation:
    """How a query was routed, with the scores of all agents and of the passages shown."""

    routing_method: RoutingMethod
    agents: Sequence[AgentExplanation]
    passages: Sequence[PassageExplanation]


def explanation_as_json(explanation: SearchExplanation, settings: KnowledgeSettings) -> Mapping[str, Any]:
    """Return what `--explain` adds to the object that `kimas search --json` prints (a contract)."""
    routing = settings.routing
    return {
        "routing": {
            "by": explanation.routing_method,
            "limit": routing.agents,
            "threshold": routing.threshold,
            "agents": [_agent_as_json(agent) for agent in explanation.agents],
        },
        "scores": [
            {
                "passage_id": scores.passage.id,
                "kind": scores.passage.kind,
                "similarity": round(scores.passage.similarity, 4),
                "lexical": round(scores.passage.lexical, 4),
                "lexical_share": round(scores.passage.lexical_share, 4),
                "agents": {name: round(score, 4) for name, score in scores.agent_scores.items()},
                "fused": round(scores.fused_score, 4),
                "kind_weight": scores.kind_weight,
                "score": round(scores.passage.score, 4),
            }
            for scores in explanation.passages
        ],
    }


def format_explanation_lines(explanation: SearchExplanation, settings: KnowledgeSettings) -> Sequence[str]:
    """Return the tables of the agents and of the passages, line by line."""
    routing = settings.routing
    search = settings.search
    agents = explanation.agents
    description = _ROUTING_DESCRIPTIONS[explanation.routing_method]
    saved_text = f"{sum(not agent.is_selected for agent in agents)} of {len(agents)} searches saved"
    limits_text = f"{routing.agents} at most, threshold {routing.threshold:g}; {saved_text}"
    lines = [description if explanation.routing_method == "off" else f"{description}; {limits_text}"]
    rows = [("agent", "score", "centroid", "mix-in", "weight", "mixed in", "scale", "asked"), *map(_agent_row, agents)]
    lines += ["", *format_table(rows), ""]
    lines += [_format_matched_text(agent) for agent in agents if agent.routing_score and agent.routing_score.best_text]
    lines += [""] if lines[-1] else []
    if explanation.passages:
        lines.append(
            f"fused = {search.alpha:g} similarity + {1 - search.alpha:g} lexical (the share of the most possible); "
            "a tenth less for code and API reference pages"
        )
        rows = [
            ("passage", "score", "fused", "similarity", "lexical", "kind", "found by"),
            *map(_passage_row, explanation.passages),
        ]
        lines += ["", *format_table(rows, left_columns=(0, 5, 6))]
    else:
        lines.append("nothing is found")
    return lines


def _agent_as_json(agent: AgentExplanation) -> Mapping[str, Any]:
    routing_score = agent.routing_score
    matched_text = routing_score.best_text if routing_score else None
    return {
        "name": agent.name,
        "asked": agent.is_selected,
        "score": _round_score(agent.score),
        "centroid": _round_score(routing_score.centroid_cosine) if routing_score else None,
        "mix_in": _round_score(routing_score.mix_in_cosine) if routing_score else None,
        "mix_in_weight": routing_score.mix_in_weight if routing_score else None,
        "mix_in_part": _round_score(routing_score.mix_in_contribution) if routing_score else None,
        "matched": {"kind": matched_text.kind, "text": matched_text.text, "weight": matched_text.weight}
        if matched_text
        else None,
        "scale": routing_score.scale if routing_score else None,
    }


def _agent_row(agent: AgentExplanation) -> Sequence[str]:
    routing_score = agent.routing_score
    values: Sequence[float | None] = (None,) * 5
    if routing_score:
        mix_in = (routing_score.mix_in_cosine, routing_score.mix_in_weight, routing_score.mix_in_contribution)
        values = (routing_score.centroid_cosine, *mix_in, routing_score.scale)
    return agent.name, *map(_format_score, (agent.score, *values)), "yes" if agent.is_selected else "no"


def _format_matched_text(agent: AgentExplanation) -> str:
    """Describe the text of the mix-in that matched best, shortened to a line."""
    matched_text = agent.routing_score.best_text if agent.routing_score else None
    if matched_text is None:
        return ""
    text = " ".join(matched_text.text.split())
    excerpt = text if len(text) <= MAX_MATCHED_TEXT_CHARS else f"{text[:MAX_MATCHED_TEXT_CHARS]}..."
    return strip_control_characters(
        f"{agent.name}: best of the mix-in ({matched_text.kind}, weight {matched_text.weight:g}): {excerpt}"
    )


def _passage_row(explanation: PassageExplanation) -> Sequence[str]:
    passage = explanation.passage
    lines = f":{passage.start_line}-{passage.end_line}" if passage.start_line else ""
    weight = "" if explanation.kind_weight == 1 else f" x{explanation.kind_weight:g}"
    agent_scores = ", ".join(f"{name} {score:.3f}" for name, score in explanation.agent_scores.items())
    return (
        strip_control_characters(f"{passage.source}: {passage.path}{lines}"),
        *map(_format_score, (passage.score, explanation.fused_score, passage.similarity, passage.lexical_share)),
        f"{passage.kind}{weight}",
        agent_scores,
    )


def _format_score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _round_score(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
