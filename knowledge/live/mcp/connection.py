"""One connection to an MCP server, as the SDK speaks it in both eras of the protocol, for the calls of one tool."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import time
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.client import Client, IncomingMessage
from mcp.shared.exceptions import MCPError

from core.errors import SourceError
from core.observability.logs import get_logger
from core.runtime.leaving import require_leave
from core.settings import McpSource
from core.version import get_version
from knowledge.live.mcp.transports import HttpServer, Program
from knowledge.web.values import to_line

_log = get_logger(__name__)

# A program may be fetched before it starts. Whoever asks meanwhile waits no longer than for any answer.
OPEN_TIMEOUT_S = 60.0
# How often the tool is looked at again where the server does not say that it has changed.
LOOK_AGAIN_S = 600.0
MAX_PAGES = 20
MAX_SHOWN_TOOLS = 20
# Of a text of a server, what is looked at for an error, and what is told of it.
MAX_TEXT_CHARS = 8192
MAX_ERROR_CHARS = 300


class ConnectionEnded(SourceError):
    """The connection has ended. Another one may work."""


class Tool:
    """The tool of a source, as its server described it first. What it does after a change is for people to judge."""

    def __init__(self, settings: McpSource) -> None:
        self.name = settings.tool
        self._settings = settings
        self._fingerprint = ""

    def check(self, tool: types.Tool) -> None:
        """Raise `SourceError` for a tool that writes, that lacks our arguments, or that is another than before."""
        if tool.annotations and tool.annotations.read_only_hint is False:
            raise SourceError(f"its tool {self.name} says that it changes something: it is not called")
        self._check_arguments(tool.input_schema)
        described = json.dumps(tool.model_dump(mode="json"), sort_keys=True)
        fingerprint = hashlib.sha256(described.encode("utf-8", "replace")).hexdigest()
        if self._fingerprint not in ("", fingerprint):
            raise SourceError(
                f"its tool {self.name} has changed since KIMAs looked at it first: see what it does now, and restart"
            )
        self._fingerprint = fingerprint

    def _check_arguments(self, schema: Mapping[str, Any]) -> None:
        query_argument = self._settings.query_argument
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        given = {query_argument, *self._settings.arguments}
        if unknown := sorted(given - known.keys()):
            names = to_line(", ".join(known), MAX_ERROR_CHARS) or "none"
            raise SourceError(f"its tool {self.name} has no argument {unknown[0]!r}; its arguments are: {names}")
        kind = known[query_argument].get("type", "string") if isinstance(known[query_argument], dict) else ""
        if kind != "string" and "string" not in (kind if isinstance(kind, list) else ()):
            raise SourceError(f"the argument {query_argument} of its tool {self.name} takes no text")
        required = schema.get("required")
        missing = [name for name in required if name not in given] if isinstance(required, list) else []
        if missing:
            names = to_line(", ".join(map(str, missing)), MAX_ERROR_CHARS)
            raise SourceError(f"its tool {self.name} needs more: give it under arguments: {names}")


class Connection:
    """One task opens, holds and closes a connection; any task may call through it, until it ends."""

    def __init__(self, server: HttpServer | Program, tool: Tool) -> None:
        self._server = server
        self._tool = tool
        self._looked_at = -math.inf
        self._looking = asyncio.Lock()
        self._leave = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        # It may be that nobody waits any longer.
        self._opened.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._task = asyncio.create_task(self._hold())

    @property
    def has_ended(self) -> bool:
        """Return whether it is of no more use."""
        return self._task.done() or self._leave.is_set()

    async def call(self, arguments: Mapping[str, Any]) -> types.CallToolResult:
        """Call the tool. Who stops waiting cancels the call, and not the connection.

        Raises `ConnectionEnded`, and `SourceError` for all else that is no result.
        """
        client = await asyncio.shield(self._opened)
        try:
            await self._look_at_tool(client)
            # Not the client's own call: it runs the server's patterns over the server's texts.
            request = types.CallToolRequest(
                params=types.CallToolRequestParams(name=self._tool.name, arguments=dict(arguments))
            )
            # The opening, and the list of its tools, may have taken a while.
            await require_leave()
            result = await client.session.send_request(request, types.CallToolResult)
        except MCPError as error:
            self._looked_at = -math.inf
            if self._server.session_ended or self._task.done() or error.code == types.CONNECTION_CLOSED:
                self._leave.set()
                raise ConnectionEnded(self._describe(error)) from error
            raise SourceError(self._describe(error)) from error
        except ValueError as error:
            raise SourceError("it answered with what is no result of a tool") from error
        if result.is_error:
            self._looked_at = -math.inf
            texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
            raise SourceError(f"its tool {self._tool.name} failed: {self._to_error_line(' '.join(texts))}")
        return result

    async def close(self) -> None:
        """End the connection, and wait for that. Idempotent."""
        self._leave.set()
        if not self._opened.done():
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _hold(self) -> None:
        """Open the connection, and close it again when it is left: only this task may do both."""
        try:
            opening = asyncio.timeout(OPEN_TIMEOUT_S)
            async with (
                opening,
                Client(
                    self._server.open(),
                    cache=None,
                    client_info=types.Implementation(name="kimas", version=get_version()),
                    message_handler=self._hear,
                ) as client,
            ):
                opening.reschedule(None)
                self._opened.set_result(client)
                await self._leave.wait()
        except BaseException as error:
            self._fail(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    def _fail(self, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if self._opened.done():
            # Whoever calls finds it ended.
            _log.debug("mcp_source.connection_ended", error=str(error))
        elif isinstance(error, asyncio.CancelledError):
            self._opened.cancel()
        else:
            self._opened.set_exception(SourceError(self._describe(error)))

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._looked_at = -math.inf

    async def _look_at_tool(self, client: Client) -> None:
        async with self._looking:
            if time.monotonic() - self._looked_at < LOOK_AGAIN_S:
                return
            cursor: str | None = None
            names: list[str] = []
            for _ in range(MAX_PAGES):
                page = await client.list_tools(cursor=cursor)
                for tool in page.tools:
                    if tool.name == self._tool.name:
                        self._tool.check(tool)
                        self._looked_at = time.monotonic()
                        return
                    names.append(tool.name)
                cursor = page.next_cursor
                if cursor is None:
                    break
        shown = to_line(", ".join(names[:MAX_SHOWN_TOOLS]), MAX_ERROR_CHARS) or "none"
        raise SourceError(f"it has no tool {self._tool.name!r}; its tools are: {shown}")

    def _describe(self, error: BaseException) -> str:
        text = "it took too long to open" if isinstance(error, TimeoutError) else self._to_error_line(str(error))
        return f"{text or type(error).__name__}{self._server.describe_end()}"

    def _to_error_line(self, text: str) -> str:
        """Return what a server says of an error: it may repeat the secrets that it was given."""
        return to_line(self._server.redact(text[:MAX_TEXT_CHARS]), MAX_ERROR_CHARS)
