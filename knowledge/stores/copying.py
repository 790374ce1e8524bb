"""Knowledge from one store into another, with its vectors: nothing is read from the sources or embedded again."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.errors import StoreError
from knowledge.ports import Held, Row, Store
from knowledge.stores.lance.rows import lance_rows
from knowledge.stores.lance.store import LanceStore
from knowledge.stores.weaviate import WeaviateStore

BATCH_PASSAGES = 2000


@dataclass(frozen=True, slots=True)
class Copied:
    """What copying one source has changed in the other store, in documents; `passages` are those written."""

    name: str
    copied: int
    deleted: int
    unchanged: int
    passages: int
    seconds: float


async def copy_source(
    origin: Store, target: Store, source: str, dimension: int, *, batch_passages: int = BATCH_PASSAGES
) -> Copied:
    """Make the target hold of a source what the origin holds; documents that it has already are left alone.

    `dimension` is the length of their vectors; about `batch_passages` are written in one commit. The origin is only
    read. A copy that is interrupted, by a kill as well, goes on where it was. Raises `StoreError`; what was written
    before stays, and is complete per document.
    """
    began = time.monotonic()
    held, there = await origin.manifest(source), await target.manifest(source)
    changed = {path: one for path, one in held.items() if there.get(path) != one}
    gone = there.keys() - held.keys()
    passages = 0
    for paths in _batches(changed, batch_passages):
        filled = [path for path in paths if changed[path].passages]
        read = await _rows(origin, source, filled, dimension) if filled else []
        if {row.passage.path for row in read} != set(filled):
            raise StoreError(f"source {source} has changed while it was copied: copy it again")
        empty = {path: changed[path].fingerprint for path in paths if not changed[path].passages}
        await target.replace(source, paths, read, empty)
        passages += len(read)
    if gone:
        await target.replace(source, gone, [])
    if changed or gone:
        await target.optimise()
    unchanged = len(held) - len(changed)
    return Copied(source, len(changed), len(gone), unchanged, passages, time.monotonic() - began)


async def _rows(origin: Store, source: str, paths: Collection[str], dimension: int) -> Sequence[Row]:
    if isinstance(origin, LanceStore):
        return await lance_rows(origin, source, paths, dimension)
    if isinstance(origin, WeaviateStore):
        return await origin.rows(source, paths)
    raise StoreError(f"{type(origin).__name__} cannot be copied from")


def _batches(documents: Mapping[str, Held], most: int) -> Iterator[Sequence[str]]:
    """Yield the paths in groups of `most` passages, or of one document; documents without any passage count as one."""
    batch: list[str] = []
    weight = 0
    for path, held in documents.items():
        if batch and weight + max(1, held.passages) > most:
            yield batch
            batch, weight = [], 0
        batch.append(path)
        weight += max(1, held.passages)
    if batch:
        yield batch
