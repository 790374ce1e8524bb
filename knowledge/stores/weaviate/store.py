"""The passage store on Weaviate: atomic replacement by generations, hybrid search with both true scores.

A write puts new objects beside the old ones, with the next generation of their source, and then one object: the commit,
which tells readers up to which generation they may see. Then the old objects are deleted. A reader compares the commits
before and after its queries and reads again when they differ, so it never sees a mix, nor half of what is deleted.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from core.errors import StoreError, StoreMismatch
from core.settings import WeaviateSettings
from core.types import Passage
from knowledge.ports import Held, Row, Vectors
from knowledge.stores.weaviate.client import VALUES, Cluster
from knowledge.stores.weaviate.connection import connect
from knowledge.stores.weaviate.errors import differing
from knowledge.stores.weaviate.rows import (
    FORMAT,
    LABEL,
    Commit,
    Entry,
    Found,
    Sight,
    as_passage,
    commit_key,
    document_entries,
    document_key,
    passage_entries,
    touched,
)
from knowledge.stores.weaviate.schema import DOCUMENTS, PASSAGES
from knowledge.stores.weaviate.writer_lease import claimed

T = TypeVar("T")

# Reading a whole source, page by page, may take so many times longer than a search.
WHOLE = 15
# A writer that was killed keeps others from its source for this long, in multiples of the longest request.
CLAIM = 2.0


async def open_weaviate(
    settings: WeaviateSettings,
    embedder_name: str,
    dimension: int,
    *,
    rebuild: bool = False,
    claim_seconds: float | None = None,
) -> WeaviateStore:
    """Open the store on a server; its collections and its tenant are created where they are missing.

    `rebuild` empties it first; of shared collections only the own tenant. A writer that died is waited for
    `claim_seconds`. Raises `StoreMismatch` when it was built with another model (`embedder_name`, `dimension`) or
    format, `StoreError` when the server cannot be reached, refuses the key or is too old.
    """
    cluster = await connect(settings)
    try:
        if rebuild:
            await cluster.drop()
        await cluster.ensure()
        seconds = CLAIM * settings.write_timeout_s if claim_seconds is None else claim_seconds
        store = WeaviateStore(
            cluster,
            embedder_name,
            dimension,
            batch=settings.batch,
            read_seconds=settings.read_timeout_s,
            claim_seconds=seconds,
        )
        await store.label()
    except BaseException:
        await cluster.close()
        raise
    return store


class WeaviateStore:
    """A `Store` in two collections of a Weaviate server. Any number of readers; writers of one source take turns."""

    def __init__(
        self,
        cluster: Cluster,
        embedder_name: str,
        dimension: int,
        *,
        batch: int,
        read_seconds: float,
        claim_seconds: float,
    ) -> None:
        self._cluster = cluster
        self._batch = batch
        self._labels = {"embedder": embedder_name, "dimension": str(dimension), "format": FORMAT}
        self._dimension = dimension
        self._read_seconds = read_seconds
        self._claim_seconds = claim_seconds
        self._seen: dict[str, Commit] = {}
        self._writer = asyncio.Lock()

    async def label(self) -> None:
        """Say which model makes the vectors, in a store that is new. Raises `StoreMismatch` when it was another."""
        await self._cluster.create(Entry(LABEL, self._labels))
        await self._commits(())

    async def manifest(self, source: str) -> Mapping[str, Held]:
        """Return what is held of a source, by path."""
        return await self._read([source], self._manifest, WHOLE)

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[Row], empty: Mapping[str, str] | None = None
    ) -> None:
        """In one commit: these paths now consist of exactly these rows; `empty` keeps fingerprints of paths without.

        Raises `StoreError`, `StoreLocked` when another process writes the same source. When only the deletion of
        old objects fails after the commit, the new rows are there; the next write deletes the old ones.
        """
        empty = empty or {}
        documents = touched(paths, rows, empty)
        if not documents:
            return
        wrong = next((row.vector.shape for row in rows if row.vector.shape != (self._dimension,)), None)
        if wrong:
            raise StoreMismatch(f"{self._cluster.where} takes vectors of {self._dimension}, not {wrong}")
        strange = next((row.passage for row in rows if not np.isfinite(row.vector).all()), None)
        if strange:
            raise StoreError(f"the vector of a passage of {source}, {strange.path}, is no number: it is not stored")
        async with self._writer, claimed(self._cluster, source, self._claim_seconds) as claim:
            before = (await self._commits([source]))[source]
            await self._forget_replaced(source, before)
            await self._cluster.delete_above(source, before.generation)
            after = Commit(before.generation + 1, uuid.uuid4().hex, documents)
            entries = await asyncio.to_thread(
                lambda: {
                    DOCUMENTS: list(document_entries(rows, empty, source, after.generation)),
                    PASSAGES: list(passage_entries(rows, source, after.generation)),
                }
            )
            for name, objects in entries.items():
                for start in range(0, len(objects), self._batch):
                    await claim.keep()
                    await self._cluster.put(name, objects[start : start + self._batch])
            await claim.keep(surely=True)
            await self._commit(source, after)
            await self._forget_replaced(source, after)

    async def optimise(self) -> None:
        """Do nothing: the server keeps its indexes up to date by itself."""

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, each with both true scores.

        BM25 counts words over all sources of the collection, or of the tenant.
        """
        if not sources or not (tokens or vector is not None) or limit < 1:
            return []
        return await self._read(sources, lambda sight: self._search(tokens, vector, sight, limit))

    async def vectors(self, source: str) -> Vectors:
        """Return all vectors of a source, shape (passages, dimension), float32."""
        return await self._read([source], self._vectors, WHOLE)

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[Row]:
        """Return the rows of these paths of a source, for another store."""
        return await self._read([source], lambda sight: self._rows(sight, set(paths)), WHOLE)

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        await self._cluster.close()

    async def _commits(self, sources: Iterable[str]) -> dict[str, Commit]:
        """Return the newest commits of sources. Raises `StoreMismatch` when the store was rebuilt for another model."""
        keys = {source: commit_key(source) for source in sources}
        found = await self._cluster.get([LABEL, *keys.values()])
        if LABEL not in found:
            raise StoreError(f"{self._cluster.where} is being rebuilt, or was deleted")
        held = {name: str(found[LABEL][name]) for name in self._labels}
        if held != self._labels:
            raise StoreMismatch(differing(self._cluster.where, held, self._labels))
        commits = {source: Commit.of(found.get(key)) for source, key in keys.items()}
        self._seen |= commits
        return commits

    async def _read(self, sources: Iterable[str], work: Callable[[Sight], Awaitable[T]], times: int = 1) -> T:
        """Read until no commit came in between. A failure is tried once more: the store may have been rebuilt."""
        names = tuple(dict.fromkeys(sources))
        seconds = self._read_seconds * times
        failed = False
        try:
            async with asyncio.timeout(seconds):
                known = all(name in self._seen for name in names)
                sight = {name: self._seen[name] for name in names} if known else await self._commits(names)
                while True:
                    try:
                        done = [await work(sight)]
                    except StoreError:
                        if failed:
                            raise
                        failed, done = True, []
                    before, sight = sight, await self._commits(names)
                    if done and all(before[name].id == sight[name].id for name in names):
                        return done[0]
        except TimeoutError as fault:
            reason = f"no answer within {seconds:g} seconds"
            raise StoreError(f"{self._cluster.where} could not be read: {reason}") from fault

    async def _search(self, tokens: str, vector: Vectors | None, sight: Sight, limit: int) -> list[Passage]:
        if not any(commit.id for commit in sight.values()):
            return []
        best, near = await _both(self._best(tokens, sight, limit, vector), self._nearest(vector, sight, limit))
        lexical = {one.id: one.score for one in best}
        cosines = {one.id: one.score for one in near} if vector is not None else {}
        if vector is not None:
            missing = [one for one in best if one.id not in cosines]
            cosines |= dict(zip((one.id for one in missing), _cosines(missing, vector), strict=True))
        without = [one.id for one in near if one.id not in lexical]
        if tokens and without:
            lexical |= {one.id: one.score for one in await self._cluster.lexical(tokens, without)}
        found = {one.id: one.properties for one in (*best, *near)}
        return [
            as_passage(properties, min(1.0, max(-1.0, cosines.get(name, 0.0))), lexical.get(name, 0.0))
            for name, properties in found.items()
        ]

    async def _best(self, tokens: str, sight: Sight, limit: int, vector: Vectors | None) -> list[Found]:
        return await self._cluster.best(tokens, sight, limit, vectors=vector is not None) if tokens else []

    async def _nearest(self, vector: Vectors | None, sight: Sight, limit: int) -> list[Found]:
        return [] if vector is None else await self._cluster.nearest(vector, sight, limit)

    async def _manifest(self, sight: Sight) -> Mapping[str, Held]:
        held = {}
        async for page in self._cluster.pages(DOCUMENTS, sight):
            for one in page:
                path, passages = one.properties["path"], int(one.properties["passages"])
                held[path] = Held(one.properties["fingerprint"], passages)
        return held

    async def _vectors(self, sight: Sight) -> Vectors:
        parts = [np.empty((0, self._dimension), np.float32)]
        async for page in self._cluster.pages(PASSAGES, sight, vectors=True):
            parts.append(np.array([one.vector for one in page], np.float32).reshape(-1, self._dimension))
        return np.concatenate(parts)

    async def _rows(self, sight: Sight, paths: Collection[str]) -> list[Row]:
        fingerprints = {path: held.fingerprint for path, held in (await self._manifest(sight)).items()}
        keys = sorted({document_key(path) for path in paths})
        rows = []
        for start in range(0, len(keys), VALUES):
            documents = keys[start : start + VALUES]
            async for page in self._cluster.pages(PASSAGES, sight, documents=documents, vectors=True):
                for one in page:
                    passage, tokens = as_passage(one.properties), one.properties["tokens"]
                    vector = np.array(one.vector, np.float32)
                    rows.append(Row(passage, fingerprints[passage.path], tokens, vector))
        return rows

    async def _commit(self, source: str, commit: Commit) -> None:
        await self._cluster.put(DOCUMENTS, [Entry(commit_key(source), commit.properties())])

    async def _forget_replaced(self, source: str, commit: Commit) -> None:
        """Delete what a commit has replaced, and say so: readers need not look out for it any more."""
        if commit.replaced:
            await self._cluster.delete_below(source, commit.generation, commit.replaced)
            await self._commit(source, Commit(commit.generation, commit.id))


async def _both(one: Awaitable[T], other: Awaitable[T]) -> tuple[T, T]:
    """Await both at the same time; when one fails, the other is ended."""
    task = asyncio.ensure_future(one)
    try:
        second = await other
        return await task, second
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _cosines(found: Sequence[Found], vector: Vectors) -> list[float]:
    if not found:
        return []
    rows = np.array([one.vector for one in found], np.float32)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosines: list[float] = (rows @ vector / np.maximum(lengths, np.finfo(np.float32).tiny)).tolist()
    return cosines
