"""What routing compares questions with, made from an agent's stored passages and from what its owner told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.settings import AgentSettings, Settings
from knowledge.ports import Embedder, Store, Vectors
from knowledge.retrieval.routing import AgentIndex, Told, cluster


@dataclass(frozen=True, slots=True, eq=False)
class MixIn:
    """The texts that an agent's owner told, and their unit vectors, shape (m, d), a row each."""

    told: tuple[Told, ...]
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class Indexed:
    """An agent's index, None where there is nothing to compare with, and the number of its stored passages."""

    index: AgentIndex | None
    passages: int


async def embed_mix_in(agent: AgentSettings, embedder: Embedder) -> MixIn:
    """Embed what is mixed in for an agent. A kind without weight is left out. Raises `EmbeddingError`."""
    weights: Mapping[str, float] = agent.mix_in_weights.model_dump()
    told = tuple(Told(kind, text, weights[kind]) for kind, texts in agent.mix_ins().items() for text in texts)
    told = tuple(one for one in told if one.weight > 0)
    vectors = await embedder.embed([one.text for one in told]) if told else _none(embedder)
    return MixIn(told, vectors)


async def index_agent(name: str, agent: AgentSettings, mix_in: MixIn, settings: Settings, store: Store) -> Indexed:
    """Cluster an agent's passages, those of equally scaled kinds of source together. Raises `StoreError`."""
    routing = settings.knowledge.routing
    by_scale: dict[float, list[str]] = {}
    for source in dict.fromkeys(agent.sources):
        scale = routing.kind_scales.get(settings.sources[source].kind, 1.0)
        by_scale.setdefault(scale, []).append(source)
    centroids, passages = [], 0
    for scale, sources in by_scale.items():
        vectors = _joined([await store.vectors(source) for source in sources])
        passages += len(vectors)
        centroids.append(scale * await asyncio.to_thread(cluster, vectors, routing.centroids))
    # What was told stands for the whole agent: the kind that counts most.
    weights = np.array([[one.weight * max(by_scale)] for one in mix_in.told], np.float32).reshape(-1, 1)
    found = _joined(centroids)
    if not len(found) and not len(mix_in.vectors):
        return Indexed(None, passages)
    weighted = weights * mix_in.vectors
    return Indexed(AgentIndex(name, found, weighted, agent.mix_in_weight, agent.scale, mix_in.told), passages)


async def make_indexes(settings: Settings, store: Store, embedder: Embedder) -> Sequence[AgentIndex]:
    """Return what routing compares queries with, for every agent that has knowledge or a mix-in.

    Raises `StoreError`, `EmbeddingError`.
    """
    indexes = []
    for name, agent in settings.retrieval_agents().items():
        mix_in = await embed_mix_in(agent, embedder)
        indexes.append((await index_agent(name, agent, mix_in, settings, store)).index)
    return [one for one in indexes if one is not None]


def _joined(arrays: Sequence[Vectors]) -> Vectors:
    # Joining copies, and a large source alone fills a good part of the memory.
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _none(embedder: Embedder) -> Vectors:
    return np.empty((0, embedder.dimension), np.float32)
