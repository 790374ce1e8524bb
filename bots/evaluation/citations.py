"""`kimas eval citations`: how well citations are found, and false ones removed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bots.actions import print_json
from bots.app import open_app
from bots.evaluation.charts import check_plot
from bots.evaluation.plots import score_charts
from bots.evaluation.showing import print_lines, save, score_table, scores_as_json, title
from core.evaluation.citations import FORM, Measured, measure, read_case
from core.evaluation.lines import read_cases
from core.evaluation.scores import LEVEL
from core.settings import Settings


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
        await save(score_charts(rows), plot)
    if as_json:
        print_json(citations_as_json(measured))
        return 0
    print_lines([title(measured.cases), *score_table(rows)])
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
