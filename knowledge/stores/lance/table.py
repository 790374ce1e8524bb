"""The table of the LanceDB store: its columns, its rows in Arrow's form, and its indexes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knowledge.ports import PassageRow
from knowledge.stores.lance.segment import PASSAGE_COLUMNS, PLACEHOLDER_PREFIX, SEGMENT_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

# The source of a row that is deleted in all but name: nobody asks for it, and the next `optimize` takes it away. To
# delete rows in the commit that writes others, LanceDB would join the whole table with them, vectors and all: 200 MB
# and three times the work at 100,000 passages.
TOMBSTONE_SOURCE = ""
# Fewer rows are searched as they are: an index would be trained on next to nothing.
MIN_INDEXED_ROWS = 1_000
# Every write adds one. Reading so many small ones takes hardly longer than reading one.
MAX_FRAGMENTS = 12
PRIMARY_KEY = b"lance-schema:unenforced-primary-key:position"


def make_schema(dimension: int, labels: Mapping[str, str]) -> pa.Schema:
    """Return the columns for vectors of this length; the labels are kept with them."""
    import pyarrow as pa

    text_type, int_type = pa.string(), pa.int32()
    types = {"start_line": int_type, "end_line": int_type, "vector": pa.list_(pa.float32(), dimension)}
    fields = [pa.field(name, types.get(name, text_type), name == "vector") for name in SEGMENT_COLUMNS]
    return pa.schema(fields, labels)


def to_arrow_table(
    source: str,
    rows: Sequence[PassageRow],
    empty: Mapping[str, str],
    deleted_ids: Collection[str],
    arrow_schema: pa.Schema,
) -> pa.Table:
    """Return rows in Arrow's form, and one without a vector for every path of `empty` and each of `deleted_ids`."""
    import pyarrow as pa

    dimension = arrow_schema.field("vector").type.list_size
    columns: dict[str, Any] = {name: [getattr(row.passage, name) for row in rows] for name in PASSAGE_COLUMNS} | {
        "fingerprint": [row.fingerprint for row in rows],
        "tokens": [row.tokens for row in rows],
    }
    placeholder_rows = [
        {"id": make_placeholder_id(source, path), "source": source, "path": path, "fingerprint": fingerprint}
        for path, fingerprint in empty.items()
    ]
    for record in [*placeholder_rows, *({"id": identifier, "source": TOMBSTONE_SOURCE} for identifier in deleted_ids)]:
        for name, values in columns.items():
            values.append(record.get(name, 0 if name.endswith("_line") else ""))
    placeholder_count = len(empty) + len(deleted_ids)
    vectors = np.zeros((len(rows) + placeholder_count, dimension), np.float32)
    if rows:
        vectors[: len(rows)] = [row.vector for row in rows]
    null_mask = pa.array([False] * len(rows) + [True] * placeholder_count)
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dimension, mask=null_mask)
    return pa.table(columns, schema=arrow_schema)


def make_placeholder_id(source: str, path: str) -> str:
    """Return the id of the row that stands for a document without passages."""
    return PLACEHOLDER_PREFIX + hashlib.sha256(f"{source}\0{path}".encode()).hexdigest()


async def ensure_indexes(table: Any) -> None:
    """Add what a new table, or one whose creator was killed, lacks: the primary key and the indexes."""
    from lancedb.index import FTS, Bitmap, BTree

    if PRIMARY_KEY not in ((await table.schema()).field("id").metadata or {}):
        await table.set_unenforced_primary_key("id")
    # The tokens are ours: everything that would change them is switched off.
    switches: dict[str, Any] = dict.fromkeys(("lower_case", "stem", "remove_stop_words", "ascii_folding"), False)
    fts_config = FTS(base_tokenizer="whitespace", max_token_length=None, **switches)
    indexed_columns = {column for index in await table.list_indices() for column in index.columns}
    for column, config in {"tokens": fts_config, "source": Bitmap(), "id": BTree(), "path": BTree()}.items():
        if column not in indexed_columns:
            await table.create_index(column, config=config)


async def fits_in_memory(table: Any, dimension: int, memory_bytes: int) -> bool:
    """Return whether the vectors of a table fit in so many bytes."""
    row_count: int = await table.count_rows()
    return row_count * dimension * 4 <= memory_bytes


async def needs_no_optimize(table: Any) -> bool:
    """Return whether a table that is searched in memory need not be optimized yet: optimizing rewrites all of it."""
    fragment_count: int = (await table.stats())["fragment_stats"]["num_fragments"]
    return fragment_count <= MAX_FRAGMENTS


async def purge_tombstones(table: Any) -> None:
    """Delete the rows that stand for deleted ones."""
    tombstone_filter = f"source = '{TOMBSTONE_SOURCE}'"
    if await table.count_rows(tombstone_filter):
        await table.delete(tombstone_filter)


async def ensure_vector_index(table: Any) -> None:
    """Give a table that has outgrown memory its vector index; `optimize` keeps it up to date from then on."""
    from lancedb.index import IvfSq

    if any("vector" in index.columns for index in await table.list_indices()):
        return
    if await table.count_rows("vector IS NOT NULL") >= MIN_INDEXED_ROWS:
        await table.create_index("vector", config=IvfSq(distance_type="cosine"))
