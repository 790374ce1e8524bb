"""Copies an SQLite file while other processes write to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from core.errors import StoreError


def copy_sqlite(source: Path, copy: Path) -> None:
    """Copy a database as it is at one moment to a new file, which its owner alone may read.

    For worker threads. Raises `StoreError`.
    """
    try:
        # Without `mode=rw`, SQLite makes a database that has vanished anew.
        with closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as source_connection:
            copy.touch(mode=0o600)
            with closing(sqlite3.connect(copy)) as copy_connection:
                source_connection.backup(copy_connection)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{source} cannot be copied to {copy}: {error}") from error


def check_sqlite(path: Path) -> None:
    """Raise `StoreError` for a database that is damaged."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        problem = str(error)
    if problem != "ok":
        raise StoreError(f"{path.name} is damaged: {problem}")
