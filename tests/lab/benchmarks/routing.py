"""Routing among 20 agents of 2,000 passages each, once a question's vector is known; what a changed source costs."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from core.settings import EmbeddingSettings, Settings
from core.types import Passage
from knowledge.embedding import open_embedder
from knowledge.ports import PassageRow
from knowledge.retrieval.library import KnowledgeLibrary
from knowledge.stores.sqlite.store import open_sqlite
from tests.lab.benchmarks.figures import Figure, median, percentile

AGENTS = 20
PASSAGES = 2_000
TOPICS = 12
QUERIES = 100
ROUNDS = 5
ABOUT = ("ports", "cookies", "fonts", "threads", "paging", "tokens", "colours", "locks", "dates", "files")


async def measure(folder: Path) -> list[Figure]:
    folder = folder / "routing"
    embedder = await open_embedder(EmbeddingSettings(), folder / "models")
    store = await open_sqlite(folder / "passages", embedder.name, embedder.dimension)
    names = [f"agent-{number}" for number in range(AGENTS)]
    for number, name in enumerate(names):
        await store.replace(name, ["all.md"], _rows(name, number, embedder.dimension))
    await store.optimize()
    library = KnowledgeLibrary(_settings(names, folder), store, embedder)
    started_at = time.perf_counter()
    await library.load()
    loaded = time.perf_counter() - started_at
    queries = [f"How does agent {number % AGENTS} deal with {ABOUT[number // 10]}?" for number in range(QUERIES)]
    for query in queries:
        await library.route(query)
    durations = []
    for query in queries * ROUNDS:
        started_at = time.perf_counter()
        await library.route(query)
        durations.append((time.perf_counter() - started_at) * 1000)
    started_at = time.perf_counter()
    await library.reload([names[0]])
    reloaded = time.perf_counter() - started_at
    await library.close()
    await store.close()
    await embedder.close()
    return [
        Figure(f"routing: {AGENTS} agents, vector known, p50", median(durations), "ms", 2),
        Figure("routing: the same, p95", percentile(durations, 0.95), "ms"),
        Figure(f"routing: centroids of {AGENTS * PASSAGES:,} passages", loaded, "s"),
        Figure("routing: the same after one source changed", reloaded, "s"),
    ]


def _settings(names: list[str], folder: Path) -> Settings:
    data = {"description": "Everything about {}", "examples": [f"How do I set {topic}?" for topic in ABOUT[:6]]}
    agents = {name: {"sources": [name], **data, "description": f"Everything about {name}"} for name in names}
    sources = {name: {"kind": "files", "path": str(folder)} for name in names}
    return Settings.model_validate({"sources": sources, "agents": agents})


def _rows(name: str, seed: int, dimension: int) -> list[PassageRow]:
    dice = np.random.default_rng(seed)
    topics = dice.normal(size=(TOPICS, dimension))
    vectors = topics[dice.integers(TOPICS, size=PASSAGES)] + dice.normal(size=(PASSAGES, dimension)) * 0.7
    units = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    passages = [Passage(f"{name}-{at}", name, "all.md", f"part {at}", "text") for at in range(PASSAGES)]
    return [PassageRow(passage, "1", "text", unit) for passage, unit in zip(passages, units, strict=True)]
