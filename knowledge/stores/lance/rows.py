"""Whole rows out of the LanceDB store, with tokens and vectors, for another store."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from core.types import Passage
from knowledge.ports import Row
from knowledge.stores.lance.segment import PASSAGE_COLUMNS, matrix
from knowledge.stores.lance.snapshot import View, listed, quoted
from knowledge.stores.lance.store import LanceStore

EXTRA = ["fingerprint", "tokens", "vector"]


async def lance_rows(store: LanceStore, source: str, paths: Collection[str], dimension: int) -> Sequence[Row]:
    """Return the rows of these paths of a source. Raises `StoreError`."""

    async def read(view: View) -> Sequence[Row]:
        query = view.table.query().where(
            f"source = {quoted(source)} AND vector IS NOT NULL AND path IN {listed(paths)}"
        )
        found = await query.select([*PASSAGE_COLUMNS, *EXTRA]).to_arrow()
        return await asyncio.to_thread(_rows, found, dimension)

    return await store._read(read, [])


def _rows(found: Any, dimension: int) -> Sequence[Row]:
    passages = zip(*(found.column(name).to_pylist() for name in PASSAGE_COLUMNS), strict=True)
    others = (found.column(name).to_pylist() for name in EXTRA[:2])
    return [
        Row(Passage(*values), fingerprint, tokens, vector)
        for values, fingerprint, tokens, vector in zip(passages, *others, matrix(found, dimension), strict=True)
    ]
