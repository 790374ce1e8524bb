"""A small pool of worker processes for foreign documents: a poisoned document costs a worker, never the daemon."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast, get_type_hints

from pydantic import TypeAdapter, ValidationError

from core.observability.logs import get_logger
from core.settings import ParsingSettings
from knowledge.parsing.limits import FormatError
from knowledge.parsing.worker import FAILED, OUT_OF_MEMORY, REFUSED, REPLY_HEADER, REQUEST_HEADER, RESULT

_log = get_logger(__name__)

P = ParamSpec("P")
Result = TypeVar("Result")

# A worker that has had nothing to do for so long gives its memory back.
IDLE_S = 30.0
# What one document may yield.
MAX_OUTPUT_BYTES = 32 << 20
NETWORK_HINT = "this system gives the processes that read documents no network namespace of their own"
# Larger replies are decoded in a thread.
INLINE_REPLY_BYTES = 16 * 1024
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SYSTEMROOT")


class _WorkerLost(Exception):
    """A worker ended before it replied; `is_foreign` when nothing that the document does explains it."""

    def __init__(self, message: str, *, is_foreign: bool = False) -> None:
        super().__init__(message)
        self.is_foreign = is_foreign


class WorkerPool:
    """Implements `Parser` with worker processes. They are started when they are needed, and stopped when they idle.

    A document beyond a limit of `settings` ends its worker and raises `FormatError`; the next one gets a new worker.
    Workers get no file and no secret of this process, and end with it. `has_network` says whether they reach its
    network, which not every system can deny them; None before the first document.
    """

    def __init__(self, settings: ParsingSettings) -> None:
        self.max_passages = settings.max_passages
        self.has_network: bool | None = None
        self._settings = settings
        self._slots = asyncio.Semaphore(settings.workers)
        self._idle: list[_Worker] = []
        self._idle_timer: asyncio.TimerHandle | None = None
        self._stopping: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> WorkerPool:
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Return what the function returns. Raises `FormatError` where it does, and for what exceeds a limit."""
        request = pickle.dumps((function, args, kwargs), protocol=pickle.HIGHEST_PROTOCOL)
        async with self._slots:
            try:
                payload = await self._run_once(request)
            except _WorkerLost as error:
                if not error.is_foreign:
                    raise FormatError(str(error)) from error
                payload = await self._run_again(request)
        decode = _get_decoder(function)
        try:
            if len(payload) <= INLINE_REPLY_BYTES:
                return cast(Result, decode(payload))
            return cast(Result, await asyncio.to_thread(decode, payload))
        except ValidationError as error:
            raise FormatError("its worker process replied with nonsense") from error

    async def close(self) -> None:
        """Stop all workers that idle. Idempotent."""
        if self._idle_timer:
            self._idle_timer.cancel()
        self._stop_idle()
        await asyncio.gather(*self._stopping)

    async def _run_again(self, request: bytes) -> bytes:
        try:
            return await self._run_once(request)
        except _WorkerLost as error:
            raise FormatError(str(error)) from error

    async def _run_once(self, request: bytes) -> bytes:
        worker = await self._take_worker()
        try:
            kind, payload = await worker.call(request)
        except BaseException:
            await asyncio.shield(worker.stop())
            raise
        if self.has_network is None:
            self.has_network = worker.has_network()
            if self.has_network:
                _log.info("worker.has_network", hint=NETWORK_HINT)
        self._release(worker)
        if kind == RESULT:
            return payload
        if kind == OUT_OF_MEMORY:
            raise FormatError(f"it takes more than {self._settings.memory_mb} MB of memory")
        text = payload.decode("utf-8", "replace")[:300]
        raise FormatError(text if kind == REFUSED else f"it cannot be read ({text})")

    async def _take_worker(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_alive:
                return worker
        return await _Worker.start(self._settings)

    def _release(self, worker: _Worker) -> None:
        self._idle.append(worker)
        if self._idle_timer:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_S, self._stop_idle)

    def _stop_idle(self) -> None:
        while self._idle:
            task = asyncio.ensure_future(self._idle.pop().stop())
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)


class _Worker:
    """One worker process, and what is said to it."""

    def __init__(self, process: asyncio.subprocess.Process, settings: ParsingSettings) -> None:
        self._process = process
        self._settings = settings

    @property
    def is_alive(self) -> bool:
        """Return whether the process still runs; one that used much memory ends after its document."""
        return self._process.returncode is None

    @classmethod
    async def start(cls, settings: ParsingSettings) -> _Worker:
        limits = (settings.memory_mb << 20, settings.cpu_s, MAX_OUTPUT_BYTES, os.getpid())
        start_task = asyncio.create_task(
            asyncio.create_subprocess_exec(
                sys.executable,
                "-B",
                "-P",
                "-W",
                "ignore",
                "-m",
                f"{__package__}.worker",
                *map(str, limits),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=_make_environment(),
                start_new_session=True,
            )
        )
        try:
            process = await asyncio.shield(start_task)
        except asyncio.CancelledError:
            with suppress(OSError):
                await cls(await start_task, settings).stop()
            raise
        _log.debug("worker.started", pid=process.pid)
        return cls(process, settings)

    def has_network(self) -> bool:
        """Return whether the process, which has replied, is in the same network as this one."""
        if sys.platform != "linux":
            return True
        try:
            return os.readlink(f"/proc/{self._process.pid}/ns/net") == os.readlink("/proc/self/ns/net")
        except OSError:
            # It has ended, or the system does not tell.
            return False

    async def call(self, request: bytes) -> tuple[bytes, bytes]:
        """Return the kind and the content of the reply. Raises `_WorkerLost`."""
        try:
            async with asyncio.timeout(self._settings.wall_s):
                return await self._exchange(request)
        except TimeoutError as error:
            raise _WorkerLost(f"it takes longer than {self._settings.wall_s:g} s") from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise self._explain_exit(await self._process.wait()) from error

    async def _exchange(self, request: bytes) -> tuple[bytes, bytes]:
        stdin = self._process.stdin
        stdout = self._process.stdout
        if stdin is None or stdout is None:
            raise _WorkerLost("its worker process has no pipes")
        stdin.write(REQUEST_HEADER.pack(len(request)))
        stdin.write(request)
        await stdin.drain()
        kind, size = REPLY_HEADER.unpack(await stdout.readexactly(REPLY_HEADER.size))
        if kind not in (RESULT, REFUSED, OUT_OF_MEMORY, FAILED) or size > MAX_OUTPUT_BYTES:
            raise _WorkerLost("its worker process replied with nonsense")
        return kind, await stdout.readexactly(size)

    def _explain_exit(self, code: int) -> _WorkerLost:
        if code == -signal.SIGXCPU:
            return _WorkerLost(f"it takes more than {self._settings.cpu_s} s of processor time")
        if code in (0, -signal.SIGKILL, -signal.SIGTERM):
            # It had nothing to do and ended, or somebody ended it: the document is tried once more.
            return _WorkerLost("its worker process was killed", is_foreign=True)
        reason = signal.Signals(-code).name if code < 0 else f"code {code}"
        return _WorkerLost(f"its worker process crashed ({reason})")

    async def stop(self) -> None:
        """End the process, whatever it does."""
        with suppress(ProcessLookupError):
            self._process.kill()
        if self._process.stdin:
            self._process.stdin.close()
        # A process whose output nobody takes does not count as ended for asyncio.
        while self._process.stdout and await self._process.stdout.read(1 << 16):
            pass
        await self._process.wait()


def _make_environment() -> dict[str, str]:
    """Return the environment of a worker: nothing of ours but what finds the same code and names the same time."""
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "random"}


@cache
def _get_decoder(function: Callable[..., Any]) -> Callable[[bytes], Any]:
    """Return what turns a reply into the annotated result of a function, and checks it."""
    return TypeAdapter(get_type_hints(function)["return"]).validate_json
