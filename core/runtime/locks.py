"""Who may work in a data directory: one daemon, one refresh of a source at a time, one writer of the passages.

The one module that imports `filelock`. A refresh passes `refresh.lock` and holds the lock of its source; who needs all
of the store for itself holds `refresh.lock`, so that no refresh begins, and finds no source's lock held.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from core.errors import StoreError, StoreLocked
from core.observability.logs import get_logger

REFRESH_LOCK = "refresh.lock"
DAEMON_LOCK = "daemon.lock"
GROUP_LOCK = "group.lock"
SOURCE_LOCKS = "locks"
WRITING_LOCK = "writing.lock"
STALE_LOCK_HINT = "the lock goes with the process, the file may stay"
# Another refresh that begins holds `refresh.lock` for a moment; who holds it for longer keeps it.
REFRESH_LOCK_TIMEOUT_S = 1.0
# Who looks whether a source is being refreshed holds its lock for an instant; whoever refreshes keeps it.
SOURCE_LOCK_TIMEOUT_S = 0.1
POLL_INTERVAL_S = 0.02
# A batch takes seconds to write; waiting any longer is told.
WARN_AFTER_S = 10.0


def make_data_dir(data_dir: Path) -> None:
    """Make the data directory unless it is there. Raises `StoreError` when it cannot be one."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"data_dir {data_dir} cannot be used: {error.strerror or error}: {error.filename}; "
            "choose a folder that you may write to"
        ) from error


@contextmanager
def refresh_lock(data_dir: Path) -> Iterator[None]:
    """Hold the right to change all knowledge in a data directory: no source is refreshed meanwhile.

    Raises `StoreLocked` when another process refreshes a source or holds this lock.
    """
    with _hold(data_dir / REFRESH_LOCK, _refresh_locked_message(data_dir, data_dir / REFRESH_LOCK)):
        for path in sorted((data_dir / SOURCE_LOCKS).glob("*.lock")):
            with _hold(path, _refresh_locked_message(data_dir, path)):
                pass
        yield


@asynccontextmanager
async def source_lock(data_dir: Path, source: str) -> AsyncIterator[None]:
    """Hold the right to refresh one source. Raises `StoreLocked` when another process has it, or `refresh_lock`."""
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
    """Say whether any process, this one too, holds the lock of a source."""
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
    """Hold the right to write passages, after whoever has it: writes are short, and one at a time in all processes."""
    path = data_dir / WRITING_LOCK
    started_at, has_warned = time.monotonic(), False
    while True:
        try:
            lock = _try_acquire(path, "")
            break
        except StoreLocked:
            if not has_warned and time.monotonic() - started_at > WARN_AFTER_S:
                get_logger(__name__).warning(
                    "store.waiting", lock=str(path), reason="another process is writing passages"
                )
                has_warned = True
        await asyncio.sleep(POLL_INTERVAL_S)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def daemon_lock(data_dir: Path) -> Iterator[None]:
    """Hold the right to answer from a data directory and its journal. Raises `StoreLocked` when another daemon has it.

    Two daemons on one journal would both take up what is pending there, and answer it twice.
    """
    path = data_dir / DAEMON_LOCK
    message = (
        f"another `kimas run` answers from {data_dir} and holds {path}; stop it, or give this one its own data_dir "
        f"({STALE_LOCK_HINT})"
    )
    with _hold(path, message):
        yield


@contextmanager
def group_lock(folder: Path) -> Iterator[None]:
    """Hold the right to play a group in a folder. Raises `StoreLocked` when somebody else plays there."""
    path = folder / GROUP_LOCK
    message = (
        f"another `kimas chat --group` is at {folder} and holds {path}; end it, or name another "
        f"folder ({STALE_LOCK_HINT})"
    )
    with _hold(path, message):
        yield


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
    """Take the lock of a file if it is free, without waiting, and return it; `release` gives it back.

    The file is made where it is missing. The lock goes with the process, and whoever holds it may delete the file.
    Raises `OSError` where the file cannot be made.
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
    """Hold the lock of a file, for which it waits at most `timeout_s`. Raises `TimeoutError` and `OSError`."""
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
    """Return a context manager that holds the lock of a file, however long that takes. For worker threads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path, mode=0o600)


def _refresh_locked_message(data_dir: Path, path: Path) -> str:
    return (
        f"another process is refreshing the knowledge in {data_dir} and holds {path}; wait for it or "
        f"stop it ({STALE_LOCK_HINT})"
    )
