"""`kimas eval routing`: how well questions find their agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bots.common.terminal import format_table, print_json
from bots.evaluation import charts, datasets, metrics, output, tuning_routing
from bots.evaluation.measured_knowledge import open_knowledge, read_corpus_entries, without_live_sources
from core.answering.context import AnswerDependencies
from core.errors import UsageError
from core.formatting import pluralize
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL, Estimate
from core.settings import Settings
from knowledge.ports import Embedder, Store

ROUTING_LINE_FORMAT = '{"id", "question", "agents": [name], "history"?} (docs/evaluate.md)'
CURVE_STEPS = 24


@dataclass(frozen=True, slots=True)
class RoutingReport:
    """The metrics of `cases` questions by variant; `fallback_count` times the rule's query replaced the model's."""

    cases: int
    agents: int
    fallback_count: int
    variants: Mapping[str, Mapping[str, Estimate]]


async def measure_routing(cases: Sequence[datasets.QueryCase], deps: AnswerDependencies) -> RoutingReport:
    """Route every question in every variant."""
    queries_by_variant, fallback_count = await datasets.make_queries(cases, deps)
    agents_by_query: dict[str, Sequence[str]] = {}

    async def route(query: str) -> str:
        agents_by_query[query] = [agent.name for agent in await deps.library.route(query)]
        return query

    await datasets.run_concurrently(
        route, sorted({query for variant_queries in queries_by_variant.values() for query in variant_queries})
    )
    agent_names = list(deps.settings.retrieval_agents())
    variants = {
        variant: metrics.summarize(
            metrics.compute_routing_metrics(
                [agents_by_query[query] for query in texts], [case.expected_ids for case in cases], len(agent_names)
            )
        )
        for variant, texts in queries_by_variant.items()
    }
    return RoutingReport(len(cases), len(agent_names), fallback_count, variants)


@dataclass(frozen=True, slots=True)
class ThresholdPoint:
    """Coverage and saved searches with one threshold."""

    threshold: float
    coverage: Estimate
    saved: Estimate


@dataclass(frozen=True, slots=True)
class RoutingCurve:
    """The rules' queries over thresholds from low to high, and with the configured one."""

    points: Sequence[ThresholdPoint]
    configured: ThresholdPoint


async def routing_curve(
    cases: Sequence[datasets.QueryCase], deps: AnswerDependencies, store: Store, embedder: Embedder
) -> RoutingCurve:
    """Route questions with many thresholds, all else as configured; those that are routed by words are left out.

    Raises `StoreError`, `EmbeddingError`.
    """
    return await asyncio.to_thread(_curve, await tuning_routing.compare_agents(cases, deps, store, embedder), deps)


def _curve(comparison: tuning_routing.AgentComparison, deps: AnswerDependencies) -> RoutingCurve:
    scores = comparison.cosines.mix_scores(comparison.configured_weights)
    expected_agents = [case.expected_ids for case in comparison.cases]
    routing = deps.settings.knowledge.routing
    agents = len(deps.settings.retrieval_agents())

    def measure_at(threshold: float) -> ThresholdPoint:
        agent_columns = tuning_routing.select_agent_columns(
            scores, tuning_routing.RoutingWeights(comparison.scales, threshold), routing.agents
        )
        metric_values = metrics.compute_routing_metrics(
            [[comparison.agent_names[column] for column in columns] for columns in agent_columns],
            expected_agents,
            agents,
        )
        figures: Mapping[str, Estimate] = {
            name: metrics.mean_with_interval(metric_values[name]) for name in ("coverage", "saved")
        }
        return ThresholdPoint(threshold, figures["coverage"], figures["saved"])

    scaled_scores = scores * comparison.scales
    # Steps of equal numbers of scores: where many lie the threshold tells most.
    thresholds = np.quantile(scaled_scores, np.linspace(0, 1, CURVE_STEPS)) if scaled_scores.size else np.empty(0)
    return RoutingCurve([measure_at(float(threshold)) for threshold in thresholds], measure_at(routing.threshold))


async def routing(
    settings: Settings, data: Path, corpus: Path | None, *, fit: bool, as_json: bool, plot: Path | None = None
) -> int:
    """Measure how well questions find their agents. The data is checked before anything is opened."""
    charts.check_plot(plot)
    cases = await asyncio.to_thread(
        datasets.read_cases, data, datasets.read_routing, ROUTING_LINE_FORMAT, split="fit" if fit else "test"
    )
    corpus_entries = await read_corpus_entries(corpus)
    knowledge_settings = (
        datasets.with_corpus(settings, corpus_entries) if corpus_entries else without_live_sources(settings)
    )
    _refuse_unknown_agents(cases, knowledge_settings, data)
    if fit:
        metrics.check_enough_cases(cases)
    async with open_knowledge(knowledge_settings, corpus_entries) as app:
        measurement = await measure_routing(cases, app.deps)
        fit_result = await tuning_routing.tune_routing(cases, app.deps, app.store, app.embedder) if fit else None
        curve = await routing_curve(cases, app.deps, app.store, app.embedder) if plot else None
    if plot and curve:
        await charts.save_charts(routing_charts(curve), plot)
    if as_json:
        print_json(routing_as_json(measurement, fit_result))
        return 0
    lines = _format_routing(measurement)
    if fit_result:
        if fit_result.skipped:
            lines += ["", f"{fit_result.skipped} questions are routed by words and were not fitted to"]
        lines += output.format_fit_lines(
            fit_result.comparisons,
            _weights_as_config(fit_result, knowledge_settings),
            keep_configured=fit_result.comparisons["accuracy"].is_worse,
        )
    output.print_lines(lines)
    return 0


def routing_as_json(measurement: RoutingReport, fit_result: tuning_routing.RoutingTuning | None) -> Mapping[str, Any]:
    """Return the object that `kimas eval routing --json` prints (a contract)."""
    variants = {
        variant: {"measures": output.figures_as_json(figures)} for variant, figures in measurement.variants.items()
    }
    header = {"kind": "routing", "cases": measurement.cases, "level": CONFIDENCE_LEVEL}
    result: dict[str, Any] = {
        **header,
        "agents": measurement.agents,
        "cut": measurement.fallback_count,
        "ways": variants,
    }
    if fit_result:
        comparisons = {
            name: output.comparison_as_json(comparison) for name, comparison in fit_result.comparisons.items()
        }
        result["fitted"] = {
            "scales": fit_result.scales,
            "threshold": fit_result.threshold,
            "mix_in_weight": fit_result.mix_in_weight,
            "mix_in_weights": fit_result.mix_in_weights,
            "left_out": fit_result.skipped,
            **comparisons,
        }
    return result


def _refuse_unknown_agents(cases: Sequence[datasets.QueryCase], settings: Settings, data: Path) -> None:
    known_agents = settings.retrieval_agents()
    unknown_agents = sorted({name for case in cases for name in case.expected_ids} - known_agents.keys())
    if unknown_agents:
        raise UsageError(
            f"{data} names agents that there are not: {', '.join(unknown_agents)}. "
            f"The agents with stored knowledge are: {', '.join(sorted(known_agents)) or 'none'}"
        )


def _format_routing(measurement: RoutingReport) -> list[str]:
    rows = [
        ("", *measurement.variants),
        *(
            (name, *(output.format_figure(figures[name]) for figures in measurement.variants.values()))
            for name in metrics.ROUTING_METRICS
        ),
    ]
    cut_count = pluralize(measurement.fallback_count, "time")
    cut_note = [f"{cut_count} the model's rewrite failed or was late: the rule's was measured"]
    return [
        f"{output.format_title(measurement.cases)}; {measurement.agents} agents",
        *(cut_note if measurement.fallback_count else []),
        *format_table(rows),
    ]


def _weights_as_config(fit_result: tuning_routing.RoutingTuning, settings: Settings) -> Mapping[str, Any]:
    """Return the fitted weights as configuration. Agents that are one per source have to be written down for it."""
    mix_in_config: dict[str, Any] = (
        {} if fit_result.mix_in_weight is None else {"mix_in_weight": fit_result.mix_in_weight}
    )
    if fit_result.mix_in_weights:
        mix_in_config["mix_in_weights"] = fit_result.mix_in_weights
    known_agents = settings.retrieval_agents()
    agents = {
        name: {
            **({} if settings.agents else {"sources": [name]}),
            "scale": scale,
            **(mix_in_config if any(known_agents[name].mix_ins().values()) else {}),
        }
        for name, scale in fit_result.scales.items()
    }
    return {"agents": agents, "knowledge": {"routing": {"threshold": fit_result.threshold}}}


def routing_charts(curve: RoutingCurve) -> Sequence[charts.Chart]:
    """Return coverage against saved searches over thresholds, and where the configured one is."""
    points = [point for threshold_result in curve.points if (point := _to_trade_off_point(threshold_result))]
    configured_point = _to_trade_off_point(curve.configured)
    series = [charts.Series("each threshold from low to high", points)]
    if configured_point:
        label = f"threshold {curve.configured.threshold:g}"
        series.append(charts.Series("as configured", [configured_point], is_joined=False, label=label))
    title = f"What a threshold saves; {charts.INTERVALS_NOTE}"
    return [charts.Chart(title, "saved: share of the agents not asked", "coverage", series)]


def _to_trade_off_point(threshold_result: ThresholdPoint) -> charts.Point | None:
    if threshold_result.saved.value is None or threshold_result.coverage.value is None:
        return None
    return charts.Point(
        threshold_result.saved.value,
        threshold_result.coverage.value,
        threshold_result.coverage.low,
        threshold_result.coverage.high,
    )
