"""Search in process at 10,000 passages: real words, random order, vectors around a few hundred topics."""

from __future__ import annotations

import asyncio
import random
import re
import time
from pathlib import Path

import numpy as np

from core.language.tokens import lexical_tokens, query_tokens
from core.settings import EmbeddingSettings
from core.types import Passage
from knowledge.embedding import open_embedder
from knowledge.ports import PassageRow
from knowledge.stores.sqlite.store import open_sqlite
from tests.lab.benchmarks.corpus import installed
from tests.lab.benchmarks.figures import Figure, median, percentile

FIRST_SENTENCE = re.compile(r'"""([A-Z][^"\n]{25,90})[.\n]')
PASSAGES = 10_000
QUERIES = 100
AT_ONCE = 16


async def measure(folder: Path) -> list[Figure]:
    folder = folder / "search"
    embedder = await open_embedder(EmbeddingSettings(), folder / "models")
    store = await open_sqlite(folder / "passages", embedder.name, embedder.dimension)
    dice = random.Random(1)
    text = " ".join(path.read_text("utf-8") for path in installed("*.py")[-300:])
    words = text.split()
    topics = np.random.default_rng(1).normal(size=(300, embedder.dimension)).astype(np.float32)
    for batch in range(PASSAGES // 2000):
        await store.replace("code", [f"{batch}.py"], [_row(dice, words, topics, batch, at) for at in range(2000)])
    await store.optimize()
    # What a docstring promises is much like what somebody asks for.
    queries = dice.sample(sorted(set(FIRST_SENTENCE.findall(text))), QUERIES)

    async def once(query: str) -> float:
        started_at = time.perf_counter()
        vector = (await embedder.embed([query]))[0]
        await store.search(query_tokens(query), vector, ["code"], 100)
        return (time.perf_counter() - started_at) * 1000

    for query in queries[:10]:
        await once(query)
    alone_ms = [await once(query) for query in queries]
    concurrent_ms: list[float] = []
    for at in range(0, QUERIES, AT_ONCE):
        concurrent_ms += await asyncio.gather(*map(once, queries[at : at + AT_ONCE]))
    await store.close()
    await embedder.close()
    return [
        Figure("search: embed and search 10,000 passages, p50", median(alone_ms), "ms", 20),
        Figure("search: the same, p95", percentile(alone_ms, 0.95), "ms"),
        Figure(f"search: {AT_ONCE} at once, p50", median(concurrent_ms), "ms"),
    ]


def _row(dice: random.Random, words: list[str], topics: np.ndarray, batch: int, at: int) -> PassageRow:
    text = " ".join(dice.choices(words, k=60))
    vector = topics[dice.randrange(len(topics))] + np.random.default_rng(at).normal(size=topics.shape[1]) * 0.7
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    passage = Passage(f"{batch}-{at}", "code", f"{batch}.py", f"part {at}", text)
    return PassageRow(passage, "1", lexical_tokens(text), unit)
