"""Three things that we do otherwise than the documents say, both ways: what is embedded with HyDE, what a direct search
joins, and what the rating of a live source counts.

The English questions of both sets of unseen projects. A strong model that had not seen the documents wrote what stands
in a model's place (`design_choices.jsonl`): the query that a router would send, and the passage that HyDE would make
up. docs/decisions.md has the figures.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aiohttp import web

from bots.daemon.bootstrap import App, open_app
from core.answering.agents.reranker import select_evidence
from core.answering.agents.search import search
from core.answering.context import Query, RewriteContext
from core.answering.rewriting import rewrites
from core.answering.strategies import single
from core.runtime.budget import Budget
from core.settings import Settings
from core.types import Passage
from knowledge.live import search as live_search
from knowledge.ports import Embedder
from tests.lab.quality import second_unseen_projects, unseen_projects
from tests.lab.quality._retrieval import RememberingEmbedder, bm25_alone, first_rank, hit
from tests.lab.quality.figures import Figure
from tests.lab.quality.repository_questions import CUTOFF, Case, clone, find_evidence, make_settings, read_cases
from tests.support.scripted import ScriptedPeer

WRITTEN = Path(__file__).with_suffix(".jsonl")
PROJECTS = {**unseen_projects.PROJECTS, **second_unseen_projects.PROJECTS}
REPOSITORIES = tuple(project.repository for project in PROJECTS.values())
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
RESULTS = 10
EXCERPT_CHARS = 300
ADDRESS = "http://docs.example/"

Ranks = dict[str, list[int]]
_passage_as_meaning = rewrites._llm_hyde


def build(mirror: Path, data: Path) -> None:
    clone(mirror, data, PROJECTS)


def measure(data: Path) -> list[Figure]:
    return asyncio.run(_measure(data))


async def _measure(data: Path) -> list[Figure]:
    written = {record["id"]: record for record in map(json.loads, WRITTEN.read_text("utf-8").splitlines())}
    cases = [
        case
        for part in (unseen_projects, second_unseen_projects)
        for case in read_cases(part.QUESTIONS)
        if case.id in written
    ]
    ranks: Ranks = defaultdict(list)
    embedder = await RememberingEmbedder.open(data)
    try:
        for name, project in PROJECTS.items():
            shutil.rmtree(data / name, ignore_errors=True)
            settings = make_settings(data, name, project)
            own_cases = [(case, written[case.id]) for case in cases if case.project == name]
            async with open_app(settings, embedder=embedder, with_answers=False) as app:
                result = await app.refresh()
                assert not result.failures, result.failures
                await _measure_joining(own_cases, app, ranks)
                if len(project.sources) > 1:
                    await _measure_rating([case for case, _ in own_cases], app, embedder, ranks)
            for label, hyde in (("is embedded", _passage_as_meaning), ("is the query", _passage_as_query)):
                with patch.object(rewrites, "_llm_hyde", hyde):
                    await _measure_hyde(own_cases, settings, embedder, ranks[f"HyDE, the passage {label}"])
    finally:
        await embedder.close()
    return [
        figure
        for name, values in ranks.items()
        for figure in (
            Figure(f"{name}: hit@{CUTOFF}", hit(values, CUTOFF)),
            Figure(f"{name}: right page first", hit(values, 1)),
        )
    ]


async def _measure_joining(cases: Sequence[tuple[Case, dict[str, str]]], app: App, ranks: Ranks) -> None:
    """Search the router's query alone and joined with the question; a router that misses sends another one's."""
    queries = [record["query"] for _, record in cases]
    for (case, _), query, other_query in zip(cases, queries, queries[1:] + queries[:1], strict=True):
        alone = {"the question": case.question.text, "router's query": query, "another's query": other_query}
        for name, text in alone.items():
            budget = Budget(app.settings.budget)
            result = await single.compress_result(await search(text, app.deps, budget), app.deps, budget)
            evidence = await select_evidence(result, app.deps, budget)
            ranks[f"{name} alone"].append(first_rank(evidence.passages, case.files))
        for name in ("router's query", "another's query"):
            budget = Budget(app.settings.budget)
            first_search = asyncio.create_task(search(case.question.text, app.deps, budget))
            result = await single.join_query(first_search, alone[name], app.deps, budget)
            evidence = await select_evidence(result, app.deps, budget)
            ranks[f"{name} joined with the question"].append(first_rank(evidence.passages, case.files))


async def _passage_as_query(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    queries = await _passage_as_meaning(query, context)
    return queries and [replace(hyde_query, text=hyde_query.dense, dense="") for hyde_query in queries]


async def _measure_hyde(
    cases: Sequence[tuple[Case, dict[str, str]]], settings: Settings, embedder: Embedder, ranks: list[int]
) -> None:
    passage = ""
    async with ScriptedPeer(rewrite_hyde=lambda _: json.dumps({"passage": passage})) as model:
        changes: dict[str, Any] = {
            "models": {"main": {"base_url": model.base_url, "model": "scripted"}},
            "answer": {"passages": CUTOFF},
            "knowledge": {"search": {"rerank": "embedding"}},
            "context": {"translate": False},
            "agents": {
                name: {"sources": agent.sources, "rewrites": ["hyde"]} for name, agent in settings.agents.items()
            },
        }
        hyde_settings = _change(settings, changes)
        async with open_app(hyde_settings, embedder=embedder, with_answers=False) as app:
            for case, record in cases:
                passage = record["passage"]
                ranks.append(first_rank(await find_evidence(case.question, app), case.files))


async def _measure_rating(cases: Sequence[Case], app: App, embedder: Embedder, ranks: Ranks) -> None:
    """Ask the first source by words at question time, as a service that shows excerpts, beside the stored others."""
    source = next(iter(app.settings.sources))

    async def serve(request: web.Request) -> web.Response:
        passages = await bm25_alone(request.query["q"], [source], app.store)
        first_passages = {passage.path: passage for passage in reversed(passages)}
        found = sorted(first_passages.values(), key=lambda passage: -passage.lexical)[:RESULTS]
        results = [
            {"title": passage.title, "text": passage.text[:EXCERPT_CHARS], "url": ADDRESS + passage.path}
            for passage in found
        ]
        return web.json_response({"results": results})

    service = web.Application()
    service.router.add_get("/", serve)
    runner = web.AppRunner(service)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/?q={{query}}"
        live_source = {"kind": "http_api", "url": url, "allow_private": ["127.0.0.1"], "limit": RESULTS}
        described_agent = {"sources": [source], "description": f"documentation of {cases[0].project}"}
        settings = _change(app.settings, {"sources": {source: live_source}, "agents": {source: described_agent}})
        for share in SHARES:
            with patch.object(live_search, "RATING_SHARE", share):
                async with open_app(settings, embedder=embedder, with_answers=False) as live_app:
                    for case in cases:
                        passages = await find_evidence(case.question, live_app)
                        ranks[f"rating counts {share:.0%}"].append(first_rank([*map(_with_path, passages)], case.files))
    finally:
        await runner.cleanup()


def _with_path(passage: Passage) -> Passage:
    """Return a passage, one of the service with the path of its file."""
    return replace(passage, path=passage.url.removeprefix(ADDRESS)) if passage.url.startswith(ADDRESS) else passage


def _change(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Return the settings with these keys; sources and agents that `changes` does not name stay."""
    written = settings.model_dump(mode="json", exclude_unset=True)
    named = {key: {**written[key], **changes[key]} for key in ("sources", "agents") if key in changes}
    return Settings.model_validate({**written, **changes, **named})
