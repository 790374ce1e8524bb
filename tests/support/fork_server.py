"""Forks of a process that has loaded `kimas`: `python -m tests.support.fork_server DESCRIPTOR DESCRIPTOR TESTS...`.

The descriptors are listening sockets. Each connection to one is one start of `kimas`: it passes the files for input,
output and errors, and a line with the rest as JSON; it gets the id of the process, and its exit code when it has ended.
Who connects to the second one is a worker, and gets a fork that has loaded the tests as well. The server ends with the
process that has started it.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import sys
import termios
import threading
import traceback
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from functools import partial
from types import FrameType
from typing import IO, NoReturn

# As the command line does, before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest

import bots
import core
import knowledge
from core.llm.client import OpenAIClient
from tests.support.embedding_model import copy_converted_model
from tests.support.forked_parsers import fork_parsers
from tests.support.forking import serve

MODULE = "bots.cli.main"


def main() -> None:
    listener, worker_listener = (socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[1:3])
    # Looking for garbage while all is loaded takes a fifth of the time, and what was loaded stays.
    gc.disable()
    load()
    gc.freeze()
    gc.enable()
    worker_server = os.fork()
    if not worker_server:
        listener.close()
        load_tests(sys.argv[3:])
        signal.signal(signal.SIGCHLD, _reap)
        serve(worker_listener, _handle)
    worker_listener.close()
    signal.signal(signal.SIGTERM, partial(_end, worker_server))
    signal.signal(signal.SIGCHLD, _reap)
    serve(listener, _handle)


def load() -> None:
    """Load all modules, and what a daemon loads when it starts."""
    from bots.discord.adapter import load_client as load_discord
    from bots.slack.adapter import _load_client as load_slack
    from bots.telegram.adapter import load_client as load_telegram
    from core.language.courtesies import find_courtesy
    from core.language.glossary import prepare_glossary
    from core.language.spelling import prepare_english_words
    from knowledge.stores.weaviate.client import _import_weaviate as load_weaviate

    load_telegram()
    load_discord()
    load_slack()
    load_weaviate()
    find_courtesy("thanks")
    for package in (bots, core, knowledge):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            # Alembic runs its modules by itself.
            if ".migrations." not in module.name:
                importlib.import_module(module.name)
    # The client of the example of a bridge to Matrix.
    importlib.import_module("nio")
    for task in (load_model_client(), prepare_english_words(), prepare_glossary("字")):
        asyncio.run(task)


def load_tests(places: Sequence[str]) -> None:
    """Load the modules of tests as pytest does, but not the tests in them: each worker collects these anew."""
    # What cannot be loaded, the workers report.
    with redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-p", "no:cacheprovider", *places], plugins=[_NoTests()])
    # After the plugin of pytest, which rewrites it.
    from hypothesis.internal.conjecture.providers import _get_local_constants

    # Or else each worker reads the constants of all that is loaded: two seconds, where hypothesis has not kept them.
    _get_local_constants()


class _NoTests:
    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self) -> list[pytest.Item]:
        return []


async def load_model_client() -> None:
    """Load the package of the model's client: on a busy machine that takes longer than a stage of an answer."""
    endpoint = OpenAIClient.open("http://127.0.0.1:9/v1", "", 1)
    await endpoint.warm_up()
    await endpoint.close()


def _end(worker_server: int, number: int, frame: FrameType | None) -> NoReturn:
    """End with the server of workers: who waits for this process learns what processor time both took."""
    with suppress(OSError):
        os.kill(worker_server, signal.SIGTERM)
        os.waitpid(worker_server, 0)
    os._exit(0)


def _reap(number: int, frame: FrameType | None) -> None:
    """Collect the exit codes of the processes that looked after a connection."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _handle(connection: socket.socket) -> NoReturn:
    """Start one `kimas`; report its process id, and its exit code when it has ended."""
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("r", encoding="utf-8") as lines:
        request = json.loads(lines.readline())
    pid = os.fork()
    if not pid:
        connection.close()
        _run(descriptors, **request)
    for descriptor in descriptors:
        os.close(descriptor)
    with suppress(OSError):
        connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _run(
    descriptors: Sequence[int],
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    is_terminal: bool,
    code: str,
) -> NoReturn:
    """Run the command line, or code, in this process, as `python -W error` would, and end with its exit code."""
    exit_code: object = 1
    try:
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
        os.closerange(3, 1 << 16)
        if is_terminal:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(folder)
        fork_parsers(pytest.MonkeyPatch())
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdin = _open_stream(0)
        sys.stdout = _open_stream(1)
        sys.stderr = _open_stream(2)
        copy_converted_model(pytest.MonkeyPatch())
        if code:
            sys.argv = ["-c", *arguments]
            exec(code, {"__name__": "__main__"})  # noqa: S102 (the code of a test)
        else:
            from bots.cli.main import main

            sys.argv = [str(sys.modules[MODULE].__file__), *arguments]
            main(arguments, prog_name=f"python -m {MODULE}")
        exit_code = 0
    except SystemExit as error:
        exit_code = error.code
    except BaseException:
        traceback.print_exc()
    if isinstance(exit_code, str):
        print(exit_code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code if isinstance(exit_code, int) else 1 if exit_code else 0)


def _open_stream(descriptor: int) -> IO[str]:
    mode = "w" if descriptor else "r"
    errors = "backslashreplace" if descriptor == 2 else "strict"
    is_by_line = descriptor == 2 or os.isatty(descriptor)
    return open(descriptor, mode, buffering=1 if is_by_line else -1, encoding="utf-8", errors=errors, closefd=False)


if __name__ == "__main__":
    main()
