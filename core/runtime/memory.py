"""How the C library keeps freed memory: less of it, and nothing of a load that is over. Only glibc has these calls."""

from __future__ import annotations

import ctypes

# By default glibc makes up to eight arenas per processor, and each keeps its freed memory.
_M_ARENA_MAX = -8
_MAX_ARENAS = 2
# By itself glibc soon keeps freed pieces of up to 32 MB for later.
_M_MMAP_THRESHOLD = -3
_MMAP_THRESHOLD_BYTES = 4 << 20


def limit_kept_memory() -> None:
    """Let the C library keep less freed memory, from now on."""
    _call_libc("mallopt", _M_ARENA_MAX, _MAX_ARENAS)
    _call_libc("mallopt", _M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)


def trim_memory() -> None:
    """Return freed memory to the system. Takes milliseconds."""
    _call_libc("malloc_trim", 0)


def _call_libc(function: str, *arguments: int) -> None:
    libc_function = getattr(ctypes.CDLL(None), function, None)
    if libc_function:
        libc_function(*arguments)
