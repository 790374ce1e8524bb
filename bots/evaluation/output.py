"""How all measurements print what they found: tables, JSON and YAML sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bots.common.terminal import format_table, make_console
from bots.evaluation.metrics import TuningComparison
from core.formatting import pluralize, strip_control_characters
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL, Estimate, Scores
from core.storage.usage import TokenUsage

_KEEP_CONFIGURED_NOTE = "On questions not fitted to, the fitted values do worse than the configured ones: keep those."
_HEADINGS = ("precision", "recall", "F1", "right", "wrong", "missed")


def print_lines(lines: Sequence[str]) -> None:
    """Print lines; what a server says in them does not steer the terminal."""
    make_console().print("\n".join(map(strip_control_characters, lines)), markup=False, soft_wrap=True)


def format_title(cases: int) -> str:
    """Return how many cases were measured, and what the intervals are."""
    return f"{pluralize(cases, 'case')}; intervals hold {CONFIDENCE_LEVEL:.0%} of the resamples"


def format_cost(usage: TokenUsage) -> str:
    """Return a cost as tables show it."""
    return f"{usage.cost:.4f}" if usage.cost else "-"


def format_unreadable_reply(reply: str) -> list[str]:
    """Return the line that shows the beginning of an unreadable reply of the judge; none for an empty text."""
    return [f"An unreadable reply of the judge begins: {reply}"] if reply else []


def format_figure(figure: Estimate) -> str:
    """Return a figure with its interval as tables show it."""
    if figure.value is None:
        return "-"
    interval = "" if figure.low is None or figure.high is None else f" ({figure.low:.3f}-{figure.high:.3f})"
    return f"{figure.value:.3f}{interval}"


def format_difference(figure: Estimate) -> str:
    """Return a difference with its interval."""
    if figure.value is None or figure.low is None or figure.high is None:
        return "-"
    return f"{figure.value:+.3f} ({figure.low:+.3f} to {figure.high:+.3f})"


def figure_as_json(figure: Estimate) -> Mapping[str, float | None]:
    """Return a figure as every `eval --json` prints it."""
    values = {"value": figure.value, "low": figure.low, "high": figure.high}
    return {name: None if value is None else round(value, 4) for name, value in values.items()}


def figures_as_json(figures: Mapping[str, Estimate]) -> Mapping[str, Any]:
    """Return figures by name."""
    return {name: figure_as_json(figure) for name, figure in figures.items()}


def scores_as_json(scores: Scores) -> Mapping[str, Any]:
    """Return scores as every `eval --json` prints them; a figure that is not defined is null."""
    figures = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    counts = {
        "right": scores.counts.true_positives,
        "wrong": scores.counts.false_positives,
        "missed": scores.counts.false_negatives,
    }
    return {**figures_as_json(figures), **counts}


def score_table(rows: Mapping[str, Scores]) -> Sequence[str]:
    """Return the lines of a table, a row per measured thing."""
    cells = [
        (name, *map(format_figure, (scores.precision, scores.recall, scores.f1)), *_format_counts(scores))
        for name, scores in rows.items()
    ]
    return format_table([("", *_HEADINGS), *cells])


def format_fit_lines(
    comparisons: Mapping[str, TuningComparison], section: Mapping[str, Any], *, keep_configured: bool
) -> list[str]:
    """Return what fitting brings on questions that it had not seen, and its section; `keep_configured` advises against
    it.
    """
    rows = [("fitted, on questions not fitted to", "configured", "fitted", "difference")]
    rows += [
        (
            name,
            format_figure(comparison.configured),
            format_figure(comparison.tuned),
            format_difference(comparison.difference),
        )
        for name, comparison in comparisons.items()
    ]
    return [
        "",
        *format_table(rows),
        "",
        *([_KEEP_CONFIGURED_NOTE] if keep_configured else []),
        "# Fitted to all questions:",
        *to_yaml_lines(section),
    ]


def comparison_as_json(comparison: TuningComparison) -> Mapping[str, Any]:
    """Return a measure as configured and as fitted, and what they differ by."""
    figures = {"configured": comparison.configured, "fitted": comparison.tuned, "difference": comparison.difference}
    return figures_as_json(figures)


def to_yaml_lines(values: Mapping[str, Any], indent: int = 0) -> list[str]:
    """Return the lines of a section to be copied into the configuration: mappings, numbers, names and lists of them."""
    lines = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{' ' * indent}{key}:", *to_yaml_lines(value, indent + 2)]
        else:
            scalar = f"[{', '.join(value)}]" if isinstance(value, list) else value
            text = f"{scalar:g}" if isinstance(scalar, float | int) else scalar
            lines.append(f"{' ' * indent}{key}: {text}")
    return lines


def _format_counts(scores: Scores) -> tuple[str, str, str]:
    return str(scores.counts.true_positives), str(scores.counts.false_positives), str(scores.counts.false_negatives)
