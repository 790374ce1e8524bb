"""Small real implementations of the Protocols of this package, so that its tests need no model and no network."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from core.errors import EmbeddingError
from core.language.tokens import lexical_tokens
from core.settings import Settings
from knowledge.ingestion.filling import fill
from knowledge.ingestion.sync import SyncOptions, SyncReport, refresh
from knowledge.parsing.parser import P, Result, ThreadParser
from knowledge.ports import Document, Embedder, Listing, Source, Store, TextKind, Vectors
from knowledge.stores.locked_store import LockedStore
from knowledge.stores.sqlite.store import open_sqlite


@dataclass
class WordEmbedder:
    """Implements `Embedder`: the sum of one fixed random direction per word. Texts that share words are near."""

    name: str = "words"
    dimension: int = 32
    delay: float = 0.0
    broken: bool = False
    embedded: list[str] = field(default_factory=list)
    directions: dict[str, Vectors] = field(default_factory=dict)
    is_warm: bool = False

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        await asyncio.sleep(self.delay)
        if self.broken:
            raise EmbeddingError("the embedder is broken")
        self.embedded += texts
        sums = [np.sum([self._direction(word) for word in lexical_tokens(text).split() or ["?"]], 0) for text in texts]
        vectors = np.array(sums).reshape(len(texts), self.dimension)
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    async def warm_up(self) -> None:
        self.is_warm = True

    def vocabulary_coverage(self, text: str) -> float:
        return sum(character.isascii() for character in text) / len(text) if text else 1.0

    async def close(self) -> None:
        pass

    def _direction(self, word: str) -> Vectors:
        if word not in self.directions:
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
            self.directions[word] = np.random.default_rng(seed).standard_normal(self.dimension).astype(np.float32)
        return self.directions[word]


class GatedParser(ThreadParser):
    """Reads documents only while its gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        await self.gate.wait()
        return await super().run(function, *args, **kwargs)


async def read_and_fill(
    source: Source, store: Store | LockedStore, embedder: Embedder, options: SyncOptions
) -> SyncReport:
    """Refresh a source, then make all vectors that it lacks."""
    report = await refresh(source, store, options)
    await fill(source.name, store, embedder)
    return report


@dataclass
class DictSource:
    """Implements `Source` over a dictionary of texts by path."""

    name: str = "docs"
    texts: dict[str, str] = field(default_factory=dict)
    vanished: Collection[str] = ()
    stale: str = ""
    edition: str = ""
    read: list[str] = field(default_factory=list)
    kind: str = "markdown"

    async def listing(self) -> Listing:
        prints = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in self.texts.items()}
        return Listing(prints, "7", {"binary": 2}, self.stale)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        for path in paths:
            if path not in self.vanished:
                self.read.append(path)
                url = "https://x.org/" + path + "#L{start}-L{end}"
                yield Document(path, self.texts[path], self.kind, "", url, self.edition)


def make_fruit_source() -> DictSource:
    """Return a source of 60 documents with two passages each, the same in every process."""
    filler = "more words here " * 40
    texts = {f"{n}.md": f"# A\n\napple {n} {filler}\n\n# B\n\npear {n} {filler}" for n in range(60)}
    return DictSource("docs", texts)


@pytest.fixture
def embedder() -> WordEmbedder:
    return WordEmbedder()


@pytest.fixture
def source() -> DictSource:
    return DictSource()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await open_sqlite(tmp_path / "passages", "words", 32)
    yield store
    await store.close()


@pytest.fixture
def markdown() -> Callable[..., str]:
    """Return a function that makes a text of some sections, one passage each."""

    def make(*sections: str) -> str:
        return "\n\n".join(
            f"# Section {number}\n\n{text} " + "more words here " * 40 for number, text in enumerate(sections)
        )

    return make


def settings(**changes: object) -> Settings:
    source = {"kind": "files", "path": "/nowhere"}
    agents = {"cook": {"sources": ["fruit"]}, "smith": {"sources": ["tools"]}, "chinese": {"sources": ["chinese"]}}
    values = {"sources": dict.fromkeys(("fruit", "tools", "chinese", "nothing"), source), "agents": agents} | changes
    return Settings.model_validate(values)
