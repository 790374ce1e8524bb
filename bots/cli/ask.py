"""The commands `kimas ask`, `search` and `ingest`: each returns its exit code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Any

from bots.cli.console import (
    SearchExplanation,
    explanation_as_json,
    format_explanation_lines,
    print_passages,
    print_refresh_result,
    redact_refresh_result,
)
from bots.cli.first_reading import describe_unfilled, read_first
from bots.cli.language_check import describe_unknown_languages
from bots.common.passage_search import SearchResult, search_passages
from bots.common.reply_json import passage_as_json, reply_as_json
from bots.common.reply_sink import SilentSink
from bots.common.terminal import ingest_progress, make_console, print_json
from bots.console.render import ConsoleSink
from bots.daemon.bootstrap import App, open_app, require_knowledge
from core.answering.agents.conversation import validate_question
from core.answering.withholding import make_filter
from core.errors import UsageError
from core.formatting import strip_control_characters
from core.settings import Settings
from core.settings.base import OPERATOR_PLATFORM
from core.types import Question
from knowledge.embedding import get_known_languages
from knowledge.ingestion.refresh import RefreshResult
from knowledge.ingestion.schedule import stored_sources
from knowledge.retrieval.score_explanation import explain_passages, explain_routing
from knowledge.stores import NO_SOURCES, require_ingested, require_sources

STOPPED = "stopped: what was read is kept, and the next `kimas ingest` goes on from there"


async def ask(settings: Settings, question: str, *, as_json: bool, is_trial: bool = False) -> int:
    """Answer one question; `-` reads it from standard input. What was never read is read first, by words."""
    if question == "-":
        question = sys.stdin.read()
    # Before a model is loaded, which may have to be fetched.
    validate_question(Question(question))
    await require_sources(settings)
    async with open_app(settings) as app:
        await read_first(app, is_trial=is_trial)
        if as_json:
            reply = await app.answer(Question(question), SilentSink())
            words = make_filter(settings.outgoing, OPERATOR_PLATFORM)
            print_json(reply_as_json(question, reply, words))
        else:
            with closing(ConsoleSink(make_console())) as sink:
                await app.answer(Question(question), sink)
        if hint := describe_unfilled(app.library, is_trial=is_trial):
            make_console(stderr=True).print(hint, style="dim", markup=False, soft_wrap=True)
    return 0


async def search(
    settings: Settings, query: str, agent: str, top_k: int, *, as_json: bool, explain: bool = False
) -> int:
    """Retrieve without a language model: route, search, rerank. `explain` shows every score.

    The output names an agent that failed beside the passages of the others. When all fail, the first error is raised.
    """
    if not query.strip():
        raise UsageError("the query is empty")
    await require_ingested(settings)
    async with open_app(settings.without_models(), with_answers=False) as app:
        require_knowledge(app)
        result = await search_passages(app.deps, query, top_k, agent)
        explanation = await _explain(app, result, agent) if explain else None
    if as_json:
        print_json(_search_result_as_json(result, explanation, settings))
    else:
        _print_search_result(result, explanation, settings)
    return 0


async def _explain(app: App, result: SearchResult, agent: str) -> SearchExplanation:
    settings = app.settings
    routing_method, agents = await explain_routing(result.query, result.agents, settings, app.store, app.embedder)
    passages = explain_passages(result.passages, result.candidates, settings)
    return SearchExplanation("option" if agent else routing_method, agents, passages)


async def ingest(settings: Settings, names: Sequence[str], *, rebuild: bool, as_json: bool) -> int:
    """Refresh sources. The exit code is 1 when one of them failed; the others are refreshed nevertheless."""
    if not settings.sources:
        raise UsageError(NO_SOURCES)
    # Before a model is loaded: are they sources?
    stored_sources(settings.sources, names)
    out = make_console(stderr=as_json)
    async with open_app(settings.without_models(), with_answers=False, rebuild=rebuild) as app:
        try:
            with nullcontext() if as_json else ingest_progress(out) as progress:
                result = redact_refresh_result(await app.refresh(names, progress), settings)
        except asyncio.CancelledError:
            out.print(STOPPED, soft_wrap=True)
            raise
    if as_json:
        print_json(refresh_result_as_json(result))
    else:
        print_refresh_result(out, result)
        languages = {report.name: report.languages for report in result.reports}
        known_languages = await asyncio.to_thread(get_known_languages, settings.knowledge.embedding)
        for text in describe_unknown_languages(languages, known_languages) if known_languages else ():
            out.print(text, style="yellow", markup=False, soft_wrap=True)
    return 1 if result.failures else 0


def _search_result_as_json(
    result: SearchResult, explanation: SearchExplanation | None, settings: Settings
) -> Mapping[str, Any]:
    """Return the object that `kimas search --json` prints (a contract)."""
    values: dict[str, Any] = {
        "query": result.query,
        "agents": [{"name": agent.name, "score": round(agent.score, 4)} for agent in result.agents],
        "passages": [passage_as_json(passage) for passage in result.passages],
    }
    if result.errors_by_agent:
        values["failed"] = [{"name": name, "error": reason} for name, reason in result.errors_by_agent.items()]
    if explanation:
        values.update(explanation_as_json(explanation, settings.knowledge))
    return values


def _print_search_result(result: SearchResult, explanation: SearchExplanation | None, settings: Settings) -> None:
    out = make_console()
    if explanation:
        lines = format_explanation_lines(explanation, settings.knowledge)
        out.print("\n".join(lines), markup=False, soft_wrap=True)
    else:
        out.print("agents: " + ", ".join(f"{agent.name} {agent.score:.3f}" for agent in result.agents), style="dim")
        print_passages(out, result.passages)
    for name, reason in result.errors_by_agent.items():
        out.print(strip_control_characters(f"agent {name} failed: {reason}"), style="red", markup=False, soft_wrap=True)


def refresh_result_as_json(result: RefreshResult) -> Mapping[str, Any]:
    """Return the object that `kimas ingest --json` prints (a contract); failed sources carry an error instead."""
    sources: list[dict[str, Any]] = [
        {
            "name": report.name,
            "added": report.added,
            "updated": report.updated,
            "deleted": report.deleted,
            "unchanged": report.unchanged,
            "repaired": report.repaired,
            "passages": report.passages,
            "by_meaning": report.passages - report.unfilled,
            "seconds": round(report.seconds, 3),
            "skipped": dict(report.skipped),
            "stale": report.stale,
        }
        for report in result.reports
    ]
    for source in sources:
        if source["name"] in result.failures:
            source["error"] = result.failures[source["name"]]
    read_names = {source["name"] for source in sources}
    unread = {name: reason for name, reason in result.failures.items() if name not in read_names}
    return {"sources": sources + [{"name": name, "error": reason} for name, reason in unread.items()]}
