"""Processes that read documents, as forks of one that has loaded the formats: `python -m tests.support.parser_forks`.

Loading the formats takes a fifth of a second, and many tests need such a process for one short document. A fork is
confined by the same code, and ends with who asked for it. The tests of these processes start them as the daemon does.
Like what it is forked for, this module imports next to nothing of the daemon.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import time
from typing import NoReturn

import knowledge.formats
from knowledge.parsing import worker
from tests.support.forking import serve

# What is given to such processes to do, besides the formats.
MODULES = (
    "knowledge.chunking",
    "knowledge.sources.feed.parsing",
    "knowledge.sources.forge.items",
    "knowledge.sources.website.sitemaps",
)


def main() -> None:
    """Load what is given to such processes, and fork one per connection to the socket of the first argument."""
    gc.disable()
    formats = pkgutil.walk_packages(knowledge.formats.__path__, f"{knowledge.formats.__name__}.")
    for name in (*(module.name for module in formats), *MODULES):
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    # The system collects those that have ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve(socket.socket(fileno=int(sys.argv[1])), look_after)


def look_after(connection: socket.socket) -> NoReturn:
    """Start one process; report its id, and its exit code when it has ended. It ends with the connection."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
    with connection.makefile("r", encoding="utf-8") as lines:
        request = json.loads(lines.readline())
    pid = os.fork()
    if not pid:
        connection.close()
        work(descriptors, **request)
    for descriptor in descriptors:
        os.close(descriptor)
    process = os.pidfd_open(pid)
    connection.sendall(f"{pid}\n".encode())
    ended, _, _ = select.select([process, connection], [], [])
    if process in ended:
        _, status = os.waitpid(pid, 0)
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def work(descriptors: list[int], limits: list[int], environment: dict[str, str]) -> NoReturn:
    """Do what `python -m knowledge.parsing.worker` does, and end."""
    for target, descriptor in enumerate((*descriptors, os.open(os.devnull, os.O_WRONLY))):
        os.dup2(descriptor, target)
    os.closerange(3, 1 << 16)
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.path[:] = environment["PYTHONPATH"].split(os.pathsep)
    sys.argv = [str(worker.__file__), *map(str, limits), str(os.getppid())]
    code: object = 1
    try:
        worker.main()
        code = 0
    except SystemExit as error:
        code = error.code
    finally:
        os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    main()
