"""Locks of a data directory: one daemon, one refresh per source, one writer of passages.

The only module that imports `filelock`. A refresh takes `refresh.lock` for a moment, then holds the lock of its source.
Exclusive access to the store holds `refresh.lock`, so that no refresh starts, and requires every source's lock to be
free.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from core.errors import StoreError, StoreLocked
from core.observability.logs import get_logger
from core.runtime.data_dir import make_data_dir

_log = get_logger(__name__)

REFRESH_LOCK = "refresh.lock"
DAEMON_LOCK = "daemon.lock"
GROUP_LOCK = "group.lock"
SOURCE_LOCKS = "locks"
WRITING_LOCK = "writing.lock"
STALE_LOCK_HINT = "the lock ends with the process; the file may stay"
# A refresh that starts holds `refresh.lock` for a moment; exclusive access holds it for longer.
REFRESH_LOCK_TIMEOUT_S = 1.0
# `is_refreshing` holds the lock of a source for an instant; a refresh keeps it.
SOURCE_LOCK_TIMEOUT_S = 0.1
POLL_INTERVAL_S = 0.02
# Writing a batch takes seconds; a longer wait is logged.
WARN_AFTER_S = 10.0


@contextmanager
def refresh_lock(data_dir: Path) -> Iterator[None]:
    """Hold the lock on all knowledge in a data directory: no source is refreshed meanwhile.

    Raises `StoreLocked` when another process refreshes a source or holds this lock.
    """
    with _hold(data_dir / REFRESH_LOCK, _refresh_locked_message(data_dir, data_dir / REFRESH_LOCK)):
        for path in sorted((data_dir / SOURCE_LOCKS).glob("*.lock")):
            with _hold(path, _refresh_locked_message(data_dir, path)):
                pass
        yield


@asynccontextmanager
async def source_lock(data_dir: Path, source: str) -> AsyncIterator[None]:
    """Hold the lock of one source for its refresh. Raises `StoreLocked` when another process has it."""
    path = data_dir / SOURCE_LOCKS / f"{source}.lock"
    message = (
        f"another process is refreshing source {source} and holds {path}; wait for it or stop it ({STALE_LOCK_HINT})"
    )
    gate = await _acquire_with_timeout(
        data_dir / REFRESH_LOCK, _refresh_locked_message(data_dir, data_dir / REFRESH_LOCK), REFRESH_LOCK_TIMEOUT_S
    )
    try:
        lock = await _acquire_with_timeout(path, message, SOURCE_LOCK_TIMEOUT_S)
    finally:
        gate.release()
    try:
        yield
    finally:
        lock.release()


def is_refreshing(data_dir: Path, source: str) -> bool:
    """Return whether any process, including this one, holds the lock of a source."""
    path = data_dir / SOURCE_LOCKS / f"{source}.lock"
    if not path.exists():
        return False
    try:
        with _hold(path, ""):
            return False
    except StoreLocked:
        return True


@asynccontextmanager
async def writing_lock(data_dir: Path) -> AsyncIterator[None]:
    """Wait for the lock on writing passages and hold it: across processes there is one short write at a time."""
    path = data_dir / WRITING_LOCK
    try:
        lock = await _acquire_with_timeout(path, "", WARN_AFTER_S)
    except StoreLocked:
        reason = "another process is writing passages"
        _log.warning("store.waiting", lock=str(path), reason=reason)
        lock = await _acquire_with_timeout(path, "", math.inf)
    try:
        yield
    finally:
        lock.release()


def daemon_lock(data_dir: Path) -> AbstractContextManager[None]:
    """Hold the daemon's lock on a data directory and its journal. Raises `StoreLocked` when another daemon has it.

    Two daemons on one journal would both recover its pending messages and answer them twice.
    """
    path = data_dir / DAEMON_LOCK
    message = (
        f"another `kimas run` answers from {data_dir} and holds {path}; stop it, or give this one its own data_dir "
        f"({STALE_LOCK_HINT})"
    )
    return _hold(path, message)


def group_lock(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a simulated group in a folder. Raises `StoreLocked` when another process has it."""
    path = folder / GROUP_LOCK
    message = (
        f"another `kimas chat --group` is at {folder} and holds {path}; end it, or name another "
        f"folder ({STALE_LOCK_HINT})"
    )
    return _hold(path, message)


@contextmanager
def _hold(path: Path, message: str) -> Iterator[None]:
    lock = _try_acquire(path, message)
    try:
        yield
    finally:
        lock.release()


async def _acquire_with_timeout(path: Path, message: str, timeout_s: float) -> FileLock:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return _try_acquire(path, message)
        except StoreLocked:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(POLL_INTERVAL_S)


def _try_acquire(path: Path, message: str) -> FileLock:
    make_data_dir(path.parent)
    try:
        lock = try_file_lock(path)
    except OSError as error:
        raise StoreError(
            f"the lock file {path} cannot be used: {error}; check the folder and its permissions"
        ) from error
    if lock is None:
        raise StoreLocked(message)
    return lock


def try_file_lock(path: Path) -> FileLock | None:
    """Return the lock of a file if it is free, without waiting, else None; `release` frees it.

    A missing file is created. The lock ends with the process, and its holder may delete the file. Raises `OSError`
    when the file cannot be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, blocking=False, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


@asynccontextmanager
async def file_lock(path: Path, timeout_s: float) -> AsyncIterator[None]:
    """Hold the lock of a file; wait for it at most `timeout_s` seconds. Raises `TimeoutError` and `OSError`."""
    deadline = time.monotonic() + timeout_s
    while (lock := try_file_lock(path)) is None:
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{path} is locked")
        await asyncio.sleep(POLL_INTERVAL_S)
    try:
        yield
    finally:
        lock.release()


def blocking_file_lock(path: Path) -> FileLock:
    """Return a context manager that waits for the lock of a file without a limit. For worker threads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path, mode=0o600)


def _refresh_locked_message(data_dir: Path, path: Path) -> str:
    return (
        f"another process is refreshing the knowledge in {data_dir} and holds {path}; wait for it or "
        f"stop it ({STALE_LOCK_HINT})"
    )
