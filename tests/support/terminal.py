"""A real pseudo-terminal with somebody at it, who waits for questions and types."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support import forked
from tests.support.deployment import ROOT
from tests.support.forked import MODULE, ForkedProcess

# getpass asks the terminal that controls the process, so it gets one. Whoever starts us may ignore Ctrl-C: it does not.
START = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
# On a machine that has much else to do.
GRACE_S = 180
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Somebody at a terminal. `output` is what was printed so far, without colours."""

    def __init__(self, controller: int, process: asyncio.subprocess.Process | ForkedProcess) -> None:
        self.controller = controller
        self.process = process
        self.output = ""
        self._read_to = 0
        os.set_blocking(controller, False)

    async def read(self, text: str, timeout: float = GRACE_S) -> None:
        """Wait until a text stands behind what was read before."""
        async with asyncio.timeout(timeout):
            while (start := self.output.find(text, self._read_to)) < 0:
                self._drain()
                await asyncio.sleep(0.02)
        self._read_to = start + len(text)

    async def answer(self, question: str, text: str) -> None:
        """Wait for a question, and type an answer."""
        await self.read(question)
        self.type(f"{text}\n".encode())

    async def interrupt(self, question: str) -> None:
        """Wait for a question, and press Ctrl-C once."""
        await self.read(question)
        self.type(b"\x03")

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self.controller, keys)

    async def end(self, timeout: float = GRACE_S) -> int:
        """Wait until the program ends, and return its exit code."""
        async with asyncio.timeout(timeout):
            while self.process.returncode is None:
                self._drain()
                await asyncio.sleep(0.02)
        self._drain()
        return self.process.returncode

    def _drain(self) -> None:
        try:
            while data := os.read(self.controller, 65536):
                self.output += CODES.sub("", data.decode("utf-8", "replace")).replace("\r", "")
        except OSError:
            return  # Nothing to read, or the other side is closed.


@asynccontextmanager
async def open_terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> AsyncIterator[Terminal]:
    """Run a program at a terminal of its own; it is killed at the end if it still runs."""

    async def start(terminal: int, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            START,
            *command,
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )

    async with _run(start, environment) as client:
        yield client


@asynccontextmanager
async def open_kimas(
    arguments: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Terminal]:
    """Run `kimas` at a terminal of its own: a fork, where forks are served."""
    variables = variables or {}
    if not forked.are_served():
        command = [sys.executable, "-m", MODULE, *arguments]
        async with open_terminal(command, folder, {"PYTHONPATH": str(ROOT), **variables}) as user:
            yield user
        return

    async def start(terminal: int, environment: Mapping[str, str]) -> ForkedProcess:
        return await forked.start(arguments, folder, environment, [terminal] * 3, is_terminal=True)

    async with _run(start, variables) as client:
        yield client


@asynccontextmanager
async def _run(
    start: Callable[[int, Mapping[str, str]], Awaitable[asyncio.subprocess.Process | ForkedProcess]],
    environment: Mapping[str, str],
) -> AsyncIterator[Terminal]:
    controller, terminal = os.openpty()
    process = await start(terminal, {**os.environ, "TERM": "dumb", "COLUMNS": "120", **environment})
    os.close(terminal)
    try:
        yield Terminal(controller, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(controller)
