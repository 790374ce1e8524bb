"""Which retrieval agents a query goes to: centroids of each agent's knowledge, mixed with its owner's description.

KIMAs 3.3.2: the vectors of an agent's passages are clustered; a query is compared with the centroids, and with the
vectors of the agent's description, its examples and its questions with answers; the weighted sum is scaled per agent.

All vectors come from one model and all scores are weighted cosines, so that those of different agents compare.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.types import AgentScore
from knowledge.ports import Vectors

# An agent is not asked when its best passage scores less than this share of the best one's (docs/decisions.md).
MIN_SHARE_OF_BEST = 0.8
# More vectors than this do not move the centroids, they only take time.
MAX_SAMPLES = 10_000
# Vectors closer than this (1 - cosine) are one and the same to a centroid; float32 errors are a tenth of it.
MIN_DISTANCE = 1e-5
SEED_CANDIDATES = 5
# The share of vectors that may still change their cluster when the centroids count as found.
CONVERGENCE_SHARE = 0.002
MAX_ITERATIONS = 20


@dataclass(frozen=True, slots=True)
class MixInText:
    """One mix-in text of an agent, its kind, and the factor of its cosine."""

    kind: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class AgentIndex:
    """What a query is compared with: vectors, shape (k, d) and (m, d); either may be empty.

    A vector's length is its weight: 1, or the scale of its source's kind, times the weight of the mix-in text.
    `mix_in_weight` (0 to 1) is the weight of the mix-in vectors against the centroids, `scale` multiplies the score.
    `mix_in_texts` are the texts behind the mix-in vectors, one per row.
    """

    name: str
    centroids: Vectors
    mix_in_vectors: Vectors
    mix_in_weight: float
    scale: float
    mix_in_texts: tuple[MixInText, ...] = ()


def count_centroids(passage_count: int, limit: int) -> int:
    """Return how many centroids represent so many passages: the square root of eight times the number, at most `limit`.

    So 8 passages have 8 centroids, 50 have 20, and 128 have 32. Never more than there are passages, and at least 1.

    >>> count_centroids(8, 32), count_centroids(50, 32), count_centroids(1000, 32)
    (8, 20, 32)
    """
    return max(1, min(limit, passage_count, round(math.sqrt(8 * passage_count))))


def cluster(vectors: Vectors, max_centroids: int, *, seed: int = 0) -> Vectors:
    """Return the centroids of spherical k-means as unit vectors, shape (k, d): the same for the same input and seed.

    `vectors` are unit vectors, shape (n, d); those with NaN or zero are ignored. k is `count_centroids`, and no
    more than there are different vectors; each is the mean of one vector at least. k is 0 only when no vector counts.
    """
    generator = np.random.default_rng(seed)
    centroid_count = count_centroids(len(vectors), max_centroids)
    if len(vectors) > MAX_SAMPLES:
        vectors = vectors[np.sort(generator.choice(len(vectors), MAX_SAMPLES, replace=False))]
    # A damaged vector would turn its whole cluster, and every comparison with it, into NaN; zero is no direction.
    vectors = vectors[np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)]
    if not len(vectors):
        return vectors
    means = _init_centroids(vectors, centroid_count, generator)
    assignments = np.full(len(vectors), -1)
    for _ in range(MAX_ITERATIONS):
        similarities = vectors @ means.T
        previous_assignments = assignments
        assignments = similarities.argmax(axis=1)
        _fill_empty_clusters(assignments, similarities.max(axis=1), len(means))
        means = _compute_means(vectors, assignments, means)
        if np.count_nonzero(previous_assignments != assignments) <= len(vectors) * CONVERGENCE_SHARE:
            break
    return means


@dataclass(frozen=True, slots=True)
class RoutingScore:
    """The parts of an agent's score for a query: its best cosine with each side, None for an empty side.

    Both cosines carry the weights of the index. `best_text` is the mix-in text that matched best.
    """

    centroid_cosine: float | None
    mix_in_cosine: float | None
    mix_in_weight: float
    scale: float
    best_text: MixInText | None = None

    @property
    def score(self) -> float:
        """The scaled, mixed score. One side counts alone where the other is empty; minus infinity where both are."""
        if self.centroid_cosine is None or self.mix_in_cosine is None:
            cosine = self.mix_in_cosine if self.centroid_cosine is None else self.centroid_cosine
            return -np.inf if cosine is None else self.scale * cosine
        return self.scale * ((1 - self.mix_in_weight) * self.centroid_cosine + self.mix_in_weight * self.mix_in_cosine)

    @property
    def mix_in_contribution(self) -> float | None:
        """How much of the score comes from the mix-in; None where there is none."""
        if self.mix_in_cosine is None:
            return None
        return self.scale * (1.0 if self.centroid_cosine is None else self.mix_in_weight) * self.mix_in_cosine


def score_agent(query: Vectors, index: AgentIndex) -> RoutingScore:
    """Return how well a query (a unit vector, shape (d,)) fits an agent, with the parts of the score."""
    centroid_cosine = float((index.centroids @ query).max()) if len(index.centroids) else None
    if not len(index.mix_in_vectors):
        return RoutingScore(centroid_cosine, None, index.mix_in_weight, index.scale)
    cosines = index.mix_in_vectors @ query
    best_row = int(cosines.argmax())
    best_text = index.mix_in_texts[best_row] if index.mix_in_texts else None
    return RoutingScore(centroid_cosine, float(cosines[best_row]), index.mix_in_weight, index.scale, best_text)


def compute_score(query: Vectors, index: AgentIndex) -> float:
    """Return how well a query (a unit vector, shape (d,)) fits an agent: its scaled, mixed best cosines.

    Centroids or mix-in count alone where the other is empty; minus infinity where both are.
    """
    return score_agent(query, index).score


def select_agents(query: Vectors, indexes: Sequence[AgentIndex], *, limit: int, threshold: float) -> list[AgentScore]:
    """Return the `limit` best agents that score at least `threshold`, best first; of equals, by name.

    An agent without vectors is never chosen; for a query vector with NaN none is.
    """
    scores = [AgentScore(index.name, compute_score(query, index)) for index in indexes]
    eligible_scores = [agent for agent in scores if agent.score >= threshold and agent.score > -np.inf]
    return sorted(eligible_scores, key=lambda agent: (-agent.score, agent.name))[:limit]


def drop_weak(agents: Sequence[AgentScore], passage_scores: Mapping[str, float]) -> list[AgentScore]:
    """Return the agents without those that are far below the best of them: by their best passages, where these count.

    Agents without a passage score are compared with the first by their own scores.

    >>> agents = [AgentScore("docs", 0.6), AgentScore("code", 0.5), AgentScore("news", 0.3)]
    >>> [agent.name for agent in drop_weak(agents, {"docs": 0.4, "code": 0.7})]
    ['code']
    """
    best_passage = max((passage_scores[agent.name] for agent in agents if agent.name in passage_scores), default=0.0)
    return [
        agent
        for agent in agents
        if passage_scores.get(agent.name, agent.score)
        >= MIN_SHARE_OF_BEST * (best_passage if agent.name in passage_scores else agents[0].score)
    ]


def _init_centroids(vectors: Vectors, count: int, generator: np.random.Generator) -> Vectors:
    """Pick up to `count` different vectors far from each other (greedy k-means++).

    Each is the best of a few candidates, drawn by the square of their distance to those already picked.
    """
    seed_indices = [int(generator.integers(len(vectors)))]
    distance = 1 - vectors @ vectors[seed_indices[0]]
    while len(seed_indices) < count and distance.max() > MIN_DISTANCE:
        # 1 - cosine is half the squared distance of unit vectors.
        weights = np.where(distance > MIN_DISTANCE, distance, 0).astype(np.float64)
        candidates = generator.choice(len(vectors), SEED_CANDIDATES, p=weights / weights.sum())
        distances = np.minimum(distance, 1 - vectors[candidates] @ vectors.T)
        best_candidate = int(distances.sum(axis=1).argmin())
        seed_indices.append(int(candidates[best_candidate]))
        distance = distances[best_candidate]
    return vectors[seed_indices]


def _fill_empty_clusters(assignments: np.ndarray, similarity: Vectors, count: int) -> None:
    """Give each cluster without a member the vector that fits its own cluster worst, in place."""
    sizes = np.bincount(assignments, minlength=count)
    worst_fitting = iter(similarity.argsort(kind="stable"))
    for empty_cluster in np.flatnonzero(sizes == 0):
        vector_index = next(vector_index for vector_index in worst_fitting if sizes[assignments[vector_index]] > 1)
        sizes[assignments[vector_index]] -= 1
        sizes[empty_cluster] += 1
        assignments[vector_index] = empty_cluster


def _compute_means(vectors: Vectors, assignments: np.ndarray, means: Vectors) -> Vectors:
    order = assignments.argsort(kind="stable")
    starts = np.searchsorted(assignments[order], np.arange(len(means)))
    sums = np.add.reduceat(vectors[order], starts)
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    # Members that cancel each other out have no direction: such a cluster keeps its old one.
    return np.where(norms > MIN_DISTANCE, sums / np.maximum(norms, MIN_DISTANCE), means).astype(np.float32)
