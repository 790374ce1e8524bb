from __future__ import annotations

import asyncio
from collections.abc import Mapping

from knowledge.ingestion.sync import SyncOptions
from knowledge.ports import Store, StoredDocument
from knowledge.retrieval.expiry_filter import SourceVersions
from tests.support.knowledge import DictSource, WordEmbedder, read_and_fill


async def test_a_version_changes_with_any_document(source: DictSource, store: Store, embedder: WordEmbedder) -> None:
    version_requests = []
    for texts in (
        {"a.md": "One."},
        {"a.md": "Two."},
        {"a.md": "Two.", "b.md": "New."},
        {"c.md": "Two."},
        {"a.md": "One."},
    ):
        source.texts = texts
        await read_and_fill(source, store, embedder, SyncOptions(100))
        version_requests.append((await SourceVersions(store).get_versions([source.name], 0))[source.name])
    assert len(set(version_requests)) == 4
    assert version_requests[0] == version_requests[4], "the same documents are the same version, on every machine"


async def test_a_source_that_holds_nothing_has_none(store: Store) -> None:
    assert await SourceVersions(store).get_versions(["docs", "web"], 0) == {"docs": "", "web": ""}


class CountingStore:
    """Answers for its manifest only, and counts."""

    def __init__(self) -> None:
        self.read = 0

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        self.read += 1
        await asyncio.sleep(0.01)
        return {"a.md": StoredDocument(f"{self.read}", 1)}


async def test_it_is_read_as_often_as_asked_for_and_once_for_all_who_ask_at_once() -> None:
    store = CountingStore()
    versions = SourceVersions(store)  # type: ignore[arg-type]
    first = await asyncio.gather(*(versions.get_versions(["docs"], 60) for _ in range(20)))
    assert store.read == 1
    assert all(entry == first[0] for entry in first)
    assert await versions.get_versions(["docs"], 60) == first[0]
    assert await versions.get_versions(["docs"], 0) != first[0]
    assert store.read == 2
