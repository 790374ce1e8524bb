"""`kimas eval gate`: how well the bot knows when to speak unasked, and what would suit this data better."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bots.common.terminal import print_json
from bots.evaluation.datasets import Line, read_cases
from bots.evaluation.output import as_yaml, opened, print_lines, read_entries, save, score_table, scores_as_json
from bots.evaluation.plots import INTERVALS, Chart, Point, Series, check_plot
from core.messaging.gate.calibration import Case, Measured, judge, measure, refuse_too_few
from core.messaging.gate.scores import LEVEL
from core.settings import Settings

if TYPE_CHECKING:
    from core.messaging.gate.calibration import Judged, Measured
    from core.settings import GateSettings


async def gate(
    settings: Settings, data: Path, corpus: Path | None, *, fit: bool, as_json: bool, plot: Path | None = None
) -> int:
    """Measure the gate on labelled messages. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_case, FORM)
    if fit:
        refuse_too_few(cases, "--fit", "Label more of them.")
    async with opened(settings, await read_entries(corpus)) as app:
        judged = await judge(cases, app.library, app.settings)
        measured = await measure(judged, settings)
    if plot:
        await save(gate_charts(judged, measured, settings.gate), plot)
    if as_json:
        print_json(gate_as_json(measured, fit=fit))
        return 0
    rows = {"as configured": measured.configured.scores, "fitted, cross-validated": measured.crossed.scores}
    title = f"{measured.cases} cases, {measured.by_words} judged by their words alone"
    areas = (
        f"AUC {_shown(measured.configured.auc)} as configured, {_shown(measured.crossed.auc)} cross-validated; "
        f"intervals hold {LEVEL:.0%} of the resamples"
    )
    section = {"gate": {"threshold": measured.threshold, "weights": measured.weights.model_dump()}}
    print_lines([title, *score_table(rows), areas, *(as_yaml(section) if fit else ())])
    return 0


def gate_as_json(measured: Measured, *, fit: bool) -> Mapping[str, Any]:
    """Return the object that `kimas eval gate --json` prints (a contract)."""
    outcomes = {"configured": measured.configured, "crossed": measured.crossed}
    return {
        "kind": "gate",
        "cases": measured.cases,
        "by_words": measured.by_words,
        "level": LEVEL,
        **{
            name: {**scores_as_json(one.scores), "auc": None if one.auc is None else round(one.auc, 4)}
            for name, one in outcomes.items()
        },
        **({"fitted": {"threshold": measured.threshold, "weights": measured.weights.model_dump()}} if fit else {}),
    }


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


FORM = '{"id", "text", "should_answer": true or false} (docs/groups.md)'


def read_case(line: Line) -> Case:
    """Read one line of labelled data."""
    return Case(line.text("id"), line.text("text"), line.flag("should_answer"))


def gate_charts(judged: Sequence[Judged], measured: Measured, settings: GateSettings) -> Sequence[Chart]:
    """Return precision against recall over thresholds, where the configured one stands, and what fitting brings."""
    sure = [(one.sure(settings.weights), one.case.should_answer) for one in judged]
    series = [Series("each threshold, as configured", precision_recall(sure))]
    outcomes = (
        ("as configured", measured.configured, f"threshold {settings.threshold:g}"),
        ("fitted, cross-validated", measured.crossed, ""),
    )
    for name, outcome, label in outcomes:
        recall, precision = outcome.scores.recall.value, outcome.scores.precision
        if recall is not None and precision.value is not None:
            point = Point(recall, precision.value, precision.low, precision.high)
            series.append(Series(name, [point], joined=False, label=label))
    return [Chart(f"When to speak, {measured.cases} messages; {INTERVALS}", "recall", "precision", series)]


def precision_recall(sure: Sequence[tuple[float, bool]]) -> Sequence[Point]:
    """Return the curve over all thresholds that part the cases, from the strictest on; empty where none is wanted."""
    wanted = sum(truth for _, truth in sure)
    ordered = sorted(sure, reverse=True)
    points, right = [], 0
    for count, (chance, truth) in enumerate(ordered, 1):
        right += truth
        # Cases that look the same are spoken to together.
        if wanted and chance > 0 and (count == len(ordered) or ordered[count][0] < chance):
            points.append(Point(right / wanted, right / count))
    return points
