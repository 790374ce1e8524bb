"""`kimas eval retrieval`: how well questions find their documents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bots.actions import print_json
from bots.app import App
from bots.evaluation.charts import check_plot
from bots.evaluation.opening import opened, read_entries, without_live
from bots.evaluation.plots import retrieval_charts
from bots.evaluation.showing import (
    figures_as_json,
    fitted_lines,
    judged_as_json,
    print_lines,
    save,
    shown,
    signed,
    title,
)
from bots.explained import table_lines
from core.evaluation.lines import read_cases
from core.evaluation.scores import LEVEL
from core.settings import Settings
from knowledge.evaluation.asking import read_retrieval
from knowledge.evaluation.fitting import AlphaFitted, enough, fit_alpha
from knowledge.evaluation.measures import MAIN, MEASURES
from knowledge.evaluation.retrieval import RETRIEVAL_FORM, Retrieved, measure_retrieval


async def retrieval(
    settings: Settings, data: Path, corpus: Path | None, *, fit: bool, as_json: bool, plot: Path | None = None
) -> int:
    """Measure how well questions find their documents. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_retrieval, RETRIEVAL_FORM)
    if fit:
        enough(cases)
    entries = await read_entries(corpus)
    async with opened(settings if entries else without_live(settings), entries) as app:
        measured = await measure_retrieval(cases, app.parts, await _known(app), curves=plot is not None)
        fitted = await fit_alpha(cases, app.parts, app.store, app.embedder) if fit else None
    if plot:
        await save(retrieval_charts(measured), plot)
    if as_json:
        print_json(retrieval_as_json(measured, fitted))
        return 0
    lines = _retrieval_lines(measured)
    if fitted:
        section = {"knowledge": {"search": {"alpha": fitted.alpha}}}
        lines += fitted_lines({MAIN: fitted.judged}, section, keep=fitted.judged.worse)
    print_lines(lines)
    return 0


def retrieval_as_json(measured: Retrieved, fitted: AlphaFitted | None) -> Mapping[str, Any]:
    """Return the object that `kimas eval retrieval --json` prints (a contract)."""
    ways = {
        way: {
            "changed": one.changed,
            "measures": figures_as_json(one.measures),
            **({"differences": figures_as_json(one.differences)} if one.differences else {}),
        }
        for way, one in measured.ways.items()
    }
    head = {"kind": "retrieval", "cases": measured.cases, "level": LEVEL}
    result = {**head, "missing": measured.missing, "cut": measured.cut, "ways": ways}
    return result | ({"fitted": {"alpha": fitted.alpha, MAIN: judged_as_json(fitted.judged)}} if fitted else {})


async def _known(app: App) -> frozenset[str]:
    """Return every document of the knowledge, as data may name it: by path alone, and with its source."""
    known: set[str] = set()
    for name in app.settings.sources:
        paths = await app.store.manifest(name)
        known.update(paths, (f"{name}: {path}" for path in paths))
    return frozenset(known)


def _retrieval_lines(measured: Retrieved) -> list[str]:
    lines = [title(measured.cases)]
    if measured.missing:
        lines.append(f"{measured.missing} relevant documents are not in the knowledge: nothing can find them")
    if measured.cut:
        lines.append(f"{measured.cut} times a rewrite or a rerank failed or was late, and its stand-in was measured")
    rows = [("", *(f"{way} ({one.changed} changed)" if one.changed else way for way, one in measured.ways.items()))]
    rows += [(name, *(shown(one.measures[name]) for one in measured.ways.values())) for name in MEASURES]
    lines += table_lines(rows)
    for way, one in measured.ways.items():
        if one.changed:
            lines.append(f"{way} against raw: {MAIN} {signed(one.differences[MAIN])}")
    return lines
