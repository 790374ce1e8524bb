"""The knowledge that a measurement is made on: the configured one, or a set's own documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bots.common.terminal import format_table, ingest_progress, make_console, strip_control_characters
from bots.daemon.bootstrap import NOTHING_INGESTED, App, open_app
from bots.evaluation.datasets import (
    CORPUS_LINE_FORMAT,
    CorpusDocument,
    corpus_store,
    read_cases,
    read_corpus_document,
    with_corpus,
)
from bots.evaluation.plots import Chart, draw
from core.errors import UsageError
from core.messaging.gate.scores import CONFIDENCE_LEVEL, Estimate, Scores
from core.runtime.locks import make_data_dir
from core.settings import LiveSource, Settings
from knowledge.embedding import open_embedder

if TYPE_CHECKING:
    from bots.evaluation.tuning import TuningComparison

_KEEP_CONFIGURED_NOTE = "On questions not fitted to, the fitted values do worse than the configured ones: keep those."
_HEADINGS = ("precision", "recall", "F1", "right", "wrong", "missed")


def print_lines(lines: Sequence[str]) -> None:
    """Print lines; what a server says in them does not steer the terminal."""
    make_console().print("\n".join(map(strip_control_characters, lines)), markup=False, soft_wrap=True)


async def save_charts(charts: Sequence[Chart], path: Path) -> None:
    """Write a picture and say where, on standard error: what is measured goes to standard output.

    Raises `UsageError` when the file cannot be written.
    """
    await asyncio.to_thread(draw, charts, path)
    message = strip_control_characters(f"the picture is in {path}")
    make_console(stderr=True).print(message, markup=False, soft_wrap=True)


def format_title(cases: int) -> str:
    """Return how many cases were measured, and what the intervals are."""
    return f"{cases} cases; intervals hold {CONFIDENCE_LEVEL:.0%} of the resamples"


def format_figure(figure: Estimate) -> str:
    """Return a figure with its interval as tables show it."""
    if figure.value is None:
        return "-"
    interval = "" if figure.low is None or figure.high is None else f" ({figure.low:.3f}-{figure.high:.3f})"
    return f"{figure.value:.3f}{interval}"


def format_difference(figure: Estimate) -> str:
    """Return a difference with its interval."""
    if figure.value is None or figure.low is None or figure.high is None:
        return "-"
    return f"{figure.value:+.3f} ({figure.low:+.3f} to {figure.high:+.3f})"


def figure_as_json(figure: Estimate) -> Mapping[str, float | None]:
    """Return a figure as every `eval --json` prints it."""
    values = {"value": figure.value, "low": figure.low, "high": figure.high}
    return {name: None if value is None else round(value, 4) for name, value in values.items()}


def figures_as_json(figures: Mapping[str, Estimate]) -> Mapping[str, Any]:
    """Return figures by name."""
    return {name: figure_as_json(figure) for name, figure in figures.items()}


def scores_as_json(scores: Scores) -> Mapping[str, Any]:
    """Return scores as every `eval --json` prints them; a figure that is not defined is null."""
    figures = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    counts = {
        "right": scores.counts.true_positives,
        "wrong": scores.counts.false_positives,
        "missed": scores.counts.false_negatives,
    }
    return {**figures_as_json(figures), **counts}


def score_table(rows: Mapping[str, Scores]) -> Sequence[str]:
    """Return the lines of a table, a row per measured thing."""
    cells = [
        (name, *map(format_figure, (scores.precision, scores.recall, scores.f1)), *_format_counts(scores))
        for name, scores in rows.items()
    ]
    return format_table([("", *_HEADINGS), *cells])


def format_fit_lines(
    comparisons: Mapping[str, TuningComparison], section: Mapping[str, Any], *, keep_configured: bool
) -> list[str]:
    """Return what fitting brings on questions that it had not seen, and its section; `keep` advises against it."""
    rows = [("fitted, on questions not fitted to", "configured", "fitted", "difference")]
    rows += [
        (
            name,
            format_figure(comparison.configured),
            format_figure(comparison.tuned),
            format_difference(comparison.difference),
        )
        for name, comparison in comparisons.items()
    ]
    return [
        "",
        *format_table(rows),
        "",
        *([_KEEP_CONFIGURED_NOTE] if keep_configured else []),
        "# Fitted to all questions:",
        *to_yaml_lines(section),
    ]


def comparison_as_json(comparison: TuningComparison) -> Mapping[str, Any]:
    """Return a measure as configured and as fitted, and what they differ by."""
    figures = {"configured": comparison.configured, "fitted": comparison.tuned, "difference": comparison.difference}
    return figures_as_json(figures)


def to_yaml_lines(values: Mapping[str, Any], indent: int = 0) -> list[str]:
    """Return the lines of a section to be copied into the configuration: mappings, numbers, names and lists of them."""
    lines = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{' ' * indent}{key}:", *to_yaml_lines(value, indent + 2)]
        else:
            scalar = f"[{', '.join(value)}]" if isinstance(value, list) else f"{value:g}"
            lines.append(f"{' ' * indent}{key}: {scalar}")
    return lines


def _format_counts(scores: Scores) -> tuple[str, str, str]:
    return str(scores.counts.true_positives), str(scores.counts.false_positives), str(scores.counts.false_negatives)


async def read_corpus_entries(corpus: Path | None) -> Sequence[CorpusDocument]:
    """Return the documents of a set, none where none is named. Raises `UsageError` for lines that cannot be used."""
    return await asyncio.to_thread(read_cases, corpus, read_corpus_document, CORPUS_LINE_FORMAT) if corpus else ()


@asynccontextmanager
async def open_knowledge(settings: Settings, corpus_entries: Sequence[CorpusDocument]) -> AsyncIterator[App]:
    """Open the configured knowledge, or that of a set's own documents, of which nothing stays.

    Raises `UsageError` where nothing was ingested, `StoreError`, `EmbeddingError`.
    """
    if not corpus_entries:
        async with open_app(settings, with_answers=False) as app:
            if app.library.is_empty:
                raise UsageError(NOTHING_INGESTED)
            yield app
        return
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    async with AsyncExitStack() as stack:
        embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
        stack.push_async_callback(embedder.close)
        chunk_tokens = settings.knowledge.chunking.tokens
        with ingest_progress(make_console(stderr=True)) as progress:
            corpus_context = corpus_store(corpus_entries, embedder, chunk_tokens=chunk_tokens, on_progress=progress)
            store = await stack.enter_async_context(corpus_context)
        corpus_settings = with_corpus(settings, corpus_entries)
        yield await stack.enter_async_context(
            open_app(corpus_settings, embedder=embedder, store=store, with_answers=False)
        )


def without_live_sources(settings: Settings) -> Settings:
    """Return the settings without the sources that are asked at question time: they cost, and differ every time."""
    live_sources = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    agents = {}
    for name, agent in settings.agents.items():
        stored_sources = tuple(source for source in agent.sources if source not in live_sources)
        if stored_sources:
            agents[name] = agent.model_copy(update={"sources": stored_sources})
    sources = {name: source for name, source in settings.sources.items() if name not in live_sources}
    return settings.model_copy(update={"sources": sources, "agents": agents})
