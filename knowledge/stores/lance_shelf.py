"""The passages of a table in memory, and their hybrid search: exact, without the table's indexes.

They are kept in blocks that never change. A newer version of the table shares the blocks of the one before: which of
their passages are still alive is noted anew, and what was written since is read into blocks of its own. So a refresh
costs what it changes, and both versions together take little more memory than one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.types import Passage
from knowledge.ports import Vectors
from knowledge.stores.lance_cosines import Comparison, elsewhere, products
from knowledge.stores.lance_words import Counted, Numbers, Words, scores

PASSAGE_COLUMNS = ["id", "source", "path", "title", "text", "url", "kind", "start_line", "end_line"]
# Rows that agree in these are the same, also where files were merged and so many rows have moved that reading them
# again is too much: a fingerprint stands for a document's content, the URL for its revision.
IDENTITY = ["source", "id", "fingerprint", "url"]
READ = [*PASSAGE_COLUMNS, "fingerprint", "tokens", "vector"]
# How the id of a row begins that stands for a document without passages.
EMPTY = "empty:"
# Passages of a block: few enough to be read again when most of them are dead; counting its words takes 50 MB meanwhile.
BLOCK = 8_192
# So many blocks of less than a quarter of that may there be, before they are read again into one.
SMALL_BLOCKS = 8
# So many bytes of vectors are compared in about a millisecond: sooner than a thread takes its turn.
AT_ONCE = 8 << 20

Alive = NDArray[np.bool_] | None
# A block, what is alive of it, and the numbers of its rows.
Kept = tuple["Block", Alive, NDArray[np.uint64]]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some passages: Arrow columns, their identities, unit vectors, words, and the numbers of their sources."""

    rows: Any
    keys: Any
    vectors: Vectors
    words: Words
    sources: tuple[str, ...]
    numbers: NDArray[np.int32]

    @classmethod
    def of(cls, read: Any, dimension: int) -> Block:
        """Make a block of rows as they were read, each with a vector, in one chunk."""
        import pyarrow as pa

        vectors = matrix(read, dimension)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors /= np.maximum(lengths, np.finfo(np.float32).tiny)
        sources = read.column("source").combine_chunks().dictionary_encode()
        names, numbers = tuple(sources.dictionary.to_pylist()), np.asarray(sources.indices)
        words = Words.of(read.column("tokens").combine_chunks())
        # One batch: rows are taken out of it in half the time that a table needs.
        rows = pa.RecordBatch.from_arrays(
            [read.column(name).combine_chunks() for name in PASSAGE_COLUMNS], PASSAGE_COLUMNS
        )
        return cls(rows, _keys(read), vectors, words, names, numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A block in one version of the table: which of its passages are alive (None: all), and what lengths do there.

    `rows` are the numbers that the table has for them.
    """

    block: Block
    alive: Alive
    rows: NDArray[np.uint64]
    damping: Numbers

    def eligible(self, sources: Collection[str]) -> Alive:
        """Return which passages are alive and of these sources; None for all of them."""
        if set(self.block.sources) <= set(sources):
            return self.alive
        chosen = [number for number, name in enumerate(self.block.sources) if name in sources]
        these: NDArray[np.bool_] = np.isin(self.block.numbers, chosen)
        return these if self.alive is None else these & self.alive


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Passages by their block and their place in it, with both of their scores."""

    parts: NDArray[np.intp]
    places: NDArray[np.intp]
    lexical: Numbers
    cosines: Numbers

    @classmethod
    def joined(cls, several: Sequence[Candidates]) -> Candidates:
        """Return the candidates of all."""
        names = ("parts", "places", "lexical", "cosines")
        return cls(*(np.concatenate([getattr(one, name) for one in several]) for name in names))

    def best(self, limit: int, *, dense: bool) -> Candidates:
        """Return the `limit` with the highest scores by words, and with `dense` the `limit` nearest as well."""
        chosen = _chosen(self.lexical, self.cosines if dense else None, limit)
        return Candidates(self.parts[chosen], self.places[chosen], self.lexical[chosen], self.cosines[chosen])


class Shelf:
    """All passages of one version of a table."""

    def __init__(self, parts: Sequence[Part], counted: Counted) -> None:
        self._parts = parts
        self._counted = counted
        self._words = [(part.block.words, part.alive) for part in parts]
        self._bytes = sum(part.block.vectors.nbytes for part in parts)
        self._comparison = Comparison([part.block.vectors for part in parts])

    @property
    def parts(self) -> Sequence[Part]:
        """The blocks with what is alive of them, for the next version."""
        return self._parts

    async def search(
        self, executor: Executor, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, with both scores."""
        if not self._parts or limit < 1:
            return []
        unit = None
        if vector is not None:
            unit = (vector / max(float(np.linalg.norm(vector)), float(np.finfo(np.float32).tiny))).astype(np.float32)
        if self._bytes <= AT_ONCE:
            cosines = (
                None
                if unit is None
                else [one[0] for one in products([part.block.vectors for part in self._parts], unit[None])]
            )
            return self._search(tokens, cosines, sources, limit)
        cosines = None if unit is None else await self._comparison.cosines(executor, unit)
        return await elsewhere(executor, partial(self._search, tokens, cosines, sources, limit))

    def _search(
        self, tokens: str, cosines: Sequence[Vectors] | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        rarities = self._counted.rarities(tokens, self._words)
        found = []
        for number, part in enumerate(self._parts):
            eligible = part.eligible(sources)
            lexical = scores(part.block.words, rarities, part.damping, part.alive)
            near = None if cosines is None else cosines[number]
            chosen = _chosen(lexical, near, limit, eligible)
            similar = np.zeros(len(chosen), np.float32) if near is None else near[chosen]
            found.append(Candidates(np.full(len(chosen), number), chosen, lexical[chosen], similar))
        return self._passages(Candidates.joined(found).best(limit, dense=cosines is not None))

    def _passages(self, found: Candidates) -> Sequence[Passage]:
        passages = []
        for number in np.unique(found.parts):
            these = np.flatnonzero(found.parts == number)
            rows = self._parts[number].block.rows.take(found.places[these])
            columns = (column.to_pylist() for column in rows.columns)
            values = zip(*columns, found.cosines[these].tolist(), found.lexical[these].tolist(), strict=True)
            passages += [Passage(*one) for one in values]
        return passages


async def load_shelf(table: Any, dimension: int, executor: Executor, before: Shelf | None = None) -> Shelf:
    """Read the passages of a table; what the shelf of an earlier version of it holds already is not read again."""
    listed = await table.query().with_row_id().select(IDENTITY).to_arrow()
    kept, missing = await elsewhere(executor, partial(_compared, listed, before.parts if before else ()))
    for start in range(0, len(missing), BLOCK):
        rows = missing[start : start + BLOCK].tolist()
        read = await table.take_row_ids(rows).with_row_id().select(READ).to_arrow()
        kept.append(await elsewhere(executor, partial(_new, read, dimension)))
    counted = await elsewhere(executor, lambda: Counted.of([(block.words, alive) for block, alive, _ in kept]))
    return Shelf([Part(block, alive, rows, counted.damping(block.words)) for block, alive, rows in kept], counted)


def _new(read: Any, dimension: int) -> Kept:
    import pyarrow.compute as pc

    read = read.filter(pc.is_valid(read.column("vector"))).combine_chunks()
    return Block.of(read, dimension), None, np.asarray(read.column("_rowid"))


def _compared(listed: Any, parts: Sequence[Part]) -> tuple[list[Kept], NDArray[np.uint64]]:
    """Return the blocks to keep, with what is alive of each, and the numbers of the rows that none of them holds.

    A passage that died stays dead. A block of which half is dead, and small ones when they are many, are given up:
    their rows are read again.
    """
    import pyarrow.compute as pc

    listed = listed.filter(pc.invert(pc.starts_with(listed.column("id"), EMPTY))).combine_chunks()
    keys, numbers = _keys(listed), np.asarray(listed.column("_rowid"))
    if not len(numbers):
        return [], numbers
    at = [_places(part, keys) for part in parts]
    moved = [(places >= 0) & (numbers[places] != part.rows) for places, part in zip(at, parts, strict=True)]
    if sum(map(np.count_nonzero, moved)) <= BLOCK:
        # Written anew under the same identity, or a small table whose files were merged: reading them tells.
        at = [np.where(gone, -1, places) for places, gone in zip(at, moved, strict=True)]
    living = [np.count_nonzero(places >= 0) for places in at]
    good = [one for one, places in enumerate(at) if 2 * living[one] > len(places)]
    small = {one for one in good if living[one] < BLOCK // 4}
    good = [one for one in good if len(small) <= SMALL_BLOCKS or one not in small]
    held, kept = np.zeros(len(numbers), bool), list[Kept]()
    for one in good:
        alive = at[one] >= 0
        held[at[one][alive]] = True
        kept.append((parts[one].block, None if alive.all() else alive, numbers[at[one]]))
    return kept, numbers[~held]


def _places(part: Part, keys: Any) -> NDArray[np.int64]:
    """Return the place of each passage of a block among keys, -1 for the dead."""
    import pyarrow.compute as pc

    found = pc.fill_null(pc.index_in(part.block.keys, value_set=keys), -1)
    places = np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
    return places if part.alive is None else np.where(part.alive, places, -1)


def _keys(rows: Any) -> Any:
    import pyarrow.compute as pc

    columns = [rows.column(name).combine_chunks() for name in IDENTITY]
    return pc.binary_join_element_wise(*columns, "\0")


def _chosen(lexical: Numbers, cosines: Vectors | None, limit: int, eligible: Alive = None) -> NDArray[np.intp]:
    """Return the places of the `limit` best by words and of the `limit` nearest, of those that are eligible."""
    with_words = np.flatnonzero(lexical > 0 if eligible is None else (lexical > 0) & eligible)
    chosen = with_words[_highest(lexical[with_words], limit)]
    if cosines is None:
        return chosen
    near = cosines if eligible is None else np.where(eligible, cosines, np.float32(-2))
    nearest = _highest(near, limit)
    return np.union1d(chosen, nearest if eligible is None else nearest[eligible[nearest]])


def _highest(scores: Numbers, limit: int) -> NDArray[np.intp]:
    """Return the positions of the `limit` highest scores, in no order."""
    return np.argpartition(-scores, limit - 1)[:limit] if len(scores) > limit else np.arange(len(scores))


def matrix(rows: Any, dimension: int) -> Vectors:
    """Return the vector column of an Arrow table, shape (rows, dimension), without nulls; a copy."""
    chunks = [np.asarray(chunk.flatten(), np.float32) for chunk in rows.column("vector").chunks]
    return np.concatenate(chunks or [np.empty(0, np.float32)]).reshape(-1, dimension)
