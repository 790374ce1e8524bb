"""Routing: which retrieval agents a question is for (KIMAs 3.2.2).

Each agent is known by the k-means centroids of its passages and, mixed in by hand, by what its deployer says about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.types import AgentScore
from knowledge.ports import Vectors

SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class AgentIndex:
    """What routing knows of one agent. `centroids` has shape (k, dimension), `mix_in` (m, dimension); both unit rows."""

    name: str
    centroids: Vectors
    mix_in: Vectors
    mix_in_weight: float
    scale: float


def cluster(vectors: Vectors, centroids: int, *, seed: int = 0, rounds: int = 20) -> Vectors:
    """Return spherical k-means centroids, shape (k, dimension), unit rows; the same for the same input.

    k is at most `centroids` and grows with the square root of half the number of vectors. More than 20,000 vectors are
    sampled: centroids move little beyond that.
    """
    if not len(vectors):
        return vectors
    random = np.random.default_rng(seed)
    if len(vectors) > SAMPLE:
        vectors = vectors[random.choice(len(vectors), SAMPLE, replace=False)]
    wanted = max(1, min(centroids, int(np.sqrt(len(vectors) / 2))))
    centers = _spread(vectors, wanted, random)
    for _ in range(rounds):
        nearest = np.argmax(vectors @ centers.T, axis=1)
        moved = centers.copy()
        for index in range(len(centers)):
            members = vectors[nearest == index]
            # A cluster that lost all members stays where it was; it wins some back or does no harm.
            if len(members):
                moved[index] = _unit(members.mean(axis=0))
        if np.allclose(moved, centers, atol=1e-4):
            break
        centers = moved
    return centers


def score(query: Vectors, index: AgentIndex) -> float:
    """Return how well an agent fits a query vector of shape (dimension,): cosines, mixed and scaled."""
    parts = [
        (float(np.max(rows @ query)), weight)
        for rows, weight in ((index.centroids, 1 - index.mix_in_weight), (index.mix_in, index.mix_in_weight))
        if len(rows)
    ]
    # An agent that has only one of the two is judged by that alone.
    total = sum(weight for _, weight in parts)
    return index.scale * sum(cosine * weight for cosine, weight in parts) / total if total else 0.0


def choose(query: Vectors, indexes: Sequence[AgentIndex], *, limit: int, threshold: float) -> list[AgentScore]:
    """Return at most `limit` agents that score at least `threshold`, best first; ties by name."""
    known = (index for index in indexes if len(index.centroids) or len(index.mix_in))
    scores = (AgentScore(index.name, score(query, index)) for index in known)
    ranked = sorted((one for one in scores if one.score >= threshold), key=lambda one: (-one.score, one.name))
    return ranked[:limit]


def _spread(vectors: Vectors, wanted: int, random: np.random.Generator) -> Vectors:
    """Choose starting centers far from each other (k-means++)."""
    chosen = [int(random.integers(len(vectors)))]
    distance = 1 - vectors @ vectors[chosen[0]]
    while len(chosen) < wanted:
        weights = np.maximum(distance, 0.0).astype(np.float64)
        if not weights.any():
            break
        chosen.append(int(random.choice(len(vectors), p=weights / weights.sum())))
        distance = np.minimum(distance, 1 - vectors @ vectors[chosen[-1]])
    return vectors[chosen].copy()


def _unit(vector: Vectors) -> Vectors:
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector
