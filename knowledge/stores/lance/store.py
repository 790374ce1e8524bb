"""The embedded passage store: LanceDB through its async API. `table` describes its columns."""

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
from knowledge.ports import PassageRow, StoredDocument, Vectors
from knowledge.stores.lance.lancedb_api import explain_error, import_lancedb, map_errors, trim_memory
from knowledge.stores.lance.segment import SEGMENT_COLUMNS, to_vectors
from knowledge.stores.lance.snapshot import Snapshot, SnapshotLoader, quote_sql, to_sql_list
from knowledge.stores.lance.table import (
    ensure_indexes,
    ensure_vector_index,
    fits_in_memory,
    make_placeholder_id,
    make_schema,
    needs_no_optimize,
    purge_tombstones,
    to_arrow_table,
)
from knowledge.stores.vectors import require_labels, validate_vectors

T = TypeVar("T")

TABLE_NAME = "passages"
SCHEMA_VERSION = "1"
# Tables whose vectors fit are searched in memory: 131,000 passages of 384 numbers. Texts and words take as much again.
MAX_VECTOR_BYTES = 192 << 20
# A damaged index can make LanceDB wait for ever. Reads take milliseconds, writes and optimizing minutes at most.
READ_TIMEOUT_S, WRITE_TIMEOUT_S = 20.0, 900.0
VERSION_RETENTION = timedelta(hours=1)
CONSISTENCY_INTERVAL = timedelta(seconds=1)
# LanceDB's own limits are 6 GB and 1 GB; these hold the indexes of about a million passages.
INDEX_CACHE_BYTES, METADATA_CACHE_BYTES = 256 << 20, 32 << 20
MAX_COMMIT_ATTEMPTS = 5
CPU_COUNT = max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2)


async def open_lance(
    directory: Path,
    embedder_name: str,
    dimension: int,
    *,
    rebuild: bool = False,
    memory_bytes: int = MAX_VECTOR_BYTES,
    read_timeout_s: float = READ_TIMEOUT_S,
) -> LanceStore:
    """Open the store in a directory, which need not exist yet: what another process writes there is seen in a second.

    `rebuild` empties it first. `memory_bytes` is how many bytes of vectors are held in memory at most; a read that
    takes longer than `read_timeout_s` has failed. Raises `StoreMismatch` when it was built with another model
    (`embedder_name`, `dimension`) or format, `StoreError` when it is damaged or cannot be accessed.
    """
    directory = await asyncio.to_thread(lambda: directory.expanduser().absolute())
    await asyncio.to_thread(import_lancedb)
    import lancedb

    async with map_errors(f"the passage store {directory}", "opened", read_timeout_s):
        connection = await lancedb.connect_async(
            directory,
            read_consistency_interval=CONSISTENCY_INTERVAL,
            session=lancedb.Session(INDEX_CACHE_BYTES, METADATA_CACHE_BYTES),
        )
    store = LanceStore(
        connection, directory, embedder_name, dimension, memory_bytes=memory_bytes, read_timeout_s=read_timeout_s
    )
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
        memory_bytes: int,
        read_timeout_s: float,
    ) -> None:
        self._connection = connection
        self._directory = directory
        self._store_name = f"the passage store {directory}"
        self._labels = {"embedder": embedder_name, "dimension": str(dimension), "format": SCHEMA_VERSION}
        self._dimension = dimension
        self._table: Any | None = None
        self._has_existed = False
        self._memory_bytes = memory_bytes
        self._read_timeout_s = read_timeout_s
        self._snapshot: Snapshot | None = None
        self._snapshot_loader = SnapshotLoader()
        self._creation_id = b""
        self._reload_lock = asyncio.Lock()
        self._write_lock = asyncio.Lock()
        # More threads than processors would only wait for each other, and the event loop for all of them.
        self._search_executor = ThreadPoolExecutor(CPU_COUNT, "searching")
        # A newer version is read in a thread of its own: nobody who searches waits for a block of it.
        self._load_executor = ThreadPoolExecutor(1, "loading")

    async def check(self) -> None:
        """Raise `StoreMismatch` or `StoreError` when the store cannot be used."""
        async with map_errors(self._store_name, "opened", self._read_timeout_s):
            await self._open_table()

    async def rebuild(self) -> None:
        """Empty the store, also one that is damaged or holds another model's vectors, in one commit where possible."""
        async with self._write_lock, map_errors(self._store_name, "rebuilt", WRITE_TIMEOUT_S):
            try:
                with suppress(StoreMismatch):
                    await self.check()
            except StoreError:
                await asyncio.to_thread(shutil.rmtree, self._directory / f"{TABLE_NAME}.lance")
            await self._create_table("overwrite")

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        return await self._read(lambda snapshot: snapshot.manifest(source), {}, may_be_deleted=True)

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        """In one commit: these paths now consist of exactly these rows; `empty` keeps fingerprints of paths without."""
        if not (paths or rows or empty):
            return
        async with self._write_lock, map_errors(self._store_name, "written", WRITE_TIMEOUT_S):
            table = await self._open_table()
            if table is None and not (rows or empty):
                return
            table = table or await self._create_table("keep")
            await table.checkout_latest()
            await ensure_indexes(table)
            row_filter = f"source = {quote_sql(source)} AND path IN {to_sql_list({*paths, *(empty or ())})}"
            if not (rows or empty):
                await table.delete(row_filter)
            else:
                await self._merge(table, source, rows, empty or {}, row_filter)
            # Joining the table with the rows takes some 100 MB: not for as long as their new version is read.
            await asyncio.to_thread(trim_memory)
        await self._reload_after_write()
        await asyncio.to_thread(trim_memory)

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, each with both true scores.

        BM25 counts words over all sources; in a table too large for memory, between `replace` and `optimize` over those
        of the indexed rows.
        """
        if not sources or not (tokens or vector is not None):
            return []
        return await self._read(lambda snapshot: snapshot.search(tokens, vector, sources, limit), [])

    async def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Return the IDF of each token over all passages; empty for a table too large for memory."""
        return await self._read(lambda snapshot: snapshot.term_weights(tokens, sources), {})

    async def vectors(self, source: str) -> Vectors:
        """Return all vectors of a source, shape (passages, dimension), float32."""
        return await self._read(lambda snapshot: snapshot.vectors(source), np.empty((0, self._dimension), np.float32))

    async def optimize(self) -> None:
        """Merge small files and bring the indexes up to date; versions older than an hour go.

        Without it searches in a table too large for memory get slower with every `replace`; a table in memory is left
        alone until its files are many. Raises `StoreError`; nothing is lost then.
        """
        async with self._write_lock, map_errors(self._store_name, "written", WRITE_TIMEOUT_S):
            table = await self._open_table()
            if table is None:
                return
            is_in_memory = await fits_in_memory(table, self._dimension, self._memory_bytes)
            if is_in_memory and await needs_no_optimize(table):
                return
            await table.checkout_latest()
            await ensure_indexes(table)
            for attempt in range(1, MAX_COMMIT_ATTEMPTS + 1):
                try:
                    await purge_tombstones(table)
                    await table.optimize(cleanup_older_than=VERSION_RETENTION)
                    break
                except (RuntimeError, ValueError) as error:
                    if "conflict" not in str(error).lower() or attempt == MAX_COMMIT_ATTEMPTS:
                        raise
                    await table.checkout_latest()
            if not is_in_memory:
                await ensure_vector_index(table)
        await self._reload_after_write()
        await asyncio.to_thread(trim_memory)

    async def close(self) -> None:
        """Let go of the files. Idempotent."""
        self._table = self._snapshot = None
        await self._snapshot_loader.close()
        for executor in (self._search_executor, self._load_executor):
            await asyncio.to_thread(executor.shutdown, cancel_futures=True)
        self._connection.close()

    async def _merge(
        self, table: Any, source: str, rows: Sequence[PassageRow], empty: Mapping[str, str], row_filter: str
    ) -> None:
        await asyncio.to_thread(validate_vectors, self._store_name, self._dimension, source, rows)
        current_ids = {row.passage.id for row in rows} | {make_placeholder_id(source, path) for path in empty}
        is_done = False
        while not is_done:
            previous_version = await table.version()
            obsolete_ids = await _find_other_ids(table, row_filter, current_ids)
            batch = await asyncio.to_thread(
                to_arrow_table, source, rows, empty, obsolete_ids, make_schema(self._dimension, self._labels)
            )
            merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            # Rows of paths without passages carry a null vector, which "error" would refuse.
            result = await merge.execute(batch, on_bad_vectors="null")
            # Another process may have written to these paths between the check and the commit.
            is_done = result.version == previous_version + 1 or not await _find_other_ids(
                table, row_filter, current_ids
            )

    async def _open_table(self) -> Any | None:
        """Return the table, or None where nothing was written yet; what it holds is compared with what is asked for."""
        if self._table is None:
            try:
                self._table = await self._connection.open_table(TABLE_NAME)
            except ValueError as error:
                if "was not found" not in str(error):
                    raise
                # A process killed while it created the table leaves an empty folder; without a manifest, data is lost.
                if await asyncio.to_thread(_has_files, self._directory / f"{TABLE_NAME}.lance" / "data"):
                    raise StoreError(explain_error(self._store_name, "opened", "its versions are missing")) from error
                return None
        self._has_existed = True
        metadata = (await self._table.schema()).metadata or {}
        stored_labels = {key: metadata.get(key.encode(), b"unknown").decode() for key in self._labels}
        try:
            require_labels(self._store_name, stored_labels, self._labels)
        except StoreMismatch:
            self._table = None
            raise
        self._creation_id = metadata.get(b"made", b"")
        return self._table

    async def _latest_snapshot(self) -> Snapshot | None:
        """Return the newest version of the table, at most a second old.

        While it is being read, others search the previous version, which was the newest a moment ago.
        """
        table = await self._open_table()
        if table is None:
            return None
        version = await table.version()
        if self._snapshot is not None and (self._is_current(version) or self._reload_lock.locked()):
            return self._snapshot
        return await self._reload_snapshot(table, version)

    async def _reload_snapshot(self, table: Any, version: int) -> Snapshot:
        async with self._reload_lock:
            self._snapshot = await self._snapshot_loader.wait_for_pending() or self._snapshot
            if self._snapshot is None or not self._is_current(version):
                self._snapshot = await self._snapshot_loader.start(self._load_snapshot(version))
            return self._snapshot

    async def _load_snapshot(self, version: int) -> Snapshot:
        pinned_table = await self._connection.open_table(TABLE_NAME, version=version)
        snapshot = Snapshot(pinned_table, version, self._creation_id, self._dimension, self._search_executor)
        await snapshot.load(self._memory_bytes, self._snapshot, self._load_executor)
        return snapshot

    def _is_current(self, version: int) -> bool:
        snapshot = self._snapshot
        return snapshot is not None and (snapshot.version, snapshot.creation_id) == (version, self._creation_id)

    async def _reload_after_write(self) -> None:
        """Load what was just written, in a process that searches: the next question need not wait for it."""
        if self._snapshot is None:
            return
        try:
            async with map_errors(self._store_name, "read", self._read_timeout_s):
                table = await self._open_table()
                if table is not None:
                    await self._reload_snapshot(table, await table.version())
        except StoreError:
            # The write itself has succeeded. The next search reads it, or says why it cannot be read.
            self._table = self._snapshot = None

    async def _read(self, read: Callable[[Snapshot], Awaitable[T]], default: T, *, may_be_deleted: bool = False) -> T:
        """Read from the table; on failure once more from a newly opened one: another process may have rebuilt it.

        A table that was there and is not any more is an error, except for who fills it again (`may_be_deleted`).
        """
        async with map_errors(self._store_name, "read", self._read_timeout_s, self._snapshot_loader.is_loading):
            try:
                snapshot = await self._latest_snapshot()
                if snapshot is None and not may_be_deleted:
                    self._raise_if_deleted()
                return default if snapshot is None else await read(snapshot)
            except (RuntimeError, ValueError, OSError):
                self._table = self._snapshot = None
            snapshot = await self._latest_snapshot()
            if snapshot is None and not may_be_deleted:
                self._raise_if_deleted()
            return default if snapshot is None else await read(snapshot)

    def _raise_if_deleted(self) -> None:
        if self._has_existed:
            raise StoreError(f"{self._store_name} was deleted while it was in use: `kimas ingest` builds it anew")

    async def _create_table(self, mode: str) -> Any:
        create_options = {"mode": mode} if mode == "overwrite" else {"exist_ok": True}
        # Every table that is made has a mark of its own: what was read of the one before is worth nothing then.
        labels = self._labels | {"made": uuid.uuid4().hex}
        self._table = await self._connection.create_table(
            TABLE_NAME, schema=make_schema(self._dimension, labels), **create_options
        )
        self._snapshot = None
        return self._table


async def _find_other_ids(table: Any, where: str, identifiers: Collection[str]) -> Collection[str]:
    result = await table.query().where(where).select(["id"]).to_arrow()
    return set(await asyncio.to_thread(result.column("id").to_pylist)).difference(identifiers)


def _has_files(directory: Path) -> bool:
    return directory.is_dir() and next(directory.iterdir(), None) is not None


async def lance_rows(store: LanceStore, source: str, paths: Collection[str], dimension: int) -> Sequence[PassageRow]:
    """Return the rows of these paths of a source. Raises `StoreError`."""

    async def read(snapshot: Snapshot) -> Sequence[PassageRow]:
        query = snapshot.table.query().where(
            f"source = {quote_sql(source)} AND vector IS NOT NULL AND path IN {to_sql_list(paths)}"
        )
        table = await query.select(SEGMENT_COLUMNS).to_arrow()
        return await asyncio.to_thread(_rows, table, dimension)

    return await store._read(read, [])


def _rows(table: Any, dimension: int) -> Sequence[PassageRow]:
    columns = (table.column(name).to_pylist() for name in SEGMENT_COLUMNS[:-1])
    return [
        PassageRow(Passage(*values), fingerprint, tokens, vector)
        for *values, fingerprint, tokens, vector in zip(*columns, to_vectors(table, dimension), strict=True)
    ]
