from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import numpy as np
import pytest

from core.errors import StoreError
from core.types import Passage
from knowledge.ports import Store, Vectors
from knowledge.retrieval.recent_searches import MAX_AGE_S, RecentSearches

VECTOR = np.ones(4, np.float32)


class CountingStore:
    """Implements the search of `Store`: every search finds a passage of its own."""

    def __init__(self) -> None:
        self.searches = 0
        self.error: StoreError | None = None

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        self.searches += 1
        if self.error:
            raise self.error
        return [Passage(id=f"{self.searches}", source="docs", path="a.md", title="A", text=tokens)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    moment = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: moment[0])
    return moment


async def test_the_same_search_is_made_once_for_a_moment(clock: list[float]) -> None:
    store = CountingStore()
    searches = RecentSearches(cast(Store, store))
    first = await searches.search("memory", VECTOR, {"docs"}, 5)
    assert await searches.search("memory", VECTOR.copy(), ["docs"], 5) == first
    assert store.searches == 1
    for other in (("agent", VECTOR, {"docs"}, 5), ("memory", -VECTOR, {"docs"}, 5), ("memory", None, {"docs"}, 5)):
        assert await searches.search(*other) != first
    assert await searches.search("memory", VECTOR, {"docs", "more"}, 5) != first
    assert await searches.search("memory", VECTOR, {"docs"}, 6) != first
    clock[0] += MAX_AGE_S
    assert await searches.search("memory", VECTOR, {"docs"}, 5) != first


@pytest.mark.usefixtures("clock")
async def test_after_a_refresh_nothing_is_remembered_and_no_failure_ever() -> None:
    store = CountingStore()
    searches = RecentSearches(cast(Store, store))
    first = await searches.search("memory", VECTOR, {"docs"}, 5)
    searches.forget()
    assert await searches.search("memory", VECTOR, {"docs"}, 5) != first
    store.error = StoreError("the disk is gone")
    with pytest.raises(StoreError):
        await searches.search("other", VECTOR, {"docs"}, 5)
    store.error = None
    assert await searches.search("other", VECTOR, {"docs"}, 5)
