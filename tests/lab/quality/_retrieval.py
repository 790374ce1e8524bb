"""What the parts about retrieval share: an embedder that remembers its vectors, and the measures of a ranking."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from core.language.tokens import query_tokens
from core.settings import EmbeddingSettings
from core.types import Passage
from knowledge.embedding import open_embedder
from knowledge.ports import Embedder, Store, TextKind, Vectors


class RememberingEmbedder:
    """The built-in embedder with a file of the vectors it has made: cutting documents anew embeds what changed.

    The number in the file's name grows where the vectors of a text change.
    """

    def __init__(self, embedder: Embedder, file: Path) -> None:
        self._embedder = embedder
        self._file = file
        self.name = embedder.name
        self.dimension = embedder.dimension
        self._vectors: dict[str, Vectors] = {}
        if file.exists():
            with np.load(file) as arrays:
                self._vectors = dict(zip(arrays["keys"].tolist(), arrays["vectors"], strict=True))

    @classmethod
    async def open(cls, folder: Path, settings: EmbeddingSettings | None = None) -> RememberingEmbedder:
        settings = settings or EmbeddingSettings()
        return cls(await open_embedder(settings, folder / "models"), folder / f"{settings.provider}-2.npz")

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        keys = [hashlib.sha256(text.encode()).hexdigest()[:24] for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._vectors}
        if new:
            self._vectors.update(zip(new, await self._embedder.embed(list(new.values())), strict=True))
        return np.array([self._vectors[key] for key in keys], np.float32).reshape(-1, self.dimension)

    async def warm_up(self) -> None:
        await self._embedder.warm_up()

    def vocabulary_coverage(self, text: str) -> float:
        return self._embedder.vocabulary_coverage(text)

    async def close(self) -> None:
        np.savez(self._file, keys=np.array(list(self._vectors)), vectors=np.array(list(self._vectors.values())))
        await self._embedder.close()


async def bm25_alone(question: str, sources: Collection[str], store: Store) -> list[Passage]:
    """Return the passages that plain BM25 finds for the question as it stands, best first."""
    passages = await store.search(query_tokens(question), None, sources, 100)
    return sorted(passages, key=lambda passage: -passage.lexical)


def first_rank(passages: Sequence[Passage], files: Collection[str]) -> int:
    """Return the rank, from 1, of the first passage of one of these files; 0 where there is none."""
    return next((rank for rank, passage in enumerate(passages, 1) if passage.path in files), 0)


def hit(ranks: Sequence[int], cutoff: int) -> float:
    return sum(0 < rank <= cutoff for rank in ranks) / max(1, len(ranks))


def mrr(ranks: Sequence[int]) -> float:
    return sum(1 / rank for rank in ranks if rank) / max(1, len(ranks))


def recall(ranking: Sequence[str], relevant: Collection[str], cutoff: int) -> float:
    return len(set(ranking[:cutoff]) & set(relevant)) / len(relevant)


def ndcg(ranking: Sequence[str], relevant: Collection[str], cutoff: int) -> float:
    gain = sum(1 / math.log2(rank + 1) for rank, name in enumerate(ranking[:cutoff], 1) if name in relevant)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(cutoff, len(relevant)) + 1))
