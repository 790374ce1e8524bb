"""What the index of an agent says of its knowledge: the modules of its Python packages."""

from __future__ import annotations

import numpy as np

from knowledge.retrieval.agent_index import find_modules, weigh_samples
from tests.support.growth import measure

MODULES_PER_PACKAGE = 60


def test_modules_belong_to_the_outermost_package_and_to_those_of_its_plain_folders() -> None:
    paths = [
        "src/tarn/__init__.py",
        "src/tarn/web/__init__.py",
        "src/tarn/web/server.py",
        "src/tarn/data/samples/ring/__init__.py",
        "other/tarn/__init__.py",
        "other/tarn/keys.py",
        "src/loose.py",
    ]
    assert {package: set(names) for package, names in find_modules(paths).items()} == {
        "tarn": {"tarn", "__init__", "web", "server", "data", "samples", "ring", "keys"},
        "ring": {"ring", "__init__"},
    }


def test_many_packages_take_no_longer_than_their_paths() -> None:
    paths = [
        f"src/package{package}/{name}.py"
        for package in range(800)
        for name in ("__init__", *(f"module{number}" for number in range(MODULES_PER_PACKAGE)))
    ]
    assert measure(find_modules, paths) < 3.0


def test_beside_the_sample_of_a_large_source_a_small_one_keeps_its_share() -> None:
    sample = np.ones((20, 4), np.float32)
    assert [len(vectors) for vectors in weigh_samples([(sample, 200), (sample, 20), (sample[:3], 3)])] == [20, 2, 1]
    assert [len(vectors) for vectors in weigh_samples([(sample, 20), (sample[:3], 3)])] == [20, 3]
    # Deleted between the two readings.
    assert [len(vectors) for vectors in weigh_samples([(sample, 20), (sample[:0], 200)])] == [20, 0]
