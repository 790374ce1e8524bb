"""How messages reach an MCP server: over HTTP through our guarded client, or through the pipes of a program.

The SDK's own ways bound neither what a server sends nor which addresses are reached.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import httpx2
import mcp_types
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp.shared.message import SessionMessage

from core.errors import SourceError
from core.language.secrets import mask_secrets
from core.observability.logs import get_logger, make_redactor
from core.runtime.tasks import task_group
from knowledge.web.addresses import redact_url
from knowledge.web.client import Request, WebClient

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams

    Received = MemoryObjectSendStream[SessionMessage | Exception]
    Sent = MemoryObjectReceiveStream[SessionMessage]

_log = get_logger(__name__)

# Of one message, and of one reply over HTTP, and the lists and objects in it: nothing else runs while it is read.
MAX_MESSAGE_BYTES = 1024 * 1024
MAX_BRACKETS = 20_000
CHUNK_BYTES = 64 * 1024
TOO_MUCH = f"more than {MAX_MESSAGE_BYTES // 1024} kB, or more than {MAX_BRACKETS} lists and objects"
# Lines of a program that are no messages, such as a banner: after so many it speaks something else.
MAX_NOISE_LINES = 1000
# The end of what a program writes on standard error, and what the error that says it has ended tells of it: a secret
# that is cut in two could not be told any longer.
MAX_COMPLAINT_BYTES = 8192
MAX_COMPLAINT_CHARS = 300
# How long a program has to end when its input ends, and again when it is told to.
STOP_S = 2.0
INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
# The client makes these itself, or aiohttp has undone them.
OWN_REQUEST_HEADERS = frozenset({"host", "content-length", "connection", "accept-encoding", "user-agent"})
UNDONE_HEADERS = frozenset({"content-length", "content-encoding", "transfer-encoding", "connection"})


class HttpServer:
    """A server at an address. `session_ended` says that it no longer knows the session it began with us."""

    def __init__(self, web: WebClient, url: str, key: str) -> None:
        self._web = web
        self._url = url
        self._key = key
        self.status = 0
        self.session_ended = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        """Open a way to the server."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        async with (
            httpx2.AsyncClient(transport=_GuardedTransport(self), headers=headers, timeout=None) as client,
            streamable_http_client(self._url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES) as streams,
        ):
            yield streams

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Raises `SourceError` for a refused address and a failed connection."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in OWN_REQUEST_HEADERS}
        content = await request.aread()
        response = await self._web.open(Request(str(request.url), request.method, headers=headers), content)
        if request.method == "POST":
            self.status = response.status
            self.session_ended |= response.status == 404 and MCP_SESSION_ID in request.headers
        kept = [(name, value) for name, value in response.headers.items() if name.lower() not in UNDONE_HEADERS]
        return httpx2.Response(response.status, headers=kept, stream=_Body(response), request=request)

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        return mask_secrets(make_redactor([self._key])(text))

    def describe_end(self) -> str:
        """Return what the server said last, where that was a refusal."""
        return f" (status {self.status})" if self.status >= 400 else ""


class _GuardedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, server: HttpServer) -> None:
        self._server = server

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._server.send(request)


class _Body(httpx2.AsyncByteStream):
    """The content of a reply, of a bounded size."""

    def __init__(self, response: ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = brackets = 0
        try:
            async for chunk in self._response.content.iter_chunked(CHUNK_BYTES):
                size += len(chunk)
                brackets += _count_brackets(chunk)
                if size > MAX_MESSAGE_BYTES or brackets > MAX_BRACKETS:
                    raise httpx2.StreamError(f"{redact_url(str(self._response.url))} sent {TOO_MUCH}")
                yield chunk
        except (OSError, ValueError) as error:
            raise httpx2.StreamError(f"the connection failed ({type(error).__name__})") from error

    async def aclose(self) -> None:
        self._response.close()


class Program:
    """A server that we start. It has a process group of its own, which ends with the connection."""

    # It has no session that could end alone.
    session_ended = False

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._complaint = b""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        """Start the program. Raises `SourceError` where that is not possible."""
        process = await self._start()
        received, receiving = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sending, sent = anyio.create_memory_object_stream[SessionMessage](0)
        async with task_group() as tasks:
            pumps = [
                tasks.create_task(_receive(process, received)),
                tasks.create_task(_send(process, sent, received)),
            ]
            listening = tasks.create_task(self._listen_to_complaints(process))
            try:
                yield receiving, sending
            finally:
                for pump in pumps:
                    pump.cancel()
                for stream in (receiving, sending, received, sent):
                    stream.close()
                await asyncio.wait(pumps)
                await _stop(process)
                listening.cancel()

    def describe_end(self) -> str:
        """Return the end of what the program wrote on standard error, without secrets."""
        text = " ".join(self.redact(self._complaint.decode("utf-8", "replace")).split())[-MAX_COMPLAINT_CHARS:]
        return f" (it wrote: {text})" if text else ""

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        return mask_secrets(make_redactor(self._environment.values())(text))

    async def _start(self) -> asyncio.subprocess.Process:
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        pipe = asyncio.subprocess.PIPE
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env={**inherited, **self._environment},
                start_new_session=True,
                limit=MAX_MESSAGE_BYTES,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise SourceError(f"{self._command[0]} cannot be started: {reason}") from error

    async def _listen_to_complaints(self, process: asyncio.subprocess.Process) -> None:
        while process.stderr and (chunk := await process.stderr.read(CHUNK_BYTES)):
            self._complaint = (self._complaint + chunk)[-MAX_COMPLAINT_BYTES:]


async def _receive(process: asyncio.subprocess.Process, received: Received) -> None:
    """Hand on the messages of a program, until it ends or writes what is none."""
    noise = 0
    # The other end is closed when the connection ends.
    with received, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        try:
            while process.stdout and noise < MAX_NOISE_LINES and (line := await process.stdout.readline()):
                message = await asyncio.to_thread(_parse, line)
                if message is None:
                    noise += 1
                else:
                    await received.send(SessionMessage(message))
        except ValueError:
            _log.warning("mcp_source.message_too_large", error=f"the program sent {TOO_MUCH}")


def _count_brackets(content: bytes) -> int:
    return content.count(b"[") + content.count(b"{")


def _parse(line: bytes) -> mcp_types.JSONRPCMessage | None:
    """Return the message in a line; None where it is none. Raises `ValueError` for one with too many values."""
    if _count_brackets(line) > MAX_BRACKETS:
        raise ValueError(TOO_MUCH)
    try:
        return mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


async def _send(process: asyncio.subprocess.Process, sent: Sent, received: Received) -> None:
    """Hand our messages to a program. What it cannot take ends the connection."""
    with received, suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for item in sent:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            if process.stdin:
                process.stdin.write(line.encode())
                await process.stdin.drain()


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End a program and its children: by the end of its input, by a signal, by force."""
    if process.stdin:
        process.stdin.close()
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await _has_ended(process):
                return
            _signal(process, number)
        await _has_ended(process)
    finally:
        # What it has started, too, and also where nobody waits any longer.
        _signal(process, signal.SIGKILL)
        # A stranger may still hold its pipes.
        if transport := getattr(process, "_transport", None):
            transport.close()


async def _has_ended(process: asyncio.subprocess.Process) -> bool:
    """Return whether a program ends within `STOP_S` seconds."""
    try:
        async with asyncio.timeout(STOP_S):
            # A process whose output nobody takes does not count as ended for asyncio.
            while process.stdout and await process.stdout.read(CHUNK_BYTES):
                pass
            await process.wait()
    except TimeoutError:
        return False
    return True


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
