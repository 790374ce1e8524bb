"""What the commands do, once their arguments are read: each returns its exit code."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, replace
from typing import Any

from bots.app import App, open_app, open_record
from bots.check import check as examine
from bots.console import (
    ConsoleSink,
    console,
    ingest_progress,
    print_findings,
    print_passages,
    print_refreshed,
)
from bots.explained import explained_as_json, explained_lines
from bots.probes import make_probes
from bots.rating import AGAIN, BAD, GOOD, HINT, Ratings
from bots.terminal import Terminal, question_in
from bots.usage import print_usage, read_usage, usage_as_json
from core.agents.reranker import rerank
from core.budget import Budget
from core.commands import find
from core.configuration import secret_values
from core.errors import KimasError, UsageError
from core.logs import redactor
from core.settings import Settings
from core.tasks import task_group
from core.types import AgentScore, Passage, Question, Reply, Turn
from knowledge.explaining import explain_passages, explain_routing
from knowledge.refresh import Refreshed

GOODBYE = frozenset({"exit", "quit", ":q"})
WARM_UP_BEGINS_S = 0.01
COMMAND = re.compile(r"/[A-Za-z_]+")
OWN, IN_GROUPS = frozenset({GOOD, BAD, AGAIN}), frozenset({"/escalate", "/learn"})
NOTHING_INGESTED = "nothing has been ingested yet: run `kimas ingest` first"


class SilentSink:
    """Takes a reply and shows nothing: `--json` prints it as data."""

    async def open(self) -> None:
        """Show nothing."""

    async def update(self, text: str) -> None:
        """Show nothing."""

    async def finish(self, reply: Reply) -> None:
        """Show nothing."""

    async def fail(self, text: str) -> None:
        """Show nothing."""


async def ask(settings: Settings, question: str, *, as_json: bool) -> int:
    """Answer one question."""
    async with open_app(settings) as app:
        _require_knowledge(app)
        if as_json:
            reply = await app.answer(Question(question), SilentSink())
            print_json(reply_as_json(question, reply))
        else:
            with closing(ConsoleSink(console())) as sink:
                await app.answer(Question(question), sink)
    return 0


async def chat(settings: Settings) -> int:
    """Hold a conversation in the terminal until its end of input."""
    out = console()
    history: list[Turn] = []
    hide, ratings = redactor(secret_values(settings)), Ratings(settings)
    async with open_app(settings) as app, task_group() as tasks:
        commands = Terminal(settings, app.keeper)
        _require_knowledge(app)
        out.print(_welcome(settings), style="dim", markup=False)
        # Reading a line blocks the loop, but not the thread that this begins: it loads while somebody types.
        tasks.create_task(app.warm_up())
        await asyncio.sleep(WARM_UP_BEGINS_S)
        while (line := _read_line(out)) is not None:
            if not line:
                continue
            recent = tuple(history[-settings.answer.history_turns :]) if settings.answer.history_turns else ()
            question = Question(question_in(line), recent)
            with closing(ConsoleSink(out)) as sink:
                try:
                    if (told := _not_here(line) or await commands.heard(line)) is not None:
                        await sink.finish(Reply(told))
                        if line.lower().startswith("/refresh"):
                            await _refresh_asked(app, settings)
                        continue
                    if (heard := await ratings.heard(line)) is not None:
                        out.print(heard.text, style="dim", markup=False)
                        if heard.again is None:
                            continue
                        question = heard.again
                    reply = await app.answer(question, sink)
                except KimasError as fault:
                    await sink.fail(hide(str(fault)))
                    continue
            out.print()
            ratings.answered(question, reply)
            commands.answered(reply)
            history += [Turn("user", question.text), Turn("assistant", reply.text)]
    return 0


async def search(
    settings: Settings, query: str, agent: str, top_k: int, *, as_json: bool, explain: bool = False
) -> int:
    """Retrieve without a language model: route, search, rerank. `explain` shows every score on the way."""
    if not query.strip():
        raise UsageError("the query is empty")
    async with open_app(settings, answers=False) as app:
        _require_knowledge(app)
        agents = [AgentScore(agent, 1.0)] if agent else list(await app.library.route(query))
        found = {one.name: await app.library.search(one.name, query, top_k) for one in agents}
        everything = [passage for passages in found.values() for passage in passages]
        # No language model here, whatever orders the passages of answers.
        parts = replace(app.parts, model=None)
        best = list(await rerank(query, everything, parts, Budget(settings.budget)))[:top_k]
        if explain:
            way, routing = await explain_routing(query, agents, settings, app.store, app.embedder)
            explained = explain_passages(best, found, settings)
    named = [{"name": one.name, "score": round(one.score, 4)} for one in agents]
    if as_json:
        result = {"query": query, "agents": named, "passages": [passage_as_json(one) for one in best]}
        if explain:
            result |= explained_as_json("option" if agent else way, routing, explained, settings)
        print_json(result)
        return 0
    out = console()
    if explain:
        lines = explained_lines("option" if agent else way, routing, explained, settings.knowledge)
        out.print("\n".join(lines), markup=False, soft_wrap=True)
        return 0
    out.print("agents: " + ", ".join(f"{one.name} {one.score:.3f}" for one in agents), style="dim")
    print_passages(out, best)
    return 0


async def ingest(settings: Settings, names: Sequence[str], *, rebuild: bool, as_json: bool) -> int:
    """Refresh sources. Exit code 1 when one of them failed; the others are refreshed all the same."""
    if not settings.sources:
        raise UsageError("no sources are configured: docs/sources.md says how to add one")
    out = console(stderr=as_json)
    async with open_app(settings, answers=False, rebuild=rebuild) as app:
        with nullcontext() if as_json else ingest_progress(out) as progress:
            done = _without_secrets(await app.refresh(names, progress), settings)
    if as_json:
        print_json(refreshed_as_json(done))
    else:
        print_refreshed(out, done.reports, done.failures)
    return 1 if done.failures else 0


async def usage(settings: Settings, days: int, *, as_json: bool) -> int:
    """Show what the answers of the last days consumed."""
    found = await read_usage(settings, days)
    if as_json:
        print_json(usage_as_json(*found))
    else:
        print_usage(console(), *found)
    return 0


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


def print_json(value: object) -> None:
    """Print one object on standard output."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None) + "\n")


def _welcome(settings: Settings) -> str:
    known = ", ".join(settings.sources)
    return f"{settings.name} answers from: {known}. /help shows the commands, Ctrl-D leaves. {HINT}"


async def _refresh_asked(app: App, settings: Settings) -> None:
    """Do here what a command has asked for: there need not be a daemon that does."""
    out = console()
    async with open_record(settings) as record:
        asked = [name for name, entry in (await record.entries()).items() if entry.asked and name in settings.sources]
    if asked:
        with ingest_progress(out) as progress:
            done = _without_secrets(await app.refresh(asked, progress), settings)
        print_refreshed(out, done.reports, done.failures)


def _not_here(line: str) -> str | None:
    """Return what to say to a line that looks like a command and is none in the terminal."""
    name, *_ = line.split(maxsplit=1)
    if name.lower() in IN_GROUPS:
        return f"`{name}` concerns other people: it works in groups, and nobody else reads this."
    if line == name and COMMAND.fullmatch(name) and name not in OWN and find(name[1:].lower()) is None:
        return f"I do not know `{name}`. `/help` shows the commands."
    return None


def _without_secrets(done: Refreshed, settings: Settings) -> Refreshed:
    """Return the same without the credentials that addresses in its messages may hold."""
    hide = redactor(secret_values(settings))
    reports = tuple(replace(report, stale=hide(report.stale)) for report in done.reports)
    return Refreshed(reports, {name: hide(reason) for name, reason in done.failures.items()})


def _require_knowledge(app: App) -> None:
    if app.library.empty:
        raise UsageError(NOTHING_INGESTED)


def _read_line(out: Any) -> str | None:
    """Return the next line, or None at the end. Reading blocks: nothing else runs in this process meanwhile."""
    try:
        line = str(out.input("[bold]> [/]")).strip()
    except (EOFError, KeyboardInterrupt):
        out.print()
        return None
    return None if line.lower() in GOODBYE else line
