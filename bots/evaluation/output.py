"""The knowledge that a measurement is made on: the configured one, or a set's own documents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bots.common.terminal import console, ingest_progress, printable, table_lines
from bots.daemon.bootstrap import NOTHING_INGESTED, App, open_app
from bots.evaluation.datasets import CORPUS_FORM, Entry, corpus_store, read_cases, read_entry, with_corpus
from bots.evaluation.plots import Chart, draw
from core.errors import UsageError
from core.messaging.gate.scores import LEVEL, Figure, Scores
from core.runtime.locks import make_data_dir
from core.settings import LiveSource, Settings
from knowledge.embedding import open_embedder

if TYPE_CHECKING:
    from bots.evaluation.tuning import Judged

_KEEP = "On questions not fitted to, the fitted values do worse than the configured ones: keep those."
_HEADINGS = ("precision", "recall", "F1", "right", "wrong", "missed")


def print_lines(lines: Sequence[str]) -> None:
    """Print lines; what a server says in them does not steer the terminal."""
    console().print("\n".join(map(printable, lines)), markup=False, soft_wrap=True)


async def save(charts: Sequence[Chart], path: Path) -> None:
    """Write a picture and say where, on standard error: what is measured goes to standard output.

    Raises `UsageError` when the file cannot be written.
    """
    await asyncio.to_thread(draw, charts, path)
    told = printable(f"the picture is in {path}")
    console(stderr=True).print(told, markup=False, soft_wrap=True)


def title(cases: int) -> str:
    """Return how many cases were measured, and what the intervals are."""
    return f"{cases} cases; intervals hold {LEVEL:.0%} of the resamples"


def shown(figure: Figure) -> str:
    """Return a figure with its interval as tables show it."""
    if figure.value is None:
        return "-"
    interval = "" if figure.low is None or figure.high is None else f" ({figure.low:.3f}-{figure.high:.3f})"
    return f"{figure.value:.3f}{interval}"


def signed(figure: Figure) -> str:
    """Return a difference with its interval."""
    if figure.value is None or figure.low is None or figure.high is None:
        return "-"
    return f"{figure.value:+.3f} ({figure.low:+.3f} to {figure.high:+.3f})"


def figure_as_json(figure: Figure) -> Mapping[str, float | None]:
    """Return a figure as every `eval --json` prints it."""
    values = {"value": figure.value, "low": figure.low, "high": figure.high}
    return {name: None if value is None else round(value, 4) for name, value in values.items()}


def figures_as_json(figures: Mapping[str, Figure]) -> Mapping[str, Any]:
    """Return figures by name."""
    return {name: figure_as_json(one) for name, one in figures.items()}


def scores_as_json(scores: Scores) -> Mapping[str, Any]:
    """Return scores as every `eval --json` prints them; a figure that is not defined is null."""
    figures = {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    counts = {"right": scores.counts.right, "wrong": scores.counts.wrong, "missed": scores.counts.missed}
    return {**figures_as_json(figures), **counts}


def score_table(rows: Mapping[str, Scores]) -> Sequence[str]:
    """Return the lines of a table, a row per measured thing."""
    cells = [
        (name, *map(shown, (scores.precision, scores.recall, scores.f1)), *_counted(scores))
        for name, scores in rows.items()
    ]
    return table_lines([("", *_HEADINGS), *cells])


def fitted_lines(judged: Mapping[str, Judged], section: Mapping[str, Any], *, keep: bool) -> list[str]:
    """Return what fitting brings on questions that it had not seen, and its section; `keep` advises against it."""
    rows = [("fitted, on questions not fitted to", "configured", "fitted", "difference")]
    rows += [(name, shown(one.configured), shown(one.fitted), signed(one.difference)) for name, one in judged.items()]
    return ["", *table_lines(rows), "", *([_KEEP] if keep else []), "# Fitted to all questions:", *as_yaml(section)]


def judged_as_json(judged: Judged) -> Mapping[str, Any]:
    """Return a measure as configured and as fitted, and what they differ by."""
    figures = {"configured": judged.configured, "fitted": judged.fitted, "difference": judged.difference}
    return figures_as_json(figures)


def as_yaml(values: Mapping[str, Any], indent: int = 0) -> list[str]:
    """Return the lines of a section to be copied into the configuration: mappings, numbers, names and lists of them."""
    lines = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{' ' * indent}{key}:", *as_yaml(value, indent + 2)]
        else:
            leaf = f"[{', '.join(value)}]" if isinstance(value, list) else f"{value:g}"
            lines.append(f"{' ' * indent}{key}: {leaf}")
    return lines


def _counted(scores: Scores) -> tuple[str, str, str]:
    return str(scores.counts.right), str(scores.counts.wrong), str(scores.counts.missed)


async def read_entries(corpus: Path | None) -> Sequence[Entry]:
    """Return the documents of a set, none where none is named. Raises `UsageError` for lines that cannot be used."""
    return await asyncio.to_thread(read_cases, corpus, read_entry, CORPUS_FORM) if corpus else ()


@asynccontextmanager
async def opened(settings: Settings, entries: Sequence[Entry]) -> AsyncIterator[App]:
    """Open the configured knowledge, or that of a set's own documents, of which nothing stays.

    Raises `UsageError` where nothing was ingested, `StoreError`, `EmbeddingError`.
    """
    if not entries:
        async with open_app(settings, answers=False) as app:
            if app.library.empty:
                raise UsageError(NOTHING_INGESTED)
            yield app
        return
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    async with AsyncExitStack() as stack:
        embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
        stack.push_async_callback(embedder.close)
        tokens = settings.knowledge.chunking.tokens
        with ingest_progress(console(stderr=True)) as progress:
            filling = corpus_store(entries, embedder, chunk_tokens=tokens, progress=progress)
            store = await stack.enter_async_context(filling)
        chosen = with_corpus(settings, entries)
        yield await stack.enter_async_context(open_app(chosen, embedder=embedder, store=store, answers=False))


def without_live(settings: Settings) -> Settings:
    """Return the settings without the sources that are asked at question time: they cost, and differ every time."""
    live = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    agents = {}
    for name, agent in settings.agents.items():
        stored = tuple(source for source in agent.sources if source not in live)
        if stored:
            agents[name] = agent.model_copy(update={"sources": stored})
    sources = {name: source for name, source in settings.sources.items() if name not in live}
    return settings.model_copy(update={"sources": sources, "agents": agents})
