"""Whole rows out of the LanceDB store, with tokens and vectors, for another store."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from core.types import Passage
from knowledge.ports import PassageRow
from knowledge.stores.lance.segment import PASSAGE_COLUMNS, to_vectors
from knowledge.stores.lance.snapshot import Snapshot, quote_sql, to_sql_list
from knowledge.stores.lance.store import LanceStore

EXTRA_COLUMNS = ["fingerprint", "tokens", "vector"]


async def lance_rows(store: LanceStore, source: str, paths: Collection[str], dimension: int) -> Sequence[PassageRow]:
    """Return the rows of these paths of a source. Raises `StoreError`."""

    async def read(snapshot: Snapshot) -> Sequence[PassageRow]:
        query = snapshot.table.query().where(
            f"source = {quote_sql(source)} AND vector IS NOT NULL AND path IN {to_sql_list(paths)}"
        )
        table = await query.select([*PASSAGE_COLUMNS, *EXTRA_COLUMNS]).to_arrow()
        return await asyncio.to_thread(_rows, table, dimension)

    return await store._read(read, [])


def _rows(table: Any, dimension: int) -> Sequence[PassageRow]:
    passages = zip(*(table.column(name).to_pylist() for name in PASSAGE_COLUMNS), strict=True)
    extra_columns = (table.column(name).to_pylist() for name in EXTRA_COLUMNS[:2])
    return [
        PassageRow(Passage(*values), fingerprint, tokens, vector)
        for values, fingerprint, tokens, vector in zip(
            passages, *extra_columns, to_vectors(table, dimension), strict=True
        )
    ]
