"""One writer for a clone at a time, among the tasks of a process and among processes. Waiting holds up nobody else."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_PAUSE_S = 0.05


class Taken(Exception):
    """Somebody else kept the lock for as long as was waited."""


@asynccontextmanager
async def locked(file: Path, patience_s: float) -> AsyncIterator[None]:
    """Hold the lock of a file, which is made where it is missing. Raises `Taken`, or `OSError` where it cannot be made.

    It goes with the process. Who holds it may delete the file.
    """
    descriptor = await _acquired(file, patience_s)
    try:
        yield
    finally:
        unlock(descriptor)


async def _acquired(file: Path, patience_s: float) -> int:
    ends = asyncio.get_running_loop().time() + patience_s
    while True:
        descriptor = try_lock(file)
        if descriptor is not None:
            return descriptor
        if asyncio.get_running_loop().time() >= ends:
            raise Taken
        await asyncio.sleep(_PAUSE_S)


def try_lock(file: Path) -> int | None:
    """Take the lock of a file if it is free, without waiting; give the result to `unlock`. Raises `OSError`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it may have deleted the file: then a newer one by this name is the lock.
        if file.exists() and os.fstat(descriptor).st_ino == file.stat().st_ino:
            return descriptor
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def unlock(descriptor: int) -> None:
    """Give a lock back."""
    os.close(descriptor)
