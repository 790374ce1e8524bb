"""Copies knowledge from one store to another, vectors included: nothing is read from the sources or embedded again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.errors import StoreError
from knowledge.ports import CopyOrigin, Store, StoredDocument, label_name
from knowledge.stores.labels import write_label

BATCH_PASSAGES = 2000


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The changes in the target store by copying one source, in documents; `passages` counts those written."""

    name: str
    copied: int
    deleted: int
    unchanged: int
    passages: int
    seconds: float


async def copy_source(
    origin: CopyOrigin, target: Store, source: str, *, batch_passages: int = BATCH_PASSAGES
) -> CopyReport:
    """Copy a source to the target store; documents that are there already are left alone.

    About `batch_passages` are written in one commit. The origin is only read. An interrupted copy, even a killed one,
    continues where it stopped. Raises `StoreError`; what was written before stays, and is complete per document.
    """
    started_at = time.monotonic()
    origin_documents = await origin.manifest(source)
    target_documents = await target.manifest(source)
    changed_documents = {
        path: document for path, document in origin_documents.items() if target_documents.get(path) != document
    }
    deleted_paths = target_documents.keys() - origin_documents.keys()
    labels = await origin.manifest(label_name(source))
    await write_label(target, source, {*await target.manifest(label_name(source)), *labels})
    passage_count = 0
    for paths in _batch_paths(changed_documents, batch_passages):
        paths_with_passages = [path for path in paths if changed_documents[path].passage_count]
        rows = await origin.rows(source, paths_with_passages) if paths_with_passages else []
        if {row.passage.path for row in rows} != set(paths_with_passages):
            raise StoreError(f"source {source} has changed while it was copied: copy it again")
        empty = {
            path: changed_documents[path].fingerprint for path in paths if not changed_documents[path].passage_count
        }
        await target.replace(source, paths, rows, empty)
        passage_count += len(rows)
    if deleted_paths:
        await target.replace(source, deleted_paths, [])
    # Last: until then, what was there is not taken for what the labels say.
    if labels:
        await write_label(target, source, labels)
    if changed_documents or deleted_paths:
        await target.optimize()
    unchanged_count = len(origin_documents) - len(changed_documents)
    counts = (len(changed_documents), len(deleted_paths), unchanged_count, passage_count)
    return CopyReport(source, *counts, time.monotonic() - started_at)


def _batch_paths(documents: Mapping[str, StoredDocument], max_passages: int) -> Iterator[Sequence[str]]:
    """Yield the paths in groups of `max_passages` passages, or of one document; documents without any passage count as
    one.
    """
    batch: list[str] = []
    passage_count = 0
    for path, document in documents.items():
        if batch and passage_count + max(1, document.passage_count) > max_passages:
            yield batch
            batch = []
            passage_count = 0
        batch.append(path)
        passage_count += max(1, document.passage_count)
    if batch:
        yield batch
