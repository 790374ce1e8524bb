"""A real pseudo-terminal with somebody at it, who waits for questions and types."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

# getpass asks the terminal that controls the process, so it gets one.
START = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Somebody at a terminal. `shown` is what was printed so far, without colours."""

    def __init__(self, controller: int, process: asyncio.subprocess.Process) -> None:
        self.controller, self.process = controller, process
        self.shown = ""
        self._read_to = 0
        os.set_blocking(controller, False)

    async def read(self, text: str, timeout: float = 60) -> None:
        """Wait until a text stands behind what was read before."""
        async with asyncio.timeout(timeout):
            while (start := self.shown.find(text, self._read_to)) < 0:
                self._drain()
                await asyncio.sleep(0.02)
        self._read_to = start + len(text)

    async def answer(self, question: str, text: str) -> None:
        """Wait for a question, and type an answer."""
        await self.read(question)
        os.write(self.controller, f"{text}\n".encode())

    async def end(self, timeout: float = 60) -> int:
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
                self.shown += CODES.sub("", data.decode("utf-8", "replace")).replace("\r", "")
        except OSError:
            return  # Nothing to read, or the other side is closed.


@asynccontextmanager
async def open_terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> AsyncIterator[Terminal]:
    """Run a program at a terminal of its own; it is killed at the end if it still runs."""
    controller, terminal = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", START, *command),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=folder,
        env={**os.environ, "TERM": "dumb", "COLUMNS": "120", **environment},
        start_new_session=True,
    )
    os.close(terminal)
    try:
        yield Terminal(controller, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(controller)
