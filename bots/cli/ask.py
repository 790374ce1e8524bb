"""The commands `kimas ask`, `search` and `ingest`: each returns its exit code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
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
from bots.common.reply_json import passage_as_json, reply_as_json
from bots.common.reply_sink import SilentSink
from bots.common.terminal import ingest_progress, make_console, print_json
from bots.console.render import ConsoleSink
from bots.daemon.bootstrap import App, open_app, require_knowledge
from core.answering.agents.conversation import validate_question
from core.answering.agents.reranker import rerank
from core.errors import KimasError, UsageError
from core.formatting import strip_control_characters
from core.observability.logs import make_redactor
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.settings import Settings
from core.settings.loader import get_secret_values
from core.types import AgentScore, Passage, Question
from knowledge.embedding import get_known_languages
from knowledge.ingestion.refresh import RefreshResult
from knowledge.ingestion.schedule import stored_sources
from knowledge.retrieval.score_explanation import explain_passages, explain_routing
from knowledge.stores import NO_SOURCES, require_ingested, require_sources


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
            print_json(reply_as_json(question, reply))
        else:
            with closing(ConsoleSink(make_console())) as sink:
                await app.answer(Question(question), sink)
        if hint := describe_unfilled(app.library, is_trial=is_trial):
            make_console(stderr=True).print(hint, style="dim", markup=False, soft_wrap=True)
    return 0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search: the agents asked, the best passages, and why an agent failed, by its name."""

    query: str
    agents: Sequence[AgentScore]
    passages: Sequence[Passage]
    errors_by_agent: Mapping[str, str]
    explanation: SearchExplanation | None


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
        result = await _search(app, query, agent, top_k, explain=explain)
    if as_json:
        print_json(_search_result_as_json(result, settings))
    else:
        _print_search_result(result, settings)
    return 0


async def _search(app: App, query: str, agent: str, top_k: int, *, explain: bool) -> SearchResult:
    settings = app.settings
    agents = [AgentScore(agent, 1.0)] if agent else list(await app.library.route(query, at_least_one=True))
    passages_by_agent, errors_by_agent = await _search_agents(app, query, [score.name for score in agents], top_k)
    candidates = [passage for passages in passages_by_agent.values() for passage in passages]
    # Without a language model, even where one ranks the passages of answers.
    ranked_passages = await rerank(query, candidates, app.deps, Budget(settings.budget), by_model=False)
    top_passages = list(ranked_passages)[:top_k]
    explanation = None
    if explain:
        routing_method, agent_explanations = await explain_routing(query, agents, settings, app.store, app.embedder)
        passage_explanations = explain_passages(top_passages, passages_by_agent, settings)
        explanation = SearchExplanation("option" if agent else routing_method, agent_explanations, passage_explanations)
    return SearchResult(query, agents, top_passages, errors_by_agent, explanation)


async def _search_agents(
    app: App, query: str, agents: Sequence[str], limit: int
) -> tuple[Mapping[str, Sequence[Passage]], Mapping[str, str]]:
    """Return the passages by agent, and why an agent failed, by its name. Raises the first error when all fail."""
    async with task_group() as tasks:
        search_tasks = [tasks.create_task(capture_error(app.library.search(name, query, limit))) for name in agents]
    outcomes = [task.result() for task in search_tasks]
    passages_by_agent = dict[str, Sequence[Passage]]()
    errors_by_agent = dict[str, str]()
    redact = make_redactor(get_secret_values(app.settings))
    for name, result in zip(agents, outcomes, strict=True):
        if isinstance(result, KimasError):
            errors_by_agent[name] = redact(str(result))
        else:
            passages_by_agent[name] = result
    if errors_by_agent and not passages_by_agent:
        raise next(error for error in outcomes if isinstance(error, KimasError))
    return passages_by_agent, errors_by_agent


async def ingest(settings: Settings, names: Sequence[str], *, rebuild: bool, as_json: bool) -> int:
    """Refresh sources. The exit code is 1 when one of them failed; the others are refreshed nevertheless."""
    if not settings.sources:
        raise UsageError(NO_SOURCES)
    # Before a model is loaded: are they sources?
    stored_sources(settings.sources, names)
    out = make_console(stderr=as_json)
    async with open_app(settings.without_models(), with_answers=False, rebuild=rebuild) as app:
        with nullcontext() if as_json else ingest_progress(out) as progress:
            result = redact_refresh_result(await app.refresh(names, progress), settings)
    if as_json:
        print_json(refresh_result_as_json(result))
    else:
        print_refresh_result(out, result)
        languages = {report.name: report.languages for report in result.reports}
        known_languages = await asyncio.to_thread(get_known_languages, settings.knowledge.embedding)
        for text in describe_unknown_languages(languages, known_languages) if known_languages else ():
            out.print(text, style="yellow", markup=False, soft_wrap=True)
    return 1 if result.failures else 0


def _search_result_as_json(result: SearchResult, settings: Settings) -> Mapping[str, Any]:
    """Return the object that `kimas search --json` prints (a contract)."""
    values: dict[str, Any] = {
        "query": result.query,
        "agents": [{"name": agent.name, "score": round(agent.score, 4)} for agent in result.agents],
        "passages": [passage_as_json(passage) for passage in result.passages],
    }
    if result.errors_by_agent:
        values["failed"] = [{"name": name, "error": reason} for name, reason in result.errors_by_agent.items()]
    if result.explanation:
        values.update(explanation_as_json(result.explanation, settings.knowledge))
    return values


def _print_search_result(result: SearchResult, settings: Settings) -> None:
    out = make_console()
    if result.explanation:
        lines = format_explanation_lines(result.explanation, settings.knowledge)
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
