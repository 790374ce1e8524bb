"""What `kimas eval --plot` draws: a measurement as charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bots.evaluation.charts import Chart, Point, Series
from core.evaluation.scores import LEVEL, Figure, Scores

if TYPE_CHECKING:
    from core.evaluation.gate import Judged, Measured
    from core.settings import GateSettings
    from knowledge.evaluation.answers import AnswersMeasured
    from knowledge.evaluation.retrieval import Retrieved
    from knowledge.evaluation.routing_curve import AtThreshold, RoutingCurve

INTERVALS = f"bars hold {LEVEL:.0%} of the resamples"
_SCORES = ("precision", "recall", "F1")


def retrieval_charts(measured: Retrieved) -> Sequence[Chart]:
    """Return recall and nDCG at k, a line for every way to make the query, with intervals."""
    from knowledge.evaluation.measures import DEPTHS, DRAWN

    return [
        Chart(
            f"{name} at k, {measured.cases} questions; {INTERVALS}",
            "k: documents looked at",
            name,
            [Series(way, _points(one.curves[name])) for way, one in measured.ways.items()],
            [str(depth) for depth in DEPTHS],
        )
        for name in DRAWN
    ]


def routing_charts(curve: RoutingCurve) -> Sequence[Chart]:
    """Return coverage against saved searches over thresholds, and where the configured one stands."""
    over = [point for one in curve.points if (point := _trade(one))]
    configured = _trade(curve.configured)
    series = [Series("each threshold from low to high", over)]
    if configured:
        label = f"threshold {curve.configured.threshold:g}"
        series.append(Series("as configured", [configured], joined=False, label=label))
    title = f"What a threshold saves; {INTERVALS}"
    return [Chart(title, "saved: share of the agents not asked", "coverage", series)]


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


def score_charts(rows: Mapping[str, Scores]) -> Sequence[Chart]:
    """Return precision, recall and F1 of every measured thing, with intervals."""
    series = []
    for name, scores in rows.items():
        figures = (scores.precision, scores.recall, scores.f1)
        points = [Point(at, one.value, one.low, one.high) for at, one in enumerate(figures) if one.value is not None]
        series.append(Series(name, points, joined=False))
    return [Chart(f"Citations; {INTERVALS}", "", "share", series, _SCORES)]


def answer_charts(measured: AnswersMeasured) -> Sequence[Chart]:
    """Return what of the answers is a share, with intervals; what nothing is known of is left out."""
    figures = {
        "answered": measured.answered,
        "words": measured.words,
        "precision": measured.citations.precision,
        "recall": measured.citations.recall,
    }
    title = f"{len(measured.given)} answers; {INTERVALS}"
    return [Chart(title, "", "share", [Series("answers", _points([*figures.values()]), joined=False)], list(figures))]


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


def _points(figures: Sequence[Figure]) -> Sequence[Point]:
    return [Point(at, one.value, one.low, one.high) for at, one in enumerate(figures) if one.value is not None]


def _trade(one: AtThreshold) -> Point | None:
    if one.saved.value is None or one.coverage.value is None:
        return None
    return Point(one.saved.value, one.coverage.value, one.coverage.low, one.coverage.high)
