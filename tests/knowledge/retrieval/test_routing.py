"""Routing: centroids that stand for the knowledge, and scores that follow KIMAs 3.2.2."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from knowledge.ports import Vectors
from knowledge.retrieval.routing import (
    AgentIndex,
    MixInText,
    cluster,
    compute_score,
    count_centroids,
    score_agent,
    select_agents,
)

NONE = np.empty((0, 2), np.float32)


def unit(*rows: object) -> Vectors:
    vectors = np.array(rows, np.float32)
    normalised: Vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return normalised


def groups(count: int, size: int, dimension: int = 384, spread: float = 0.3, seed: int = 1) -> tuple[Vectors, Vectors]:
    """Return `count` centres and `size` vectors around each."""
    random = np.random.default_rng(seed)
    centres = unit(*random.standard_normal((count, dimension)))
    noise = random.standard_normal((count, size, dimension)) * spread / dimension**0.5
    return centres, unit(*(centres[:, None] + noise).reshape(-1, dimension))


def index(name: str, centroids: Vectors, mix_in: Vectors = NONE, weight: float = 0.3, scale: float = 1.0) -> AgentIndex:
    return AgentIndex(name, centroids, mix_in, weight, scale)


def test_centroids_find_the_groups_and_are_unit_vectors() -> None:
    centres, vectors = groups(5, 50)
    centroids = cluster(vectors, 5)
    assert centroids.shape == (5, 384)
    assert centroids.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(centroids, axis=1), 1, rtol=1e-5)
    assert (centres @ centroids.T).max(axis=1).min() > 0.99


def test_the_same_input_gives_the_same_centroids() -> None:
    _, vectors = groups(4, 100, spread=2)
    np.testing.assert_array_equal(cluster(vectors, 8, seed=3), cluster(vectors, 8, seed=3))
    assert not np.array_equal(cluster(vectors, 8, seed=3), cluster(vectors, 8, seed=4))


@pytest.mark.parametrize(
    ("size", "max_count", "expected"), [(0, 16, 0), (1, 16, 1), (2, 16, 2), (50, 32, 20), (600, 16, 16)]
)
def test_the_number_of_centroids_follows_the_size(size: int, max_count: int, expected: int) -> None:
    vectors = unit(*np.random.default_rng(0).standard_normal((size, 8))) if size else np.empty((0, 8), np.float32)
    assert cluster(vectors, max_count).shape == (expected, 8)


def test_equal_vectors_make_one_cluster() -> None:
    assert len(cluster(np.repeat(unit([1, 2, 3]), 200, axis=0), 16)) == 1
    two = np.repeat(unit([1, 2, 3], [3, 2, 1]), 100, axis=0)
    assert len(cluster(two, 16)) == 2


def test_no_cluster_is_empty() -> None:
    for seed in range(40):
        random = np.random.default_rng(seed)
        vectors = unit(*(random.standard_normal((60, 3)).round(random.integers(0, 3)) + 1e-3))
        centroids = cluster(vectors, 16, seed=seed)
        assert np.isfinite(centroids).all()
        assert len(np.unique((vectors @ centroids.T).argmax(axis=1))) == len(centroids)


def test_opposite_vectors_leave_finite_centroids() -> None:
    assert np.isfinite(cluster(unit(*([[1, 0], [-1, 0]] * 2)), 1)).all()


# In a process of its own, on one thread: the processor time is then the work, however busy the machine is.
CLUSTER = """
import sys, time
import numpy as np
from knowledge.retrieval.routing import cluster
vectors = np.random.default_rng(0).standard_normal((int(sys.argv[1]), 384), np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
started = time.process_time()
assert cluster(vectors, 16).shape == (16, 384)
print(time.process_time() - started)
"""


@pytest.mark.parametrize("size", [5_000, 60_000])
def test_clustering_is_fast(size: int) -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CLUSTER, str(size)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert float(result.stdout) < (1.5 if size == 5_000 else 3.5)


def test_score_mixes_and_scales() -> None:
    query = unit([1, 0])[0]
    centroid = unit([0.6, 0.8], [0, 1])
    array = unit([0.8, 0.6])
    assert compute_score(query, index("a", centroid, array, 0.3, 1.0)) == pytest.approx(0.7 * 0.6 + 0.3 * 0.8)
    assert compute_score(query, index("a", centroid, array, 0.3, 2.0)) == pytest.approx(2 * (0.7 * 0.6 + 0.3 * 0.8))
    assert compute_score(query, index("a", centroid, array, 1.0)) == pytest.approx(0.8)
    assert compute_score(query, index("a", centroid, NONE, 0.3)) == pytest.approx(0.6)
    assert compute_score(query, index("a", NONE, array, 0.3, 0.5)) == pytest.approx(0.4)
    assert compute_score(query, index("a", NONE, NONE)) == -np.inf


def test_choose_takes_the_best_over_the_threshold() -> None:
    query = unit([1, 0])[0]
    indexes = [
        index("low", unit([0.1, 1])),
        index("empty", NONE),
        index("best", unit([1, 0.1])),
        index("tie", unit([1, 1])),
        index("also", unit([1, 1])),
        index("against", unit([-1, 0])),
    ]
    names = [agent.name for agent in select_agents(query, indexes, limit=10, threshold=0.0)]
    assert names == ["best", "also", "tie", "low"]
    assert [agent.name for agent in select_agents(query, indexes, limit=2, threshold=0.0)] == ["best", "also"]
    assert [agent.name for agent in select_agents(query, indexes, limit=9, threshold=0.9)] == ["best"]
    assert "empty" not in {agent.name for agent in select_agents(query, indexes, limit=9, threshold=-1)}
    assert select_agents(query, [], limit=3, threshold=0) == []


def test_queries_reach_the_agent_that_knows() -> None:
    centres, _ = groups(20, 1)
    knowledge = [cluster(groups(1, 80, seed=100 + number)[1], 8) for number in range(20)]
    agents = [index(f"agent-{n}", part, centres[n : n + 1], 0.5) for n, part in enumerate(knowledge)]
    for number in range(20):
        assert select_agents(centres[number], agents, limit=3, threshold=0)[0].name == f"agent-{number}"


def test_choosing_among_twenty_agents_is_fast() -> None:
    random = np.random.default_rng(0)
    agents = [
        index(str(n), unit(*random.standard_normal((16, 384))), unit(*random.standard_normal((6, 384))))
        for n in range(20)
    ]
    query = unit(random.standard_normal(384))[0]
    times = []
    for _ in range(50):
        started_at = time.thread_time()
        select_agents(query, agents, limit=3, threshold=0)
        times.append(time.thread_time() - started_at)
    assert float(np.median(times)) < 0.002


def test_more_passages_have_more_centroids_but_ever_less() -> None:
    assert [count_centroids(size, 32) for size in (0, 1, 2, 8, 50, 128, 10**6)] == [1, 1, 2, 8, 20, 32, 32]
    # The samples that are clustered do not bound them.
    assert count_centroids(80_000, 1_000) == 800


def test_a_damaged_vector_spoils_no_centroid() -> None:
    vectors = np.concatenate([unit(*[[1, 0]] * 4), np.full((2, 2), np.nan, np.float32)])
    np.testing.assert_allclose(cluster(vectors, 4), [[1, 0]])
    assert cluster(np.full((3, 2), np.nan, np.float32), 4).shape == (0, 2)
    assert select_agents(np.full(2, np.nan, np.float32), [index("a", unit([1, 0]))], limit=3, threshold=-1) == []


def test_a_score_tells_what_it_is_made_of() -> None:
    query = unit([1, 0])[0]
    messages = (MixInText("description", "all", 0.5), MixInText("examples", "how?"))
    mix_in = unit([0.9, 0.1], [0.6, 0.8]) * np.array([[0.5], [1.0]], np.float32)
    routing_score = score_agent(query, AgentIndex("a", unit([0.8, 0.6]), mix_in, 0.25, 2.0, messages))
    # The description is nearer, but counts half.
    assert routing_score.best_text == messages[1]
    assert routing_score.mix_in_cosine == pytest.approx(0.6)
    assert routing_score.mix_in_contribution == pytest.approx(2 * 0.25 * 0.6)
    assert routing_score.score - 2 * 0.75 * 0.8 == pytest.approx(routing_score.mix_in_contribution)
    messages_score = score_agent(query, AgentIndex("a", NONE, mix_in, 0.25, 2.0, messages))
    assert messages_score.mix_in_contribution == messages_score.score == pytest.approx(1.2)
    assert score_agent(query, index("a", unit([1, 0]))).mix_in_contribution is None
