"""The bare loop: what is left of conversational RAG when it is written by hand, without any framework.

BM25 and cosine over arrays in memory, fused by rank; one call that completes the question where there is a
conversation, one call that answers. It has no citations, time limits, fallbacks, permissions or logs.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from openai import AsyncOpenAI

from tests.lab.comparison.contract import (
    ANSWER_PROMPT,
    API_KEY,
    DIMENSION,
    EMBEDDING_MODEL,
    MODEL,
    REWRITE_PROMPT,
    TOP_K,
    Document,
    Query,
    SystemConfig,
)

K1 = 1.5
B = 0.75
CANDIDATES = 30
FUSION = 60
BATCH = 64


def open_system(config: SystemConfig, option: str) -> BareLoop:
    return BareLoop(config)


class BareLoop:
    def __init__(self, config: SystemConfig) -> None:
        self._folder = config.folder
        self._model = AsyncOpenAI(base_url=config.model_url, api_key=API_KEY)
        self._embedder = AsyncOpenAI(base_url=config.embedder_url, api_key=API_KEY)
        self._documents: list[Document] = []
        self._vectors = np.zeros((0, DIMENSION), np.float32)
        self._postings: dict[str, tuple[Any, Any]] = {}

    async def index(self, documents: Sequence[Document]) -> None:
        vectors = [
            await self._embed([document.text for document in documents[start : start + BATCH]])
            for start in range(0, len(documents), BATCH)
        ]
        self._folder.mkdir(parents=True, exist_ok=True)
        np.save(self._folder / "vectors.npy", np.concatenate(vectors))
        lines = [json.dumps([document.id, document.text]) for document in documents]
        (self._folder / "documents.jsonl").write_text("\n".join(lines), "utf-8")

    async def start(self) -> None:
        lines = (self._folder / "documents.jsonl").read_text("utf-8").splitlines()
        self._documents = [Document(*json.loads(line)) for line in lines]
        self._vectors = np.load(self._folder / "vectors.npy")
        counts = [Counter(_words(document.text)) for document in self._documents]
        lengths = [counter.total() for counter in counts]
        average = sum(lengths) / len(lengths)
        postings: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for number, counter in enumerate(counts):
            norm = K1 * (1 - B + B * lengths[number] / average)
            for word, count in counter.items():
                postings[word].append((number, count * (K1 + 1) / (count + norm)))
        for word, entries in postings.items():
            rarity = math.log(1 + (len(counts) - len(entries) + 0.5) / (len(entries) + 0.5))
            numbers, weights = zip(*entries, strict=True)
            self._postings[word] = (np.array(numbers), np.array(weights, np.float32) * rarity)

    async def answer(self, query: Query) -> AsyncIterator[str]:
        passages = [self._documents[number].text for number in await self._search(query)]
        messages: list[Any] = [
            {"role": "system", "content": ANSWER_PROMPT + "\n\n".join(passages)},
            *({"role": role, "content": text} for role, text in query.history),
            {"role": "user", "content": query.question},
        ]
        stream = await self._model.chat.completions.create(model=MODEL, messages=messages, stream=True)
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    async def retrieve(self, query: Query) -> list[str]:
        return [self._documents[number].id for number in await self._search(query)]

    async def close(self) -> None:
        await self._model.close()
        await self._embedder.close()

    async def _search(self, query: Query) -> list[int]:
        text = await self._complete(query) if query.history else query.question
        vector = (await self._embed([text]))[0]
        return await asyncio.to_thread(self._rank, text, vector)

    def _rank(self, text: str, vector: Any) -> list[int]:
        lexical = np.zeros(len(self._documents), np.float32)
        for word in set(_words(text)) & self._postings.keys():
            numbers, weights = self._postings[word]
            lexical[numbers] += weights
        fused: dict[int, float] = defaultdict(float)
        for scores in (lexical, self._vectors @ vector):
            for rank, number in enumerate(np.argsort(-scores)[:CANDIDATES].tolist(), 1):
                fused[number] += 1 / (FUSION + rank)
        return sorted(fused, key=lambda number: -fused[number])[:TOP_K]

    async def _complete(self, query: Query) -> str:
        messages: list[Any] = [
            {"role": "system", "content": REWRITE_PROMPT},
            *({"role": role, "content": text} for role, text in query.history),
            {"role": "user", "content": query.question},
        ]
        reply = await self._model.chat.completions.create(model=MODEL, messages=messages)
        return reply.choices[0].message.content or query.question

    async def _embed(self, texts: Sequence[str]) -> Any:
        reply = await self._embedder.embeddings.create(model=EMBEDDING_MODEL, input=list(texts))
        vectors = np.array([item.embedding for item in reply.data], np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
