"""`kimas` as a process of its own, without the seconds of its imports: it is forked where everything is loaded.

With `pytest --forks` a process is forked when all tests are loaded, before any of them has run; for each start of
`kimas` it forks another one, which gets the arguments, the folder, the environment and the files of its caller. It is a
process like any other: it has an id of its own, and a kill ends it. Without `--forks` nothing is served, and tests
start an interpreter.
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

import pytest
import structlog

from core.llm.client import OpenAIClient
from tests.support.embedding_model import copy_converted_model

MODULE = "bots.cli.main"
# How often the server looks whether the run is still there.
LOOK_S = 5


class Server:
    """Where forks are to be had: the address of a socket, or "" where nothing is served."""

    address = ""


@contextmanager
def serving(folder: Path) -> Iterator[None]:
    """Serve forks of this process in the block, on a socket in a folder, to all processes that are forked there."""
    load_clients()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "kimas"))
        listener.listen(100)
        pid = os.fork()
        if not pid:
            _serve(listener)
    Server.address = str(folder / "kimas")
    try:
        yield
    finally:
        Server.address = ""
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


def load_clients() -> None:
    """Load what a daemon loads, and no test module does."""
    from bots.discord.adapter import load_client as load_discord
    from bots.slack.adapter import _load_client as load_slack
    from bots.telegram.adapter import load_client as load_telegram

    load_telegram()
    load_discord()
    load_slack()
    load_model_client()


def load_model_client() -> None:
    """Load the package of the model's client: on a busy machine that takes longer than a stage of an answer."""

    async def load() -> None:
        endpoint = OpenAIClient.open("http://127.0.0.1:9/v1", "", 1)
        await endpoint.warm_up()
        await endpoint.close()

    # Beside the tests: their own event loop is none of its business.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, load()).result()


def _serve(listener: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, _reap)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    listener.settimeout(LOOK_S)
    while os.getppid() == parent:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            continue
        if not os.fork():
            listener.close()
            try:
                _attend(connection)
            finally:
                # Whatever happens, nobody but the server goes on behind this line.
                os._exit(1)
        connection.close()
    os._exit(0)


def _reap(number: int, frame: FrameType | None) -> None:
    """Take leave of those who wait for a fork; their processor time is counted as ours."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _attend(connection: socket.socket) -> NoReturn:
    """Fork one process, say its id, and how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("r", encoding="utf-8") as lines:
        request = json.loads(lines.readline())
    pid = os.fork()
    if not pid:
        connection.close()
        _become(descriptors, **request)
    with suppress(OSError):
        connection.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(
    descriptors: Sequence[int], arguments: list[str], folder: str, environment: dict[str, str], is_terminal: bool
) -> NoReturn:
    """Be what `python -W error -m bots.cli.main` with these arguments would be."""
    code: object = 1
    try:
        for target, descriptor in enumerate(descriptors):
            os.dup2(descriptor, target)
        os.closerange(3, 1 << 16)
        if is_terminal:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        _forget_pytest()
        sys.stdin = _open_stream(0)
        sys.stdout = _open_stream(1)
        sys.stderr = _open_stream(2)
        sys.argv = [str(sys.modules[MODULE].__file__), *arguments]
        copy_converted_model(pytest.MonkeyPatch())
        from bots.cli.main import main

        main(arguments, prog_name=f"python -m {MODULE}")
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1 if code else 0)


def _open_stream(descriptor: int) -> IO[str]:
    mode = "w" if descriptor else "r"
    errors = "backslashreplace" if descriptor == 2 else "strict"
    is_by_line = descriptor == 2 or os.isatty(descriptor)
    return open(descriptor, mode, buffering=1 if is_by_line else -1, encoding="utf-8", errors=errors, closefd=False)


def _forget_pytest() -> None:
    """Undo what pytest has set up for its own process."""
    for number in (signal.SIGTERM, signal.SIGALRM, signal.SIGVTALRM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faulthandler.disable()
    sys.excepthook = sys.__excepthook__
    sys.unraisablehook = sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    sys.meta_path[:] = [finder for finder in sys.meta_path if "pytest" not in type(finder).__module__]
    sys.warnoptions[:] = ["error"]
    warnings.resetwarnings()
    warnings.simplefilter("error")
    logging.getLogger().handlers.clear()
    logging.getLogger().setLevel(logging.WARNING)
    structlog.reset_defaults()
    atexit._clear()
    atexit.register(logging.shutdown)


class ForkedProcess:
    """A process that was forked for this one. It has what tests use of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._reader = reader
        self._writer = writer
        self._ended = asyncio.create_task(self._end())

    async def wait(self) -> int:
        """Wait until the process has ended, and return its exit code."""
        return await asyncio.shield(self._ended)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    async def _end(self) -> int:
        self.returncode = int(await self._reader.readline())
        self._writer.close()
        return self.returncode


async def start(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    *,
    is_terminal: bool = False,
) -> ForkedProcess:
    """Start `kimas` with these files as its input, output and errors. A terminal becomes the one that controls it."""
    connection = _request(arguments, folder, environment, descriptors, is_terminal)
    reader, writer = await asyncio.open_connection(sock=connection)
    return ForkedProcess(int(await reader.readline()), reader, writer)


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str | int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `kimas` to its end, as `subprocess.run` does. Its input is a text or the descriptor of an open file."""
    with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        input_descriptor = input_file.fileno()
        if isinstance(stdin, int):
            input_descriptor = stdin
        elif stdin:
            os.pwrite(input_descriptor, stdin.encode(), 0)
        descriptors = [input_descriptor, output.fileno(), errors.fileno()]
        with _request(arguments, folder, environment, descriptors) as connection:
            connection.settimeout(600)
            with connection.makefile("r") as lines:
                _ = lines.readline()
                code = int(lines.readline())
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, code, output.read().decode(), errors.read().decode())


def _request(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    is_terminal: bool = False,
) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(Server.address)
    request = {
        "arguments": list(arguments),
        "folder": str(folder),
        "environment": dict(environment),
        "is_terminal": is_terminal,
    }
    socket.send_fds(connection, [b"."], list(descriptors))
    connection.sendall(json.dumps(request).encode() + b"\n")
    return connection
