"""The embedded passage store: one SQLite file, searched in memory."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from core.errors import StoreError
from core.runtime.tasks import uncancellable
from core.runtime.tuning import trim_memory
from core.types import Passage
from knowledge.ports import MAX_SAMPLED_VECTORS, PassageRow, StoredDocument, Vectors
from knowledge.stores.sqlite.dense import run_in_executor, to_unit_vector
from knowledge.stores.sqlite.index import CompactIndex, IndexQuery, PassageIndex, load_index
from knowledge.stores.sqlite.passage_file import NoFile, PassageFile, is_damage, map_errors
from knowledge.stores.sqlite.tables import (
    FORMAT,
    MissingRows,
    StoreState,
    free_unused_space,
    make_tables,
    read_filled,
    read_manifest,
    read_rows,
    read_source_vectors,
    read_state,
    replace_documents,
)
from knowledge.stores.vectors import require_labels, validate_vectors

T = TypeVar("T")

FILE_NAME = "passages.db"
# Passages whose vectors fit are searched exactly: 131,000 of 384 numbers. Texts and words take as much again.
MAX_VECTOR_BYTES = 192 << 20
# A search waits so long for the passages to be read into memory, and the start with it. A million take ten seconds of
# processor time: on a busy machine or a slow disk that is minutes. A question has a deadline of its own.
READ_TIMEOUT_S = 600.0
# What another process has written is seen so soon.
CHECK_INTERVAL_S = 0.5
# While it reads, SQLite asks whether to go on, every so many of its steps: a row takes about ten.
STEPS_BETWEEN_CHECKS = 5_000
CPU_COUNT = max(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2)


async def open_sqlite(
    directory: Path,
    embedder_name: str,
    dimension: int,
    *,
    rebuild: bool = False,
    memory_bytes: int = MAX_VECTOR_BYTES,
    read_timeout_s: float = READ_TIMEOUT_S,
) -> SqliteStore:
    """Open the store in a directory, which need not exist yet: what another process writes there is seen in a second.

    `rebuild` empties it first. `memory_bytes` is how many bytes of vectors are held in memory at most; a search that
    waits longer than `read_timeout_s` for its passages has failed. Raises `StoreMismatch` when it was built with
    another model (`embedder_name`, `dimension`) or format, `StoreError` when it is damaged or cannot be accessed.
    """
    directory = await asyncio.to_thread(lambda: directory.expanduser().absolute())
    file = PassageFile(directory / FILE_NAME)
    store = SqliteStore(file, embedder_name, dimension, memory_bytes=memory_bytes, read_timeout_s=read_timeout_s)
    try:
        await (store.rebuild() if rebuild else store.check())
    except BaseException:
        await store.close()
        raise
    return store


class SqliteStore:
    """A `Store` in one SQLite file. Any number of readers; writers take turns."""

    def __init__(
        self, file: PassageFile, embedder_name: str, dimension: int, *, memory_bytes: int, read_timeout_s: float
    ) -> None:
        self._file = file
        self._labels = {"embedder": embedder_name, "dimension": str(dimension), "format": FORMAT}
        self._dimension = dimension
        self._memory_bytes = memory_bytes
        self._read_timeout_s = read_timeout_s
        self._has_existed = False
        self._is_closing = False
        self._index: PassageIndex | None = None
        self._next_check_at = 0.0
        self._loading: asyncio.Task[PassageIndex | None] | None = None
        self._write_lock = asyncio.Lock()
        # More threads than processors would only wait for each other, and the event loop for all of them.
        self._search_executor = ThreadPoolExecutor(CPU_COUNT, "searching")
        # A newer version is read in a thread of its own: nobody who searches waits for a block of it.
        self._load_executor = ThreadPoolExecutor(1, "loading")

    async def check(self) -> None:
        """Raise `StoreMismatch` or `StoreError` when the store cannot be used."""
        await self._in_thread("opened", partial(self._read, lambda connection: None, None, may_be_deleted=True))

    async def rebuild(self) -> None:
        """Empty the store, also one that is damaged or holds another model's vectors, in one commit where possible."""
        async with self._write_lock:
            await self._in_thread("rebuilt", self._rebuild)
            self._index = None

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        read_passages = partial(read_manifest, source=source)
        return await self._in_thread("read", lambda: self._read(read_passages, {}, may_be_deleted=True))

    async def filled(self, sources: Collection[str]) -> Set[str]:
        """Return those of these sources that have passages."""
        read_passages = partial(read_filled, sources=sources)
        nothing = set[str]()
        return await self._in_thread("read", lambda: self._read(read_passages, nothing, may_be_deleted=True))

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        """In one commit: these paths now consist of exactly these rows; `empty` keeps fingerprints of paths without."""
        if not (paths or rows or empty):
            return
        async with self._write_lock:
            # A thread goes on when its caller is cancelled: whoever waits for the locks comes after its commit.
            write = uncancellable(self._in_thread)
            await write("written", partial(self._replace, source, paths, rows, empty or {}))
        await self._reload_after_write()

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, each with both true scores.

        BM25 counts words over all sources. The cosine is 0 where there is no vector.
        """
        if not sources or not (tokens or vector is not None):
            return []
        query = IndexQuery(tokens, None if vector is None else to_unit_vector(vector), sources, limit)
        index = await self._latest_index()
        if index is None or not index.views or limit < 1:
            return []
        with map_errors(self._file, "read"):
            try:
                return await index.search(self._search_executor, self._file.read, query)
            except (MissingRows, NoFile):
                # Only a newer version lacks rows of this one. In a damaged file there is none.
                if not await self._has_changed(index):
                    raise
            return await self._search_newest(query)

    async def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Return the IDF of each token over all passages."""
        index = await self._latest_index()
        if index is None:
            return {}
        compute = partial(index.term_weights, tokens, sources)
        return await run_in_executor(self._search_executor, compute) if isinstance(index, CompactIndex) else compute()

    async def vectors(self, source: str) -> Vectors:
        """Return the vectors of a source, or a sample, shape (passages with one, dimension), float32."""
        read_vectors = partial(read_source_vectors, source=source, dimension=self._dimension, limit=MAX_SAMPLED_VECTORS)
        return await self._in_thread(
            "read", partial(self._read, read_vectors, np.empty((0, self._dimension), np.float32))
        )

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[PassageRow]:
        """Return the rows of these paths of a source, for another store."""
        read_passages = partial(read_rows, source=source, paths=paths, dimension=self._dimension)
        return await self._in_thread("read", lambda: self._read(read_passages, []))

    async def optimize(self) -> None:
        """Move what was written from the log into the file, and give back space where much is unused.

        Raises `StoreError`; nothing is lost then.
        """
        async with self._write_lock:
            await self._in_thread("optimized", self._optimize)

    async def close(self) -> None:
        """Let go of the file; what is being read is given up. Idempotent."""
        self._index = None
        self._is_closing = True
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)
        for executor in (self._search_executor, self._load_executor):
            await asyncio.to_thread(executor.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._file.close)

    async def _in_thread(self, action: str, function: Callable[[], T]) -> T:
        """Return what a function returns in a thread; `action` is what is tried. Raises `StoreError`."""
        with map_errors(self._file, action):
            return await asyncio.to_thread(function)

    def _read(self, function: Callable[[sqlite3.Connection], T], default: T, *, may_be_deleted: bool = False) -> T:
        """Return what a function reads, of a file that was made with our labels; the default where nothing is.

        A file that was there and is not any more is an error, except for who fills it again (`may_be_deleted`).
        """

        def read(connection: sqlite3.Connection) -> T:
            # Half a million passages take ten seconds: whoever closes the store does not wait for them.
            connection.set_progress_handler(lambda: self._is_closing, STEPS_BETWEEN_CHECKS)
            try:
                return default if self._read_state(connection) is None else function(connection)
            finally:
                connection.set_progress_handler(None, 0)

        try:
            return self._file.read(read)
        except NoFile:
            if self._has_existed and not may_be_deleted:
                raise StoreError(
                    f"{self._file.store_name} was deleted while it was in use: `kimas ingest` builds it anew"
                ) from None
            return default

    def _read_state(self, connection: sqlite3.Connection) -> StoreState | None:
        """Return the state of the file, or None when it is empty. Raises `StoreMismatch`."""
        state = read_state(connection)
        if state is not None:
            stored_labels = {name: state.labels.get(name, "unknown") for name in self._labels}
            require_labels(self._file.store_name, stored_labels, self._labels)
            self._has_existed = True
        return state

    def _replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str]
    ) -> None:
        validate_vectors(self._file.store_name, self._dimension, source, rows)

        def write(connection: sqlite3.Connection) -> None:
            if self._read_state(connection) is None:
                make_tables(connection, self._labels)
            replace_documents(connection, source, paths, rows, empty)

        if rows or empty:
            self._file.create()
        try:
            self._file.write(write)
        except NoFile:
            # There is nothing to delete.
            return
        self._has_existed = True

    def _rebuild(self) -> None:
        self._file.create()
        make_empty = partial(make_tables, labels=self._labels)
        try:
            self._file.write(make_empty)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._file.delete()
            self._file.create()
            self._file.write(make_empty)

    def _optimize(self) -> None:
        try:
            self._file.run(free_unused_space)
        except NoFile:
            return
        trim_memory()

    async def _latest_index(self) -> PassageIndex | None:
        """Return the newest version, at most a second old; None where nothing was written yet.

        While it is being read, others search the previous one, which was the newest a moment ago.
        """
        index = self._index
        if index is not None and (self._loading is not None or time.monotonic() < self._next_check_at):
            return index
        if self._loading is None and not await self._has_changed(index):
            self._next_check_at = time.monotonic() + CHECK_INTERVAL_S
            return index
        return await self._load()

    async def _has_changed(self, index: PassageIndex | None) -> bool:
        """Return whether the file has another version than an index; None is the index of no file."""
        state = await self._in_thread("read", partial(self._read, self._read_state, None))
        current_version = (state.creation_id, state.version) if state else None
        return current_version != ((index.state.creation_id, index.state.version) if index else None)

    async def _search_newest(self, query: IndexQuery) -> Sequence[Passage]:
        """Read the newest version and search it in one transaction: no other one can come in between."""

        def search(connection: sqlite3.Connection) -> tuple[PassageIndex, Sequence[Passage] | None] | None:
            index = self._read_index(connection, self._index)
            if index is None:
                return None
            return index, index.choose(query, connection) if isinstance(index, CompactIndex) else None

        result = await run_in_executor(self._load_executor, lambda: self._read(search, None))
        if result is None:
            return []
        self._index, passages = result
        if not self._index.views:
            return []
        if passages is None:
            return await self._index.search(self._search_executor, self._file.read, query)
        return passages

    async def _load(self) -> PassageIndex | None:
        """Read the newest version in a task of its own: a caller who gives up does not end it."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load_index())
            # Its waiters get the error; there may be none.
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            async with asyncio.timeout(self._read_timeout_s):
                return await asyncio.shield(self._loading)
        except TimeoutError as error:
            raise StoreError(f"{self._file.store_name} is still being read, ask again in a moment") from error

    async def _load_index(self) -> PassageIndex | None:
        load = partial(self._read_index, previous=self._index)
        try:
            with map_errors(self._file, "read"):
                self._index = await run_in_executor(self._load_executor, lambda: self._read(load, None))
        except StoreError:
            # Nobody goes on with a version that the file does not have any more.
            self._index = None
            raise
        finally:
            self._loading = None
        self._next_check_at = time.monotonic() + CHECK_INTERVAL_S
        return self._index

    def _read_index(self, connection: sqlite3.Connection, previous: PassageIndex | None) -> PassageIndex | None:
        state = self._read_state(connection)
        if state is None:
            return None
        return load_index(connection, state, self._dimension, self._memory_bytes, previous)

    async def _reload_after_write(self) -> None:
        """Load what was just written, in a process that searches: the next question need not wait for it."""
        if self._index is None:
            return
        try:
            # One that is being read may be that of before.
            if self._loading is not None:
                await self._load()
            await self._load()
        except StoreError:
            # The write itself has succeeded. The next search reads it, or says why it cannot be read.
            self._index = None
