"""`kimas eval routing`: how well questions find their agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bots.actions import print_json
from bots.evaluation.charts import check_plot
from bots.evaluation.opening import opened, read_entries, without_live
from bots.evaluation.plots import routing_charts
from bots.evaluation.showing import figures_as_json, fitted_lines, judged_as_json, print_lines, save, shown, title
from bots.explained import table_lines
from core.errors import UsageError
from core.evaluation.lines import read_cases
from core.evaluation.scores import LEVEL
from core.settings import Settings
from knowledge.evaluation.asking import Case, read_routing
from knowledge.evaluation.corpus import with_corpus
from knowledge.evaluation.fitting import enough
from knowledge.evaluation.fitting_routing import RoutingFitted, fit_routing
from knowledge.evaluation.routing import ROUTED, ROUTING_FORM, Routed, measure_routing
from knowledge.evaluation.routing_curve import routing_curve


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
