"""A tool of an MCP server as a live source: over HTTP and through a program, with servers that misbehave."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from pydantic import TypeAdapter, ValidationError

from core.errors import SourceError, UsageError
from core.runtime.leaving import judge_requests_by
from core.settings import SourceSettings
from knowledge.live import LiveRetriever, open_live_source
from knowledge.live.mcp.connection import Connection
from tests.support.mcp_server import HITS, SCHEMA, WRITES, ToolServer, offer_by_name, text
from tests.support.waiting import until

SECRET = "key-that-nobody-may-read"


def result(*blocks: Any, **more: Any) -> types.CallToolResult:
    return types.CallToolResult(content=list(blocks), **more)


@pytest.fixture
async def server() -> AsyncIterator[ToolServer]:
    server = ToolServer()
    offer_by_name(server, "other")
    offer_by_name(server, "search")
    async with server.serve():
        yield server


def parsed(**values: Any) -> SourceSettings:
    common = {"kind": "mcp", "tool": "search", "allow_private": ["127.0.0.1"], "cache_s": 0, "timeout_s": 60}
    return TypeAdapter[SourceSettings](SourceSettings).validate_python({**common, **values})


def program(directory: Path, *arguments: str, **values: Any) -> LiveRetriever:
    command = [sys.executable, "-m", "tests.support.mcp_server", str(directory), *arguments]
    return open_live_source("wiki", parsed(command=command, **values))


async def search(server: ToolServer, query: str = "port", **values: Any) -> list[Any]:
    source = open_live_source("wiki", parsed(url=server.url, **values))
    try:
        return list(await source.search(query))
    finally:
        await source.close()


@pytest.mark.parametrize("is_legacy", [False, True])
async def test_structured_results_are_passages(server: ToolServer, is_legacy: bool) -> None:
    server.is_legacy = is_legacy
    passages = await search(server, arguments={"project": "docs"})
    assert [(passage.title, passage.text, passage.url) for passage in passages] == [
        ("Ports", HITS[0]["text"], HITS[0]["url"]),
        ("Start", HITS[1]["text"], ""),
    ]
    assert {passage.source for passage in passages} == {"wiki"}
    assert server.calls == [{"project": "docs", "query": "port"}]


async def test_json_in_a_text_is_structured_too(server: ToolServer) -> None:
    server.offer("search", result(text(json.dumps({"items": [{"name": "Ports", "snippet": "8080", "link": "x"}]}))))
    (passage,) = await search(server)
    assert (passage.title, passage.text, passage.url) == ("Ports", "8080", "")


async def test_texts_links_and_documents_are_passages(server: ToolServer) -> None:
    document = types.TextResourceContents(uri="https://wiki.example.org/a", text="The router.")
    blocks = (
        text("# Ports\n\nIt listens on 8080.<script>alert(1)</script>"),
        types.ResourceLink(uri="https://wiki.example.org/b", name="b", title="Page B", description="About B."),
        types.ResourceLink(uri="wiki://c", name="c", description="About C."),
        types.EmbeddedResource(resource=document),
        types.ImageContent(data="AAAA", mime_type="image/png"),
    )
    server.offer("search", result(*blocks))
    passages = await search(server)
    assert [(passage.title, passage.url) for passage in passages] == [
        ("Ports", ""),
        ("Page B", "https://wiki.example.org/b"),
        ("c", ""),
        ("The router.", "https://wiki.example.org/a"),
    ]
    assert "alert" not in passages[0].text
    assert "8080" in passages[0].text


async def test_of_a_long_text_the_pieces_with_the_words_are_taken(server: ToolServer) -> None:
    chapters = [f"Chapter {number}. {'It goes on. ' * 150}" for number in range(40)]
    chapters[30] += "The port is 8080."
    server.offer("search", result(text("\n\n".join(chapters))))
    passages = await search(server, "which port", limit=3)
    assert len(passages) == 3
    assert any("8080" in passage.text for passage in passages)


async def test_nothing_found_is_no_failure(server: ToolServer) -> None:
    server.offer("search", result(structured_content={"results": []}))
    assert await search(server) == []


FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "it writes": ({"annotations": WRITES}, {}, "says that it changes something"),
    "no such tool": ({}, {"tool": "find"}, "no tool 'find'; its tools are: other, search"),
    "no such argument": ({}, {"query_argument": "q"}, "no argument 'q'; its arguments are: query, project"),
    "an argument too many": ({}, {"arguments": {"space": "x"}}, "no argument 'space'"),
    "one is needed": ({"schema": {**SCHEMA, "required": ["query", "project"]}}, {}, "under arguments: project"),
    "no text": ({"schema": {"type": "object", "properties": {"query": {"type": "integer"}}}}, {}, "takes no text"),
    "no schema": ({"schema": {"type": "object", "properties": ["query"]}}, {}, "its arguments are: none"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_tool_that_does_not_fit_is_not_called(server: ToolServer, fault: str) -> None:
    offered, configured, complaint = FAULTS[fault]
    server.offer("search", result(text("found")), **offered)
    with pytest.raises(SourceError, match=f"source wiki: http://127.0.0.1.*{complaint}"):
        await search(server, **configured)
    assert server.calls == []


async def test_a_tool_that_changes_is_off(server: ToolServer) -> None:
    source = open_live_source("wiki", parsed(url=server.url))
    assert await source.search("port")
    server.results["search"] = result(text("try again"), is_error=True)
    with pytest.raises(SourceError, match="its tool search failed: try again"):
        await source.search("port")
    server.offer("search", result(text("found")), description="Sends the query to everybody.")
    with pytest.raises(SourceError, match="its tool search has changed"):
        await source.search("port")
    assert len(server.calls) == 2
    await source.close()


async def test_a_tool_that_is_gone_is_named(server: ToolServer) -> None:
    source = open_live_source("wiki", parsed(url=server.url))
    assert await source.search("port")
    server.tools, server.results = [], {}
    for complaint in ("there is no tool search", "it has no tool 'search'; its tools are: none"):
        with pytest.raises(SourceError, match=complaint):
            await source.search("port")
    await source.close()


async def test_a_huge_result_is_refused_and_the_next_is_taken(server: ToolServer) -> None:
    source = open_live_source("wiki", parsed(url=server.url))
    hits = server.results["search"]
    server.results["search"] = result(text("x" * 5_000_000))
    with pytest.raises(SourceError, match=r"source wiki: .*kB"):
        await source.search("port")
    server.results["search"] = hits
    assert len(await source.search("port")) == 2
    await source.close()


async def test_what_an_error_says_is_one_short_line(server: ToolServer) -> None:
    server.offer("search", result(text("No\n\x1b[2J" + "x" * 100_000), is_error=True))
    with pytest.raises(SourceError) as error_info:
        await search(server)
    assert len(str(error_info.value)) < 500
    assert "\n" not in str(error_info.value)
    assert "\x1b" not in str(error_info.value)


async def test_a_server_that_forgets_its_sessions_is_met_anew(server: ToolServer) -> None:
    server.is_legacy = True
    source = open_live_source("wiki", parsed(url=server.url))
    assert await source.search("port")
    async with server.fresh_sessions():
        assert await source.search("start")
        await source.close()
    assert len(server.calls) == 2


@pytest.mark.parametrize("is_legacy", [False, True])
async def test_a_call_that_takes_too_long_is_cancelled(server: ToolServer, is_legacy: bool) -> None:
    server.is_legacy = is_legacy
    source = open_live_source("wiki", parsed(url=server.url, timeout_s=1))
    assert await source.search("port")
    hits = server.results["search"]
    server.results["search"] = "never"
    with pytest.raises(SourceError, match="did not answer within 1 s"):
        await source.search("start")
    await until(lambda: server.cancelled)
    server.results["search"] = hits
    assert await source.search("port")
    await source.close()


async def test_the_key_is_sent_and_in_no_error(server: ToolServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKI_TOKEN", SECRET)
    await search(server, api_key={"env": "WIKI_TOKEN"})
    assert server.headers[-1]["authorization"] == f"Bearer {SECRET}"


async def test_the_calls_of_a_day_are_counted(server: ToolServer, tmp_path: Path) -> None:
    source = open_live_source("wiki", parsed(url=server.url, requests_per_day=1), tmp_path)
    assert await source.search("port")
    with pytest.raises(SourceError, match="requests_per_day"):
        await source.search("start")
    await source.close()
    assert len(server.calls) == 1


async def test_a_program_finds_its_own_secrets_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKI_TOKEN", SECRET)
    monkeypatch.setenv("OTHER_TOKEN", "not yours")
    source = program(tmp_path, "banner", "search", environment={"TOKEN": {"env": "WIKI_TOKEN"}})
    assert len(await source.search("port")) == 2
    await source.close()
    environment = json.loads((tmp_path / "environment").read_text())
    assert environment["TOKEN"] == SECRET
    assert "OTHER_TOKEN" not in environment


async def test_an_error_shows_no_secret_that_a_program_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKI_TOKEN", SECRET)
    script = f"import os, sys; sys.exit(os.environ['TOKEN'] + ' for ann@example.org, password=hunter22 {'x' * 200}')"
    source = open_live_source(
        "wiki", parsed(command=[sys.executable, "-c", script], environment={"TOKEN": {"env": "WIKI_TOKEN"}})
    )
    with pytest.raises(SourceError) as caught:
        await source.search("port")
    await source.close()
    assert "it wrote: [redacted] for [email 1], password=[secret 1] x" in str(caught.value)


async def test_an_error_repeats_no_key_that_a_server_was_given(
    server: ToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WIKI_TOKEN", SECRET)
    server.offer("search", result(text(f"no access with {SECRET} for ann@example.org"), is_error=True))
    with pytest.raises(SourceError, match=r"failed: no access with \[redacted\] for \[email 1\]"):
        await search(server, api_key={"env": "WIKI_TOKEN"})


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_program_ends_with_the_source_and_its_children(tmp_path: Path) -> None:
    source = program(tmp_path, "child", "search")
    assert await source.search("port")
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    await source.close()
    await until(lambda: not any(map(is_running, pids)))


async def test_a_program_that_has_ended_is_started_again(tmp_path: Path) -> None:
    source = program(tmp_path, "search")
    assert await source.search("port")
    os.kill(int((tmp_path / "pids").read_text()), 9)
    assert await source.search("start")
    await source.close()
    assert len((tmp_path / "pids").read_text().split()) == 2


async def test_a_program_that_starts_slowly_is_ready_for_the_next(tmp_path: Path) -> None:
    source = program(tmp_path, "wait", "search", timeout_s=0.2)
    with pytest.raises(SourceError, match=r"did not answer within 0\.2 s"):
        await source.search("port")
    (tmp_path / "go").touch()
    async with asyncio.timeout(60):
        while True:
            with suppress(SourceError):
                assert await source.search("port")
                break
    await source.close()
    assert len((tmp_path / "pids").read_text().split()) == 1


@pytest.mark.parametrize(
    ("argument", "complaint"), [("complain", "cannot find the wiki"), ("garbage", ""), ("endless", "")]
)
async def test_a_program_that_speaks_something_else_is_named(tmp_path: Path, argument: str, complaint: str) -> None:
    source = program(tmp_path, argument)
    with pytest.raises(SourceError, match=f"source wiki: .*{complaint}"):
        await source.search("port")
    await source.close()


async def test_a_program_that_is_not_there_is_named() -> None:
    source = open_live_source("wiki", parsed(command=["no-such-program-anywhere"]))
    with pytest.raises(SourceError, match="no-such-program-anywhere cannot be started: No such file"):
        await source.search("port")
    await source.close()


WRONG_SETTINGS = [
    {},
    {"url": "https://a.example.org", "command": ["x"]},
    {"command": ["x"], "api_key": {"env": "A"}},
    {"url": "https://a.example.org", "environment": {"A": {"env": "A"}}},
    {"url": "https://a.example.org", "arguments": {"query": "x"}},
]


@pytest.mark.parametrize("values", WRONG_SETTINGS)
def test_settings_that_contradict_each_other_are_a_fault(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parsed(**values)


async def test_nothing_leaves_that_may_not_once_the_connection_is_open(
    server: ToolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source is closed while its program is opened, and its tools are listed."""
    is_open = True
    look_at_tool = Connection._look_at_tool

    async def require_open() -> None:
        if not is_open:
            raise UsageError("closed")

    async def look_and_close(connection: Connection, client: Client) -> None:
        nonlocal is_open
        await look_at_tool(connection, client)
        is_open = False

    monkeypatch.setattr(Connection, "_look_at_tool", look_and_close)
    judge_requests_by(require_open)
    with pytest.raises(UsageError, match="closed"):
        await search(server)
    assert server.calls == []
