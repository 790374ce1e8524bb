"""The git command, run without a shell, without prompts, and without what a repository could make it execute."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from core.errors import SourceError

_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")
# No hooks, no file system monitor, no helper protocols; the owner of a local repository need not be us.
_SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never"),
    *("-c", "gc.auto=0", "-c", "core.quotePath=false", "-c", "safe.directory=*"),
)


class GitFailed(Exception):
    """A git command did not succeed; the text is what git said, without credentials."""


def without_credentials(text: str) -> str:
    """Return a text in which no URL carries a user name or password."""
    return _CREDENTIALS.sub("", text)


@asynccontextmanager
async def git_process(
    arguments: Sequence[str], *, folder: Path | None = None, stdin: int = asyncio.subprocess.DEVNULL
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run git for the length of the block, and end it with the block. Raises `SourceError` without a git command."""
    where = ("-C", str(folder)) if folder else ()
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_ASKPASS": "true"}
    environment.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        environment.pop(name, None)
    try:
        process = await asyncio.create_subprocess_exec(
            *("git", *_SAFE, *where, *arguments),
            env=environment,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError as fault:
        raise SourceError("the git command is not installed, and git sources need it") from fault
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        # Reads what is left, so that the process's pipes are closed with it.
        await process.communicate()


async def run_git(*arguments: str, folder: Path | None = None, timeout_s: float = 60) -> bytes:
    """Return the standard output of a git command. Raises `GitFailed`, also when it takes longer than `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s), git_process(arguments, folder=folder) as process:
            out, err = await process.communicate()
    except TimeoutError as fault:
        raise GitFailed(f"git {arguments[0]} took longer than {timeout_s:g} s") from fault
    if process.returncode:
        lines = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
        raise GitFailed(without_credentials("; ".join(lines[-2:]) or f"exit code {process.returncode}"))
    return out
