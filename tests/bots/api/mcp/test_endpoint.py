"""`/mcp` on the daemon's server: by the SDK's own client in both eras, and by hand where that is too polite."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import httpx2
import mcp.server._streamable_http_modern as modern
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from bots.api import server as api_server
from bots.api.clients import ClientAnswers
from bots.api.mcp.knowledge import Knowledge
from bots.api.mcp.server import make_server
from bots.api.running import RunningAnswers
from bots.api.server import MAX_BODY_BYTES, serve_api
from core.answering.chat_models import ChatModels
from core.errors import QuotaExceeded
from core.ports import AnswerFunction, Sink
from core.settings import ApiSettings
from core.storage.overrides import LiveSettings
from core.types import Question, Reply
from tests.support.api_helpers import CLIENTS, TEAM, WEBUI, served, set_tokens
from tests.support.fixtures import INSTALL, InMemoryLibrary, OrderKeeper, parts, passage, settings

QUESTION = "How do I install the package?"
LATER = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
META = {
    VERSION_KEY: LATER,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
CLIENT_INFO = {"name": "test", "version": "1"}


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    set_tokens(monkeypatch)


@dataclass
class Response:
    """What came back: the status, the headers, and the message in the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        lines = [line.removeprefix("data:").strip() for line in self.body.decode().splitlines()]
        # A stream may begin with an event without a message.
        [text] = [line for line in lines if line.startswith("{")]
        message: dict[str, Any] = json.loads(text)
        return message

    @property
    def error_code(self) -> int:
        code: int = self.message["error"]["code"]
        return code


async def post(url: str, message: object, **headers: str) -> Response:
    """Send one message to `/mcp`; an underscore in a header's name stands for a hyphen."""
    sent_headers = {
        "Authorization": f"Bearer {WEBUI}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/mcp", data=data, headers={k: v for k, v in sent_headers.items() if v}) as response,
    ):
        return Response(response.status, response.headers, await response.read())


def request(method: str, number: int = 1, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize(version: str = "2025-11-25") -> dict[str, Any]:
    return request("initialize", protocolVersion=version, capabilities={}, clientInfo=CLIENT_INFO)


async def begin_session(url: str, version: str = "2025-11-25", **headers: str) -> dict[str, str]:
    """Begin a session of the earlier era, and return the headers of its requests."""
    response = await post(url, initialize(version), **headers)
    assert response.status == 200
    session_headers = {"Mcp_Session_Id": response.headers["Mcp-Session-Id"], "MCP_Protocol_Version": version, **headers}
    ready = await post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session_headers)
    assert (ready.status, ready.body) == (202, b"")
    return session_headers


def later_headers(method: str, name: str = "") -> dict[str, str]:
    return {"MCP_Protocol_Version": LATER, "Mcp_Method": method, **({"Mcp_Name": name} if name else {})}


@asynccontextmanager
async def connected(url: str, mode: str = "auto", token: str = WEBUI) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http_client,
        Client(streamable_http_client(f"{url}/mcp", http_client=http_client), mode=mode) as client,
    ):
        yield client


@asynccontextmanager
async def serving(answer: AnswerFunction) -> AsyncIterator[str]:
    configuration = ApiSettings.model_validate({"port": 0, "clients": CLIENTS})
    async with serve_api(configuration, LiveSettings(settings()), answer, parts, 4) as port:
        yield f"http://127.0.0.1:{port}"


def text_of(result: types.CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_same_question_has_the_same_answer_as_elsewhere(mode: str) -> None:
    async with served() as api, connected(api.url, mode) as client:
        assert client.protocol_version == (LATER if mode == "auto" else "2025-11-25")
        assert [tool.name for tool in (await client.list_tools()).tools] == ["search", "ask"]
        result = await client.call_tool("ask", {"question": QUESTION})
        _, reply = await api.post("/ask", {"question": QUESTION})
        completion = await api.client().chat.completions.create(
            model="kimas", messages=[{"role": "user", "content": QUESTION}]
        )
    assert text_of(result) == completion.choices[0].message.content
    assert "[1] [Install](<https://example.org/install>)" in text_of(result)
    varying = ("timings_ms", "usage")
    assert {key: value for key, value in result.structured_content.items() if key not in varying} == {
        key: value for key, value in reply.items() if key not in varying
    }


async def test_a_search_gives_passages_with_their_places() -> None:
    async with served() as api, connected(api.url) as client:
        result = await client.call_tool("search", {"query": "install the package"})
        assert not api.peer.agents, "no model is asked"
    [found] = json.loads(text_of(result))["passages"]
    assert (found["source"], found["title"], found["url"]) == ("docs", "Install", "https://example.org/install")
    assert found["score"] > 0
    assert found["text"] == INSTALL.text
    assert result.structured_content is None, "many clients would give a model the same twice"


async def test_long_results_are_whole_hits_and_the_way_to_the_rest() -> None:
    passages = [passage(f"p{number}", f"Install part {number}. " + "word " * 1000) for number in range(50)]
    async with served(library=InMemoryLibrary(passages)) as api, connected(api.url) as client:
        offset: int | None = 0
        ids: list[str] = []
        while offset is not None:
            result = await client.call_tool("search", {"query": "install part", "limit": 50, "offset": offset})
            assert len(text_of(result)) < 8_000 * 4
            values = json.loads(text_of(result))
            assert all(found["text"].endswith("word ") for found in values["passages"])
            ids += [found["passage_id"] for found in values["passages"]]
            offset = values.get("next_offset")
    assert len(ids) == len(set(ids)) == 50


async def test_one_endless_passage_does_not_fill_a_result() -> None:
    library = InMemoryLibrary([passage("p1", "Install it. " + "word " * 100_000)])
    async with served(library=library) as api, connected(api.url) as client:
        result = await client.call_tool("search", {"query": "install"})
    assert len(text_of(result)) < 10_000


async def test_a_token_stands_for_an_audience() -> None:
    secret = passage("secret", "Install the package from the team's own mirror.", source="internal")
    sources = {
        "docs": {"kind": "faq", "path": "faq.yaml"},
        "internal": {"kind": "faq", "path": "internal.yaml", "audience": ["api:team"]},
    }
    library = InMemoryLibrary((INSTALL, secret), document_titles={"internal": ["The mirror"]})
    configuration = settings(sources=sources, api={"port": 0, "clients": CLIENTS})
    async with served(configuration, library) as api:
        async with connected(api.url) as client:
            assert "mirror" not in text_of(await client.call_tool("search", {"query": "install the package mirror"}))
            await client.call_tool("ask", {"question": QUESTION})
            assert "mirror" not in json.dumps(api.peer.requests)
            assert [resource.uri for resource in (await client.list_resources()).resources] == ["kimas://sources/docs"]
            for name in ("internal", "nothing"):
                with pytest.raises(MCPError, match="there is no source"):
                    await client.read_resource(f"kimas://sources/{name}")
        async with connected(api.url, token=TEAM) as client:
            assert "mirror" in text_of(await client.call_tool("search", {"query": "install the package mirror"}))
            await client.call_tool("ask", {"question": QUESTION})
            assert "mirror" in json.dumps(api.peer.requests)
            assert "The mirror" in str(await client.read_resource("kimas://sources/internal"))


async def test_what_its_chat_leaves_out_is_not_searched_for_a_client() -> None:
    """A live source would get its words."""
    mirror = passage("mirror", "Install the package from the mirror.", source="mirrors")
    sources = {name: {"kind": "faq", "path": f"{name}.yaml"} for name in ("docs", "mirrors")}
    chats = {"api:webui": {"sources": ["docs"], "persona": "You speak like a pirate."}}
    configuration = settings(sources=sources, chats=chats, api={"port": 0, "clients": CLIENTS})
    async with served(configuration, InMemoryLibrary((INSTALL, mirror))) as api:
        for token, is_told in ((WEBUI, False), (TEAM, True)):
            api.peer.requests.clear()
            async with connected(api.url, token=token) as client:
                found = text_of(await client.call_tool("search", {"query": "install the package mirror"}))
                await client.call_tool("ask", {"question": QUESTION})
                assert len((await client.list_resources()).resources) == 1 + is_told
            asked = json.dumps(api.peer.requests)
            assert ("mirror" in found, "mirror" in asked, "pirate" in asked) == (is_told, is_told, not is_told)


async def test_a_client_is_searched_for_by_what_the_models_of_its_chat_allow() -> None:
    elsewhere, here = OrderKeeper(), OrderKeeper()
    reranker = {"rerank": "api", "reranker": {"url": "https://rerank.example.org"}}
    configuration = settings(
        models={"sets": {"quotes": {}}}, chats={"api:team": {"models": "quotes"}}, knowledge={"search": reranker}
    )
    deps = parts(configuration=configuration, reranker=elsewhere)
    deps = replace(deps, chat_models=ChatModels({"quotes": None}, lambda: configuration, here))

    async def answer(question: Question, sink: Sink) -> Reply:
        raise AssertionError(question.text)

    answers = ClientAnswers(LiveSettings(configuration), RunningAnswers(answer, 1))
    assert (await answers.restrict(deps, "team")).reranker is here
    assert (await answers.restrict(deps, "webui")).reranker is elsewhere


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:8090"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://chat.example.org"}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer of-nobody-at-all"}, 401),
        ({"Authorization": f"Basic {WEBUI}"}, 401),
    ],
)
async def test_strangers_are_refused(headers: dict[str, str], status: int) -> None:
    origins = ["https://chat.example.org"]
    configuration = settings(api={"port": 0, "clients": CLIENTS, "allowed_origins": origins})
    async with served(configuration) as api:
        assert (await post(api.url, initialize(), **headers)).status == status


async def test_strangers_are_refused_before_their_body_is_read() -> None:
    async with served() as api:
        port = int(api.url.rpartition(":")[2])
        for header in ("Origin: http://evil.example", "Host: evil.example"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            host = "" if header.startswith("Host") else "Host: localhost\r\n"
            head = f"POST /mcp HTTP/1.1\r\n{host}{header}\r\nAuthorization: Bearer {WEBUI}\r\n"
            # A body that never comes.
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n".encode())
            async with asyncio.timeout(30):
                line = await reader.readline()
            assert line.split()[1] in (b"403", b"421")
            writer.close()


async def test_a_refused_host_is_logged_with_the_remedy(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as api:
        response = await post(api.url, initialize(), Host="docs.example.org")
    assert response.status == 421
    assert "docs.example.org" in response.message["error"]["message"]
    assert "api.allowed_hosts" in response.message["error"]["message"]
    assert any("docs.example.org" in record.getMessage() for record in caplog.records)
    configuration = settings(api={"port": 0, "clients": CLIENTS, "allowed_hosts": ["docs.example.org"]})
    async with served(configuration) as api:
        assert (await post(api.url, initialize(), Host="docs.example.org:8443")).status == 200


def test_nobody_is_served_without_a_token() -> None:
    for host in ("0.0.0.0", "127.0.0.1"):  # noqa: S104
        with pytest.raises(ValidationError, match=r"or switch on api\.page: else nobody may ask"):
            ApiSettings.model_validate({"host": host, "port": 0})


async def test_one_endpoint_speaks_both_eras() -> None:
    async with served() as api:
        session = await begin_session(api.url, "2025-06-18")
        listed = await post(api.url, request("tools/list"), **session)
        assert [tool["name"] for tool in listed.message["result"]["tools"]] == ["search", "ask"]
        call = request("tools/call", name="search", arguments={"query": "install"}, _meta=META)
        response = await post(api.url, call, **later_headers("tools/call", "search"))
        assert response.message["result"]["resultType"] == "complete"
        assert "Mcp-Session-Id" not in response.headers
        discovered = await post(api.url, request("server/discover", _meta=META), **later_headers("server/discover"))
        assert LATER in discovered.message["result"]["supportedVersions"]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        (later_headers("tools/call", "a"), 400, -32020),
        (later_headers("tools/call"), 400, -32020),
        (later_headers("tools/list", "search"), 400, -32020),
        ({"MCP_Protocol_Version": LATER, "Mcp_Name": "search"}, 400, -32020),
        ({"Mcp_Method": "tools/call", "Mcp_Name": "search"}, 400, -32020),
        ({**later_headers("tools/call", "search"), "MCP_Protocol_Version": "2025-11-25"}, 400, -32020),
    ],
)
async def test_headers_that_contradict_the_body_are_refused(headers: dict[str, str], status: int, code: int) -> None:
    call = request("tools/call", name="search", arguments={"query": "install"}, _meta=META)
    async with served() as api:
        response = await post(api.url, call, **headers)
    assert (response.status, response.error_code) == (status, code)


async def test_unknown_versions_and_methods_are_named() -> None:
    async with served() as api:
        unknown = {**META, VERSION_KEY: "2099-01-01"}
        headers = {**later_headers("tools/list"), "MCP_Protocol_Version": "2099-01-01"}
        response = await post(api.url, request("tools/list", _meta=unknown), **headers)
        assert (response.status, response.error_code) == (400, -32022)
        assert LATER in response.message["error"]["data"]["supported"]
        response = await post(api.url, request("tools/nothing", _meta=META), **later_headers("tools/nothing"))
        assert (response.status, response.error_code) == (404, -32601)


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")],
)
async def test_versions_are_agreed_on(offered: str, agreed: str) -> None:
    async with served() as api:
        response = await post(api.url, initialize(offered))
        assert response.status == 200
        assert response.message["result"]["protocolVersion"] == agreed
        session = {"Mcp_Session_Id": response.headers["Mcp-Session-Id"]}
        response = await post(api.url, request("tools/list"), MCP_Protocol_Version="2099-01-01", **session)
        assert response.status == 400


async def test_sessions_end_and_belong_to_one_client() -> None:
    async with served() as api:
        session = await begin_session(api.url)
        foreign = await post(api.url, request("tools/list"), **{**session, "Authorization": f"Bearer {TEAM}"})
        assert foreign.status == 404, "another client's session"
        assert (await post(api.url, request("tools/list"), MCP_Protocol_Version="2025-11-25")).status == 400
        headers = {"Authorization": f"Bearer {WEBUI}", "Mcp-Session-Id": session["Mcp_Session_Id"]}
        async with aiohttp.ClientSession() as http:
            async with http.get(f"{api.url}/mcp", headers=headers) as response:
                assert response.status == 405, "nothing is ever sent unasked"
            async with http.delete(f"{api.url}/mcp", headers=headers) as response:
                assert response.status == 200
        assert (await post(api.url, request("tools/list"), **session)).status == 404
        # After a restart clients still send what they know.
        assert (await post(api.url, initialize(), **session)).status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * (MAX_BODY_BYTES + 1), 413),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 200_000, 400),
        (b"[]", 400),
        (b'{"jsonrpc": "2.0", "id": ' + b"9" * 100_000 + b"}", 400),
    ],
    ids=["large", "half", "not-utf8", "deep", "batch", "long-number"],
)
@pytest.mark.parametrize("era", ["2025-11-25", LATER])
async def test_what_is_no_message_is_refused(body: bytes, status: int, era: str) -> None:
    async with served() as api:
        response = await post(api.url, body, MCP_Protocol_Version=era)
        assert response.status == status
        assert (await post(api.url, initialize())).status == 200, "others go on"


async def test_a_failed_tool_is_a_result_and_an_unknown_one_an_error() -> None:
    library = InMemoryLibrary()
    library.broken.add("docs")
    async with served(library=library) as api, connected(api.url) as client:
        result = await client.call_tool("search", {"query": "install"})
        assert result.is_error
        assert text_of(result) == "the answer failed; the log says why"
        wrong: list[tuple[str, dict[str, Any], str]] = [
            ("search", {}, "query has to be a text"),
            ("search", {"query": "install", "limit": 51}, "limit has to be a whole number from 1 to 50"),
            ("search", {"query": "install", "offset": True}, "offset has to be a whole number"),
            ("ask", {"question": " "}, "question has to be a text"),
            ("ask", {"question": "x" * 20_001}, "more than 20000 characters"),
        ]
        for tool, arguments, reason in wrong:
            result = await client.call_tool(tool, arguments)
            assert result.is_error
            assert reason in text_of(result)
        with pytest.raises(MCPError) as caught:
            await client.call_tool("x", {})
        assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (QuotaExceeded("the limit of today is used up", is_repeated=False), "the limit of today is used up"),
        (ZeroDivisionError("internal words"), "the answer failed; the log says why"),
    ],
)
async def test_limits_and_failures_are_told(error: Exception, words: str) -> None:
    async def answer(question: Question, sink: Sink) -> Reply:
        raise error

    async with serving(answer) as url, connected(url) as client:
        result = await client.call_tool("ask", {"question": QUESTION})
    assert (result.is_error, text_of(result)) == (True, words)


async def test_a_cancelled_request_ends_and_others_go_on() -> None:
    begun = asyncio.Event()
    ended = asyncio.Event()

    async def answer(question: Question, sink: Sink) -> Reply:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        raise AssertionError(question.text)

    async with serving(answer) as url:
        session = await begin_session(url)
        call = request("tools/call", 7, name="ask", arguments={"question": QUESTION})
        calling = asyncio.create_task(post(url, call, **session))
        await begun.wait()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert (await post(url, cancel, **session)).status == 202
        async with asyncio.timeout(30):
            await ended.wait()
            assert (await post(url, request("tools/list", 8), **session)).status == 200
            assert b'"result"' not in (await calling).body


async def test_closing_the_stream_ends_the_work_in_the_later_era() -> None:
    begun = asyncio.Event()
    ended = asyncio.Event()

    async def answer(question: Question, sink: Sink) -> Reply:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        raise AssertionError(question.text)

    call = request("tools/call", name="ask", arguments={"question": QUESTION}, _meta=META)
    async with serving(answer) as url:
        calling = asyncio.create_task(post(url, call, **later_headers("tools/call", "ask")))
        await begun.wait()
        calling.cancel()
        async with asyncio.timeout(30):
            await ended.wait()


@pytest.mark.parametrize("era", ["2025-11-25", LATER])
async def test_a_silent_stream_lives_and_is_not_held_back(era: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modern, "_SSE_PING_INTERVAL", 0.2)

    async def answer(question: Question, sink: Sink) -> Reply:
        await asyncio.sleep(1)
        return Reply("Yes.")

    call = request(
        "tools/call", name="ask", arguments={"question": QUESTION}, **({"_meta": META} if era == LATER else {})
    )
    async with serving(answer) as url:
        headers = later_headers("tools/call", "ask") if era == LATER else await begin_session(url)
        response = await post(url, call, **headers)
    assert response.headers["Content-Type"].startswith("text/event-stream")
    assert response.headers["X-Accel-Buffering"] == "no"
    assert "no-transform" in response.headers["Cache-Control"]
    assert (b": ping" in response.body) == (era == LATER), "the SDK sends its first comment after 15 s"
    assert response.message["result"]["structuredContent"]["answer"] == "Yes."


async def test_what_is_closed_while_it_is_searched_is_not_told() -> None:
    sources = {name: {"kind": "faq", "path": f"{name}.yaml"} for name in ("docs", "internal")}
    secret = passage("secret", "Install the package from the team's own mirror.", source="internal")
    deps = parts(InMemoryLibrary((INSTALL, secret)), None, settings(sources=sources))

    async def ask(_: str) -> Reply:
        raise NotImplementedError

    opened = [Knowledge(deps, ask), Knowledge(deps.restricted_to({"docs"}), ask)]

    async def open_knowledge(_: str) -> Knowledge:
        return opened.pop(0)

    async with Client(make_server(open_knowledge)) as client:
        result = await client.call_tool("search", {"query": "install the package mirror"})
    assert result.is_error
    assert "mirror" not in text_of(result)


@pytest.mark.parametrize("method", ["tools/call", "resources/list", "resources/read"])
@pytest.mark.parametrize("era", ["2025-11-25", LATER])
async def test_what_is_closed_before_the_bytes_are_sent_is_not_told(
    era: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {name: {"kind": "faq", "path": f"{name}.yaml"} for name in ("docs", "mirror")}
    secret = passage("secret", "Install the package from the team's own mirror.", source="mirror")
    deps = parts(InMemoryLibrary((INSTALL, secret)), None, settings(sources=sources))

    async def ask(_: str) -> Reply:
        raise NotImplementedError

    async def unasked(question: Question, _: Sink) -> Reply:
        raise AssertionError(question.text)

    # The same names: what they read is closed.
    later = Knowledge(deps, ask, frozenset({"docs#1", "mirror#2"}))
    opened: list[Knowledge] = []

    async def open_knowledge(*_: object) -> Knowledge:
        return opened.pop(0) if opened else later

    monkeypatch.setattr(api_server, "_open_knowledge", open_knowledge)
    params = {
        "tools/call": {"name": "search", "arguments": {"query": "install the package mirror"}},
        "resources/list": {},
        "resources/read": {"uri": "kimas://sources/mirror"},
    }[method]
    call = request(method, 7, **params, **({"_meta": META} if era == LATER else {}))
    name = str(params.get("name") or params.get("uri") or "")
    async with serving(unasked) as url:
        for is_closed in (False, True):
            headers = later_headers(method, name) if era == LATER else await begin_session(url)
            # A tool is judged once more, when its result is there.
            before = Knowledge(deps, ask, frozenset({"docs#1", "mirror#1"}))
            opened[:] = [before] * ((2 if method == "tools/call" else 1) if is_closed else 9)
            response = await post(url, call, **headers)
            assert (b"mirror" in response.body) != is_closed
            assert response.message["id"] == 7
            assert ("error" in response.message) == is_closed
