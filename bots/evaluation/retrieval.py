"""`kimas eval retrieval`: how well questions find their documents."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bots.common.terminal import print_json, table_lines
from bots.daemon.bootstrap import App
from bots.evaluation.datasets import DEPTH, RAW, Case, at_once, documents, queries, read_cases, read_retrieval
from bots.evaluation.metrics import DEPTHS, DRAWN, MAIN, MEASURES, Values, mean, rate
from bots.evaluation.output import (
    figures_as_json,
    fitted_lines,
    judged_as_json,
    opened,
    print_lines,
    read_entries,
    save,
    shown,
    signed,
    title,
    without_live,
)
from bots.evaluation.plots import INTERVALS, Chart, Series, check_plot, interval_points
from bots.evaluation.tuning import AlphaFitted, enough, fit_alpha
from core.answering.agents.reranker import rerank
from core.answering.context.dependencies import Parts
from core.messaging.gate.scores import LEVEL, Figure
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Passage

RETRIEVAL_FORM = '{"id", "question", "relevant": [document id or path], "history"?} (docs/evaluate.md)'


@dataclass(frozen=True, slots=True)
class WayMeasured:
    """One way to make the query: the measures, what they differ by from the raw question's, and how many queries do.

    `curves` holds what is drawn: by measure, a figure for each of `DEPTHS`.
    """

    measures: Mapping[str, Figure]
    differences: Mapping[str, Figure]
    changed: int
    curves: Mapping[str, Sequence[Figure]]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The measures of `cases` questions by way. `missing` relevant documents are not in the knowledge at all.

    `cut` counts stages whose stand-in was used: rewrites by the model, and reranks.
    """

    cases: int
    missing: int
    cut: int
    ways: Mapping[str, WayMeasured]


async def measure_retrieval(
    cases: Sequence[Case], parts: Parts, known: Collection[str], *, curves: bool = False
) -> Retrieved:
    """Search every question in every way. `known` are the documents that can be found, as cases name them.

    `curves` measures at each of `DEPTHS` too.

    Where the model fails, the rule's query stands in for its. Raises `StoreError`.
    """
    asked, cut = await queries(cases, parts)
    found: dict[str, Sequence[Passage]] = {}
    budgets: list[Budget] = []

    async def search(query: str) -> str:
        budgets.append(Budget(parts.settings.budget))
        found[query] = await _search(query, parts, budgets[-1])
        return query

    # Most questions are the same in every way: each query is searched once.
    await at_once(search, sorted({query for way in asked.values() for query in way}))
    names = list(dict.fromkeys((*MEASURES, *(_drawn() if curves else ()))))
    rated = await asyncio.to_thread(_rated, cases, asked, found, names)
    ways = {way: await asyncio.to_thread(_measured, way, rated, asked) for way in asked}
    missing = sum(one not in known for case in cases for one in case.wanted)
    return Retrieved(len(cases), missing, cut + sum("rerank" in budget.cut for budget in budgets), ways)


async def _search(query: str, parts: Parts, budget: Budget) -> Sequence[Passage]:
    agents = await parts.library.route(query)
    found = [await parts.library.search(agent.name, query, DEPTH) for agent in agents]
    return await rerank(query, [passage for passages in found for passage in passages], parts, budget)


def _rated(
    cases: Sequence[Case],
    asked: Mapping[str, Sequence[str]],
    found: Mapping[str, Sequence[Passage]],
    names: Sequence[str],
) -> Mapping[str, Mapping[str, Values]]:
    wanted = [case.wanted for case in cases]
    return {
        way: rate([documents(found[query], one) for query, one in zip(texts, wanted, strict=True)], wanted, names)
        for way, texts in asked.items()
    }


def _measured(way: str, rated: Mapping[str, Mapping[str, Values]], asked: Mapping[str, Sequence[str]]) -> WayMeasured:
    differences = {name: rated[way][name] - rated[RAW][name] for name in MEASURES} if way != RAW else {}
    return WayMeasured(
        {name: mean(rated[way][name]) for name in MEASURES},
        {name: mean(values) for name, values in differences.items()},
        int(np.sum([one != raw for one, raw in zip(asked[way], asked[RAW], strict=True)])),
        {name: [mean(rated[way][f"{name}@{k}"]) for k in DEPTHS] for name in DRAWN if f"{name}@1" in rated[way]},
    )


def _drawn() -> Sequence[str]:
    return [f"{name}@{k}" for name in DRAWN for k in DEPTHS]


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


def retrieval_charts(measured: Retrieved) -> Sequence[Chart]:
    """Return recall and nDCG at k, a line for every way to make the query, with intervals."""
    from bots.evaluation.metrics import DEPTHS, DRAWN

    return [
        Chart(
            f"{name} at k, {measured.cases} questions; {INTERVALS}",
            "k: documents looked at",
            name,
            [Series(way, interval_points(one.curves[name])) for way, one in measured.ways.items()],
            [str(depth) for depth in DEPTHS],
        )
        for name in DRAWN
    ]
