"""Copies of SQLite files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import StoreError
from core.storage.snapshots import copy_sqlite


def test_a_copy_holds_what_was_written(tmp_path: Path) -> None:
    source = tmp_path / "50% of a #1?.db"
    with closing(sqlite3.connect(source)) as connection:
        connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1);")
    copy_sqlite(source, tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]


def test_a_database_that_has_vanished_is_not_made_again(tmp_path: Path) -> None:
    source = tmp_path / "gone.db"
    with pytest.raises(StoreError, match=r"gone\.db cannot be copied"):
        copy_sqlite(source, tmp_path / "copy.db")
    assert not source.exists()
