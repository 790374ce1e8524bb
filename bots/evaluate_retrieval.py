"""`kimas eval retrieval` and `kimas eval routing`: on the configured knowledge, or on a set's own documents."""

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
from bots.console import console, ingest_progress
from bots.evaluate import figure_as_json, shown
from bots.evaluate_plots import retrieval_charts, routing_charts
from bots.explained import table_lines
from core.errors import UsageError
from core.evaluation.lines import read_cases
from core.evaluation.scores import LEVEL, Figure
from core.settings import LiveSource, Settings
from knowledge.embedding import open_embedder
from knowledge.evaluation.asking import Case, read_retrieval, read_routing
from knowledge.evaluation.corpus import CORPUS_FORM, Entry, corpus_store, read_entry, with_corpus
from knowledge.evaluation.fitting import AlphaFitted, Judged, enough, fit_alpha
from knowledge.evaluation.fitting_routing import RoutingFitted, fit_routing
from knowledge.evaluation.measures import MAIN, MEASURES
from knowledge.evaluation.retrieval import RETRIEVAL_FORM, Retrieved, measure_retrieval
from knowledge.evaluation.routing import ROUTED, ROUTING_FORM, Routed, measure_routing
from knowledge.evaluation.routing_curve import routing_curve
from knowledge.locks import make_data_dir

_AS_GOOD = "On questions not fitted to, the fitted values do worse than the configured ones: keep those."


async def retrieval(
    settings: Settings, data: Path, corpus: Path | None, *, fit: bool, as_json: bool, plot: Path | None = None
) -> int:
    """Measure how well questions find their documents. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_retrieval, RETRIEVAL_FORM)
    if fit:
        enough(cases)
    async with _opened(settings, await _entries(corpus)) as app:
        measured = await measure_retrieval(cases, app.parts, await _known(app), curves=plot is not None)
        fitted = await fit_alpha(cases, app.parts, app.store, app.embedder) if fit else None
    if plot:
        await asyncio.to_thread(draw, retrieval_charts(measured), plot)
    if as_json:
        _print_json(retrieval_as_json(measured, fitted))
        return 0
    lines = _retrieval_lines(measured)
    if fitted:
        yaml = f"knowledge:\n  search:\n    alpha: {fitted.alpha:g}"
        lines += _fitted_lines({MAIN: fitted.judged}, yaml, keep=fitted.judged.worse)
    console().print("\n".join(lines), markup=False, soft_wrap=True)
    return 0


async def routing(
    settings: Settings, data: Path, corpus: Path | None, *, fit: bool, as_json: bool, plot: Path | None = None
) -> int:
    """Measure how well questions find their agents. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_routing, ROUTING_FORM)
    entries = await _entries(corpus)
    _refuse_unknown_agents(cases, _of(settings, entries), data)
    if fit:
        enough(cases)
    async with _opened(settings, entries) as app:
        measured = await measure_routing(cases, app.parts)
        fitted = await fit_routing(cases, app.parts, app.store, app.embedder) if fit else None
        curve = await routing_curve(cases, app.parts, app.store, app.embedder) if plot else None
        chosen = app.settings
    if plot and curve:
        await asyncio.to_thread(draw, routing_charts(curve), plot)
    if as_json:
        _print_json(routing_as_json(measured, fitted))
        return 0
    lines = _routing_lines(measured)
    if fitted:
        if fitted.left_out:
            lines += ["", f"{fitted.left_out} questions are routed by words and were not fitted to"]
        lines += _fitted_lines(fitted.judged, _weights(fitted, chosen), keep=fitted.judged["accuracy"].worse)
    console().print("\n".join(lines), markup=False, soft_wrap=True)
    return 0


def retrieval_as_json(measured: Retrieved, fitted: AlphaFitted | None) -> Mapping[str, Any]:
    """Return the object that `kimas eval retrieval --json` prints (a contract)."""
    ways = {
        way: {
            "changed": one.changed,
            "measures": _figures(one.measures),
            **({"differences": _figures(one.differences)} if one.differences else {}),
        }
        for way, one in measured.ways.items()
    }
    head = {"kind": "retrieval", "cases": measured.cases, "level": LEVEL}
    result = {**head, "missing": measured.missing, "cut": measured.cut, "ways": ways}
    return result | ({"fitted": {"alpha": fitted.alpha, MAIN: _judged(fitted.judged)}} if fitted else {})


def routing_as_json(measured: Routed, fitted: RoutingFitted | None) -> Mapping[str, Any]:
    """Return the object that `kimas eval routing --json` prints (a contract)."""
    ways = {way: {"measures": _figures(one)} for way, one in measured.ways.items()}
    head = {"kind": "routing", "cases": measured.cases, "level": LEVEL}
    result: dict[str, Any] = {**head, "agents": measured.agents, "cut": measured.cut, "ways": ways}
    if fitted:
        judged = {name: _judged(one) for name, one in fitted.judged.items()}
        result["fitted"] = {
            "scales": fitted.scales,
            "threshold": fitted.threshold,
            "mix_in_weight": fitted.mix_in_weight,
            "mix_in_weights": fitted.mix_in_weights,
            "left_out": fitted.left_out,
            **judged,
        }
    return result


@asynccontextmanager
async def _opened(settings: Settings, entries: Sequence[Entry]) -> AsyncIterator[App]:
    """Open the configured knowledge without its live sources, or that of a corpus."""
    chosen = _of(settings, entries)
    if not entries:
        async with open_app(chosen, answers=False) as app:
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
        yield await stack.enter_async_context(open_app(chosen, embedder=embedder, store=store, answers=False))


def _of(settings: Settings, entries: Sequence[Entry]) -> Settings:
    return with_corpus(settings, entries) if entries else _without_live(settings)


def _without_live(settings: Settings) -> Settings:
    """Return the settings without the sources that are asked at question time: they cost, and differ every time."""
    live = {name for name, source in settings.sources.items() if isinstance(source, LiveSource)}
    agents = {}
    for name, agent in settings.agents.items():
        stored = tuple(source for source in agent.sources if source not in live)
        if stored:
            agents[name] = agent.model_copy(update={"sources": stored})
    sources = {name: source for name, source in settings.sources.items() if name not in live}
    return settings.model_copy(update={"sources": sources, "agents": agents})


async def _entries(corpus: Path | None) -> Sequence[Entry]:
    return await asyncio.to_thread(read_cases, corpus, read_entry, CORPUS_FORM) if corpus else ()


async def _known(app: App) -> frozenset[str]:
    """Return every document of the knowledge, as data may name it: by path alone, and with its source."""
    known: set[str] = set()
    for name in app.settings.sources:
        paths = await app.store.manifest(name)
        known.update(paths, (f"{name}: {path}" for path in paths))
    return frozenset(known)


def _refuse_unknown_agents(cases: Sequence[Case], settings: Settings, data: Path) -> None:
    known = settings.retrieval_agents()
    unknown = sorted({name for case in cases for name in case.wanted} - known.keys())
    if unknown:
        raise UsageError(
            f"{data} names agents that there are not: {', '.join(unknown)}. "
            f"The agents with stored knowledge are: {', '.join(sorted(known)) or 'none'}"
        )


def _retrieval_lines(measured: Retrieved) -> list[str]:
    lines = [_title(measured.cases)]
    if measured.missing:
        lines.append(f"{measured.missing} relevant documents are not in the knowledge: nothing can find them")
    if measured.cut:
        lines.append(f"{measured.cut} times a rewrite or a rerank failed or was late, and its stand-in was measured")
    rows = [("", *(f"{way} ({one.changed} changed)" if one.changed else way for way, one in measured.ways.items()))]
    rows += [(name, *(shown(one.measures[name]) for one in measured.ways.values())) for name in MEASURES]
    lines += table_lines(rows)
    for way, one in measured.ways.items():
        if one.changed:
            lines.append(f"{way} against raw: {MAIN} {_signed(one.differences[MAIN])}")
    return lines


def _routing_lines(measured: Routed) -> list[str]:
    rows = [("", *measured.ways), *((name, *(shown(one[name]) for one in measured.ways.values())) for name in ROUTED)]
    cut = [f"{measured.cut} times the model's rewrite failed or was late: the rule's was measured"]
    return [f"{_title(measured.cases)}; {measured.agents} agents", *(cut if measured.cut else []), *table_lines(rows)]


def _fitted_lines(judged: Mapping[str, Judged], yaml: str, *, keep: bool) -> list[str]:
    rows = [("fitted, on questions not fitted to", "configured", "fitted", "difference")]
    rows += [(name, shown(one.configured), shown(one.fitted), _signed(one.difference)) for name, one in judged.items()]
    return ["", *table_lines(rows), "", *([_AS_GOOD] if keep else []), "# Fitted to all questions:", yaml]


def _weights(fitted: RoutingFitted, settings: Settings) -> str:
    """Return the fitted weights as configuration. Agents that are one per source have to be written down for it."""
    lines = ["agents:"]
    mix = [] if fitted.mix_in_weight is None else [f"    mix_in_weight: {fitted.mix_in_weight:g}"]
    if fitted.mix_in_weights:
        kinds = ", ".join(f"{kind}: {weight:g}" for kind, weight in fitted.mix_in_weights.items())
        mix.append(f"    mix_in_weights: {{{kinds}}}")
    for name, scale in fitted.scales.items():
        lines += [f"  {name}:", *([] if settings.agents else [f"    sources: [{name}]"]), f"    scale: {scale:g}"]
        lines += mix if any(settings.retrieval_agents()[name].mix_ins().values()) else []
    return "\n".join([*lines, "knowledge:", "  routing:", f"    threshold: {fitted.threshold:g}"])


def _title(cases: int) -> str:
    return f"{cases} cases; intervals hold {LEVEL:.0%} of the resamples"


def _signed(figure: Figure) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return "-"
    return f"{figure.value:+.3f} ({figure.low:+.3f} to {figure.high:+.3f})"


def _figures(figures: Mapping[str, Figure]) -> Mapping[str, Any]:
    return {name: figure_as_json(one) for name, one in figures.items()}


def _judged(judged: Judged) -> Mapping[str, Any]:
    figures = {"configured": judged.configured, "fitted": judged.fitted, "difference": judged.difference}
    return _figures(figures)


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
