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
from typing import IO, TypeVar

from core.errors import SourceError
from knowledge.sources.common.documents import redact_credentials
from knowledge.sources.git.access import GitAccess, resolve_redirect

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
    # Larger files pass through git piece by piece: zeros take no room in a repository, and all of memory otherwise.
    "core.bigFileThreshold=16m",
)
_PROTOCOLS = "file:git:http:https:ssh"
# Where programs, configuration, keys, certificates and proxies are. Any other variable may be secret.
_INHERITED = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "XDG_CONFIG_HOME",
        "TMPDIR",
        "SSH_AUTH_SOCK",
        "LD_LIBRARY_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "CURL_CA_BUNDLE",
        "http_proxy",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
        "no_proxy",
        "NO_PROXY",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
    }
)
_INHERITED_PREFIXES = ("GIT_SSH", "GIT_SSL", "GIT_PROXY", "GIT_HTTP")
_BATCH_SIZE = 64
_READ_BYTES = 1 << 16
_NO_ACCESS = GitAccess()
Stream = TypeVar("Stream")
# Files for what a command writes, and for its errors.
OutputFiles = tuple[IO[bytes], IO[bytes]]
_HOST_KEY_CHANGED = b"REMOTE HOST IDENTIFICATION HAS CHANGED"
# By git over http and ssh, by servers of GitHub, GitLab, Bitbucket and gitolite, by git's own daemon, and for a path.
_REFUSAL = re.compile(
    rb"authentication failed|could not read (?:username|password)|returned error: (?:401|403|404|410|451)"
    rb"|permission denied \(|repository '[^'\n]*' not found|repository not found|could not be found or you don't have"
    rb"|access denied or repository not exported|repository (?:does not exist|access denied)|denied by fallthru"
    rb"|does not appear to be a git repository",
    re.IGNORECASE,
)
_REDIRECT_ERROR = re.compile(rb"requested URL returned error: 3\d\d")


class GitError(Exception):
    """A git command failed. The message is what git said last, without credentials.

    `is_refused`: the remote works, and has no such repository, or not for us.
    """

    is_refused = False


class GitTimeout(GitError):
    """A git command took longer than its time-out and was stopped."""


class _GitRedirected(GitError):
    """A remote wants to be asked elsewhere."""


class Git:
    """Git commands in one repository, each with the same time-out in seconds. Those that ask a remote need `access`."""

    def __init__(self, directory: Path, timeout: float, access: GitAccess = _NO_ACCESS) -> None:
        self.directory = directory
        self._timeout = timeout
        self._access = access

    async def run(self, *arguments: str) -> bytes:
        """Return what a command writes. Raises `GitError`; a cancelled or late command is killed.

        A remote that has moved on its own host is asked there; one that leads to another host is not.
        """
        try:
            return await self._run(arguments)
        except _GitRedirected:
            old_url = next((argument for argument in arguments if argument.startswith(("http://", "https://"))), "")
            try:
                new_url = await resolve_redirect(old_url, self._access)
            except SourceError as error:
                raise GitError(redact_credentials(str(error))) from error
        return await self._run([new_url if argument == old_url else argument for argument in arguments])

    async def _run(self, arguments: Sequence[str]) -> bytes:
        # Into files: a connection that the user's ssh keeps open for later would hold a pipe for as long.
        with _output_files() as files:
            async with _git_process(self.directory, arguments, self._access, files) as process:
                try:
                    async with asyncio.timeout(self._timeout):
                        await process.wait()
                except TimeoutError as error:
                    raise GitTimeout(f"no answer within {self._timeout:g} s") from error
            output, errors = await asyncio.to_thread(lambda: [_read_all(file) for file in files])
        if process.returncode:
            message = _first_error_line(errors) or f"git {arguments[0]} ended with code {process.returncode}"
            error_class = _GitRedirected if _REDIRECT_ERROR.search(errors) else GitError
            failure = error_class(message.replace(self._access.secret, "***") if self._access.secret else message)
            failure.is_refused = bool(_REFUSAL.search(errors))
            raise failure
        return output

    async def run_bounded(self, max_bytes: int, *arguments: str) -> bytes | None:
        """Return what a command in this repository alone writes, or None when that is more than `max_bytes`.

        Raises `GitError`; a command that writes more, or is late, is killed.
        """
        output = bytearray()
        async with _git_process(self.directory, arguments, self._access) as process:
            try:
                async with asyncio.timeout(self._timeout):
                    while part := await _require(process.stdout).read(_READ_BYTES):
                        output += part
                        if len(output) > max_bytes:
                            return None
                    await process.wait()
            except TimeoutError as error:
                raise GitTimeout(f"no answer within {self._timeout:g} s") from error
        if process.returncode:
            raise GitError(f"git {arguments[0]} ended with code {process.returncode}")
        return bytes(output)

    async def blobs(self, ids: Sequence[str]) -> AsyncGenerator[tuple[str, bytes], None]:
        """Yield the content of objects in their order. Missing ones are left out.

        Raises `GitError` when the repository is damaged. Close the iterator when leaving it early.
        """
        async with _git_process(self.directory, ("cat-file", "--batch"), self._access) as process:
            for start in range(0, len(ids), _BATCH_SIZE):
                batch = ids[start : start + _BATCH_SIZE]
                # A batch of names fits into the pipe, so that writing cannot wait for reading.
                _require(process.stdin).write("".join(f"{blob_id}\n" for blob_id in batch).encode())
                for blob_id in batch:
                    content = await self._read_blob(process)
                    if content is not None:
                        yield blob_id, content

    async def _read_blob(self, process: asyncio.subprocess.Process) -> bytes | None:
        output = _require(process.stdout)
        try:
            async with asyncio.timeout(self._timeout):
                header = (await output.readline()).split()
                if header[1:] == [b"missing"]:
                    return None
                content = await output.readexactly(int(header[2]) + 1)
        except TimeoutError as error:
            raise GitTimeout(f"no answer within {self._timeout:g} s") from error
        except (asyncio.IncompleteReadError, IndexError, ValueError) as error:
            raise GitError("an object cannot be read") from error
        return content[:-1]


@contextmanager
def _output_files() -> Iterator[OutputFiles]:
    """Make files for what a command writes and for its errors; they go with the block. Raises `GitError`."""
    with ExitStack() as files:
        try:
            output, errors = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        except OSError as error:
            raise GitError(f"no file can be made for git's output: {error.strerror or error}") from error
        yield output, errors


def _read_all(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@asynccontextmanager
async def _git_process(
    directory: Path, arguments: Sequence[str], access: GitAccess, files: OutputFiles | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    start_task = asyncio.create_task(_start(directory, arguments, access, files))
    try:
        process = await asyncio.shield(start_task)
    except FileNotFoundError as error:
        raise GitError("the git command is not installed") from error
    except asyncio.CancelledError:
        # Given up while it starts, asyncio would stop git alone, and its children would live on.
        with suppress(OSError):
            await _stop(await start_task)
        raise
    try:
        yield process
    finally:
        await _stop(process)


async def _start(
    directory: Path, arguments: Sequence[str], access: GitAccess, files: OutputFiles | None
) -> asyncio.subprocess.Process:
    """Start git; without files for what it writes it is talked to through pipes."""
    options = [part for option in _OPTIONS for part in ("-c", option)]
    pipe = asyncio.subprocess.PIPE
    devnull = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        "git",
        f"--git-dir={directory}",
        *options,
        *arguments,
        stdin=devnull if files else pipe,
        stdout=files[0] if files else pipe,
        stderr=files[1] if files else devnull,
        env=_environment() | dict(access.environment),
        start_new_session=True,
    )


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        # It may have ended by itself in this moment.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    if process.stdin is not None:
        process.stdin.close()
    await asyncio.shield(_wait_for_exit(process))


async def _wait_for_exit(process: asyncio.subprocess.Process) -> None:
    # A process whose output nobody takes does not count as ended for asyncio.
    while process.stdout is not None and await process.stdout.read(_READ_BYTES):
        pass
    await process.wait()


def _environment() -> dict[str, str]:
    """Return what git needs of the environment: no secrets, and nothing that points it elsewhere, as a hook does."""
    inherited_variables = {
        key: value for key, value in os.environ.items() if key in _INHERITED or key.startswith(_INHERITED_PREFIXES)
    }
    return {
        **inherited_variables,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": os.environ.get("GIT_ASKPASS", ""),
        "SSH_ASKPASS": "",
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }


def _require(stream: Stream | None) -> Stream:
    if stream is None:
        raise GitError("git was started without its pipes")
    return stream


def _first_error_line(errors: bytes) -> str:
    """Return the first line that git, ssh or the server wrote as an error."""
    if _HOST_KEY_CHANGED in errors:
        # Of a page of warnings in a frame of @ signs.
        return "the server's host key has changed"
    lines = (line.strip() for line in errors.decode("utf-8", "replace").splitlines())
    line = next((line for line in lines if line and not line.lower().startswith(("warning:", "hint:"))), "")
    for prefix in ("fatal: ", "error: ", "remote: "):
        line = line.removeprefix(prefix)
    return redact_credentials(line).rstrip(".")
