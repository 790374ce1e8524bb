"""`kimas`, or code that uses its modules, as a process of its own, without the seconds of its imports.

With `pytest -n` a server (`fork_server.py`) has all loaded and forks it for each start, with the arguments, the folder,
the environment and the files of its caller. Such a process is like any other: it has an id of its own, and a kill ends
it. Without `-n` nothing is served, and tests start an interpreter.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODULE = "bots.cli.main"
# Where the workers of a run find the socket of the server: nowhere, if there is none.
ADDRESS = "KIMAS_TEST_FORK_SERVER"
# What is behind that in the address of the server of workers.
WORKERS = "-workers"
# And in that of the server of processes that read documents (`parser_forks.py`).
PARSERS = "-parsers"
SERVERS = pytest.StashKey[list[subprocess.Popen[bytes]]]()


def are_served() -> bool:
    """Return whether forks are to be had."""
    return ADDRESS in os.environ


def start_server(config: pytest.Config) -> None:
    """Start the servers, in the process that starts the workers. Until one has loaded everything, connections wait."""
    if not getattr(config.option, "numprocesses", None) or config.option.collectonly or hasattr(config, "workerinput"):
        return
    address = str(Path(tempfile.mkdtemp(prefix="kimas-forks-")) / "socket")
    with ExitStack() as stack:
        listeners = {}
        for name in ("", WORKERS, PARSERS):
            listeners[name] = stack.enter_context(socket.socket(socket.AF_UNIX))
            listeners[name].bind(address + name)
            listeners[name].listen(100)
        os.environ[ADDRESS] = address
        config.stash[SERVERS] = [
            _start_server(
                ["-W", "error", "-m", "tests.support.fork_server"], [listeners[""], listeners[WORKERS]], config.args
            ),
            _start_server(["-B", "-W", "ignore", "-m", "tests.support.parser_forks"], [listeners[PARSERS]]),
        ]


def _start_server(
    command: Sequence[str], listeners: Sequence[socket.socket], arguments: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    descriptors = [listener.fileno() for listener in listeners]
    return subprocess.Popen(
        [sys.executable, *command, *map(str, descriptors), *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        pass_fds=descriptors,
    )


def fork_workers(specs: Sequence[Any]) -> None:
    """Let the workers of pytest-xdist, by what describes them, be forks."""
    for spec in specs:
        spec.python = shlex.join([sys.executable, "-E", "-S", str(Path(__file__).with_name("fork_worker.py"))])


def stop_server(config: pytest.Config) -> None:
    """End the servers, if this process has started them."""
    servers = config.stash.get(SERVERS, [])
    for server in servers:
        server.terminate()
        server.wait()
    if servers:
        shutil.rmtree(Path(os.environ.pop(ADDRESS)).parent)


class ForkedProcess:
    """A process that was forked for this one. It has what tests use of `asyncio.subprocess.Process`."""

    stdin: asyncio.StreamWriter | None = None
    stdout: asyncio.StreamReader | None = None

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

    async def communicate(self, data: bytes = b"") -> tuple[bytes, None]:
        """Write to the pipe that is its input and close it; return all output, when the process has ended."""
        assert self.stdout is not None
        if self.stdin is not None:
            with suppress(ConnectionError):
                self.stdin.write(data)
                await self.stdin.drain()
            self.stdin.close()
        output = await self.stdout.read()
        await self.wait()
        return output, None

    async def _end(self) -> int:
        code = int(await self._reader.readline())
        self._writer.close()
        if self.stdin is not None:
            self.stdin.close()
        # As in asyncio, a process has ended when its pipes have.
        while self.stdout is not None and not self.stdout._eof:  # type: ignore[attr-defined]
            await asyncio.sleep(0.001)
        self.returncode = code
        return code


class BlockingProcess:
    """A process that was forked for this one. It has what tests without an event loop use of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket) -> None:
        self.returncode: int | None = None
        self._connection = connection
        self._lines = connection.makefile("r")
        self.pid = int(self._lines.readline())

    def kill(self) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float) -> int:
        """Wait so many seconds at most until the process has ended, and return its exit code. Raises `TimeoutError`."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            self.returncode = int(self._lines.readline())
            self._lines.close()
            self._connection.close()
        return self.returncode


def start_at_terminal(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], terminal: int
) -> BlockingProcess:
    """Start `kimas` at a terminal, which becomes the one that controls it."""
    return BlockingProcess(_request(arguments, folder, environment, [terminal] * 3, is_terminal=True))


async def start(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    *,
    is_terminal: bool = False,
    code: str = "",
) -> ForkedProcess:
    """Start `kimas`, or Python code, with these files as its input, output and errors.

    A terminal becomes the one that controls it.
    """
    connection = _request(arguments, folder, environment, descriptors, is_terminal, code)
    reader, writer = await asyncio.open_connection(sock=connection)
    return ForkedProcess(int(await reader.readline()), reader, writer)


async def start_program(path: Path, environment: Mapping[str, str]) -> asyncio.subprocess.Process | ForkedProcess:
    """Start a Python program, with a pipe as its output."""
    code = f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
    return await start_piped(code, environment=environment)


async def start_piped(
    code: str,
    *arguments: str,
    stdin: int = PIPE,
    stderr: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> asyncio.subprocess.Process | ForkedProcess:
    """Start Python code, or `kimas` without any, with pipes as its output and its input."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    if not are_served():
        command = [sys.executable, "-W", "error", *(("-c", code) if code else ("-m", MODULE))]
        return await asyncio.create_subprocess_exec(
            *command, *arguments, cwd=ROOT, env=variables, stdin=stdin, stdout=PIPE, stderr=stderr
        )
    child_input, our_output = os.pipe() if stdin == PIPE else (os.dup(stdin), None)
    our_input, child_output = os.pipe()
    descriptors = [child_input, child_output, 2 if stderr is None else stderr]
    process = await start(arguments, ROOT, variables, descriptors, code=code)
    os.close(child_input)
    os.close(child_output)
    await _connect_pipes(process, our_input, our_output)
    return process


async def start_parser(address: str, request: Mapping[str, object]) -> ForkedProcess:
    """Start a process that reads documents (`parser_forks.py`), with pipes as its output and its input."""
    child_input, our_output = os.pipe()
    our_input, child_output = os.pipe()
    reader, writer = await asyncio.open_connection(sock=_send(address, request, [child_input, child_output]))
    os.close(child_input)
    os.close(child_output)
    process = ForkedProcess(int(await reader.readline()), reader, writer)
    await _connect_pipes(process, our_input, our_output)
    return process


async def _connect_pipes(process: ForkedProcess, our_input: int, our_output: int | None) -> None:
    loop = asyncio.get_running_loop()
    process.stdout = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(process.stdout)
    await loop.connect_read_pipe(lambda: protocol, os.fdopen(our_input, "rb", buffering=0))
    if our_output is not None:
        pipe = os.fdopen(our_output, "wb", buffering=0)
        transport, flow = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, pipe)
        process.stdin = asyncio.StreamWriter(transport, flow, None, loop)


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
    code: str = "",
) -> socket.socket:
    request = {
        "arguments": list(arguments),
        "folder": str(folder),
        "environment": dict(environment),
        "is_terminal": is_terminal,
        "code": code,
    }
    return _send(os.environ[ADDRESS], request, descriptors)


def _send(address: str, request: Mapping[str, object], descriptors: Sequence[int]) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [b"."], list(descriptors))
    connection.sendall(json.dumps(request).encode() + b"\n")
    return connection
