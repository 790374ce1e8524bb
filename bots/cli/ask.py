"""What the commands do, once their arguments are read: each returns its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, replace
from typing import Any

from bots.cli.check import check as examine
from bots.cli.check import make_probes
from bots.cli.console import print_findings, print_passages, print_refreshed
from bots.cli.explain_output import explained_as_json, explained_lines
from bots.common.terminal import SilentSink, console, ingest_progress, print_json, printable
from bots.console.render import ConsoleSink
from bots.daemon.bootstrap import App, open_app, require_knowledge
from core.answering.agents.reranker import rerank
from core.answering.agents.search import outcome
from core.errors import KimasError, UsageError
from core.observability.logs import redactor
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.settings import Settings
from core.settings.loader import secret_values
from core.types import AgentScore, Passage, Question, Reply
from knowledge.ingestion.refresh import Refreshed
from knowledge.retrieval.score_explanation import explain_passages, explain_routing


async def ask(settings: Settings, question: str, *, as_json: bool) -> int:
    """Answer one question."""
    async with open_app(settings) as app:
        require_knowledge(app)
        if as_json:
            reply = await app.answer(Question(question), SilentSink())
            print_json(reply_as_json(question, reply))
        else:
            with closing(ConsoleSink(console())) as sink:
                await app.answer(Question(question), sink)
    return 0


async def search(
    settings: Settings, query: str, agent: str, top_k: int, *, as_json: bool, explain: bool = False
) -> int:
    """Retrieve without a language model: route, search, rerank. `explain` shows every score on the way.

    An agent that fails is named beside what the others found; when all fail the first failure is raised.
    """
    if not query.strip():
        raise UsageError("the query is empty")
    async with open_app(settings, answers=False) as app:
        require_knowledge(app)
        agents = [AgentScore(agent, 1.0)] if agent else list(await app.library.route(query))
        found, failed = await _searched(app, query, [one.name for one in agents], top_k)
        everything = [passage for passages in found.values() for passage in passages]
        # No language model here, whatever orders the passages of answers.
        parts = replace(app.parts, model=None)
        best = list(await rerank(query, everything, parts, Budget(settings.budget)))[:top_k]
        if explain:
            way, routing = await explain_routing(query, agents, settings, app.store, app.embedder)
            explained = explain_passages(best, found, settings)
    named = [{"name": one.name, "score": round(one.score, 4)} for one in agents]
    if as_json:
        result: dict[str, Any] = {"query": query, "agents": named, "passages": [passage_as_json(one) for one in best]}
        if failed:
            result["failed"] = [{"name": name, "error": reason} for name, reason in failed.items()]
        if explain:
            result |= explained_as_json("option" if agent else way, routing, explained, settings)
        print_json(result)
        return 0
    out = console()
    if explain:
        lines = explained_lines("option" if agent else way, routing, explained, settings.knowledge)
        out.print("\n".join(lines), markup=False, soft_wrap=True)
    else:
        out.print("agents: " + ", ".join(f"{one.name} {one.score:.3f}" for one in agents), style="dim")
        print_passages(out, best)
    for name, reason in failed.items():
        out.print(printable(f"agent {name} failed: {reason}"), style="red", markup=False, soft_wrap=True)
    return 0


async def _searched(
    app: App, query: str, agents: Sequence[str], limit: int
) -> tuple[Mapping[str, Sequence[Passage]], Mapping[str, str]]:
    """Return the passages of the agents that could search, and why the others could not. Raises when none could."""
    async with task_group() as tasks:
        begun = [tasks.create_task(outcome(app.library.search(name, query, limit))) for name in agents]
    outcomes = [task.result() for task in begun]
    found, failed = dict[str, Sequence[Passage]](), dict[str, str]()
    hide = redactor(secret_values(app.settings))
    for name, one in zip(agents, outcomes, strict=True):
        if isinstance(one, KimasError):
            failed[name] = hide(str(one))
        else:
            found[name] = one
    if failed and not found:
        raise next(one for one in outcomes if isinstance(one, KimasError))
    return found, failed


async def ingest(settings: Settings, names: Sequence[str], *, rebuild: bool, as_json: bool) -> int:
    """Refresh sources. Exit code 1 when one of them failed; the others are refreshed all the same."""
    if not settings.sources:
        raise UsageError("no sources are configured: docs/sources.md says how to add one")
    out = console(stderr=as_json)
    async with open_app(settings, answers=False, rebuild=rebuild) as app:
        with nullcontext() if as_json else ingest_progress(out) as progress:
            done = without_secrets(await app.refresh(names, progress), settings)
    if as_json:
        print_json(refreshed_as_json(done))
    else:
        print_refreshed(out, done.reports, done.failures)
    return 1 if done.failures else 0


async def check(settings: Settings, *, live: bool, as_json: bool) -> int:
    """Validate what the configuration names; exit code 1 when something is wrong with it."""
    findings = await examine(settings, live=live, probes=make_probes(settings))
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings]})
    else:
        print_findings(console(), findings)
    return 1 if any(finding.level == "error" for finding in findings) else 0


def reply_as_json(question: str, reply: Reply) -> Mapping[str, Any]:
    """Return the object that `kimas ask --json` prints (a contract)."""
    from core.storage.usage import together

    used = together(reply.trace.tokens, reply.trace.cost)
    return {
        "question": question,
        "query": reply.trace.query,
        "strategy": reply.trace.strategy,
        "agents": list(reply.trace.agents),
        "answer": reply.text,
        "citations": [
            {
                "n": one.n,
                "passage_id": one.passage_id,
                "source": one.source,
                "title": one.title,
                "path": one.path,
                "url": one.url,
            }
            for one in reply.citations
        ],
        "passages": [passage_as_json(one) for one in reply.passages],
        "timings_ms": dict(reply.trace.timings_ms),
        "cut": list(reply.trace.cut),
        "why_cut": dict(reply.trace.why_cut),
        "rounds": [asdict(one) for one in reply.trace.rounds],
        "usage": {"prompt": used.prompt, "completion": used.completion, "cost": round(used.cost, 8)},
        "extractive": reply.extractive,
    }


def passage_as_json(passage: Passage) -> Mapping[str, Any]:
    """Return a passage as every `--json` prints it (a contract)."""
    return {
        "passage_id": passage.id,
        "source": passage.source,
        "path": passage.path,
        "url": passage.url,
        "score": round(passage.score, 4),
    }


def refreshed_as_json(done: Refreshed) -> Mapping[str, Any]:
    """Return the object that `kimas ingest --json` prints (a contract); failed sources carry an error instead."""
    sources: list[dict[str, Any]] = [
        {
            "name": one.name,
            "added": one.added,
            "updated": one.updated,
            "deleted": one.deleted,
            "unchanged": one.unchanged,
            "passages": one.passages,
            "seconds": round(one.seconds, 3),
            "skipped": dict(one.skipped),
            "stale": one.stale,
        }
        for one in done.reports
    ]
    return {"sources": sources + [{"name": name, "error": reason} for name, reason in done.failures.items()]}


def without_secrets(done: Refreshed, settings: Settings) -> Refreshed:
    """Return the same without the credentials that addresses in its messages may hold."""
    hide = redactor(secret_values(settings))
    reports = tuple(replace(report, stale=hide(report.stale)) for report in done.reports)
    return Refreshed(reports, {name: hide(reason) for name, reason in done.failures.items()})
