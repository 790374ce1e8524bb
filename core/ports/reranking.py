"""The order of the passages that several searches found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from core.types import Passage


class Reranker(Protocol):
    """Orders the passages of several searches by relevance to one query."""

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages best first, with comparable scores. A model may leave out what it does not name."""
        ...
