"""The embedded passage store: LanceDB through its async API. The only module that knows lancedb and pyarrow."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from core.errors import StoreError, StoreMismatch
from core.types import Passage
from knowledge.ports import Held, Row, Vectors
from knowledge.stores.lance_faults import differing, explained, mapped
from knowledge.stores.lance_process import light_import, trim_memory
from knowledge.stores.lance_view import EMPTY, PASSAGE_COLUMNS, View, listed, quoted

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

TABLE = "passages"
FORMAT = "1"
# Tables whose vectors fit are searched in memory: 21,000 passages of 384 numbers. Beyond that an index is faster.
MEMORY = 32 << 20
# Fewer rows are searched as they are: an index would be trained on next to nothing.
FEWEST_INDEXED = 1_000
# A damaged index can make LanceDB wait for ever. Reads take milliseconds, writes and optimising minutes at most.
READ_SECONDS, WRITE_SECONDS = 20.0, 900.0
KEPT_VERSIONS = timedelta(hours=1)
STALENESS = timedelta(seconds=1)
# LanceDB's own limits are 6 GB and 1 GB; these hold the indexes of about a million passages.
INDEX_CACHE, METADATA_CACHE = 256 << 20, 32 << 20
COMMIT_ATTEMPTS = 5
PRIMARY_KEY = b"lance-schema:unenforced-primary-key:position"


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
    await asyncio.to_thread(_import_lancedb)
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
        self._writer = asyncio.Lock()

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
            await self._prepare(table)
            gone = f"source = {quoted(source)} AND path IN {listed({*paths, *(empty or ())})}"
            if not (rows or empty):
                await table.delete(gone)
                return
            batch = await asyncio.to_thread(self._batch, source, rows, empty or {})
            merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            # Rows of paths without passages carry a null vector, which "error" would refuse.
            merge = merge.when_not_matched_by_source_delete(gone)
            await merge.execute(batch, on_bad_vectors="null")

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

        Without it searches get slower with every `replace`. Raises `StoreError`; nothing is lost then.
        """
        async with self._writer, mapped(self._directory, "written", WRITE_SECONDS):
            table = await self._open()
            if table is None:
                return
            await self._prepare(table)
            for attempt in range(1, COMMIT_ATTEMPTS + 1):
                try:
                    await table.optimize(cleanup_older_than=KEPT_VERSIONS)
                    break
                except (RuntimeError, ValueError) as fault:
                    if "conflict" not in str(fault).lower() or attempt == COMMIT_ATTEMPTS:
                        raise
                    await table.checkout_latest()
            await self._index_vectors(table)
        await asyncio.to_thread(_return_memory)

    async def close(self) -> None:
        """Let go of the files. Idempotent."""
        self._table = self._view = None
        self._connection.close()

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
        return self._table

    async def _newest(self) -> View | None:
        """Return the newest version of the table, at most a second old."""
        table = await self._open()
        if table is None:
            return None
        version = await table.version()
        if self._view is None or self._view.version != version:
            fixed = await self._connection.open_table(TABLE, version=version)
            self._view = View(fixed, version, self._dimension, self._memory)
        return self._view

    async def _read(self, work: Callable[[View], Awaitable[T]], nothing: T) -> T:
        """Read from the table; on failure once more from a newly opened one: another process may have rebuilt it."""
        async with mapped(self._directory, "read", self._read_seconds):
            try:
                view = await self._newest()
                return nothing if view is None else await work(view)
            except (RuntimeError, ValueError, OSError):
                self._table = self._view = None
            view = await self._newest()
            return nothing if view is None else await work(view)

    async def _create(self, mode: str) -> Any:
        choice = {"mode": mode} if mode == "overwrite" else {"exist_ok": True}
        self._table = await self._connection.create_table(TABLE, schema=self._schema(), **choice)
        return self._table

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        text, number = pa.string(), pa.int32()
        types = {"start_line": number, "end_line": number, "vector": pa.list_(pa.float32(), self._dimension)}
        columns = (*PASSAGE_COLUMNS, "fingerprint", "tokens", "vector")
        return pa.schema([pa.field(name, types.get(name, text), name == "vector") for name in columns], self._labels)

    async def _prepare(self, table: Any) -> None:
        """Add what a new table, or one whose creator was killed, lacks: the primary key and the indexes."""
        from lancedb.index import FTS, Bitmap, BTree

        if PRIMARY_KEY not in ((await table.schema()).field("id").metadata or {}):
            await table.set_unenforced_primary_key("id")
        # The tokens are ours: everything that would change them is switched off.
        words = FTS(
            base_tokenizer="whitespace",
            max_token_length=None,
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            ascii_folding=False,
        )
        present = {column for index in await table.list_indices() for column in index.columns}
        for column, config in {"tokens": words, "source": Bitmap(), "id": BTree(), "path": BTree()}.items():
            if column not in present:
                await table.create_index(column, config=config)

    async def _index_vectors(self, table: Any) -> None:
        """Give a table that has outgrown memory its vector index; `optimize` keeps it up to date from then on."""
        from lancedb.index import IvfSq

        rows = await table.count_rows("vector IS NOT NULL")
        if rows < FEWEST_INDEXED or rows * self._dimension * 4 <= self._memory:
            return
        if not any("vector" in index.columns for index in await table.list_indices()):
            await table.create_index("vector", config=IvfSq(distance_type="cosine"))

    def _batch(self, source: str, rows: Sequence[Row], empty: Mapping[str, str]) -> pa.Table:
        import pyarrow as pa

        wrong = next((row.vector.shape for row in rows if row.vector.shape != (self._dimension,)), None)
        if wrong:
            raise StoreMismatch(f"the passage store {self._directory} takes vectors of {self._dimension}, not {wrong}")
        columns: dict[str, Any] = {name: [getattr(row.passage, name) for row in rows] for name in PASSAGE_COLUMNS} | {
            "fingerprint": [row.fingerprint for row in rows],
            "tokens": [row.tokens for row in rows],
        }
        for path, fingerprint in empty.items():
            marker = EMPTY + hashlib.sha256(f"{source}\0{path}".encode()).hexdigest()
            known = {"id": marker, "source": source, "path": path, "fingerprint": fingerprint}
            for name, values in columns.items():
                values.append(known.get(name, 0 if name.endswith("_line") else ""))
        numbers = np.zeros((len(rows) + len(empty), self._dimension), np.float32)
        if rows:
            numbers[: len(rows)] = [row.vector for row in rows]
        nothing = pa.array([False] * len(rows) + [True] * len(empty))
        columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), self._dimension, mask=nothing)
        return pa.table(columns, schema=self._schema())


def _any_file(directory: Path) -> bool:
    return directory.is_dir() and next(directory.iterdir(), None) is not None


def _import_lancedb() -> None:
    with light_import():
        import lancedb.index  # noqa: F401


def _return_memory() -> None:
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim_memory()
