"""`kimas eval routing`: how well questions find their agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bots.common.terminal import print_json, table_lines
from bots.evaluation.datasets import Case, at_once, queries, read_cases, read_routing, with_corpus
from bots.evaluation.metrics import ROUTED, mean, rate_routing, summed
from bots.evaluation.output import (
    figures_as_json,
    fitted_lines,
    judged_as_json,
    opened,
    print_lines,
    read_entries,
    save,
    shown,
    title,
    without_live,
)
from bots.evaluation.plots import INTERVALS, Chart, Point, Series, check_plot
from bots.evaluation.tuning import enough
from bots.evaluation.tuning_routing import Compared, RoutingFitted, Weights, asked_agents, compare, fit_routing
from core.answering.context.dependencies import Parts
from core.errors import UsageError
from core.messaging.gate.scores import LEVEL, Figure
from core.settings import Settings
from knowledge.ports import Embedder, Store

ROUTING_FORM = '{"id", "question", "agents": [name], "history"?} (docs/evaluate.md)'


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


STEPS = 24


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """Coverage and saved searches with one threshold."""

    threshold: float
    coverage: Figure
    saved: Figure


@dataclass(frozen=True, slots=True)
class RoutingCurve:
    """The rules' queries over thresholds from low to high, and with the configured one."""

    points: Sequence[AtThreshold]
    configured: AtThreshold


async def routing_curve(cases: Sequence[Case], parts: Parts, store: Store, embedder: Embedder) -> RoutingCurve:
    """Route questions with many thresholds, all else as configured; those that are routed by words are left out.

    Raises `StoreError`, `EmbeddingError`.
    """
    return await asyncio.to_thread(_curve, await compare(cases, parts, store, embedder), parts)


def _curve(compared: Compared, parts: Parts) -> RoutingCurve:
    scores = compared.cosines.mixed(compared.configured)
    wanted = [case.wanted for case in compared.cases]
    routing, agents = parts.settings.knowledge.routing, len(parts.settings.retrieval_agents())

    def at(threshold: float) -> AtThreshold:
        rows = asked_agents(scores, Weights(compared.scales, threshold), routing.agents)
        rated = rate_routing([[compared.names[agent] for agent in row] for row in rows], wanted, agents)
        figures: Mapping[str, Figure] = {name: mean(rated[name]) for name in ("coverage", "saved")}
        return AtThreshold(threshold, figures["coverage"], figures["saved"])

    scaled = scores * compared.scales
    # Steps of equal numbers of scores: where many lie the threshold tells most.
    between = np.quantile(scaled, np.linspace(0, 1, STEPS)) if scaled.size else np.empty(0)
    return RoutingCurve([at(float(step)) for step in between], at(routing.threshold))


async def routing(
    settings: Settings, data: Path, corpus: Path | None, *, fit: bool, as_json: bool, plot: Path | None = None
) -> int:
    """Measure how well questions find their agents. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_routing, ROUTING_FORM)
    entries = await read_entries(corpus)
    chosen = with_corpus(settings, entries) if entries else without_live(settings)
    _refuse_unknown_agents(cases, chosen, data)
    if fit:
        enough(cases)
    async with opened(chosen, entries) as app:
        measured = await measure_routing(cases, app.parts)
        fitted = await fit_routing(cases, app.parts, app.store, app.embedder) if fit else None
        curve = await routing_curve(cases, app.parts, app.store, app.embedder) if plot else None
    if plot and curve:
        await save(routing_charts(curve), plot)
    if as_json:
        print_json(routing_as_json(measured, fitted))
        return 0
    lines = _routing_lines(measured)
    if fitted:
        if fitted.left_out:
            lines += ["", f"{fitted.left_out} questions are routed by words and were not fitted to"]
        lines += fitted_lines(fitted.judged, _weights(fitted, chosen), keep=fitted.judged["accuracy"].worse)
    print_lines(lines)
    return 0


def routing_as_json(measured: Routed, fitted: RoutingFitted | None) -> Mapping[str, Any]:
    """Return the object that `kimas eval routing --json` prints (a contract)."""
    ways = {way: {"measures": figures_as_json(one)} for way, one in measured.ways.items()}
    head = {"kind": "routing", "cases": measured.cases, "level": LEVEL}
    result: dict[str, Any] = {**head, "agents": measured.agents, "cut": measured.cut, "ways": ways}
    if fitted:
        judged = {name: judged_as_json(one) for name, one in fitted.judged.items()}
        result["fitted"] = {
            "scales": fitted.scales,
            "threshold": fitted.threshold,
            "mix_in_weight": fitted.mix_in_weight,
            "mix_in_weights": fitted.mix_in_weights,
            "left_out": fitted.left_out,
            **judged,
        }
    return result


def _refuse_unknown_agents(cases: Sequence[Case], settings: Settings, data: Path) -> None:
    known = settings.retrieval_agents()
    unknown = sorted({name for case in cases for name in case.wanted} - known.keys())
    if unknown:
        raise UsageError(
            f"{data} names agents that there are not: {', '.join(unknown)}. "
            f"The agents with stored knowledge are: {', '.join(sorted(known)) or 'none'}"
        )


def _routing_lines(measured: Routed) -> list[str]:
    rows = [("", *measured.ways), *((name, *(shown(one[name]) for one in measured.ways.values())) for name in ROUTED)]
    cut = [f"{measured.cut} times the model's rewrite failed or was late: the rule's was measured"]
    return [f"{title(measured.cases)}; {measured.agents} agents", *(cut if measured.cut else []), *table_lines(rows)]


def _weights(fitted: RoutingFitted, settings: Settings) -> Mapping[str, Any]:
    """Return the fitted weights as configuration. Agents that are one per source have to be written down for it."""
    mix: dict[str, Any] = {} if fitted.mix_in_weight is None else {"mix_in_weight": fitted.mix_in_weight}
    if fitted.mix_in_weights:
        mix["mix_in_weights"] = fitted.mix_in_weights
    known = settings.retrieval_agents()
    agents = {
        name: {
            **({} if settings.agents else {"sources": [name]}),
            "scale": scale,
            **(mix if any(known[name].mix_ins().values()) else {}),
        }
        for name, scale in fitted.scales.items()
    }
    return {"agents": agents, "knowledge": {"routing": {"threshold": fitted.threshold}}}


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


def _trade(one: AtThreshold) -> Point | None:
    if one.saved.value is None or one.coverage.value is None:
        return None
    return Point(one.saved.value, one.coverage.value, one.coverage.low, one.coverage.high)
