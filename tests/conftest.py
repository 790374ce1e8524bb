from __future__ import annotations

import asyncio
import gc
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core.storage.engine import Database
from core.storage.messages import Journal
from knowledge.embedding import batches, local
from tests.support.authorities import share_authorities
from tests.support.deployment import logging_as_it_was
from tests.support.embedding_model import share_model
from tests.support.fork_server import load_model_client
from tests.support.forked import fork_workers, start_server, stop_server
from tests.support.forked_parsers import fork_parsers
from tests.support.journal_copies import JournalCopies
from tests.support.peers.weaviate_server import NO_BINARY
from tests.support.postgres_journal import postgres_journal, postgres_server
from tests.support.timelapse import run_fast
from tests.support.weaviate import weaviate_server, weaviate_settings

MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 4 << 30
GC_THRESHOLDS = (10_000, 20, 20)
__all__ = ["postgres_journal", "postgres_server", "weaviate_server", "weaviate_settings"]


def pytest_configure(config: pytest.Config) -> None:
    """Keep the tests' temporary folders in memory, where there is room for them. With `-n`, serve forks of `kimas`."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    start_server(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: Sequence[Any]) -> None:
    fork_workers(specs)


def pytest_unconfigure(config: pytest.Config) -> None:
    stop_server(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while the tests are loaded, nor ever in what was loaded: that is a third of the time.

    Later more rarely than usual: each look reads what the running test keeps, and calls hypothesis before and after.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker still has one when the others have nothing left."""
    sizes = Counter(item.path for item in items)
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    # Of the slow ones, those with few tests have the longest; of the others, many tests take the longest.
    items.sort(key=lambda item: (0, sizes[item.path]) if item.path in slow_files else (1, -sizes[item.path]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly how many tests were left out because there is no Weaviate server."""
    left_out = sum(NO_BINARY in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ()))
    if left_out:
        terminalreporter.section(f"{left_out} TESTS WERE LEFT OUT", red=True, bold=True)
        terminalreporter.line(NO_BINARY, red=True, bold=True)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    with logging_as_it_was():
        yield


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """An empty journal."""
    journal = await Journal.open(tmp_path / "journal.db")
    yield journal
    await journal.close()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """The database of an empty journal."""
    database = await Database.open(tmp_path / "journal.db")
    yield database
    await database.close()


@pytest.fixture
async def time_lapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting costs this test a fraction of its time, and work none."""
    run_fast(monkeypatch)


@pytest.fixture(autouse=True, scope="session")
def _made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make once what many tests only need to be there; each module says what it saves."""
    folder = tmp_path_factory.getbasetemp()
    # Workers have folders in one that they share.
    shared_folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, load_model_client()).result()
        share_model(patch, shared_folder / "embedding-model")
        share_authorities(patch)
        JournalCopies(folder).install(patch)
        fork_parsers(patch)
        # With more workers than processors, what has a lower priority would hardly get its turn.
        for module in (batches, local):
            patch.setattr(module, "lower_thread_priority", lambda: None)
        yield
