"""The file of passages: connections to it for threads, its transactions, and its errors in plain words."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from core.errors import StoreError
from knowledge.stores.sqlite.tables import PAGE_BYTES, DamagedFile

T = TypeVar("T")

REBUILD_HINT = "`kimas ingest --rebuild` builds it anew from the sources"
# How long a writer waits for another one. Those of the program itself take turns before they come here.
BUSY_TIMEOUT_S = 60.0
# How much of the disk the log of the last transactions may use.
MAX_LOG_BYTES = 64 << 20
_DISK_FULL_ERRORS = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE"}
_DAMAGE_ERRORS = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_LIMIT_ERRORS = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}

FileIdentity = tuple[int, int]


class NoFile(Exception):
    """Nothing was written yet, or the file was deleted."""


class PassageFile:
    """One SQLite file in WAL mode. Every method blocks: call it in a thread, from any number of threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store_name = f"the passage store {path.parent}"
        self._idle: SimpleQueue[tuple[FileIdentity, sqlite3.Connection]] = SimpleQueue()
        self._is_closed = False

    def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Return what a function reads; all of it is of one version. Raises `NoFile`, `sqlite3.Error`, `OSError`."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            try:
                return function(connection)
            finally:
                connection.execute("ROLLBACK")

    def write(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function that writes: all of it is stored, or nothing. Raises as `read` does."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = function(connection)
                connection.execute("COMMIT")
            except BaseException:
                # A failed write may have ended its transaction already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result

    def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function outside a transaction. Raises as `read` does."""
        with self._connection() as connection:
            return function(connection)

    def create(self) -> None:
        """Make an empty file that only its owner can read; one that is there stays."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        if self.path.stat().st_size == 0:
            with closing(_connect(self.path)) as connection:
                connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                connection.execute("PRAGMA journal_mode = WAL").fetchall()

    def delete(self) -> None:
        """Delete the file with its log."""
        self._close_idle()
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Close all connections. Idempotent."""
        self._is_closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while True:
            try:
                _, connection = self._idle.get_nowait()
            except Empty:
                return
            connection.close()

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Lend an idle connection, or a new one; after an error it is not used again."""
        identity, connection = self._take()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if self._is_closed:
            connection.close()
        else:
            self._idle.put((identity, connection))

    def _take(self) -> tuple[FileIdentity, sqlite3.Connection]:
        if self._is_closed:
            raise sqlite3.ProgrammingError("it is closed")
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._close_idle()
            raise NoFile from None
        identity = (status.st_dev, status.st_ino)
        while True:
            try:
                known_identity, connection = self._idle.get_nowait()
            except Empty:
                return identity, _connect(self.path)
            # Another process may have put a new file in its place.
            if known_identity == identity:
                return identity, connection
            connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    """Open a file, which must be there: SQLite would make one that everybody can read."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=True
    )
    try:
        connection.execute("PRAGMA synchronous = NORMAL")
        # What was taught and taken back must not stay readable in free space. Not every SQLite is built so.
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        connection.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def map_errors(file: PassageFile, action: str) -> Iterator[None]:
    """Turn failures of SQLite and of the system into `StoreError`; `action` is what was tried (opened, read, written).

    A text that is no Unicode is refused in the same way.
    """
    try:
        yield
    except (sqlite3.Error, OSError, RuntimeError, UnicodeError, DamagedFile) as error:
        raise StoreError(_explain(file, action, error)) from error


def is_damage(error: Exception) -> bool:
    """Return whether an error says that the file is damaged."""
    return isinstance(error, DamagedFile) or getattr(error, "sqlite_errorname", "").startswith(_DAMAGE_ERRORS)


def _explain(file: PassageFile, action: str, error: Exception) -> str:
    """Say what happened to the store, and the way out."""
    name = getattr(error, "sqlite_errorname", "")
    store_name = file.store_name
    if name in _DISK_FULL_ERRORS:
        return f"no space for {store_name}: free some and try again; what it held is kept ({error})"
    if is_damage(error):
        return f"{store_name} could not be {action}, it is damaged: {REBUILD_HINT} ({error})"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{store_name} could not be {action}: another process has been writing to it for too long ({error})"
    reason = _find_system_error(file.path) if name.startswith("SQLITE_CANTOPEN") else error
    if isinstance(reason, RuntimeError) or getattr(reason, "errno", None) in _LIMIT_ERRORS:
        return (
            f"{store_name} could not be {action}: this process may use no more files, threads or memory; what the "
            f"store holds is kept. Raise the limit (ulimit -n, LimitNOFILE=, TasksMax=, MemoryMax=) ({reason})"
        )
    if isinstance(reason, OSError) or name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM")):
        return f"{store_name} could not be {action}: check the folder and its permissions ({reason})"
    return f"{store_name} could not be {action}: {reason}"


def _find_system_error(path: Path) -> Exception:
    """Return why a file cannot be opened: SQLite does not say."""
    try:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.close(os.open(path.with_name(path.name + suffix), os.O_RDWR))
    except OSError as error:
        return error
    if not os.access(path.parent, os.W_OK):
        return PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path.parent))
    return sqlite3.OperationalError("unable to open database file")
