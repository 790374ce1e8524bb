"""`kimas eval retrieval`: how well questions find their documents."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bots.common.terminal import format_table, print_json
from bots.daemon.bootstrap import App
from bots.evaluation import charts, datasets, metrics, output
from bots.evaluation.measured_knowledge import open_knowledge, read_corpus_entries, without_live_sources
from bots.evaluation.missing_documents import describe_missing
from core.answering.agents.reranker import ranks_by_model, rerank
from core.answering.context import AnswerDependencies
from core.evidence.ranking import apply_kind_weights, fuse
from core.formatting import pluralize
from core.language.tokens import query_tokens
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL, Estimate
from core.runtime.budget import Budget
from core.settings import SearchSettings, Settings
from core.types import Passage
from knowledge.ports import Embedder, Store
from knowledge.retrieval.library import CANDIDATES
from knowledge.retrieval.query_embedder import MIN_VOCABULARY_COVERAGE

RETRIEVAL_LINE_FORMAT = '{"id", "question", "relevant": [document id or path], "history"?} (docs/evaluate.md)'
ALPHAS = tuple(round(number / 20, 2) for number in range(21))


@dataclass(frozen=True, slots=True)
class VariantResult:
    """One way to make the query: the measures, what they differ by from the raw question's, and how many queries do.

    `curves` holds what is drawn: by metric, a figure for each of `CUTOFFS`.
    """

    metrics: Mapping[str, Estimate]
    differences: Mapping[str, Estimate]
    changed_count: int
    curves: Mapping[str, Sequence[Estimate]]


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """The metrics of `cases` questions by variant. `missing_count` relevant documents are not in the knowledge.

    `missing_names` ends the sentence that says so. `fallback_count` counts failed stages: rewrites by the model, and
    reranks.
    """

    cases: int
    missing_count: int
    fallback_count: int
    variants: Mapping[str, VariantResult]
    missing_names: str = ""


async def measure_retrieval(
    cases: Sequence[datasets.QueryCase],
    deps: AnswerDependencies,
    document_names: Collection[str],
    *,
    curves: bool = False,
) -> RetrievalReport:
    """Search every question in every variant. `document_names` can be found, as cases name them.

    `curves` measures at each of `CUTOFFS` too.

    Where the model fails, the rule's query replaces its query. Raises `StoreError`.
    """
    queries_by_variant, fallback_count = await datasets.make_queries(cases, deps)
    passages_by_query: dict[str, Sequence[Passage]] = {}
    budgets: list[Budget] = []

    async def search(query: str) -> str:
        budgets.append(Budget(deps.settings.budget))
        passages_by_query[query] = await _search(query, deps, budgets[-1])
        return query

    # Most questions are equal in all variants: each query is searched once.
    await datasets.run_concurrently(
        search, sorted({query for variant_queries in queries_by_variant.values() for query in variant_queries})
    )
    plotted = [f"{name}@{k}" for name in metrics.PLOTTED_METRICS for k in metrics.CUTOFFS] if curves else []
    metric_names = list(dict.fromkeys([*metrics.METRICS, *plotted]))
    values_by_variant = await asyncio.to_thread(
        _compute_values, cases, queries_by_variant, passages_by_query, metric_names
    )
    variants = {
        variant: await asyncio.to_thread(_make_variant_result, variant, values_by_variant, queries_by_variant)
        for variant in queries_by_variant
    }
    missing = [name for case in cases for name in case.expected_ids if name not in document_names]
    missing_names = await asyncio.to_thread(describe_missing, missing, document_names)
    fallback_count += sum("rerank" in budget.degraded for budget in budgets)
    return RetrievalReport(len(cases), len(missing), fallback_count, variants, missing_names)


async def _search(query: str, deps: AnswerDependencies, budget: Budget) -> Sequence[Passage]:
    agents = await deps.library.route(query)
    results = [await deps.library.search(agent.name, query, datasets.PASSAGES_PER_AGENT) for agent in agents]
    passages = [passage for result in results for passage in result]
    return await rerank(query, passages, deps, budget, by_model=ranks_by_model(deps.settings, is_final=False))


def _compute_values(
    cases: Sequence[datasets.QueryCase],
    queries_by_variant: Mapping[str, Sequence[str]],
    passages_by_query: Mapping[str, Sequence[Passage]],
    metric_names: Sequence[str],
) -> Mapping[str, Mapping[str, metrics.MetricValues]]:
    expected_ids = [case.expected_ids for case in cases]
    return {
        variant: metrics.compute_metrics(
            [
                datasets.to_document_ids(passages_by_query[query], case_ids)
                for query, case_ids in zip(texts, expected_ids, strict=True)
            ],
            expected_ids,
            metric_names,
        )
        for variant, texts in queries_by_variant.items()
    }


def _make_variant_result(
    variant: str,
    values_by_variant: Mapping[str, Mapping[str, metrics.MetricValues]],
    queries_by_variant: Mapping[str, Sequence[str]],
) -> VariantResult:
    differences = (
        {name: values_by_variant[variant][name] - values_by_variant[datasets.RAW][name] for name in metrics.METRICS}
        if variant != datasets.RAW
        else {}
    )
    return VariantResult(
        {name: metrics.mean_with_interval(values_by_variant[variant][name]) for name in metrics.METRICS},
        {name: metrics.mean_with_interval(values) for name, values in differences.items()},
        sum(map(operator.ne, queries_by_variant[variant], queries_by_variant[datasets.RAW])),
        {
            name: [metrics.mean_with_interval(values_by_variant[variant][f"{name}@{k}"]) for k in metrics.CUTOFFS]
            for name in metrics.PLOTTED_METRICS
            if f"{name}@1" in values_by_variant[variant]
        },
    )


async def retrieval(
    settings: Settings, data: Path, corpus: Path | None, *, fit: bool, as_json: bool, plot: Path | None = None
) -> int:
    """Measure how well questions find their documents. The data is checked before anything is opened."""
    charts.check_plot(plot)
    cases = await asyncio.to_thread(
        datasets.read_cases, data, datasets.read_retrieval, RETRIEVAL_LINE_FORMAT, split="fit" if fit else "test"
    )
    if fit:
        metrics.check_enough_cases(cases)
    corpus_entries = await read_corpus_entries(corpus)
    async with open_knowledge(settings if corpus_entries else without_live_sources(settings), corpus_entries) as app:
        measurement = await measure_retrieval(cases, app.deps, await _read_document_names(app), curves=plot is not None)
        fit_result = await tune_alpha(cases, app.deps, app.store, app.embedder) if fit else None
    if plot:
        await charts.save_charts(retrieval_charts(measurement), plot)
    if as_json:
        print_json(retrieval_as_json(measurement, fit_result))
        return 0
    lines = _format_retrieval(measurement)
    if fit_result:
        section = {"knowledge": {"search": {"alpha": fit_result.alpha}}}
        lines += output.format_fit_lines(
            {metrics.MAIN_METRIC: fit_result.comparison}, section, keep_configured=fit_result.comparison.is_worse
        )
    output.print_lines(lines)
    return 0


def retrieval_as_json(measurement: RetrievalReport, fit_result: AlphaTuning | None) -> Mapping[str, Any]:
    """Return the object that `kimas eval retrieval --json` prints (a contract)."""
    variants = {
        variant: {
            "changed": result.changed_count,
            "measures": output.figures_as_json(result.metrics),
            **({"differences": output.figures_as_json(result.differences)} if result.differences else {}),
        }
        for variant, result in measurement.variants.items()
    }
    header = {"kind": "retrieval", "cases": measurement.cases, "level": CONFIDENCE_LEVEL}
    result = {**header, "missing": measurement.missing_count, "cut": measurement.fallback_count, "ways": variants}
    return result | (
        {"fitted": {"alpha": fit_result.alpha, metrics.MAIN_METRIC: output.comparison_as_json(fit_result.comparison)}}
        if fit_result
        else {}
    )


async def _read_document_names(app: App) -> frozenset[str]:
    """Return every document of the knowledge, as data may name it: by path alone, and with its source."""
    document_names: set[str] = set()
    for name in app.settings.sources:
        paths = await app.store.manifest(name)
        document_names.update(paths, (f"{name}: {path}" for path in paths))
    return frozenset(document_names)


def _format_retrieval(measurement: RetrievalReport) -> list[str]:
    lines = [output.format_title(measurement.cases)]
    if measurement.missing_count:
        documents = pluralize(measurement.missing_count, "relevant document")
        verb, pronoun = ("is", "it") if measurement.missing_count == 1 else ("are", "them")
        names = measurement.missing_names
        lines.append(f"{documents} {verb} not in the knowledge: nothing can find {pronoun}{names}")
        lines.append("`kimas search` shows how documents are named; those of a corpus have their ids")
    if measurement.fallback_count:
        lines.append(
            f"{pluralize(measurement.fallback_count, 'time')} a rewrite or a rerank failed or was late, and "
            "its fallback was measured"
        )
    rows = [
        (
            "",
            *(
                f"{variant} ({result.changed_count} changed)" if result.changed_count else variant
                for variant, result in measurement.variants.items()
            ),
        )
    ]
    rows += [
        (name, *(output.format_figure(result.metrics[name]) for result in measurement.variants.values()))
        for name in metrics.METRICS
    ]
    lines += format_table(rows)
    for variant, result in measurement.variants.items():
        if result.changed_count:
            difference = output.format_difference(result.differences[metrics.MAIN_METRIC])
            lines.append(f"{variant} against raw: {metrics.MAIN_METRIC} {difference}")
    return lines


def retrieval_charts(measurement: RetrievalReport) -> Sequence[charts.Chart]:
    """Return recall and nDCG at k, a line for every way to make the query, with intervals."""
    return [
        charts.Chart(
            f"{name} at k, {measurement.cases} questions; {charts.INTERVALS_NOTE}",
            "k: documents looked at",
            name,
            [
                charts.Series(variant, charts.interval_points(result.curves[name]))
                for variant, result in measurement.variants.items()
            ],
            [str(depth) for depth in metrics.CUTOFFS],
        )
        for name in metrics.PLOTTED_METRICS
    ]


@dataclass(frozen=True, slots=True)
class AlphaTuning:
    """The fitted weight of the dense score, and nDCG@10 with it."""

    alpha: float
    comparison: metrics.TuningComparison


async def tune_alpha(
    cases: Sequence[datasets.QueryCase], deps: AnswerDependencies, store: Store, embedder: Embedder
) -> AlphaTuning:
    """Fit `knowledge.search.alpha` to nDCG@10 of the rule's queries. Raises `UsageError` for too few questions."""
    metrics.check_enough_cases(cases)
    queries_by_variant, _ = await datasets.make_queries(cases, replace(deps, model=None))
    search = deps.settings.knowledge.search
    candidates_by_query: dict[str, Sequence[Passage]] = {}

    async def fetch_candidates(query: str) -> str:
        candidates_by_query[query] = await _search_candidates(query, deps, store, embedder)
        return query

    await datasets.run_concurrently(fetch_candidates, sorted(set(queries_by_variant[datasets.RULE])))
    values_by_alpha = await asyncio.to_thread(
        _compute_alpha_values,
        [candidates_by_query[query] for query in queries_by_variant[datasets.RULE]],
        cases,
        search,
    )
    # The configured value comes first: among equals it stays.
    alphas = sorted(values_by_alpha, key=lambda alpha: abs(alpha - search.alpha))

    def find_best_alpha(case_indices: metrics.Indices) -> float:
        return max(alphas, key=lambda alpha: round(float(values_by_alpha[alpha][case_indices].mean()), 6))

    held_out_values = metrics.cross_validate(
        len(cases),
        find_best_alpha,
        lambda alpha, case_indices: {metrics.MAIN_METRIC: values_by_alpha[alpha][case_indices]},
    )
    configured_values = values_by_alpha[search.alpha]
    return AlphaTuning(
        find_best_alpha(np.arange(len(cases))),
        metrics.compare_values(configured_values, held_out_values[metrics.MAIN_METRIC]),
    )


async def _search_candidates(
    query: str, deps: AnswerDependencies, store: Store, embedder: Embedder
) -> Sequence[Passage]:
    """Return all candidates of the agents that a query goes to, with both true scores."""
    agents = deps.settings.retrieval_agents()
    sources = {source for agent in await deps.library.route(query) for source in agents[agent.name].sources}
    if not sources:
        return ()
    is_in_vocabulary = embedder.vocabulary_coverage(query) >= MIN_VOCABULARY_COVERAGE
    vector = (await embedder.embed([query], "query"))[0] if is_in_vocabulary else None
    return await store.search(query_tokens(query), vector, sources, CANDIDATES)


def _compute_alpha_values(
    candidates: Sequence[Sequence[Passage]], cases: Sequence[datasets.QueryCase], search: SearchSettings
) -> Mapping[float, metrics.MetricValues]:
    expected_ids = [case.expected_ids for case in cases]
    values_by_alpha = {}
    for alpha in {*ALPHAS, search.alpha}:
        rankings = [
            apply_kind_weights(fuse(passages, alpha, datasets.PASSAGES_PER_AGENT), search.kind_weights)
            for passages in candidates
        ]
        values_by_alpha[alpha] = metrics.compute_metrics(
            [
                datasets.to_document_ids(ranking, case_ids)
                for ranking, case_ids in zip(rankings, expected_ids, strict=True)
            ],
            expected_ids,
        )[metrics.MAIN_METRIC]
    return values_by_alpha
