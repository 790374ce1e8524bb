"""Visitors ask without a token: where from, how often, and from what."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from ipaddress import ip_network
from typing import Any

import aiohttp
import pytest
from pydantic import ValidationError

from bots.api.page.server import PAGE_PATH, SCRIPT_PATH
from bots.api.page.visitors import VisitorLimit, find_visitor
from core.settings import ApiSettings, Settings
from tests.support.api_helpers import CLIENTS, served, set_tokens
from tests.support.fixtures import INSTALL, InMemoryLibrary, passage, settings

EMBEDDING = "https://docs.example.org"
BODY = {"messages": [{"role": "user", "content": "How do I install the package?"}]}


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    set_tokens(monkeypatch)


def with_page(**page: Any) -> Settings:
    return settings(api={"port": 0, "page": {"enabled": True, **page}})


async def post(url: str, body: object = BODY, **headers: str) -> tuple[int, Any, Mapping[str, str]]:
    sent_headers = {"Origin": url, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/ask/answer", json=body, headers={k: v for k, v in sent_headers.items() if v}) as response,
    ):
        text = await response.text()
        is_stream = response.headers["Content-Type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        return response.status, events if is_stream else json.loads(text), response.headers


async def test_without_the_page_nobody_asks_without_a_token() -> None:
    async with served() as api, aiohttp.ClientSession() as session:
        for path in (PAGE_PATH, SCRIPT_PATH):
            async with session.get(f"{api.url}{path}") as response:
                assert response.status == 401
        assert (await post(api.url))[0] == 401


async def test_the_page_opens_only_what_is_the_visitors() -> None:
    async with served(with_page()) as api, aiohttp.ClientSession() as session:
        async with session.get(f"{api.url}{PAGE_PATH}") as response:
            assert response.status == 200
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            assert "Set-Cookie" not in response.headers
        for method, path in (
            ("POST", "/ask"),
            ("POST", "/v1/chat/completions"),
            ("GET", "/v1/models"),
            ("POST", "/mcp"),
        ):
            async with session.request(method, f"{api.url}{path}", json=BODY) as response:
                assert response.status == 401
        status, reply, headers = await post(api.url)
        assert (status, reply["answer"]) == (200, "Install it with pip [1].")
        assert [citation["url"] for citation in reply["citations"]] == ["https://example.org/install"]
        assert set(reply) == {"answer", "citations"}
        assert "Set-Cookie" not in headers


@pytest.mark.parametrize(
    "text", ['### Task:\n{"tags": ["x"]} Why?', "### Task:\n<context>cheese</context>\nHow do I install it?"]
)
async def test_what_a_visitor_types_is_a_question_with_all_its_words(text: str) -> None:
    async with served(with_page()) as api:
        status, _, _ = await post(api.url, {"messages": [{"role": "user", "content": text}]})
        assert status == 200
        assert text in api.library.queries[0]
        status, error, _ = await post(api.url, {"messages": [{"role": "user", "content": text + "x" * 30_000}]})
        assert (status, error["error"]["param"]) == (400, "messages")


async def test_an_answer_streams_and_ends_checked() -> None:
    rest = " ".join(f"The step number {number} follows then." for number in range(12))
    async with served(with_page(), write=f"Install the package with pip [p1]. {rest}") as api:
        api.peer.tokens_per_s = 100
        _, events, headers = await post(api.url, {**BODY, "stream": True})
    assert headers["X-Accel-Buffering"] == "no"
    assert len([event for event in events if "part" in event]) > 1
    assert events[-1]["answer"].startswith("Install the package with pip [1].")
    assert [list(event) for event in events].count(["answer", "citations"]) == 1


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (EMBEDDING, 200),
        ("https://evil.example", 403),
        ("https://docs.example.org.evil.example", 403),
        ("null", 403),
        ("https://[", 403),
        ("", 403),
    ],
)
async def test_listed_sites_may_embed_it_and_no_others(origin: str, status: int) -> None:
    async with served(with_page(allowed_origins=[EMBEDDING])) as api, aiohttp.ClientSession() as session:
        found, _, headers = await post(api.url, Origin=origin)
        assert found == status
        assert headers.get("Access-Control-Allow-Origin") == (origin if status == 200 else None)
        preflight = {"Origin": origin, "Access-Control-Request-Headers": "content-type"}
        async with session.options(f"{api.url}/ask/answer", headers=preflight) as response:
            assert ("Access-Control-Allow-Origin" in response.headers) == (status == 200)
        assert (await post(api.url, Host="evil.example", Origin="http://evil.example"))[0] == 421


def test_one_address_cannot_use_up_what_all_may_ask() -> None:
    limit = VisitorLimit(3, 5, lambda: 0.0)
    assert [limit.admits("192.0.2.1") for _ in range(30)] == [True] * 3 + [False] * 27
    others = [limit.admits(f"192.0.2.{number}") for number in range(2, 6)]
    assert others == [True, True, False, False], "27 refused tries took nothing from the others"


async def test_new_ids_and_forged_addresses_change_nothing_behind_a_proxy() -> None:
    # So few a minute that a slow run gives nobody another one.
    async with served(with_page(per_minute=1, all_per_minute=2, trusted_proxies=["127.0.0.0/8"])) as api:
        # The proxy's own entry is the last one.
        statuses = [
            (await post(api.url, Cookie=f"id={number}", X_Forwarded_For=f"10.9.9.{number}, 192.0.2.1"))[0]
            for number in range(5)
        ]
        assert statuses == [200] + [429] * 4
        others = [(await post(api.url, X_Forwarded_For=f"192.0.2.{number}"))[0] for number in (2, 3)]
        assert others == [200, 429]


async def test_behind_a_web_server_the_page_has_the_name_that_is_passed_on() -> None:
    configuration = settings(api={"port": 0, "allowed_hosts": ["ask.example.org"], "page": {"enabled": True}})
    async with served(configuration) as api:
        assert (await post(api.url, Host="ask.example.org:8443", Origin="https://ask.example.org:8443"))[0] == 200
        status, error, _ = await post(api.url, Origin="https://ask.example.org:8443")
    assert (status, error["error"]["code"]) == (403, "origin")


async def test_a_minute_has_room_for_many_visitors() -> None:
    async with served(with_page(trusted_proxies=["127.0.0.1"])) as api:
        statuses = [(await post(api.url, X_Forwarded_For=f"192.0.2.{number}"))[0] for number in range(12)]
    assert statuses == [200] * 12


async def test_forged_addresses_are_ignored_without_a_proxy() -> None:
    async with served(with_page(per_minute=1)) as api:
        statuses = [(await post(api.url, X_Forwarded_For=f"192.0.2.{number}"))[0] for number in range(3)]
    assert statuses == [200, 429, 429]


def test_a_limit_recovers() -> None:
    now = 0.0
    limit = VisitorLimit(2, 100, lambda: now)
    assert [limit.admits("a"), limit.admits("a"), limit.admits("a")] == [True, True, False]
    now = 30.0
    assert [limit.admits("a"), limit.admits("a")] == [True, False]


@pytest.mark.parametrize(
    ("peer", "forwarded", "visitor"),
    [
        ("192.0.2.1", "198.51.100.1", "192.0.2.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "6.6.6.6, nonsense", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("2001:db8::1", "", "2001:db8::/64"),
        ("2001:db8::2", "", "2001:db8::/64"),
        ("::ffff:192.0.2.1", "", "192.0.2.1"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("", "1.2.3.4", ""),
    ],
)
def test_who_asks_is_read_from_the_right(peer: str, forwarded: str, visitor: str) -> None:
    assert find_visitor(peer, forwarded, [ip_network("10.0.0.0/8")]) == visitor


@pytest.mark.parametrize(
    ("audience", "is_open"), [("api:team", False), ("owners", False), ("api:page", True), ("api", False)]
)
async def test_visitors_are_answered_from_what_is_open_to_them(audience: str, is_open: bool) -> None:
    secret = passage("secret", "Install the package from the team's own mirror.", source="internal")
    sources = {
        "docs": {"kind": "faq", "path": "faq.yaml"},
        "internal": {"kind": "faq", "path": "internal.yaml", "audience": [audience]},
    }
    clients = CLIENTS if audience in ("api:team", "api") else {}
    configuration = settings(sources=sources, api={"port": 0, "clients": clients, "page": {"enabled": True}})
    async with served(configuration, InMemoryLibrary((INSTALL, secret))) as api:
        assert (await post(api.url))[0] == 200
        assert ("own mirror" in json.dumps(api.peer.requests)) == is_open


async def test_what_is_no_question_is_refused() -> None:
    async with served(with_page()) as api:
        assert (await post(api.url, {"messages": []}))[0] == 400
        assert (await post(api.url, {"messages": [{"role": "user", "content": "x" * 30_000}]}))[0] == 400
        assert (await post(api.url, {"padding": "x" * 100_000}))[0] == 413


async def test_what_comes_in_chunks_is_measured_too() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield json.dumps({**BODY, "padding": "x" * 100_000}).encode()

    async with (
        served(with_page()) as api,
        aiohttp.ClientSession() as session,
        session.post(f"{api.url}/ask/answer", data=chunks(), headers={"Origin": api.url}) as response,
    ):
        assert response.status == 413


async def test_who_asks_too_often_is_refused_before_the_question_is_read() -> None:
    async with served(with_page(per_minute=1)) as api:
        assert (await post(api.url))[0] == 200
        assert (await post(api.url, {"padding": "x" * 100_000}))[0] == 429


def test_the_name_of_the_page_is_no_clients() -> None:
    with pytest.raises(ValidationError, match="stands for the visitors"):
        ApiSettings.model_validate({"port": 0, "clients": {"page": CLIENTS["webui"]}})


def test_a_page_without_a_port_is_a_fault() -> None:
    with pytest.raises(ValidationError, match=r"give a port, api\.port"):
        ApiSettings.model_validate({"page": {"enabled": True}})
