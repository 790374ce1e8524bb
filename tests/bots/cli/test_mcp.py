"""`kimas mcp` as a program starts it: standard output carries the protocol alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.support import forked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CLIENT_INFO = {"name": "test", "version": "1"}


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/proxy.md").write_text("# Proxy\n\nSet `ROCKET_PROXY` to the address of the proxy.\n", "utf-8")
    values = {
        "data_dir": str(tmp_path / "data"),
        "sources": {"docs": {"kind": "files", "path": str(tmp_path / "docs")}},
        "log": {"level": "debug"},
    }
    (tmp_path / "kimas.yaml").write_text(json.dumps(values), "utf-8")
    return tmp_path / "kimas.yaml"


@asynccontextmanager
async def started(configuration: Path, *arguments: str) -> AsyncIterator[Process | forked.ForkedProcess]:
    with (configuration.parent / "errors").open("wb") as errors:
        options = ("--config", str(configuration), *arguments, "mcp")
        process = await forked.start_piped("", *options, stderr=errors.fileno())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def send(process: Process | forked.ForkedProcess, *messages: object) -> None:
    assert process.stdin
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()


async def receive(process: Process | forked.ForkedProcess) -> dict[str, Any]:
    assert process.stdout
    async with asyncio.timeout(60):
        message: dict[str, Any] = json.loads(await process.stdout.readline())
    return message


def request(method: str, number: int, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


INITIALIZE = request("initialize", 0, protocolVersion="2025-06-18", capabilities={}, clientInfo=CLIENT_INFO)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_searches_and_asks(configuration: Path, mode: str) -> None:
    # A warning of a library, which Python prints, is no line of the protocol either.
    arguments = ["-W", "always", "-m", forked.MODULE, "--config", str(configuration), "mcp"]
    parameters = StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT, env=dict(os.environ))
    async with Client(stdio_client(parameters), mode=mode) as client:
        result = await client.call_tool("ask", {"question": "How do I set a proxy?"})
        assert "ROCKET_PROXY" in result.structured_content["answer"]
        assert [citation["path"] for citation in result.structured_content["citations"]] == ["proxy.md"]
        found = await client.call_tool("search", {"query": "proxy"})
        assert "ROCKET_PROXY" in str(found.content)
        [resource] = (await client.list_resources()).resources
        assert resource.uri == "kimas://sources/docs"


async def test_each_line_of_standard_output_is_a_message(configuration: Path) -> None:
    async with started(configuration) as process:
        # The first reading draws its progress meanwhile.
        await send(process, INITIALIZE, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (await receive(process))["result"]["protocolVersion"] == "2025-06-18"
        await send(process, "no message", request("tools/call", 1, name="search", arguments={"query": "代理 proxy"}))
        assert (await receive(process))["id"] == 1
        await send(process, request("tools/call", 2, name="ask", arguments={"question": "How do I\nset a proxy?"}))
        assert "ROCKET_PROXY" in str(await receive(process))
        output, _ = await process.communicate(b"")
        assert (process.returncode, output) == (0, b"")
        assert b"Reading the sources for the first time" in (configuration.parent / "errors").read_bytes()


async def test_a_faulty_setting_leaves_standard_output_empty(configuration: Path) -> None:
    async with started(configuration, "--set", "run.workers=none") as process:
        output, _ = await process.communicate(b"")
    assert (process.returncode, output) == (2, b"")
    assert b"run.workers" in (configuration.parent / "errors").read_bytes()


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
async def test_it_ends_while_standard_input_is_open(configuration: Path, signal_number: signal.Signals) -> None:
    async with started(configuration) as process:
        await send(process, INITIALIZE)
        await receive(process)
        process.send_signal(signal_number)
        async with asyncio.timeout(60):
            assert await process.wait() == (143 if signal_number == signal.SIGTERM else 130)


async def test_a_cancelled_request_is_not_answered_and_others_are(configuration: Path) -> None:
    async with started(configuration) as process:
        await send(process, INITIALIZE)
        await receive(process)
        call = request("tools/call", 1, name="ask", arguments={"question": "How do I set a proxy?"})
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await send(process, call, cancel, request("tools/list", 2))
        assert (await receive(process))["id"] == 2
        output, _ = await process.communicate(b"")
        assert output == b""


async def test_what_is_piped_from_a_file_is_answered(configuration: Path, tmp_path: Path) -> None:
    (tmp_path / "requests").write_text(json.dumps(INITIALIZE) + "\n", "utf-8")
    with (tmp_path / "requests").open() as requests:
        process = await forked.start_piped("", "--config", str(configuration), "mcp", stdin=requests.fileno())
        output, _ = await process.communicate()
    assert json.loads(output)["id"] == 0
