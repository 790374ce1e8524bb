"""`kimas mcp`: the tools of MCP over standard input and output, for a program that starts KIMAs itself."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from mcp.server.stdio import stdio_server

from bots.api.mcp.knowledge import Knowledge
from bots.api.mcp.server import make_server
from bots.api.running import RunningAnswers
from bots.cli.first_reading import read_first
from bots.daemon.bootstrap import open_app
from core.runtime.tasks import task_group
from core.settings import Settings
from core.types import Question, Reply
from knowledge.stores import require_sources

if TYPE_CHECKING:
    from anyio import AsyncFile


async def serve_mcp(settings: Settings, *, is_trial: bool = False) -> int:
    """Serve until standard input ends. What was never read is read first; the tools wait for it.

    Whoever starts it sees what the terminal sees.
    """
    await require_sources(settings)
    lines = cast("AsyncFile[str]", _read_lines(_take_stdin()))
    # First: standard output carries the protocol alone from here on, also where a library prints.
    async with stdio_server(lines) as (received, sent), open_app(settings) as app, task_group() as tasks:
        reading = tasks.create_task(read_first(app, is_trial=is_trial))
        running = RunningAnswers(app.answer, settings.run.workers)

        async def may_tell() -> bool:
            return True

        async def ask(text: str) -> Reply:
            async with running.join(text, Question(text), may_tell) as (_, task):
                return await asyncio.shield(task)

        async def open_knowledge(_client: str) -> Knowledge:
            await asyncio.shield(reading)
            return Knowledge(app.deps, ask)

        server = make_server(open_knowledge)
        await server.run(received, sent, server.create_initialization_options())
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    return 0


def _take_stdin() -> int:
    """Return a descriptor of standard input, which ends for everybody else: children would read from it."""
    descriptor = os.dup(0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return descriptor


async def _read_lines(descriptor: int) -> AsyncIterator[str]:
    """Yield the lines of a file or pipe. Its thread is left behind: nothing else ends a read on which nothing comes."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        # The loop may be closed already.
        with open(descriptor, encoding="utf-8", errors="replace") as lines, suppress(RuntimeError):
            for line in lines:
                loop.call_soon_threadsafe(queue.put_nowait, line)
            loop.call_soon_threadsafe(queue.put_nowait, "")

    threading.Thread(target=read, name="stdin", daemon=True).start()
    while line := await queue.get():
        yield line
