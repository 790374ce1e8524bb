"""What `kimas eval gate` does: how well the bot knows when to speak unasked, and what would suit this data better."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from bots.actions import NOTHING_INGESTED
from bots.app import App, open_app
from bots.charts import check_plot, draw
from bots.console import console
from bots.evaluate import score_table, scores_as_json
from bots.evaluate_plots import gate_charts
from core.errors import UsageError
from core.evaluation.gate import FORM, Measured, judge, measure, read_case
from core.evaluation.lines import read_cases
from core.evaluation.scores import LEVEL
from core.settings import Settings
from knowledge.embedding import open_embedder
from knowledge.evaluation.corpus import CORPUS_FORM, Entry, corpus_store, read_entry, with_corpus
from knowledge.locks import make_data_dir


async def gate(
    settings: Settings, data: Path, corpus: Path | None, *, fit: bool, as_json: bool, plot: Path | None = None
) -> int:
    """Measure the gate on labelled messages. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_case, FORM)
    documents = await asyncio.to_thread(read_cases, corpus, read_entry, CORPUS_FORM) if corpus else ()
    async with _opened(settings, documents) as app:
        judged = await judge(cases, app.library, app.settings)
        measured = await measure(judged, settings)
    if plot:
        await asyncio.to_thread(draw, gate_charts(judged, measured, settings.gate), plot)
    if as_json:
        sys.stdout.write(json.dumps(gate_as_json(measured, fit=fit), ensure_ascii=False) + "\n")
        return 0
    rows = {"as configured": measured.configured.scores, "fitted, cross-validated": measured.crossed.scores}
    title = f"{measured.cases} cases, {measured.by_words} judged by their words alone"
    areas = (
        f"AUC {_shown(measured.configured.auc)} as configured, {_shown(measured.crossed.auc)} cross-validated; "
        f"intervals hold {LEVEL:.0%} of the resamples"
    )
    lines = [title, *score_table(rows), areas, *(_as_yaml(measured) if fit else ())]
    console().print("\n".join(lines), markup=False, soft_wrap=True)
    return 0


def gate_as_json(measured: Measured, *, fit: bool) -> Mapping[str, Any]:
    """Return the object that `kimas eval gate --json` prints (a contract)."""
    outcomes = {"configured": measured.configured, "crossed": measured.crossed}
    return {
        "kind": "gate",
        "cases": measured.cases,
        "by_words": measured.by_words,
        "level": LEVEL,
        **{
            name: {**scores_as_json(one.scores), "auc": None if one.auc is None else round(one.auc, 4)}
            for name, one in outcomes.items()
        },
        **({"fitted": {"threshold": measured.threshold, "weights": measured.weights.model_dump()}} if fit else {}),
    }


@asynccontextmanager
async def _opened(settings: Settings, documents: Sequence[Entry]) -> AsyncIterator[App]:
    """Open the deployment's knowledge, or that of the documents, of which nothing stays."""
    if not documents:
        async with open_app(settings, answers=False) as app:
            if app.library.empty:
                raise UsageError(NOTHING_INGESTED)
            yield app
        return
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    async with AsyncExitStack() as stack:
        embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
        stack.push_async_callback(embedder.close)
        filling = corpus_store(documents, embedder, chunk_tokens=settings.knowledge.chunking.tokens)
        store = await stack.enter_async_context(filling)
        chosen = with_corpus(settings, documents)
        yield await stack.enter_async_context(open_app(chosen, embedder=embedder, store=store, answers=False))


def _as_yaml(measured: Measured) -> list[str]:
    weights = ", ".join(f"{name}: {value:g}" for name, value in measured.weights.model_dump().items())
    return ["gate:", f"  threshold: {measured.threshold:g}", f"  weights: {{{weights}}}"]


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
