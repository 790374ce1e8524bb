"""Journals on a PostgreSQL server that runs for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.settings.messaging import JournalSettings
from tests.support.peers.postgresql import TEMPLATE, PostgresServer, run_server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server with the tables of a journal in `TEMPLATE`. Nothing of it has to survive a power cut."""
    with run_server("fsync=off", "synchronous_commit=off", "full_page_writes=off") as server:
        server.make_template()
        yield server


@pytest.fixture
def postgres_journal(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> JournalSettings:
    """The settings of an empty journal on the server."""
    for name, value in postgres_server.environment.items():
        monkeypatch.setenv(name, value)
    return postgres_server.settings(postgres_server.create_database(TEMPLATE))
