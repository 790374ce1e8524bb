"""The table of the LanceDB store: its columns, its rows in Arrow's form, and its indexes."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from knowledge.ports import Row
from knowledge.stores.lance.segment import EMPTY, PASSAGE_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

# The source of a row that is deleted in all but name: nobody asks for it, and the next `optimise` takes it away. To
# delete rows in the commit that writes others, LanceDB would join the whole table with them, vectors and all: 200 MB
# and three times the work at 100,000 passages.
GONE = ""
# Fewer rows are searched as they are: an index would be trained on next to nothing.
FEWEST_INDEXED = 1_000
# Every write adds one. Reading so many small ones takes hardly longer than reading one.
FRAGMENTS = 12
PRIMARY_KEY = b"lance-schema:unenforced-primary-key:position"


def schema(dimension: int, labels: Mapping[str, str]) -> pa.Schema:
    """Return the columns for vectors of this length; the labels are kept with them."""
    import pyarrow as pa

    text, number = pa.string(), pa.int32()
    types = {"start_line": number, "end_line": number, "vector": pa.list_(pa.float32(), dimension)}
    columns = (*PASSAGE_COLUMNS, "fingerprint", "tokens", "vector")
    return pa.schema([pa.field(name, types.get(name, text), name == "vector") for name in columns], labels)


def table_of(
    source: str, rows: Sequence[Row], empty: Mapping[str, str], gone: Collection[str], columns_wanted: pa.Schema
) -> pa.Table:
    """Return rows in Arrow's form, with one without a vector for every path of `empty` and every id that is `gone`."""
    import pyarrow as pa

    dimension = columns_wanted.field("vector").type.list_size
    columns: dict[str, Any] = {name: [getattr(row.passage, name) for row in rows] for name in PASSAGE_COLUMNS} | {
        "fingerprint": [row.fingerprint for row in rows],
        "tokens": [row.tokens for row in rows],
    }
    marks = [
        {"id": marker(source, path), "source": source, "path": path, "fingerprint": fingerprint}
        for path, fingerprint in empty.items()
    ]
    for known in [*marks, *({"id": identifier, "source": GONE} for identifier in gone)]:
        for name, values in columns.items():
            values.append(known.get(name, 0 if name.endswith("_line") else ""))
    others = len(empty) + len(gone)
    numbers = np.zeros((len(rows) + others, dimension), np.float32)
    if rows:
        numbers[: len(rows)] = [row.vector for row in rows]
    nothing = pa.array([False] * len(rows) + [True] * others)
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), dimension, mask=nothing)
    return pa.table(columns, schema=columns_wanted)


def marker(source: str, path: str) -> str:
    """Return the id of the row that stands for a document without passages."""
    return EMPTY + hashlib.sha256(f"{source}\0{path}".encode()).hexdigest()


async def prepare(table: Any) -> None:
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


async def fits(table: Any, dimension: int, memory: int) -> bool:
    """Tell whether the vectors of a table fit in so many bytes."""
    rows: int = await table.count_rows()
    return rows * dimension * 4 <= memory


async def tidy(table: Any) -> bool:
    """Tell whether a table that is searched in memory need not be optimised yet: that writes all of it anew."""
    fragments: int = (await table.stats())["fragment_stats"]["num_fragments"]
    return fragments <= FRAGMENTS


async def sweep(table: Any) -> None:
    """Delete the rows that stand for deleted ones."""
    gone = f"source = '{GONE}'"
    if await table.count_rows(gone):
        await table.delete(gone)


async def index_vectors(table: Any) -> None:
    """Give a table that has outgrown memory its vector index; `optimize` keeps it up to date from then on."""
    from lancedb.index import IvfSq

    if any("vector" in index.columns for index in await table.list_indices()):
        return
    if await table.count_rows("vector IS NOT NULL") >= FEWEST_INDEXED:
        await table.create_index("vector", config=IvfSq(distance_type="cosine"))
