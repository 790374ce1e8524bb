from __future__ import annotations

import gc
import os
import shutil
import ssl
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path

import certifi
import pytest
from sqlalchemy import Engine

from core.settings.messaging import JournalSettings
from core.storage.engine import Database
from knowledge.embedding import batches, local as embedding
from tests.support.deployment import logging_as_it_was
from tests.support.embedding_model import share_model
from tests.support.forked import load_model_client, serving
from tests.support.peers.postgresql import TEMPLATE, PostgresServer, run_server
from tests.support.timelapse import run_fast

MEMORY = Path("/dev/shm")
MIN_FREE_BYTES = 4 << 30
pytest_plugins = ["tests.parallel"]


def pytest_configure() -> None:
    """Keep the tests' temporary folders in memory, where there is room for them."""
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage neither while the tests are loaded, nor ever again in all that was loaded with them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Where tests run in forks, let them have forks of `kimas` as well."""
    option = session.config.option
    if not option.forks or option.collectonly:
        return (yield)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)):
        return (yield)


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    with logging_as_it_was():
        yield


@pytest.fixture(autouse=True, scope="session")
def _model_client_is_loaded() -> None:
    load_model_client()


@pytest.fixture
async def time_lapse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting costs this test a fraction of its time, and work none."""
    run_fast(monkeypatch)


open_database = vars(Database)["open"].__func__


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests of this process, with the tables of a journal in `TEMPLATE`.

    Nothing of it has to survive a power cut.
    """
    with run_server("fsync=off", "synchronous_commit=off", "full_page_writes=off") as server:
        server.make_template()
        yield server


@pytest.fixture
def postgres_journal(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> JournalSettings:
    """The settings of an empty journal on the server."""
    for name, value in postgres_server.environment.items():
        monkeypatch.setenv(name, value)
    return postgres_server.settings(postgres_server.create_database(TEMPLATE))


async def open_copy(database: type[Database], path: Path, template: Path, engines: list[Engine]) -> Database:
    """Open a database; a new one is a copy of the template, which takes a fraction of the time."""
    if not template.exists():
        with tempfile.TemporaryDirectory(dir=template.parent) as folder:
            template_file = Path(folder) / "template.db"
            await (await open_database(Database, template_file)).close()
            template_file.rename(template)
    # Whoever else opens it at the same time, and a place where nothing can be, is the business of the product.
    with suppress(OSError), tempfile.NamedTemporaryFile(dir=template.parent) as copy:
        if not path.exists():
            shutil.copyfile(template, copy.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(copy.name, path)
    new_database: Database = await open_database(database, path)
    share_statements(new_database._engine.sync_engine, engines)
    return new_database


def share_statements(engine: Engine, engines: list[Engine]) -> None:
    """Let all databases of a process share what SQLAlchemy has compiled: a test has hardly a statement of its own."""
    if not engines:
        engines.append(engine)
    engine.dialect = engines[0].dialect
    engine._compiled_cache = engines[0]._compiled_cache


def share_authorities(patch: pytest.MonkeyPatch) -> None:
    """Read the authorities that certifi knows once per process: aiogram reads them for each of its clients."""
    make_context = ssl.create_default_context
    read_once = lru_cache(ssl.create_default_context)
    known = {"cafile": certifi.where()}
    patch.setattr(
        ssl,
        "create_default_context",
        lambda *args, **kwargs: (read_once if kwargs == known and not args else make_context)(*args, **kwargs),
    )


@pytest.fixture(autouse=True, scope="session")
def _made_once(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make once what many tests only need to be there: a model, the tables of a journal, the known authorities."""
    base = tmp_path_factory.getbasetemp()

    with pytest.MonkeyPatch.context() as patch:
        share_model(patch, run_folder / "embedding-model")
        share_authorities(patch)
        patch.setattr(Database, "open", classmethod(partial(open_copy, template=base / "template.db", engines=[])))
        # With more workers than processors, what has a lower priority would hardly get its turn.
        for module in (batches, embedding):
            patch.setattr(module, "lower_thread_priority", lambda: None)
        yield
