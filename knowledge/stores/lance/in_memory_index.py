"""The passages of a table in memory, and their hybrid search: exact, without the table's indexes.

They are kept in blocks that never change. A newer version of the table shares the blocks of the one before: which of
their passages are still alive is noted anew, and what was written since is read into blocks of its own. So a refresh
costs what it changes, and both versions together take little more memory than one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from core.runtime.tasks import Turns
from core.types import Passage
from knowledge.ports import Vectors
from knowledge.stores.lance.lancedb_import import return_memory
from knowledge.stores.lance.segment import IDENTITY, READ, Alive, Block, Lexicon, Numbers, identities

T = TypeVar("T")

# So many vectors at most are compared together.
MOST_TOGETHER = 32


class Comparison:
    """Compares vectors with all of a version's: who comes while others are compared is compared with the next ones.

    Many vectors together cost little more than one, for most of the time the memory is waited for.
    """

    def __init__(self, blocks: Sequence[Vectors]) -> None:
        ends = np.cumsum([len(block) for block in blocks]).tolist()
        self._blocks = [(block, slice(end - len(block), end)) for block, end in zip(blocks, ends, strict=True)]
        self._passages = ends[-1] if ends else 0
        self._turn = asyncio.Lock()
        self._waiting: list[tuple[Vectors, asyncio.Future[Vectors]]] = []

    def now(self, unit: Vectors) -> Vectors:
        """Return the cosines of a unit vector with all passages, block after block, shape (passages,)."""
        found: Vectors = np.empty((1, self._passages), np.float32)
        _compare(self._blocks, unit[None], found)
        only: Vectors = found[0]
        return only

    async def cosines(self, executor: Executor, unit: Vectors) -> Vectors:
        """Return the same, of many who wait together."""
        done: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, done))
        try:
            async with self._turn:
                if not done.done():
                    await self._together(executor)
            return await done
        finally:
            self._waiting = [one for one in self._waiting if one[1] is not done]

    async def _together(self, executor: Executor) -> None:
        """Compare all who wait. When it is cut off they go on waiting: the next one's turn is theirs."""
        taken = self._waiting[:MOST_TOGETHER]
        units = np.array([unit for unit, _ in taken])
        found = np.empty((len(taken), self._passages), np.float32)
        # Two halves at the same time, where there are two processors free.
        halves = (partial(_compare, self._blocks[first::2], units, found) for first in (0, 1))
        await asyncio.gather(*(elsewhere(executor, half) for half in halves))
        for cosines, (_, done) in zip(found, taken, strict=True):
            if not done.done():
                done.set_result(cosines)
        self._waiting = [one for one in self._waiting if not one[1].done()]


def _compare(blocks: Sequence[tuple[Vectors, slice]], units: Vectors, found: Vectors) -> None:
    """Write the cosines of unit vectors with the passages of some blocks into `found`, shape (units, passages)."""
    for block, places in blocks:
        # This way round the product of a few vectors takes some 60% of the time that `units @ block.T` takes.
        np.clip((block @ units.T).T, -1, 1, out=found[:, places])


async def elsewhere(executor: Executor, work: Callable[[], T]) -> T:
    """Return what work in a thread of the executor returns."""
    return await asyncio.get_running_loop().run_in_executor(executor, work)


# Passages of a block: few enough to be read again when most of them are dead; counting its words takes 50 MB meanwhile.
BLOCK = 8_192
# So many blocks of less than a quarter of that may there be, before they are read again into one.
SMALL_BLOCKS = 8
# So many bytes of vectors are compared in about a millisecond: sooner than a thread takes its turn.
AT_ONCE = 8 << 20

RowNumbers = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A block in one version of the table: which of its passages are alive, and the numbers of its rows there."""

    block: Block
    alive: NDArray[np.bool_]
    rows: RowNumbers


class Shelf:
    """All passages of one version of a table."""

    def __init__(self, parts: Sequence[Part], others: RowNumbers) -> None:
        """Put parts together; `others` are the numbers of the rows that are no passages."""
        self.parts = parts
        self.others = others
        blocks = [part.block for part in parts]
        self._blocks = blocks
        self._starts = np.cumsum([0, *(len(part.alive) for part in parts)])
        alive = np.concatenate([part.alive for part in parts] or [np.empty(0, bool)])
        self._alive: Alive = None if alive.all() else alive
        self._sources = tuple(name for block in blocks for name in block.sources)
        firsts = np.cumsum([0, *(len(block.sources) for block in blocks)]).astype(np.int32)
        numbers = [block.numbers + first for block, first in zip(blocks, firsts, strict=False)]
        self._numbers = np.concatenate(numbers or [np.empty(0, np.int32)])
        self._lexicon = Lexicon([block.words for block in blocks], self._alive)
        self._comparison = Comparison([block.vectors for block in blocks])
        self._turns = Turns()
        self._bytes = sum(block.vectors.nbytes for block in blocks)

    async def search(
        self, executor: Executor, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, with both scores."""
        if not self.parts or limit < 1:
            return []
        unit = None
        if vector is not None:
            unit = (vector / max(float(np.linalg.norm(vector)), float(np.finfo(np.float32).tiny))).astype(np.float32)
        if self._bytes <= AT_ONCE:
            await self._turns.next()
            return self._search(tokens, None if unit is None else self._comparison.now(unit), sources, limit)
        cosines = None if unit is None else await self._comparison.cosines(executor, unit)
        return await elsewhere(executor, partial(self._search, tokens, cosines, sources, limit))

    def _search(self, tokens: str, cosines: Vectors | None, sources: Collection[str], limit: int) -> Sequence[Passage]:
        lexical = self._lexicon.scores(tokens)
        eligible = self._eligible(sources)
        chosen = _highest(lexical, lexical > 0 if eligible is None else (lexical > 0) & eligible, limit)
        if cosines is not None:
            chosen = np.union1d(chosen, _highest(cosines, eligible, limit))
        return self._passages(chosen, np.zeros_like(lexical) if cosines is None else cosines, lexical)

    def _eligible(self, sources: Collection[str]) -> Alive:
        """Return which passages are alive and of these sources; None for all of them."""
        wanted = np.array([name in sources for name in self._sources], bool)
        if wanted.all():
            return self._alive
        these: NDArray[np.bool_] = wanted[self._numbers]
        return these if self._alive is None else these & self._alive

    def _passages(self, chosen: NDArray[np.intp], cosines: Vectors, lexical: Numbers) -> Sequence[Passage]:
        passages: list[Passage] = []
        where = self._starts.searchsorted(chosen, "right") - 1
        for number in np.unique(where).tolist():
            these = chosen[where == number]
            records = self._blocks[number].records.take(these - self._starts[number])
            scored = zip(records, cosines[these].tolist(), lexical[these].tolist(), strict=True)
            passages += [Passage(*[*record, cosine, score]) for record, cosine, score in scored]
        return passages


def _highest(scores: Numbers, eligible: Alive, limit: int) -> NDArray[np.intp]:
    """Return the places of the `limit` highest scores, of those that are eligible (None: all), in no order."""
    if eligible is None:
        return np.argpartition(-scores, limit - 1)[:limit] if len(scores) > limit else np.arange(len(scores))
    places = np.flatnonzero(eligible)
    return places[_highest(scores[places], None, limit)]


async def load_shelf(table: Any, dimension: int, executor: Executor, before: Shelf | None = None) -> Shelf:
    """Read the passages of a table; what the shelf of an earlier version of it holds already is not read again.

    Rows never change: those of numbers that it knows are the same. One that is written anew has another number.
    """
    known = before.parts if before else ()
    others = before.others if before else np.empty(0, np.uint64)
    listed = await table.query().with_row_id().select([]).to_arrow()
    rows = np.asarray(listed.column("_rowid"))
    parts, missing = await elsewhere(executor, partial(_living, known, others, rows))
    if known and len(missing) > BLOCK:
        keys = []
        for some in _pieces(missing):
            read = await table.take_row_ids(some.tolist()).with_row_id().select(IDENTITY).to_arrow()
            keys.append(await elsewhere(executor, partial(_named, read)))
        parts = await elsewhere(executor, partial(_moved, known, parts, *map(np.concatenate, zip(*keys, strict=True))))
    parts, missing = await elsewhere(executor, partial(_living, _worth_keeping(parts), others, rows))
    for some in _pieces(missing):
        read = await table.take_row_ids(some.tolist()).with_row_id().select(READ).to_arrow()
        part, empty = await elsewhere(executor, partial(_new, read, dimension))
        parts, others = [*parts, *([part] if len(part.rows) else [])], np.concatenate([others, empty])
    shelf = await elsewhere(executor, lambda: Shelf(parts, others[_among(others, np.sort(rows))]))
    if len(missing) > BLOCK:
        await elsewhere(executor, return_memory)
    return shelf


def _pieces(rows: RowNumbers) -> Iterator[RowNumbers]:
    return (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))


def _new(read: Any, dimension: int) -> tuple[Part, RowNumbers]:
    """Return a new block, and the numbers of the rows without a vector."""
    import pyarrow.compute as pc

    full = pc.is_valid(read.column("vector"))
    empty = np.asarray(read.filter(pc.invert(full)).column("_rowid"))
    read = read.filter(full).combine_chunks()
    return Part(Block.of(read, dimension), np.ones(len(read), bool), np.asarray(read.column("_rowid"))), empty


def _living(parts: Sequence[Part], others: RowNumbers, rows: RowNumbers) -> tuple[Sequence[Part], RowNumbers]:
    """Return the parts with those of their passages alive that are among these rows, and the rows that nobody holds.

    A passage that died stays dead.
    """
    rows = np.sort(rows)
    living = [Part(part.block, part.alive & _among(part.rows, rows), part.rows) for part in parts]
    held = np.sort(np.concatenate([others, *(part.rows[part.alive] for part in living)]))
    return living, rows[~_among(rows, held)]


def _among(some: RowNumbers, rows: RowNumbers) -> NDArray[np.bool_]:
    """Tell which are among rows, which are in ascending order."""
    if not len(rows):
        return np.zeros(len(some), bool)
    found: NDArray[np.bool_] = rows[np.minimum(rows.searchsorted(some), len(rows) - 1)] == some
    return found


def _named(read: Any) -> tuple[NDArray[np.int64], RowNumbers]:
    return identities(read), np.asarray(read.column("_rowid"))


def _moved(before: Sequence[Part], parts: Sequence[Part], keys: NDArray[np.int64], rows: RowNumbers) -> Sequence[Part]:
    """Return the parts with those alive again whose rows have moved when files were merged: known by their identity.

    Where they are few they may as well have been written anew under the same identity: reading them tells.
    """
    order = np.argsort(keys)
    keys, rows, moved, count = keys[order], rows[order], list[Part](), 0
    for old, part in zip(before, parts, strict=True):
        places = np.flatnonzero(old.alive & ~part.alive)
        wanted = part.block.keys[places]
        at = np.minimum(keys.searchsorted(wanted), len(keys) - 1)
        same = keys[at] == wanted
        places, at = places[same], at[same]
        alive, numbers = part.alive.copy(), part.rows.copy()
        alive[places], numbers[places] = True, rows[at]
        moved.append(Part(part.block, alive, numbers))
        count += len(places)
    return moved if count > BLOCK else parts


def _worth_keeping(parts: Sequence[Part]) -> Sequence[Part]:
    """Leave out blocks of which half is dead, and small ones when they are many: their rows are read again."""
    counted = [(part, np.count_nonzero(part.alive)) for part in parts]
    good = [(part, living) for part, living in counted if 2 * living > len(part.alive)]
    small = sum(living < BLOCK // 4 for _, living in good)
    return [part for part, living in good if small <= SMALL_BLOCKS or living >= BLOCK // 4]
