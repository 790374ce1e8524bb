"""What `kimas eval` does: labelled data in, a table or one JSON object out."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bots.app import open_app
from bots.charts import check_plot, draw
from bots.console import console
from bots.evaluate_plots import score_charts
from core.evaluation.citations import FORM, Measured, measure, read_case
from core.evaluation.lines import read_cases
from core.evaluation.scores import LEVEL, Figure, Scores
from core.settings import Settings

_HEADINGS = ("precision", "recall", "F1", "right", "wrong", "missed")


async def citations(settings: Settings, data: Path, *, as_json: bool, plot: Path | None = None) -> int:
    """Measure the look-back and the support check. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_case, FORM)
    async with open_app(settings) as app:
        measured = await measure(cases, app.parts)
    rows = {f"look-back, {way}": scores for way, scores in measured.look_back.items()}
    rows |= {f"citations, {way}": scores for way, scores in measured.citations.items()}
    rows["removals"] = measured.removals
    if plot:
        await asyncio.to_thread(draw, score_charts(rows), plot)
    if as_json:
        sys.stdout.write(json.dumps(citations_as_json(measured), ensure_ascii=False) + "\n")
        return 0
    title = f"{measured.cases} cases; intervals hold {LEVEL:.0%} of the resamples"
    console().print("\n".join([title, *score_table(rows)]), markup=False, soft_wrap=True)
    return 0


def citations_as_json(measured: Measured) -> Mapping[str, Any]:
    """Return the object that `kimas eval citations --json` prints (a contract)."""
    return {
        "kind": "citations",
        "cases": measured.cases,
        "level": LEVEL,
        "look_back": {way: scores_as_json(scores) for way, scores in measured.look_back.items()},
        "citations": {way: scores_as_json(scores) for way, scores in measured.citations.items()},
        "removals": scores_as_json(measured.removals),
    }


def scores_as_json(scores: Scores) -> Mapping[str, Any]:
    """Return scores as every `eval --json` prints them; a figure that is not defined is null."""
    figures = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    counts = {"right": scores.counts.right, "wrong": scores.counts.wrong, "missed": scores.counts.missed}
    return {name: figure_as_json(figure) for name, figure in figures.items()} | counts


def score_table(rows: Mapping[str, Scores]) -> Sequence[str]:
    """Return the lines of a table, a row per measured thing."""
    cells = [
        (name, *map(shown, (scores.precision, scores.recall, scores.f1)), *_counted(scores))
        for name, scores in rows.items()
    ]
    table = [("", *_HEADINGS), *cells]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in table
    ]


def figure_as_json(figure: Figure) -> Mapping[str, float | None]:
    """Return a figure as every `eval --json` prints it."""
    values = {"value": figure.value, "low": figure.low, "high": figure.high}
    return {name: None if value is None else round(value, 4) for name, value in values.items()}


def shown(figure: Figure) -> str:
    """Return a figure with its interval as tables show it."""
    if figure.value is None:
        return "-"
    interval = "" if figure.low is None or figure.high is None else f" ({figure.low:.3f}-{figure.high:.3f})"
    return f"{figure.value:.3f}{interval}"


def _counted(scores: Scores) -> tuple[str, str, str]:
    return str(scores.counts.right), str(scores.counts.wrong), str(scores.counts.missed)
