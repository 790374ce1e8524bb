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
from core.observability.logs import logger

REFRESH_LOCK = "refresh.lock"
DAEMON_LOCK = "daemon.lock"
PLAY_LOCK = "group.lock"
SOURCE_LOCKS = "locks"
WRITING_LOCK = "writing.lock"
GOES = "the lock goes with the process, the file may stay"
# Another refresh that begins holds `refresh.lock` for a moment; who holds it for longer keeps it.
PASS_S = 1.0
# Who looks whether a source is being refreshed holds its lock for an instant; whoever refreshes keeps it.
LOOK_S = 0.1
POLL_S = 0.02
# A batch takes seconds to write; waiting any longer is told.
TOLD_AFTER_S = 10.0


def make_data_dir(data_dir: Path) -> None:
    """Make the data directory unless it is there. Raises `StoreError` when it cannot be one."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise StoreError(
            f"data_dir {data_dir} cannot be used: {fault.strerror or fault}: {fault.filename}; "
            "choose a folder that you may write to"
        ) from fault


@contextmanager
def refresh_lock(data_dir: Path) -> Iterator[None]:
    """Hold the right to change all knowledge in a data directory: no source is refreshed meanwhile.

    Raises `StoreLocked` when another process refreshes a source or holds this lock.
    """
    with _held(data_dir / REFRESH_LOCK, _whole_taken(data_dir, data_dir / REFRESH_LOCK)):
        for path in sorted((data_dir / SOURCE_LOCKS).glob("*.lock")):
            with _held(path, _whole_taken(data_dir, path)):
                pass
        yield


@asynccontextmanager
async def source_lock(data_dir: Path, source: str) -> AsyncIterator[None]:
    """Hold the right to refresh one source. Raises `StoreLocked` when another process has it, or `refresh_lock`."""
    path = data_dir / SOURCE_LOCKS / f"{source}.lock"
    taken = f"another process is refreshing source {source} and holds {path}; wait for it or stop it ({GOES})"
    passing = await _soon(data_dir / REFRESH_LOCK, _whole_taken(data_dir, data_dir / REFRESH_LOCK), PASS_S)
    try:
        own = await _soon(path, taken, LOOK_S)
    finally:
        passing.release()
    try:
        yield
    finally:
        own.release()


def being_refreshed(data_dir: Path, source: str) -> bool:
    """Say whether any process, this one too, holds the lock of a source."""
    path = data_dir / SOURCE_LOCKS / f"{source}.lock"
    if not path.exists():
        return False
    try:
        with _held(path, ""):
            return False
    except StoreLocked:
        return True


@asynccontextmanager
async def writing_lock(data_dir: Path) -> AsyncIterator[None]:
    """Hold the right to write passages, after whoever has it: writes are short, and one at a time in all processes."""
    path = data_dir / WRITING_LOCK
    began, told = time.monotonic(), False
    while True:
        try:
            lock = _acquired(path, "")
            break
        except StoreLocked:
            if not told and time.monotonic() - began > TOLD_AFTER_S:
                logger(__name__).warning("store.waiting", lock=str(path), reason="another process is writing passages")
                told = True
        await asyncio.sleep(POLL_S)
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
    taken = (
        f"another `kimas run` answers from {data_dir} and holds {path}; stop it, or give this one its own data_dir "
        f"({GOES})"
    )
    with _held(path, taken):
        yield


@contextmanager
def play_lock(folder: Path) -> Iterator[None]:
    """Hold the right to play a group in a folder. Raises `StoreLocked` when somebody else plays there."""
    path = folder / PLAY_LOCK
    taken = f"another `kimas chat --group` is at {folder} and holds {path}; end it, or name another folder ({GOES})"
    with _held(path, taken):
        yield


@contextmanager
def _held(path: Path, taken: str) -> Iterator[None]:
    lock = _acquired(path, taken)
    try:
        yield
    finally:
        lock.release()


async def _soon(path: Path, taken: str, patience_s: float) -> FileLock:
    give_up = time.monotonic() + patience_s
    while True:
        try:
            return _acquired(path, taken)
        except StoreLocked:
            if time.monotonic() > give_up:
                raise
        await asyncio.sleep(POLL_S)


def _acquired(path: Path, taken: str) -> FileLock:
    make_data_dir(path.parent)
    lock = FileLock(path, blocking=False)
    try:
        lock.acquire()
    except Timeout as fault:
        raise StoreLocked(taken) from fault
    except OSError as fault:
        raise StoreError(
            f"the lock file {path} cannot be used: {fault}; check the folder and its permissions"
        ) from fault
    return lock


def _whole_taken(data_dir: Path, path: Path) -> str:
    return (
        f"another process is refreshing the knowledge in {data_dir} and holds {path}; wait for it or stop it ({GOES})"
    )
