"""LanceDB itself: imported with little time, noise and memory, and its errors in plain words."""

from __future__ import annotations

import asyncio
import ctypes
import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from pydantic import BaseModel

from core.errors import StoreError

REBUILD_HINT = "`kimas ingest --rebuild` builds it anew from the sources"
# What operating systems say of a disk, a quota or a file size limit that is reached, and of missing rights.
DISK_FULL_MARKERS = ("No space left", "File too large", "quota exceeded", "os error 28", "os error 27", "os error 122")
PERMISSION_MARKERS = ("Permission denied", "Read-only file system", "Not a directory", "File exists", "os error 13")
LIMIT_MARKERS = (
    *("Too many open files", "os error 24", "os error 23", "Resource temporarily unavailable", "os error 11"),
    *("can't start new thread", "failed to spawn thread", "Cannot allocate memory", "os error 12"),
)
REST_CLIENT = "lance_namespace_urllib3_client"
# LanceDB starts some eighty threads. With an arena each, glibc holds 150 MB more after an ingest of 10,000 passages.
M_ARENA_MAX, MAX_ARENAS = -8, 2
# By itself glibc soon keeps freed pieces of up to 32 MB for later: 150 MB after a large table was read into memory.
M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES = -3, 4 << 20


@asynccontextmanager
async def map_errors(
    store_name: str, action: str, timeout_s: float, is_loading: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """Turn LanceDB's failures into `StoreError`: it raises ValueError and RuntimeError for nearly everything.

    `action` is what was tried (opened, read, written). Taking longer than `timeout_s` is a failure as well; while
    `is_loading` says so, loading goes on.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (ValueError, RuntimeError, OSError) as error:
        if isinstance(error, TimeoutError) and is_loading():
            raise StoreError(f"{store_name} is still being read, ask again in a moment") from error
        reason = f"no answer within {timeout_s:.0f} seconds" if isinstance(error, TimeoutError) else str(error)
        raise StoreError(explain_error(store_name, action, reason)) from error


def explain_error(store_name: str, action: str, reason: str) -> str:
    """Say what happened to the store and the way out. LanceDB's reasons end in places of its own source code."""
    short_reason = reason.splitlines()[0].split(", /")[0][:300]
    if any(marker.lower() in reason.lower() for marker in DISK_FULL_MARKERS):
        return f"no space for {store_name}: free some and try again; what it held is kept ({short_reason})"
    if any(marker.lower() in reason.lower() for marker in PERMISSION_MARKERS):
        return f"{store_name} could not be {action}: check the folder and its permissions ({short_reason})"
    if any(marker.lower() in reason.lower() for marker in LIMIT_MARKERS):
        return (
            f"{store_name} could not be {action}: this process may use no more files, threads or memory; what the "
            f"store holds is kept. Raise the limit (ulimit -n, LimitNOFILE=, TasksMax=, MemoryMax=) ({short_reason})"
        )
    return f"{store_name} could not be {action}, it may be damaged: {REBUILD_HINT} ({short_reason})"


@contextmanager
def skip_rest_client() -> Iterator[None]:
    """Let the block import lancedb without executing the REST client it never uses here: 1.5 seconds instead of 3.5.

    Inside, the client's package is an unexecuted placeholder: its models are imported from it, its endpoints are not.
    Models that are defined meanwhile, a hundred of them, are completed by who uses them first: nobody uses those.
    LanceDB reads its log level from the environment once, at this moment; the user's own setting wins.
    """
    _call_libc("mallopt", M_ARENA_MAX, MAX_ARENAS)
    _call_libc("mallopt", M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
    spec = importlib.util.find_spec(REST_CLIENT) if REST_CLIENT not in sys.modules else None
    sets_log_level = "LANCEDB_LOG" not in os.environ
    if spec is not None:
        sys.modules[REST_CLIENT] = importlib.util.module_from_spec(spec)
    if sets_log_level:
        os.environ["LANCEDB_LOG"] = "error"
    BaseModel.model_config["defer_build"] = True
    try:
        yield
    finally:
        BaseModel.model_config.pop("defer_build", None)
        if spec is not None:
            sys.modules.pop(REST_CLIENT, None)
        if sets_log_level:
            os.environ.pop("LANCEDB_LOG", None)


def import_lancedb() -> None:
    """Import lancedb, once; call it in a thread, for it takes a second.

    Arrow's own allocator keeps some 40 MB more after a refresh, and takes 80 MB more during one: the C library's gives
    it back.
    """
    with skip_rest_client():
        import lancedb.index  # noqa: F401
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())


def trim_memory() -> None:
    """Return the memory of a write to the system, if the C library can: some 40 MB each time. Takes milliseconds."""
    _call_libc("malloc_trim", 0)


def _call_libc(function: str, *arguments: int) -> None:
    """Call a function of glibc's allocator; do nothing with other C libraries."""
    libc_function = getattr(ctypes.CDLL(None), function, None)
    if libc_function:
        libc_function(*arguments)
