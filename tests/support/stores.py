"""Stores of every kind, and passages to put into them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.settings import WeaviateSettings
from core.types import Passage
from knowledge.ports import PassageRow, Store, Vectors
from knowledge.stores.sqlite.store import open_sqlite
from knowledge.stores.weaviate import open_weaviate
from knowledge.stores.weaviate.client import connect

DIMENSION = 16
WORDS = [f"word{number}" for number in range(60)]


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a store is, and how it is opened there."""

    where: Path | WeaviateSettings
    options: Mapping[str, Any]

    def text(self) -> str:
        """Return the location as an argument for another process."""
        if isinstance(self.where, Path):
            return json.dumps({"path": str(self.where), "options": self.options})
        return json.dumps({"weaviate": self.where.model_dump(), "options": self.options})

    @classmethod
    def parse(cls, text: str) -> StoreLocation:
        """Read what `text` has returned."""
        request = json.loads(text)
        location = Path(request["path"]) if "path" in request else WeaviateSettings(**request["weaviate"])
        return cls(location, request["options"])

    def make_other(self, name: str) -> StoreLocation:
        """Return a location beside this one."""
        if isinstance(self.where, Path):
            return StoreLocation(self.where / name, self.options)
        collection = self.where.collection + name.capitalize()
        return StoreLocation(self.where.model_copy(update={"collection": collection}), self.options)


async def forget(settings: WeaviateSettings) -> None:
    """Delete what a test has left on the server."""
    cluster = await connect(settings)
    try:
        await cluster.drop()
    finally:
        await cluster.close()


@asynccontextmanager
async def opened(
    location: StoreLocation | Path, embedder: str = "test", dimension: int = DIMENSION, **options: Any
) -> AsyncIterator[Store]:
    store = await open_at(location, embedder, dimension, **options)
    try:
        yield store
    finally:
        await store.close()


async def open_at(
    location: StoreLocation | Path, embedder: str = "test", dimension: int = DIMENSION, **options: Any
) -> Store:
    location = StoreLocation(location, {}) if isinstance(location, Path) else location
    values = dict(location.options) | options
    if isinstance(location.where, Path):
        return await open_sqlite(location.where, embedder, dimension, **values)
    return await open_weaviate(location.where, embedder, dimension, **values)


def unit(seed: int, dimension: int = DIMENSION) -> Vectors:
    vector = np.random.default_rng(seed).standard_normal(dimension)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def row(
    name: str, path: str, *, source: str = "docs", tokens: str = "", seed: int = 0, print_: str = "1"
) -> PassageRow:
    passage = Passage(
        name, source, path, f"Title of {name}", f"Text of {name}", f"https://x.org/{name}", "markdown", 3, 9
    )
    return PassageRow(passage, print_, tokens or name, unit(seed))


def random_rows(count: int, *, source: str = "docs", seed: int = 1, per_document: int = 5) -> list[PassageRow]:
    random = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        tokens = " ".join(random.choice(WORDS, size=int(random.integers(3, 30)), p=None))
        name = f"{source}-{seed}-{number}"
        rows.append(
            row(name, f"p{number // per_document}.md", source=source, tokens=tokens, seed=seed * 10**6 + number)
        )
    return rows


async def put(store: Store, rows: Sequence[PassageRow], source: str = "docs") -> None:
    await store.replace(source, {row.passage.path for row in rows}, rows)
