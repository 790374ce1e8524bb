"""How well questions find their agents, and how many searches that saves (KIMAs 3.2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.evaluation.scores import Figure
from core.parts import Parts
from knowledge.evaluation.asking import Case, at_once, queries
from knowledge.evaluation.measures import Values, mean

ROUTING_FORM = '{"id", "question", "agents": [name], "history"?} (docs/evaluate.md)'
ROUTED = ("accuracy", "coverage", "saved", "irrelevant")


@dataclass(frozen=True, slots=True)
class Routed:
    """The measures of `cases` questions by way to make the query; `cut` rewrites of the model were the rule's."""

    cases: int
    agents: int
    cut: int
    ways: Mapping[str, Mapping[str, Figure]]


async def measure_routing(cases: Sequence[Case], parts: Parts) -> Routed:
    """Route every question in every way."""
    asked, cut = await queries(cases, parts)
    chosen: dict[str, Sequence[str]] = {}

    async def route(query: str) -> str:
        chosen[query] = [agent.name for agent in await parts.library.route(query)]
        return query

    await at_once(route, sorted({query for way in asked.values() for query in way}))
    names = list(parts.settings.retrieval_agents())
    ways = {
        way: summed(rate_routing([chosen[query] for query in texts], [case.wanted for case in cases], len(names)))
        for way, texts in asked.items()
    }
    return Routed(len(cases), len(names), cut, ways)


def rate_routing(
    chosen: Sequence[Sequence[str]], wanted: Sequence[frozenset[str]], agents: int
) -> Mapping[str, Values]:
    """Return what each routed question is worth, shape (cases,), 0 to 1; NaN where a measure does not apply.

    `accuracy`: the best agent is a wanted one, or none is asked where none is wanted. `coverage`: the share of the
    wanted agents that are asked. `saved`: the share of all agents that are not. `irrelevant`: none is asked where none
    is wanted.
    """
    values = {name: np.full(len(chosen), np.nan) for name in ROUTED}
    for case, (names, right) in enumerate(zip(chosen, wanted, strict=True)):
        values["accuracy"][case] = (bool(names) and names[0] in right) if right else not names
        values["saved"][case] = 1 - len(names) / max(1, agents)
        if right:
            values["coverage"][case] = len(right & set(names)) / len(right)
        else:
            values["irrelevant"][case] = not names
    return values


def summed(values: Mapping[str, Values]) -> Mapping[str, Figure]:
    """Return the means with their intervals."""
    return {name: mean(one) for name, one in values.items()}
