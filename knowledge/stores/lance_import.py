"""Passages of earlier versions, which are in LanceDB files: read once, into the SQLite file that replaces them."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import StoreError
from core.install_hints import format_install_hint
from core.observability.logs import get_logger
from core.runtime.locks import writing_lock
from core.types import Passage
from knowledge.ports import PassageRow, StoredDocument
from knowledge.stores.copying import copy_source
from knowledge.stores.sqlite.store import FILE_NAME, open_sqlite
from knowledge.stores.vectors import require_labels

_log = get_logger(__name__)

OLD_FOLDER = "passages.lance"
TABLE_NAME = "passages"
UNFINISHED_FOLDER = "unfinished"
COLUMNS = ["id", "source", "path", "title", "text", "url", "kind", "start_line", "end_line"]
# Rows that stood for documents without passages, and for what was deleted.
PLACEHOLDER_PREFIX = "empty:"
TOMBSTONE_SOURCE = ""


def needs_import(folder: Path) -> bool:
    """Return whether a folder has passages of LanceDB, as earlier versions wrote them, and none of SQLite."""
    # `os.path.isdir` is false for a folder that this account may not enter: opening the store reports it.
    return not os.path.exists(folder / FILE_NAME) and os.path.isdir(folder / OLD_FOLDER / "_versions")


async def import_lance(data_dir: Path, folder: Path, embedder_name: str, dimension: int) -> None:
    """Copy the passages of a folder into its SQLite file, unless another process does it first.

    The old files are only read. A killed import begins again. Raises `StoreMismatch`, and `StoreError` without LanceDB.
    """
    _require_lance(folder)
    folder = await asyncio.to_thread(folder.absolute)
    async with writing_lock(data_dir):
        if not await asyncio.to_thread(needs_import, folder):
            return
        unfinished_folder = folder / UNFINISHED_FOLDER
        await asyncio.to_thread(shutil.rmtree, unfinished_folder, ignore_errors=True)
        with _map_errors(folder):
            passage_count = await _copy(folder, unfinished_folder, embedder_name, dimension)
        (unfinished_folder / FILE_NAME).rename(folder / FILE_NAME)
        await asyncio.to_thread(shutil.rmtree, unfinished_folder)
    _log.info("store.imported", passages=passage_count, not_needed_any_more=str(folder / OLD_FOLDER))


async def check_lance(folder: Path, embedder_name: str, dimension: int) -> None:
    """Raise what `import_lance` would raise, without a copy: the sources of all passages are read, and nothing else."""
    _require_lance(folder)
    with _map_errors(folder):
        async with _open_table(await asyncio.to_thread(folder.absolute), embedder_name, dimension) as table:
            await table.sources()


def _require_lance(folder: Path) -> None:
    if find_spec("lancedb") is None:
        raise StoreError(
            f"the passages in {folder / OLD_FOLDER} were written by LanceDB, which this version needs to read them "
            f"once: {format_install_hint('lance')}, and start again; or embed everything anew: kimas ingest --rebuild"
        )


@contextmanager
def _map_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, RuntimeError, OSError) as error:
        raise StoreError(
            f"the passages in {folder / OLD_FOLDER} cannot be read: `kimas ingest --rebuild` builds them anew from "
            f"the sources ({error})"
        ) from error


@asynccontextmanager
async def _open_table(folder: Path, embedder_name: str, dimension: int) -> AsyncIterator[LanceTable]:
    import lancedb

    connection = await lancedb.connect_async(folder)
    try:
        table = await connection.open_table(TABLE_NAME)
        labels = {"embedder": embedder_name, "dimension": str(dimension), "format": "1"}
        metadata = (await table.schema()).metadata or {}
        stored_labels = {name: metadata.get(name.encode(), b"unknown").decode() for name in labels}
        require_labels(f"the passage store {folder}", stored_labels, labels)
        yield LanceTable(table)
    finally:
        connection.close()  # type: ignore[no-untyped-call]


async def _copy(folder: Path, target_folder: Path, embedder_name: str, dimension: int) -> int:
    passage_count = 0
    async with _open_table(folder, embedder_name, dimension) as origin:
        target = await open_sqlite(target_folder, embedder_name, dimension)
        try:
            # Also for a table without rows: there is a file afterwards.
            await target.rebuild()
            for source in await origin.sources():
                passage_count += (await copy_source(origin, target, source)).passages
        finally:
            await target.close()
    return passage_count


class LanceTable:
    """The passages of a LanceDB table, for a copy."""

    def __init__(self, table: Any) -> None:
        self._table = table

    async def sources(self) -> Sequence[str]:
        """Return the sources that have rows."""
        rows = (await self._table.query().select(["source"]).to_arrow()).column("source").unique().to_pylist()
        return sorted(set(rows) - {TOMBSTONE_SOURCE})

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        query = self._table.query().where(f"source = {_quote(source)}").select(["path", "fingerprint", "id"])
        rows = (await query.to_arrow()).to_pylist()
        counts = Counter(row["path"] for row in rows if not row["id"].startswith(PLACEHOLDER_PREFIX))
        return {row["path"]: StoredDocument(row["fingerprint"], counts[row["path"]]) for row in rows}

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[PassageRow]:
        """Return the rows of these paths of a source."""
        condition = f"source = {_quote(source)} AND path IN ({', '.join(map(_quote, paths))}) AND vector IS NOT NULL"
        table = (
            await self._table.query().where(condition).select([*COLUMNS, "fingerprint", "tokens", "vector"]).to_arrow()
        )
        return [
            PassageRow(
                Passage(*(row[name] for name in COLUMNS)),
                row["fingerprint"],
                row["tokens"],
                np.array(row["vector"], np.float32),
            )
            for row in table.to_pylist()
        ]


def _quote(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
