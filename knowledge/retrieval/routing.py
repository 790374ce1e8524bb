"""Which retrieval agents a query goes to: centroids of each agent's knowledge, mixed with what its owner says of it.

KIMAs 3.2.2: the vectors of an agent's passages are clustered; a query is compared with the centroids, and with the
vectors of the agent's description, its examples and its questions with answers; the weighted sum is scaled per agent.

All vectors come from one model and all scores are weighted cosines, so that those of different agents compare.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.types import AgentScore
from knowledge.ports import Vectors

# More vectors than this do not move the centroids, they only take time.
MOST_SAMPLES = 10_000
# Vectors closer than this (1 - cosine) are one and the same to a centroid; float32 errors are a tenth of it.
SAME = 1e-5
CANDIDATES = 5
# The share of vectors that may still change their cluster when the centroids count as found.
SETTLED = 0.002


@dataclass(frozen=True, slots=True)
class Told:
    """One text that an agent's owner mixed in, of which kind it is, and what its cosine is multiplied with."""

    kind: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class AgentIndex:
    """What a query is compared with: vectors, shape (k, d) and (m, d); either may be empty.

    A vector is as long as its cosine counts: 1, or the scale of its source's kind, times the weight of what was told.
    `mix_in_weight` (0 to 1) is the weight of `mix_in` against `centroids`, `scale` multiplies the score. `told` are
    the texts behind `mix_in`, one a row.
    """

    name: str
    centroids: Vectors
    mix_in: Vectors
    mix_in_weight: float
    scale: float
    told: tuple[Told, ...] = ()


def count_centroids(passages: int, most: int) -> int:
    """Return how many centroids stand for so many passages: the root of eight times as many, and at most `most`.

    So a FAQ of 8 answers has all of its 8, 50 passages have 20, and 128 have 32: with more of them there is more to
    tell apart, but ever less. Never more than there are passages, and at least 1.
    """
    return max(1, min(most, passages, round(math.sqrt(8 * passages))))


def cluster(vectors: Vectors, centroids: int, *, seed: int = 0, rounds: int = 20) -> Vectors:
    """Return the centroids of spherical k-means as unit vectors, shape (k, d): the same for the same input and seed.

    `vectors` are unit vectors, shape (n, d); those that are no numbers are left out. k is `count_centroids`, and no
    more than there are different vectors; each is the mean of one vector at least. k is 0 only when no vector counts.
    """
    random = np.random.default_rng(seed)
    count = count_centroids(len(vectors), centroids)
    if len(vectors) > MOST_SAMPLES:
        vectors = vectors[np.sort(random.choice(len(vectors), MOST_SAMPLES, replace=False))]
    # A damaged vector would make its whole cluster, and what is compared with it, no number.
    vectors = vectors[np.isfinite(vectors).all(axis=1)]
    if not len(vectors):
        return vectors
    means = _spread(vectors, count, random)
    nearest = np.full(len(vectors), -1)
    for _ in range(rounds):
        similarities = vectors @ means.T
        before, nearest = nearest, similarities.argmax(axis=1)
        _fill_empty(nearest, similarities.max(axis=1), len(means))
        means = _means(vectors, nearest, means)
        if np.count_nonzero(before != nearest) <= len(vectors) * SETTLED:
            break
    return means


@dataclass(frozen=True, slots=True)
class Fit:
    """What the score of an agent for a query is made of: its best cosine with either side, None for an empty one.

    Both cosines are weighted as the index is. `told` is what matched best of the mix-in.
    """

    centroid: float | None
    mix_in: float | None
    mix_in_weight: float
    scale: float
    told: Told | None = None

    @property
    def score(self) -> float:
        """The scaled, mixed score. One side counts alone where the other is empty; minus infinity where both are."""
        if self.centroid is None or self.mix_in is None:
            only = self.mix_in if self.centroid is None else self.centroid
            return -np.inf if only is None else self.scale * only
        return self.scale * ((1 - self.mix_in_weight) * self.centroid + self.mix_in_weight * self.mix_in)

    @property
    def mix_in_part(self) -> float | None:
        """How much of the score comes from the mix-in; None where there is none."""
        if self.mix_in is None:
            return None
        return self.scale * (1.0 if self.centroid is None else self.mix_in_weight) * self.mix_in


def fit(query: Vectors, index: AgentIndex) -> Fit:
    """Return how well a query (a unit vector, shape (d,)) fits an agent, with what that is made of."""
    centroid = float((index.centroids @ query).max()) if len(index.centroids) else None
    if not len(index.mix_in):
        return Fit(centroid, None, index.mix_in_weight, index.scale)
    cosines = index.mix_in @ query
    best = int(cosines.argmax())
    told = index.told[best] if index.told else None
    return Fit(centroid, float(cosines[best]), index.mix_in_weight, index.scale, told)


def score(query: Vectors, index: AgentIndex) -> float:
    """Return how well a query (a unit vector, shape (d,)) fits an agent: its scaled, mixed best cosines.

    Centroids or mix-in count alone where the other is empty; minus infinity where both are.
    """
    return fit(query, index).score


def choose(query: Vectors, indexes: Sequence[AgentIndex], *, limit: int, threshold: float) -> list[AgentScore]:
    """Return the `limit` best agents that score at least `threshold`, best first; of equals, by name.

    An agent with nothing to compare a query with is never chosen, and none is for a query that is no number.
    """
    scores = [AgentScore(index.name, score(query, index)) for index in indexes]
    chosen = [agent for agent in scores if agent.score >= threshold and agent.score > -np.inf]
    return sorted(chosen, key=lambda agent: (-agent.score, agent.name))[:limit]


def _spread(vectors: Vectors, count: int, random: np.random.Generator) -> Vectors:
    """Pick up to `count` different vectors far from each other (greedy k-means++).

    Each is the best of a few candidates, drawn by the square of their distance to those already picked.
    """
    chosen = [int(random.integers(len(vectors)))]
    distance = 1 - vectors @ vectors[chosen[0]]
    while len(chosen) < count and distance.max() > SAME:
        # 1 - cosine is half the squared distance of unit vectors.
        weights = np.where(distance > SAME, distance, 0).astype(np.float64)
        candidates = random.choice(len(vectors), CANDIDATES, p=weights / weights.sum())
        distances = np.minimum(distance, 1 - vectors[candidates] @ vectors.T)
        best = int(distances.sum(axis=1).argmin())
        chosen.append(int(candidates[best]))
        distance = distances[best]
    return vectors[chosen]


def _fill_empty(nearest: np.ndarray, similarity: Vectors, count: int) -> None:
    """Give each cluster without a member the vector that fits its own cluster worst, in place."""
    sizes = np.bincount(nearest, minlength=count)
    worst = iter(similarity.argsort(kind="stable"))
    for empty in np.flatnonzero(sizes == 0):
        vector = next(vector for vector in worst if sizes[nearest[vector]] > 1)
        sizes[nearest[vector]] -= 1
        sizes[empty] += 1
        nearest[vector] = empty


def _means(vectors: Vectors, nearest: np.ndarray, means: Vectors) -> Vectors:
    order = nearest.argsort(kind="stable")
    starts = np.searchsorted(nearest[order], np.arange(len(means)))
    sums = np.add.reduceat(vectors[order], starts)
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    # Members that cancel each other out have no direction: such a cluster keeps its old one.
    return np.where(norms > SAME, sums / np.maximum(norms, SAME), means).astype(np.float32)
