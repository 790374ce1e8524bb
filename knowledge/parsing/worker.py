"""The worker process: runs one function after the other over foreign documents, until its input ends.

It imports what a function needs, and nothing of the daemon. The parent is trusted: requests are pickled. The worker is
not, for a document may have taken it over: replies are JSON.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import pickle
import resource
import signal
import struct
import sys
from typing import Any, BinaryIO

from core.runtime.tuning import lower_process_priority
from knowledge.parsing.limits import FormatError

REQUEST_HEADER = struct.Struct("!Q")
# The kind of a reply, and its length.
REPLY_HEADER = struct.Struct("!cQ")
RESULT = b"r"
REFUSED = b"f"
OUT_OF_MEMORY = b"m"
FAILED = b"e"
# A worker that has come to hold this share of its memory makes place for a new one.
MAX_RETAINED_SHARE = 0.5
_NEW_USER_NAMESPACE = 0x10000000
_NEW_NETWORK_NAMESPACE = 0x40000000
_SET_PARENT_DEATH_SIGNAL = 1
_SET_NO_NEW_PRIVILEGES = 38


def main() -> None:
    """Read requests from standard input, and write a reply to each, until the input ends or the memory is used up."""
    memory_bytes, cpu_s, max_output_bytes, parent = map(int, sys.argv[1:5])
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # The output of a library must not look like a reply.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _confine(memory_bytes, parent)
    while (request := _read_request(requests)) is not None:
        _allow_cpu(cpu_s)
        kind, payload = _reply(request, max_output_bytes)
        del request
        replies.write(REPLY_HEADER.pack(kind, len(payload)) + payload)
        replies.flush()
        if kind == OUT_OF_MEMORY or _data_bytes() > memory_bytes * MAX_RETAINED_SHARE:
            return


def do_nothing() -> None:
    """Reply, so that the parent sees how the system lets this process be confined."""


def _confine(memory_bytes: int, parent: int) -> None:
    """Limit memory, write no files, reach no network, and end with the parent, as far as the system can do these."""
    lower_process_priority()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # On Linux this counts what a process really asks for; elsewhere little or nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        # Where the system allows it: an own network without any interface.
        libc.unshare(_NEW_USER_NAMESPACE | _NEW_NETWORK_NAMESPACE)
        libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        # After the above, which clears it.
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(0)


def _allow_cpu(seconds: int) -> None:
    """Let the next document take so many seconds of processor time: beyond them the system ends this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(usage.ru_utime + usage.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _read_request(requests: BinaryIO) -> bytes | None:
    header = requests.read(REQUEST_HEADER.size)
    return requests.read(REQUEST_HEADER.unpack(header)[0]) if len(header) == REQUEST_HEADER.size else None


def _reply(request: bytes, max_output_bytes: int) -> tuple[bytes, bytes]:
    try:
        function, args, kwargs = pickle.loads(request)  # noqa: S301 (the parent wrote it)
        text = json.dumps(function(*args, **kwargs), default=_to_mapping, ensure_ascii=False)
    except FormatError as error:
        is_memory = isinstance(error.__cause__, MemoryError)
        return (OUT_OF_MEMORY, b"") if is_memory else (REFUSED, str(error).encode("utf-8", "replace"))
    except MemoryError:
        return OUT_OF_MEMORY, b""
    except Exception as error:
        return FAILED, type(error).__name__.encode()
    # Half of a surrogate pair, which no file can store, becomes a question mark.
    payload = text.encode("utf-8", "replace")
    if len(payload) > max_output_bytes:
        return REFUSED, f"it yields more than {max_output_bytes >> 20} MB of text".encode()
    return RESULT, payload


def _to_mapping(value: object) -> dict[str, Any]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} is not what a worker may return")


def _data_bytes() -> int:
    """Return what this process has asked for, or 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        return 0


if __name__ == "__main__":
    main()
