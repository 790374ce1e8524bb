"""How the process shares processors and memory: threads, priorities, garbage collection, the C library."""

from __future__ import annotations

import gc
import os
import sys
import threading

# How long a thread may keep the interpreter from the event loop, seconds: a fifth of Python's default. With 200
# conversations at once, an answer took 31 ms of processor time instead of 41, and the longest stall was shorter by a
# third.
THREAD_SWITCH_INTERVAL_S = 0.001
# What embeds, and what reads documents.
THREAD_NICENESS = 10
PROCESS_NICENESS = 5


def limit_blas_threads() -> None:
    """Let NumPy compute in the thread that calls it, unless the environment says otherwise; call before it is loaded.

    Our matrix products are small, and threads that wait by spinning slow everything else.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def tune_interpreter() -> None:
    """Let threads yield to the event loop often, and exempt what is loaded from garbage collection, which begins."""
    sys.setswitchinterval(THREAD_SWITCH_INTERVAL_S)
    gc.freeze()
    gc.enable()


def freeze_loaded() -> None:
    """Exempt what is loaded from garbage collection: looking at it would block the event loop for some 60 ms."""
    gc.collect()
    gc.freeze()


def lower_thread_priority() -> None:
    """Lower the priority of this thread and of those it starts, where the system has priorities by thread.

    The event loop must run at once. Without this, a few texts being embedded on few processors stopped every
    conversation for tens of milliseconds.
    """
    if sys.platform == "linux":
        thread_id = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread_id, max(THREAD_NICENESS, os.getpriority(os.PRIO_PROCESS, thread_id)))


def lower_process_priority() -> None:
    """Lower the priority of this process, which works for no conversation."""
    os.nice(PROCESS_NICENESS)


def trim_memory() -> None:
    """Return memory that the C library keeps for later to the system, after a load. Takes milliseconds; only glibc."""
    import ctypes

    if malloc_trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        malloc_trim(0)
