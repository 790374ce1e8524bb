"""Where the time of an answer went: the runs of its stages on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A run is never thinner than can be seen, in percent.
MIN_WIDTH = 0.6

# Times from the question to an event, no stages.
_MOMENTS = ("total", "first_token")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a stage: begin and length in percent of the whole."""

    start: float
    width: float


@dataclass(frozen=True, slots=True)
class Row:
    """A stage: its runs, when the first began, how long the longest took (ms), and why it was degraded, or ""."""

    stage: str
    runs: tuple[Run, ...]
    start_ms: float
    spent_ms: float
    degraded: str


def to_rows(trace: Mapping[str, Any]) -> Sequence[Row]:
    """Return the stages of a trace in the order in which they began.

    A trace of an earlier version has only lengths: its stages have no runs.
    """
    spans = [
        (str(span["stage"]), float(span["start_ms"]), float(span["spent_ms"])) for span in trace.get("spans") or ()
    ]
    total_ms = max([get_total_ms(trace), *(start_ms + spent_ms for _, start_ms, spent_ms in spans)], default=0.0) or 1.0
    reasons = {stage: str((trace.get("why_cut") or {}).get(stage, "cut")) for stage in trace.get("cut") or ()}
    by_stage: dict[str, list[tuple[float, float]]] = {}
    for stage, start_ms, spent_ms in sorted(spans, key=lambda span: span[1:]):
        by_stage.setdefault(stage, []).append((start_ms, spent_ms))
    rows = [
        Row(
            stage,
            tuple(_to_run(start_ms, spent_ms, total_ms) for start_ms, spent_ms in runs),
            runs[0][0],
            max(spent_ms for _, spent_ms in runs),
            reasons.pop(stage, ""),
        )
        for stage, runs in by_stage.items()
    ]
    timings = trace.get("timings_ms") or {}
    without_runs = {
        stage: float(spent_ms) for stage, spent_ms in timings.items() if not spans and stage not in _MOMENTS
    }
    rows += [Row(stage, (), 0.0, spent_ms, reasons.pop(stage, "")) for stage, spent_ms in without_runs.items()]
    return [*rows, *(Row(stage, (), 0.0, 0.0, reason) for stage, reason in reasons.items())]


def get_total_ms(trace: Mapping[str, Any]) -> float:
    """Return how long the answer took, 0 where nothing is known."""
    return float((trace.get("timings_ms") or {}).get("total", 0.0))


def _to_run(start_ms: float, spent_ms: float, total_ms: float) -> Run:
    width = max(100 * spent_ms / total_ms, MIN_WIDTH)
    return Run(round(min(100 * start_ms / total_ms, 100 - width), 2), round(width, 2))
