"""The embedded passage store: LanceDB through its async API. Its table is described in `lance_table`."""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from core.errors import StoreError, StoreMismatch
from core.types import Passage
from knowledge.ports import Held, Row, Vectors
from knowledge.stores.lance.errors import differing, explained, mapped, refuse_unusable
from knowledge.stores.lance.lancedb_import import import_lancedb, return_memory
from knowledge.stores.lance.snapshot import Loading, View, listed, quoted
from knowledge.stores.lance.table import fits, index_vectors, marker, prepare, schema, sweep, table_of, tidy

T = TypeVar("T")

TABLE = "passages"
FORMAT = "1"
# Tables whose vectors fit are searched in memory: 131,000 passages of 384 numbers. Texts and words take as much again.
MEMORY = 192 << 20
# A damaged index can make LanceDB wait for ever. Reads take milliseconds, writes and optimising minutes at most.
READ_SECONDS, WRITE_SECONDS = 20.0, 900.0
KEPT_VERSIONS = timedelta(hours=1)
STALENESS = timedelta(seconds=1)
# LanceDB's own limits are 6 GB and 1 GB; these hold the indexes of about a million passages.
INDEX_CACHE, METADATA_CACHE = 256 << 20, 32 << 20
COMMIT_ATTEMPTS = 5
PROCESSORS = max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2)


async def open_lance(
    directory: Path,
    embedder_name: str,
    dimension: int,
    *,
    rebuild: bool = False,
    memory: int = MEMORY,
    read_seconds: float = READ_SECONDS,
) -> LanceStore:
    """Open the store in a directory, which need not exist yet: what another process writes there is seen in a second.

    `rebuild` empties it first. `memory` is how many bytes of vectors are held in memory at most; a read that
    takes longer than `read_seconds` has failed. Raises `StoreMismatch` when it was built with another model
    (`embedder_name`, `dimension`) or format, `StoreError` when it is damaged or cannot be accessed.
    """
    directory = await asyncio.to_thread(lambda: directory.expanduser().absolute())
    await asyncio.to_thread(import_lancedb)
    import lancedb

    async with mapped(directory, "opened", read_seconds):
        connection = await lancedb.connect_async(
            directory, read_consistency_interval=STALENESS, session=lancedb.Session(INDEX_CACHE, METADATA_CACHE)
        )
    store = LanceStore(connection, directory, embedder_name, dimension, memory=memory, read_seconds=read_seconds)
    await (store.rebuild() if rebuild else store.check())
    return store


class LanceStore:
    """A `Store` in one LanceDB table. Any number of readers; writers take turns."""

    def __init__(
        self,
        connection: Any,
        directory: Path,
        embedder_name: str,
        dimension: int,
        *,
        memory: int,
        read_seconds: float,
    ) -> None:
        self._connection = connection
        self._directory = directory
        self._labels = {"embedder": embedder_name, "dimension": str(dimension), "format": FORMAT}
        self._dimension = dimension
        self._table: Any | None = None
        self._memory = memory
        self._read_seconds = read_seconds
        self._view: View | None = None
        self._loading = Loading()
        self._made = b""
        self._renewing = asyncio.Lock()
        self._writer = asyncio.Lock()
        # More threads than processors would only wait for each other, and the event loop for all of them.
        self._searchers = ThreadPoolExecutor(PROCESSORS, "searching")
        # A newer version is read in a thread of its own: nobody who searches waits for a block of it.
        self._loader = ThreadPoolExecutor(1, "loading")

    async def check(self) -> None:
        """Raise `StoreMismatch` or `StoreError` when the store cannot be used."""
        async with mapped(self._directory, "opened", self._read_seconds):
            await self._open()

    async def rebuild(self) -> None:
        """Empty the store, also one that is damaged or holds another model's vectors, in one commit where possible."""
        async with self._writer, mapped(self._directory, "rebuilt", WRITE_SECONDS):
            try:
                with suppress(StoreMismatch):
                    await self.check()
            except StoreError:
                await asyncio.to_thread(shutil.rmtree, self._directory / f"{TABLE}.lance")
            await self._create("overwrite")

    async def manifest(self, source: str) -> Mapping[str, Held]:
        """Return what is held of a source, by path."""
        return await self._read(lambda view: view.manifest(source), {})

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[Row], empty: Mapping[str, str] | None = None
    ) -> None:
        """In one commit: these paths now consist of exactly these rows; `empty` keeps fingerprints of paths without."""
        if not (paths or rows or empty):
            return
        async with self._writer, mapped(self._directory, "written", WRITE_SECONDS):
            table = await self._open()
            if table is None and not (rows or empty):
                return
            table = table or await self._create("keep")
            await table.checkout_latest()
            await prepare(table)
            held = f"source = {quoted(source)} AND path IN {listed({*paths, *(empty or ())})}"
            if not (rows or empty):
                await table.delete(held)
            else:
                await self._merge(table, source, rows, empty or {}, held)
            # Joining the table with the rows takes some 100 MB: not for as long as their new version is read.
            await asyncio.to_thread(return_memory)
        await self._seen()
        await asyncio.to_thread(return_memory)

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, each with both true scores.

        BM25 counts words over all sources; in a table too large for memory, between `replace` and `optimise` over those
        of the indexed rows.
        """
        if not sources or not (tokens or vector is not None):
            return []
        return await self._read(lambda view: view.search(tokens, vector, sources, limit), [])

    async def vectors(self, source: str) -> Vectors:
        """Return all vectors of a source, shape (passages, dimension), float32."""
        return await self._read(lambda view: view.vectors(source), np.empty((0, self._dimension), np.float32))

    async def optimise(self) -> None:
        """Merge small files and bring the indexes up to date; versions older than an hour go.

        Without it searches in a table too large for memory get slower with every `replace`; a table in memory is left
        alone until its files are many. Raises `StoreError`; nothing is lost then.
        """
        async with self._writer, mapped(self._directory, "written", WRITE_SECONDS):
            table = await self._open()
            if table is None:
                return
            in_memory = await fits(table, self._dimension, self._memory)
            if in_memory and await tidy(table):
                return
            await table.checkout_latest()
            await prepare(table)
            for attempt in range(1, COMMIT_ATTEMPTS + 1):
                try:
                    await sweep(table)
                    await table.optimize(cleanup_older_than=KEPT_VERSIONS)
                    break
                except (RuntimeError, ValueError) as fault:
                    if "conflict" not in str(fault).lower() or attempt == COMMIT_ATTEMPTS:
                        raise
                    await table.checkout_latest()
            if not in_memory:
                await index_vectors(table)
        await self._seen()
        await asyncio.to_thread(return_memory)

    async def close(self) -> None:
        """Let go of the files. Idempotent."""
        self._table = self._view = None
        await self._loading.close()
        for executor in (self._searchers, self._loader):
            await asyncio.to_thread(executor.shutdown, cancel_futures=True)
        self._connection.close()

    async def _merge(self, table: Any, source: str, rows: Sequence[Row], empty: Mapping[str, str], held: str) -> None:
        await asyncio.to_thread(refuse_unusable, self._directory, self._dimension, source, rows)
        stays = {row.passage.id for row in rows} | {marker(source, path) for path in empty}
        done = False
        while not done:
            before = await table.version()
            gone = await _others(table, held, stays)
            batch = await asyncio.to_thread(table_of, source, rows, empty, gone, schema(self._dimension, self._labels))
            merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            # Rows of paths without passages carry a null vector, which "error" would refuse.
            result = await merge.execute(batch, on_bad_vectors="null")
            # Another process may have written something into these paths between the look and the commit.
            done = result.version == before + 1 or not await _others(table, held, stays)

    async def _open(self) -> Any | None:
        """Return the table, or None where nothing was written yet; what it holds is compared with what is asked for."""
        if self._table is None:
            try:
                self._table = await self._connection.open_table(TABLE)
            except ValueError as fault:
                if "was not found" not in str(fault):
                    raise
                # A process killed while it created the table leaves an empty folder; without a manifest, data is lost.
                if await asyncio.to_thread(_any_file, self._directory / f"{TABLE}.lance" / "data"):
                    raise StoreError(explained(self._directory, "opened", "its versions are missing")) from fault
                return None
        metadata = (await self._table.schema()).metadata or {}
        held = {key: metadata.get(key.encode(), b"unknown").decode() for key in self._labels}
        if held != self._labels:
            self._table = None
            raise StoreMismatch(differing(self._directory, held, self._labels))
        self._made = metadata.get(b"made", b"")
        return self._table

    async def _newest(self) -> View | None:
        """Return the newest version of the table, at most a second old.

        Who comes while somebody else is reading it searches in the version before: it was the newest a moment ago.
        """
        table = await self._open()
        if table is None:
            return None
        version = await table.version()
        if self._view is not None and (self._current(version) or self._renewing.locked()):
            return self._view
        return await self._renewed(table, version)

    async def _renewed(self, table: Any, version: int) -> View:
        async with self._renewing:
            self._view = await self._loading.left() or self._view
            if self._view is None or not self._current(version):
                self._view = await self._loading.begun(self._load(version))
            return self._view

    async def _load(self, version: int) -> View:
        fixed = await self._connection.open_table(TABLE, version=version)
        view = View(fixed, version, self._made, self._dimension, self._searchers)
        await view.load(self._memory, self._view, self._loader)
        return view

    def _current(self, version: int) -> bool:
        return self._view is not None and (self._view.version, self._view.made) == (version, self._made)

    async def _seen(self) -> None:
        """Read what was just written, where somebody searches in this process: the next question need not wait."""
        if self._view is None:
            return
        try:
            async with mapped(self._directory, "read", self._read_seconds):
                table = await self._open()
                if table is not None:
                    await self._renewed(table, await table.version())
        except StoreError:
            # The write itself has succeeded. The next search reads it, or says why it cannot be read.
            self._table = self._view = None

    async def _read(self, work: Callable[[View], Awaitable[T]], nothing: T) -> T:
        """Read from the table; on failure once more from a newly opened one: another process may have rebuilt it."""
        async with mapped(self._directory, "read", self._read_seconds, self._loading.is_on):
            try:
                view = await self._newest()
                return nothing if view is None else await work(view)
            except (RuntimeError, ValueError, OSError):
                self._table = self._view = None
            view = await self._newest()
            return nothing if view is None else await work(view)

    async def _create(self, mode: str) -> Any:
        choice = {"mode": mode} if mode == "overwrite" else {"exist_ok": True}
        # Every table that is made has a mark of its own: what was read of the one before is worth nothing then.
        labels = self._labels | {"made": uuid.uuid4().hex}
        self._table = await self._connection.create_table(TABLE, schema=schema(self._dimension, labels), **choice)
        self._view = None
        return self._table


async def _others(table: Any, where: str, identifiers: Collection[str]) -> Collection[str]:
    found = await table.query().where(where).select(["id"]).to_arrow()
    return set(await asyncio.to_thread(found.column("id").to_pylist)).difference(identifiers)


def _any_file(directory: Path) -> bool:
    return directory.is_dir() and next(directory.iterdir(), None) is not None
