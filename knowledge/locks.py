"""Who may work in a data directory: one daemon, and one refresh at a time. The one module that imports `filelock`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from core.errors import StoreError, StoreLocked

REFRESH_LOCK = "refresh.lock"
DAEMON_LOCK = "daemon.lock"
GOES = "the lock goes with the process, the file may stay"


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
    """Hold the right to refresh the knowledge in a data directory. Raises `StoreLocked` when another process has it."""
    path = data_dir / REFRESH_LOCK
    taken = (
        f"another process is refreshing the knowledge in {data_dir} and holds {path}; wait for it or stop it ({GOES})"
    )
    with _held(path, taken):
        yield


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
def _held(path: Path, taken: str) -> Iterator[None]:
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
    try:
        yield
    finally:
        lock.release()
