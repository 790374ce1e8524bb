"""Orders the passages that several agents found for one query. Without an API nothing leaves the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from core.evidence.ranking import apply_kind_weights, fuse
from core.settings import SearchSettings
from core.types import Passage


class ClosableReranker(Protocol):
    """A `core.ports.Reranker` with a `close` for its owner."""

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the same passages, best first."""
        ...

    async def close(self) -> None:
        """Let go of connections. Idempotent."""
        ...


def make_reranker(settings: SearchSettings, models_dir: Path | None = None) -> ClosableReranker:
    """Return the reranker that the settings name, with the weights of kinds on top.

    `models_dir` keeps what is downloaded. For `model` it is the fused order: the model's needs the budget of one answer
    (`core.answering.agents.reranker`). Raises `ConfigurationError` for a cross-encoder that cannot be used.
    """
    reranker = _make_unweighted(settings, models_dir)
    return WeightedReranker(reranker, settings.kind_weights) if settings.kind_weights else reranker


def _make_unweighted(settings: SearchSettings, models_dir: Path | None) -> ClosableReranker:
    if settings.rerank == "none":
        return NoOpReranker()
    if settings.rerank == "api":
        from knowledge.reranking.api import ApiReranker

        return ApiReranker(settings.reranker, settings.alpha)
    if settings.rerank in ("cross_encoder", "fastembed"):
        from knowledge.reranking.cross_encoder import CrossEncoderReranker

        return CrossEncoderReranker(settings.reranker, settings.alpha, models_dir)
    return FusionReranker(settings.alpha)


class FusionReranker:
    """Makes the scores of different searches comparable: the same fusion as in one search, over all results.

    Similarities and BM25 scores are true ones over the whole store, so that nothing has to be embedded again.
    """

    def __init__(self, alpha: float) -> None:
        self._alpha = alpha

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages best first; one that several agents found comes once."""
        return fuse(passages, self._alpha)

    async def close(self) -> None:
        """Hold nothing."""


class NoOpReranker:
    """Leaves passages in the order in which the agents gave them, which becomes their score."""

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages as they come; one that several agents found comes once, at its first place."""
        unique_passages = {passage.id: passage for passage in reversed(passages)}
        ranking = list(reversed(unique_passages.values()))
        return [replace(passage, score=1 - rank / len(ranking)) for rank, passage in enumerate(ranking)]

    async def close(self) -> None:
        """Hold nothing."""


class WeightedReranker:
    """Multiplies the scores of another reranker by the weights of the document kinds."""

    def __init__(self, reranker: ClosableReranker, weights: Mapping[str, float]) -> None:
        self._reranker = reranker
        self._weights = weights

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages in their weighted order. Raises the same errors as the other reranker."""
        return apply_kind_weights(await self._reranker.rerank(query, passages), self._weights)

    async def close(self) -> None:
        """Close the other one."""
        await self._reranker.close()
