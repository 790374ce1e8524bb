"""Ordering the passages that several agents found for one query. Nothing here leaves the machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.fusion import fuse
from core.ports import Reranker
from core.settings import SearchSettings
from core.types import Passage


def make_reranker(settings: SearchSettings) -> Reranker:
    """Return the reranker that the settings name."""
    return KeepOrder() if settings.rerank == "none" else FusionReranker(settings.alpha)


class FusionReranker:
    """Makes the scores of different searches comparable: the same fusion as in one search, over all that was found.

    Similarities and BM25 scores are true ones over the whole store, so that nothing has to be embedded again.
    """

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages best first; one that several agents found comes once."""
        return fuse(passages, self._alpha)


class KeepOrder:
    """Leaves passages in the order in which the agents gave them, which becomes their score."""

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages as they come; one that several agents found comes once, at its first place."""
        distinct = {passage.id: passage for passage in reversed(passages)}
        ordered = list(reversed(distinct.values()))
        return [replace(passage, score=1 - place / len(ordered)) for place, passage in enumerate(ordered)]
