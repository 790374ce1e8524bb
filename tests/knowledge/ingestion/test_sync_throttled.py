"""A refresh beside which questions are answered leaves them the interpreter most of the time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field

import pytest

from knowledge.ingestion import sync
from knowledge.ports import Document, Listing, Store
from tests.support.knowledge import DictSource


@dataclass
class TimedSource(DictSource):
    """A source that notes down how long after each document it is asked for the next one, in seconds."""

    gaps: list[float] = field(default_factory=list)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        async for document in super().documents(listing, paths):
            started_at = time.monotonic()
            yield document
            self.gaps.append(time.monotonic() - started_at)


@pytest.mark.serial
async def test_it_rests_many_times_as_long_as_it_cut_a_document(
    store: Store, markdown: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So long a rest is told from any pause that a busy machine makes.
    monkeypatch.setattr(sync, "THROTTLE_FACTOR", 40.0)
    text = "\n\n".join(markdown(f"apple{number}", "pear") for number in range(60))

    async def gap(name: str, first_texts: dict[str, str], *, is_throttled: bool) -> float:
        source = TimedSource(name, first_texts)
        await sync.refresh(source, store, sync.SyncOptions(200, throttled=is_throttled))
        source.gaps.clear()
        source.texts = first_texts | {"a.md": text}
        await sync.refresh(source, store, sync.SyncOptions(200, throttled=is_throttled))
        [seconds] = source.gaps
        return seconds

    old = {"a.md": "old"}
    quickest = min([await gap(f"plain{number}", old, is_throttled=False) for number in range(4)])
    assert await gap("gentle", old, is_throttled=True) > 5 * quickest
    # A first reading that a stop has broken off goes on as it began.
    others = {"b.md": "old"}
    assert min([await gap(f"new{number}", others, is_throttled=True) for number in range(4)]) < 5 * quickest
