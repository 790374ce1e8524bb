"""Running git: never through a shell, without prompts, hooks, foreign protocols or redirects to other hosts, and never
longer than agreed.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO

from core.errors import SourceError
from knowledge.sources.common.documents import without_credentials
from knowledge.sources.git.access import Access, new_address

_OPTIONS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    # Whoever owns the repository: it is only read, and nothing in it is executed.
    "safe.directory=*",
    # Housekeeping may run, but not on its own after git has returned.
    "gc.autoDetach=false",
    "maintenance.autoDetach=false",
    "credential.interactive=false",
    # It would follow one to any host, private ones too.
    "http.followRedirects=false",
)
_PROTOCOLS = "file:git:http:https:ssh"
_BATCH = 64
_REST_BYTES = 1 << 16
_NO_ACCESS = Access()
# Files for what a command writes, and for its errors.
Written = tuple[IO[bytes], IO[bytes]]
_CHANGED_KEY = b"REMOTE HOST IDENTIFICATION HAS CHANGED"
_MOVED = re.compile(rb"requested URL returned error: 3\d\d")


class GitFailure(Exception):
    """A git command failed. The message is what git said last, without credentials."""


class GitTimeout(GitFailure):
    """A git command took longer than its time-out and was stopped."""


class _GitRedirected(GitFailure):
    """A remote wants to be asked elsewhere."""


class Git:
    """Git commands in one repository, each with the same time-out in seconds. Those that ask a remote need `access`."""

    def __init__(self, directory: Path, timeout: float, access: Access = _NO_ACCESS) -> None:
        self.directory = directory
        self._timeout = timeout
        self._access = access

    async def run(self, *arguments: str) -> bytes:
        """Return what a command writes. Raises `GitFailure`; a cancelled or late command is killed.

        A remote that has moved on its own host is asked there; one that leads to another host is not.
        """
        try:
            return await self._run(arguments)
        except _GitRedirected:
            old = next((one for one in arguments if one.startswith(("http://", "https://"))), "")
            try:
                new = await new_address(old, self._access)
            except SourceError as error:
                raise GitFailure(without_credentials(str(error))) from error
        return await self._run([new if argument == old else argument for argument in arguments])

    async def _run(self, arguments: Sequence[str]) -> bytes:
        # Into files: a connection that the user's ssh keeps open for later would hold a pipe for as long.
        with _written() as written:
            async with _process(self.directory, arguments, self._access, written) as process:
                try:
                    async with asyncio.timeout(self._timeout):
                        await process.wait()
                except TimeoutError as error:
                    raise GitTimeout(f"no answer within {self._timeout:g} s") from error
            output, errors = await asyncio.to_thread(lambda: [_content(file) for file in written])
        if process.returncode:
            words = _last_words(errors) or f"git {arguments[0]} ended with code {process.returncode}"
            failure = _GitRedirected if _MOVED.search(errors) else GitFailure
            raise failure(words.replace(self._access.secret, "***") if self._access.secret else words)
        return output

    async def blobs(self, ids: Sequence[str]) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the content of objects in their order. Missing ones are left out.

        Raises `GitFailure` when the repository is damaged. Close the iterator when leaving it early.
        """
        async with _process(self.directory, ("cat-file", "--batch"), self._access) as process:
            for start in range(0, len(ids), _BATCH):
                batch = ids[start : start + _BATCH]
                # A batch of names fits into the pipe, so that writing cannot wait for reading.
                _stdin(process).write("".join(f"{name}\n" for name in batch).encode())
                for name in batch:
                    content = await self._next_blob(process)
                    if content is not None:
                        yield name, content

    async def _next_blob(self, process: asyncio.subprocess.Process) -> bytes | None:
        output = _stdout(process)
        try:
            async with asyncio.timeout(self._timeout):
                header = (await output.readline()).split()
                if header[1:] == [b"missing"]:
                    return None
                content = await output.readexactly(int(header[2]) + 1)
        except TimeoutError as error:
            raise GitTimeout(f"no answer within {self._timeout:g} s") from error
        except (asyncio.IncompleteReadError, IndexError, ValueError) as error:
            raise GitFailure("an object cannot be read") from error
        return content[:-1]


@contextmanager
def _written() -> Iterator[Written]:
    """Make files for what a command writes and for its errors; they go with the block. Raises `GitFailure`."""
    with ExitStack() as files:
        try:
            output, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        except OSError as error:
            raise GitFailure(f"no file can be made for git's output: {error.strerror or error}") from error
        yield output, errors


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@asynccontextmanager
async def _process(
    directory: Path, arguments: Sequence[str], access: Access, written: Written | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    starting = asyncio.create_task(_started(directory, arguments, access, written))
    try:
        process = await asyncio.shield(starting)
    except FileNotFoundError as error:
        raise GitFailure("the git command is not installed") from error
    except asyncio.CancelledError:
        # Given up while it starts, asyncio would stop git alone, and its children would live on.
        with suppress(OSError):
            await _stop(await starting)
        raise
    try:
        yield process
    finally:
        await _stop(process)


async def _started(
    directory: Path, arguments: Sequence[str], access: Access, written: Written | None
) -> asyncio.subprocess.Process:
    """Start git; without files for what it writes it is talked to through pipes."""
    options = [part for option in _OPTIONS for part in ("-c", option)]
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        *("git", f"--git-dir={directory}", *options, *arguments),
        stdin=nothing if written else pipe,
        stdout=written[0] if written else pipe,
        stderr=written[1] if written else nothing,
        env=_environment() | dict(access.variables),
        # Its own session: no terminal to ask for a password on, and one group to stop it with its children.
        start_new_session=True,
    )


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        # It may have ended by itself in this moment.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    await asyncio.shield(_ended(process))


async def _ended(process: asyncio.subprocess.Process) -> None:
    # A process whose output nobody takes does not count as ended for asyncio.
    while process.stdout is not None and await process.stdout.read(_REST_BYTES):
        pass
    await process.wait()


def _environment() -> dict[str, str]:
    """Return the environment without variables that point git elsewhere (it may itself be running a hook)."""
    kept = (
        "GIT_SSH",
        "GIT_SSL",
        "GIT_PROXY",
        "GIT_HTTP",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
    )
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or key.startswith(kept)}
    return {
        **inherited,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": os.environ.get("GIT_ASKPASS", ""),
        "SSH_ASKPASS": "",
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }


def _stdin(process: asyncio.subprocess.Process) -> asyncio.StreamWriter:
    if process.stdin is None:
        raise GitFailure("git was started without an input")
    return process.stdin


def _stdout(process: asyncio.subprocess.Process) -> asyncio.StreamReader:
    if process.stdout is None:
        raise GitFailure("git was started without an output")
    return process.stdout


def _last_words(errors: bytes) -> str:
    """Return the first line that git, ssh or the server wrote as an error."""
    if _CHANGED_KEY in errors:
        # Of a page of warnings in a frame of @ signs.
        return "the server's host key has changed"
    lines = (line.strip() for line in errors.decode("utf-8", "replace").splitlines())
    line = next((line for line in lines if line and not line.lower().startswith(("warning:", "hint:"))), "")
    for speaker in ("fatal: ", "error: ", "remote: "):
        line = line.removeprefix(speaker)
    return without_credentials(line).rstrip(".")
