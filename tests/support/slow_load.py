"""A store of passages whose load takes minutes: what must not wait for it gives it up."""

from __future__ import annotations

import sqlite3
import threading

import pytest

# Some minutes of one statement, which only an interrupt ends before.
LONG_QUERY = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000000000) SELECT count(*) FROM n"
# How long giving it up may take, also on a busy machine, in seconds.
MAX_WAIT_S = 60


def load_slowly(patch: pytest.MonkeyPatch) -> threading.Event:
    """Let every load of the embedded store take minutes. Return what is set when one has begun."""
    has_begun = threading.Event()

    def load(connection: sqlite3.Connection, *_: object) -> None:
        has_begun.set()
        connection.execute(LONG_QUERY).fetchall()

    patch.setattr("knowledge.stores.sqlite.store.load_index", load)
    return has_begun
