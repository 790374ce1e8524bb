"""How well questions find their documents: routed, searched and ordered as in an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.agents.reranker import rerank
from core.budget import Budget
from core.evaluation.scores import Figure
from core.parts import Parts
from core.types import Passage
from knowledge.evaluation.asking import RAW, Case, at_once, queries
from knowledge.evaluation.measures import DEPTHS, DRAWN, MEASURES, Values, mean, rate

RETRIEVAL_FORM = '{"id", "question", "relevant": [document id or path], "history"?} (docs/evaluate.md)'
# Passages of each agent: enough that some 20 documents are among them where a document has several.
DEPTH = 60


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


def documents(passages: Sequence[Passage], wanted: Collection[str]) -> Sequence[str]:
    """Return the documents of ranked passages, each once: by path, or by `source: path` where that one is wanted."""
    paths = (
        place if (place := f"{passage.source}: {passage.path}") in wanted else passage.path for passage in passages
    )
    return list(dict.fromkeys(paths))


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
