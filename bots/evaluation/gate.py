"""`kimas eval gate`: how well the bot knows when to speak unasked, and what would suit this data better."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bots.actions import print_json
from bots.evaluation.charts import check_plot
from bots.evaluation.opening import opened, read_entries
from bots.evaluation.plots import gate_charts
from bots.evaluation.showing import as_yaml, print_lines, save, score_table, scores_as_json
from core.evaluation.gate import FORM, Measured, judge, measure, read_case, refuse_too_few
from core.evaluation.lines import read_cases
from core.evaluation.scores import LEVEL
from core.settings import Settings


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
