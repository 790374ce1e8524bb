"""An MCP server of the SDK's own, over HTTP or over standard input and output, whose tools answer as a test says.

Run as a program, it takes its tools from the arguments: `python -m tests.support.mcp_server search slow`.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "project": {"type": "string"}},
    "required": ["query"],
}
READS = types.ToolAnnotations(read_only_hint=True)
WRITES = types.ToolAnnotations(read_only_hint=False)
HITS = [
    {"title": "Ports", "url": "https://wiki.example.org/ports", "text": "The router listens on port 8080."},
    {"title": "Start", "url": "javascript:alert(1)", "text": "Start it with `rocket up`."},
]


def text(value: str) -> types.TextContent:
    return types.TextContent(text=value)


@dataclass
class ToolServer:
    """`tools` are offered; `results` by tool are what a call gives, or raises. `calls` are the arguments that came."""

    tools: list[types.Tool] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    calls: list[dict[str, Any]] = field(default_factory=list)
    cancelled: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    port: int = 0
    # As a server of the time before 2026-07-28: with sessions, which it forgets with its manager.
    is_legacy: bool = False
    manager: StreamableHTTPSessionManager | None = None

    def offer(self, name: str, result: Any, schema: Any = None, **more: Any) -> None:
        more = {"annotations": READS, "description": f"{name} the wiki", **more}
        self.tools = [tool for tool in self.tools if tool.name != name]
        self.tools.append(types.Tool(name=name, input_schema=schema or SCHEMA, **more))
        self.results[name] = result

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def make(self) -> Server[Any]:
        async def list_tools(_context: object, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
            # One a page.
            number = int((params and params.cursor) or 0)
            following = str(number + 1) if number + 1 < len(self.tools) else None
            return types.ListToolsResult(tools=self.tools[number : number + 1], next_cursor=following)

        async def call_tool(
            context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
        ) -> types.CallToolResult:
            self.calls.append(params.arguments or {})
            self.headers.append(dict(context.request.headers) if context.request else {})
            result = self.results.get(params.name)
            if result is None:
                raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name}")
            if result == "never":
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
            return result

        return Server("wiki", version="1", on_list_tools=list_tools, on_call_tool=call_tool)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[ToolServer]:
        """Serve over HTTP on this machine until the end of the block."""
        config = uvicorn.Config(self._answer, "127.0.0.1", 0, interface="asgi3", log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        async with self.fresh_sessions():
            serving = asyncio.create_task(server._serve())
            while not server.started:
                await asyncio.sleep(0.005)
            self.port = server.servers[0].sockets[0].getsockname()[1]
            try:
                yield self
            finally:
                server.should_exit = server.force_exit = True
                await serving

    @asynccontextmanager
    async def fresh_sessions(self) -> AsyncIterator[None]:
        """Forget all sessions, as a restart does."""
        manager = self.manager = StreamableHTTPSessionManager(self.make())
        started, ended = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            # In one task: a fixture is left by another one than it was entered by.
            async with manager.run():
                started.set()
                await ended.wait()

        running = asyncio.create_task(run())
        await started.wait()
        try:
            yield
        finally:
            ended.set()
            await running

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        assert self.manager
        if self.is_legacy and (b"mcp-method", b"server/discover") in scope["headers"]:
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b"not here"})
            return
        await self.manager.handle_request(scope, receive, send)


def offer_by_name(server: ToolServer, name: str) -> None:
    hits = types.CallToolResult(content=[text(json.dumps({"results": HITS}))], structured_content={"results": HITS})
    results = {"search": hits, "never": "never"}
    server.offer(name, results.get(name, hits))


async def main(arguments: list[str]) -> None:
    directory = Path(arguments[0])
    (directory / "pids").open("a").write(f"{os.getpid()}\n")
    server = ToolServer()
    for name in arguments[1:]:
        if name == "child":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            (directory / "pids").open("a").write(f"{child.pid}\n")
        elif name == "banner":
            print("Welcome to the wiki!", flush=True)
        elif name == "garbage":
            while True:
                print("no message", flush=True)
        elif name == "endless":
            while True:
                sys.stdout.write("x" * 65536)
        elif name == "bomb":
            print('{"jsonrpc": "2.0", "id": 1, "result": [' + "[]," * 30_000 + "[]]}", flush=True)
        elif name == "wait":
            while not (directory / "go").exists():
                await asyncio.sleep(0.01)
        elif name == "complain":
            sys.exit("cannot find the wiki")
        else:
            offer_by_name(server, name)
    (directory / "environment").write_text(json.dumps(dict(os.environ)))
    made = server.make()
    async with stdio_server() as (received, sent):
        await made.run(received, sent, made.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
