from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from knowledge import embedding
from tests.deployment import logging_as_it_was
from tests.timelapse import run_fast

MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 4 << 30


def pytest_configure() -> None:
    """Keep the tests' temporary folders in memory, where there is room for them."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not load the files without serial tests for the serial run: that takes longer than its tests."""
    if config.option.markexpr == "serial" and collection_path.name.startswith("test_"):
        return "pytest.mark.serial" not in collection_path.read_text("utf-8") or None
    return None


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    with logging_as_it_was():
        yield


@pytest.fixture
async def time_lapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting costs this test a fraction of its time, and work none."""
    run_fast(monkeypatch)


@dataclass(frozen=True)
class SharedModel:
    """The local embedding model, converted once per run: what comes later, in whichever worker, copies it."""

    package: Path
    folder: Path

    def save(self, target: str) -> None:
        with FileLock(self.folder.with_suffix(".lock")):
            if not self.folder.is_dir():
                unfinished = self.folder.with_suffix(".unfinished")
                unfinished.mkdir(exist_ok=True)
                make_model_spec(self.package).save(str(unfinished))
                unfinished.rename(self.folder)
        shutil.copytree(self.folder, target, dirs_exist_ok=True)


make_model_spec = embedding._make_model_spec


@pytest.fixture(autouse=True, scope="session")
def _one_embedding_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def shared(package: Path) -> Any:
        return SharedModel(package, run / "embedding-model")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding, "_make_model_spec", shared)
        # With more workers than processors, what has a lower priority would hardly get its turn.
        patch.setattr(embedding, "lower_thread_priority", lambda: None)
        yield
