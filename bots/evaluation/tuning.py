"""Fitting weights to labelled data, judged on questions that they were not fitted to (cross-validation)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bots.evaluation.datasets import DEPTH, RULE, Case, at_once, documents, queries
from bots.evaluation.metrics import MAIN, Values, mean, rate
from core.answering.context.dependencies import Parts
from core.errors import UsageError
from core.grounding.document_kinds import weigh_kinds
from core.grounding.fusion import fuse
from core.messaging.gate.scores import Figure
from core.settings import SearchSettings
from core.text.tokens import query_tokens
from core.types import Passage
from knowledge.ports import Embedder, Store
from knowledge.retrieval.library import KNOWN_SHARE

Indices = NDArray[np.int64]
T = TypeVar("T")

FOLDS = 5
FEWEST = 20
ALPHAS = tuple(round(number / 20, 2) for number in range(21))
_SEED = 20_240_601


@dataclass(frozen=True, slots=True)
class Judged:
    """A measure as configured and as fitted, both over questions that the fit had not seen, and what they differ by."""

    configured: Figure
    fitted: Figure
    difference: Figure

    @property
    def worse(self) -> bool:
        """Tell whether the fitted values do worse than the configured ones, on average."""
        return (self.difference.value or 0.0) < 0


@dataclass(frozen=True, slots=True)
class AlphaFitted:
    """The fitted weight of the dense score, and nDCG@10 with it."""

    alpha: float
    judged: Judged


async def fit_alpha(cases: Sequence[Case], parts: Parts, store: Store, embedder: Embedder) -> AlphaFitted:
    """Fit `knowledge.search.alpha` to nDCG@10 of the rule's queries. Raises `UsageError` for too few questions."""
    enough(cases)
    asked, _ = await queries(cases, parts_without_model(parts))
    search = parts.settings.knowledge.search
    found: dict[str, Sequence[Passage]] = {}

    async def candidates(query: str) -> str:
        found[query] = await _candidates(query, parts, store, embedder)
        return query

    await at_once(candidates, sorted(set(asked[RULE])))
    rated = await asyncio.to_thread(_by_alpha, [found[query] for query in asked[RULE]], cases, search)
    # Before all others stands the configured one: of equals it is kept.
    choices = sorted(rated, key=lambda alpha: abs(alpha - search.alpha))

    def best(cases_of: Indices) -> float:
        return max(choices, key=lambda alpha: round(float(rated[alpha][cases_of].mean()), 6))

    seen = held_out(len(cases), best, lambda alpha, cases_of: {MAIN: rated[alpha][cases_of]})
    configured = rated[search.alpha]
    return AlphaFitted(best(np.arange(len(cases))), judge(configured, seen[MAIN]))


def judge(configured: Values, fitted: Values) -> Judged:
    """Compare what the same cases are worth in both ways."""
    return Judged(mean(configured), mean(fitted), mean(fitted - configured))


def held_out(
    count: int, fit: Callable[[Indices], T], rate_with: Callable[[T, Indices], Mapping[str, Values]]
) -> Mapping[str, Values]:
    """Return what every case is worth with what was fitted to the other folds, by measure, shape (count,)."""
    folds = [(fold, rate_with(fit(np.setdiff1d(np.arange(count), fold)), fold)) for fold in split(count)]
    values = {name: np.full(count, np.nan) for name in folds[0][1]}
    for fold, rated in folds:
        for name, worth in rated.items():
            values[name][fold] = worth
    return values


def split(count: int, folds: int = FOLDS) -> Sequence[Indices]:
    """Return the cases in folds of about the same size, drawn the same way every time."""
    return np.array_split(np.random.default_rng(_SEED).permutation(count), folds)


def enough(cases: Sequence[Case]) -> None:
    """Raise `UsageError` for fewer questions than anything can be fitted to."""
    if len(cases) < FEWEST:
        raise UsageError(f"--fit needs {FEWEST} questions at least; there are {len(cases)}. Label more of them.")


def parts_without_model(parts: Parts) -> Parts:
    """Return the parts without a model, for what is the same with one."""
    return Parts(parts.settings, parts.library, parts.reranker, None, parts.prompts)


async def _candidates(query: str, parts: Parts, store: Store, embedder: Embedder) -> Sequence[Passage]:
    """Return all candidates of the agents that a query goes to, with both true scores."""
    agents = parts.settings.retrieval_agents()
    sources = {source for one in await parts.library.route(query) for source in agents[one.name].sources}
    if not sources:
        return ()
    known = embedder.known_share(query) >= KNOWN_SHARE
    vector = (await embedder.embed([query]))[0] if known else None
    return await store.search(query_tokens(query), vector, sources, parts.settings.knowledge.search.candidates)


def _by_alpha(
    found: Sequence[Sequence[Passage]], cases: Sequence[Case], search: SearchSettings
) -> Mapping[float, Values]:
    wanted = [case.wanted for case in cases]
    rated = {}
    for alpha in {*ALPHAS, search.alpha}:
        ranked = [weigh_kinds(fuse(passages, alpha, DEPTH), search.kind_weights) for passages in found]
        rated[alpha] = rate([documents(one, ids) for one, ids in zip(ranked, wanted, strict=True)], wanted)[MAIN]
    return rated
