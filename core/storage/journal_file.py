"""The file of a journal in SQLite: its connections, and what its errors mean in plain words."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from typing import Any
from weakref import WeakSet

import aiosqlite
from sqlalchemy.exc import DisconnectionError

from core.observability.logs import get_logger
from core.storage import connections

_log = get_logger(__name__)

# How long a statement waits for the lock of another process.
BUSY_TIMEOUT_MS = 5000
# How often, and after how many seconds each time, `close` looks whether all connections have ended.
CLOSE_POLLS = 1000
CLOSE_POLL_S = 0.005
DAMAGED_HINT = "Restore a backup of the file, or move it away: the next start then makes a new one"
DELETED_HINT = "it was deleted while it was in use. Put it back, or restart KIMAs, which then makes a new one"
ACCESS_HINT = "Check that the account that runs KIMAs may write to the file and its folder"
LIMIT_HINT = "Raise the limit of open files (ulimit -n, LimitNOFILE=)"
SPACE_HINT = "Free some space"
_IDENTITY = "kimas.file"
_DAMAGE = ("malformed", "not a database", "decode", "no such column", "no such table")


class JournalFile:
    """Connects to one file. The first connection may make it; after that a missing file is an error.

    SQLite would write on into a file that was deleted, so that everything is lost when the process ends, or make an
    empty one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._may_create = True
        self._identity: tuple[int, int] | None = None
        self._threads: WeakSet[threading.Thread] = WeakSet()

    async def connect(self) -> aiosqlite.Connection:
        """Open the file. The thread of aiosqlite continues for a cancelled caller, although the event loop may end."""
        mode = "rwc" if self._may_create else "rw"
        connection = connections.connect(self._path, mode)
        # As SQLAlchemy does: a connection that is forgotten must not keep the process.
        connection._thread.daemon = True
        self._threads.add(connection._thread)
        opening = asyncio.ensure_future(connection)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.gather(opening, return_exceptions=True)
            await connection.close()
            raise

    async def close(self) -> None:
        """Wait for the ends of connections that the pool let go: they need the event loop, and nobody else waits."""
        for _ in range(CLOSE_POLLS):
            if not any(thread.is_alive() for thread in self._threads):
                break
            await asyncio.sleep(CLOSE_POLL_S)

    def prepare(self, connection: Any, record: Any) -> None:
        """Set up a new connection, and remember which file it is to."""
        cursor = connection.cursor()
        # FULL: an update is acknowledged to the platform once it is stored, so it must survive a power cut.
        # Removed data must not stay readable in the file's free space.
        for pragma in ("journal_mode=WAL", "synchronous=FULL", f"busy_timeout={BUSY_TIMEOUT_MS}", "secure_delete=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()
        record.info[_IDENTITY] = self._identity = self._identify()
        self._may_create = False

    def check(self, _connection: Any, record: Any, _proxy: Any) -> None:
        """Let a connection go that is to another file than the one that has the name now: the pool opens a new one."""
        identity = self._identify()
        if record.info.get(_IDENTITY) == identity:
            return
        if identity and identity != self._identity:
            self._identity = identity
            _log.warning("journal.replaced", path=str(self._path))
        raise DisconnectionError

    def explain(self, cause: str) -> str:
        """Return what SQLite says with the way out."""
        if any(words in cause for words in _DAMAGE):
            return f"{cause}. {DAMAGED_HINT}"
        if "unable to open" in cause:
            return self._find_reason(cause)
        if "readonly" in cause:
            return f"{cause}. {ACCESS_HINT}"
        return f"{cause}. {SPACE_HINT}" if "is full" in cause else cause

    def _identify(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _find_reason(self, cause: str) -> str:
        """Return why the file cannot be opened: SQLite does not say."""
        try:
            os.close(os.open(self._path, os.O_RDWR))
        except FileNotFoundError as error:
            return f"{error.strerror}. {ACCESS_HINT}" if self._may_create else DELETED_HINT
        except OSError as error:
            hint = LIMIT_HINT if error.errno in (errno.EMFILE, errno.ENFILE) else ACCESS_HINT
            return f"{error.strerror}. {hint}"
        return f"{cause}. {ACCESS_HINT}"
