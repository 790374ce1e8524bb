"""Hybrid search on one version of a LanceDB table. Every passage found gets both of its true scores.

Reading columns costs more than searching, so the searches return row numbers and the rows are read once for all of
them. Row numbers hold for one version only: the table given must be fixed to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from core.tasks import task_group
from core.types import Passage
from knowledge.ports import Vectors

PASSAGE_COLUMNS = ["id", "source", "path", "title", "text", "url", "kind", "start_line", "end_line"]
PROBES = 20


async def hybrid(table: Any, tokens: str, vector: Vectors | None, where: str, limit: int) -> list[Passage]:
    """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine among the rows of `where`."""
    async with task_group() as tasks:
        lexical = tasks.create_task(_word_scores(table, tokens, where, limit))
        dense = tasks.create_task(_nearest(table, vector, where, limit))
    scores = lexical.result()
    others = [row for row in dense.result() if row not in scores]
    if not (scores or others):
        return []
    columns = PASSAGE_COLUMNS if vector is None else [*PASSAGE_COLUMNS, "vector"]
    async with task_group() as tasks:
        rest = tasks.create_task(_word_scores(table, tokens, f"_rowid IN ({_joined(others)})", len(others)))
        read = tasks.create_task(table.take_row_ids([*scores, *others]).with_row_id().select(columns).to_arrow())
    return _passages(read.result(), scores | rest.result(), vector)


async def _word_scores(table: Any, tokens: str, where: str, limit: int) -> dict[int, float]:
    """Return BM25 scores by row number. Statistics (document frequencies, lengths) are those of the whole table."""
    if not (tokens and limit):
        return {}
    query = table.query().nearest_to_text(tokens, columns="tokens").where(where).limit(limit)
    found = await query.with_row_id().select([]).to_arrow()
    return dict(zip(found.column("_rowid").to_pylist(), found.column("_score").to_pylist(), strict=True))


async def _nearest(table: Any, vector: Vectors | None, where: str, limit: int) -> list[int]:
    if vector is None:
        return []
    # No upper bound on probes: a source with few passages may have them in partitions far from the query.
    query = table.query().nearest_to(vector).distance_type("cosine").minimum_nprobes(PROBES).maximum_nprobes(0)
    found = await query.where(where).limit(limit).with_row_id().select([]).to_arrow()
    rows: list[int] = found.column("_rowid").to_pylist()
    return rows


def _passages(read: Any, scores: Mapping[int, float], vector: Vectors | None) -> list[Passage]:
    similarity = [0.0] * len(read) if vector is None else _cosines(matrix(read, len(vector)), vector)
    lexical = [scores.get(row, 0.0) for row in read.column("_rowid").to_pylist()]
    columns = [read.column(name).to_pylist() for name in PASSAGE_COLUMNS]
    return [Passage(*values) for values in zip(*columns, similarity, lexical, strict=True)]


def _cosines(rows: Vectors, vector: Vectors) -> list[float]:
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosines: list[float] = (rows @ vector / np.maximum(lengths, np.finfo(np.float32).tiny)).clip(-1, 1).tolist()
    return cosines


def matrix(rows: Any, dimension: int) -> Vectors:
    """Return the vector column of an Arrow table, shape (rows, dimension), without nulls."""
    chunks = [np.asarray(chunk.flatten(), np.float32) for chunk in rows.column("vector").chunks]
    return np.concatenate(chunks or [np.empty(0, np.float32)]).reshape(-1, dimension)


def quoted(text: str) -> str:
    """Return a text as an SQL literal. Nothing but the quote itself has a meaning inside."""
    return "'" + text.replace("'", "''") + "'"


def listed(texts: Iterable[str]) -> str:
    """Return texts as the right side of an SQL IN. They may be many thousands."""
    return "(" + ", ".join(map(quoted, texts)) + ")"


def _joined(rows: Sequence[int]) -> str:
    return ", ".join(map(str, rows))
