"""Hostile clients on every way in that has a port: huge, slow, malformed, unauthorised and replayed requests end soon.

The server refuses each with a status of the client's, asks no model, and answers the next good request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import bots.api.streaming
import bots.operator_page.server
from bots.cli.browser_setup import BrowserSetup
from core.settings.loader import load_settings
from tests.support.api_helpers import CLIENTS, WEBUI, served, set_tokens
from tests.support.fixtures import settings
from tests.support.operator_page import OWNER, browser, operator_page, read

BEARER = {"Authorization": f"Bearer {WEBUI}"}
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
QUESTION = "How do I install the package?"
TURNS = {"messages": [{"role": "user", "content": QUESTION}]}
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}
REFUSED = range(400, 500)
# What a server of ours takes at most, and more.
HUGE = 2 * 2**20
LIMIT_S = 30.0


@dataclass(frozen=True)
class WayIn:
    """A path, the headers of somebody who may ask there, and a good body."""

    path: str
    headers: Mapping[str, str]
    body: object
    is_on_own_page: bool = False
    good_statuses: tuple[int, ...] = (200,)


WAYS_IN = {
    "endpoint": WayIn("/v1/chat/completions", BEARER, TURNS),
    "ask": WayIn("/ask", BEARER, {"question": QUESTION}),
    "mcp": WayIn("/mcp", BEARER, INITIALIZE),
    "page": WayIn("/ask/answer", {}, TURNS, is_on_own_page=True),
    "rating": WayIn("/ask/rating", {}, {"id": "x", "verdict": "up"}, is_on_own_page=True, good_statuses=(410,)),
}
MALFORMED = {
    "empty": b"",
    "no JSON": b"\xff\xfe\x00not json",
    "deep": b"[" * 100_000,
    "deep messages": b'{"messages": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "a list": b"[1, 2]",
    "no texts": b'{"messages": [{"role": "user", "content": {"a": 1}}], "question": 5, "id": [], "verdict": {}}',
    "a number beyond all": b'{"messages": 1e999999, "question": NaN}',
    "digits without end": b'{"question": ' + b"9" * 30_000 + b"}",
}


@dataclass(frozen=True)
class Place:
    """A server of this machine."""

    port: int

    async def send(self, head: bytes, body: bytes = b"", *, is_kept_open: bool = False) -> int:
        """Send bytes, and return the status of the response; 0 where the server closes without one."""
        async with asyncio.timeout(LIMIT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(head + body)
                if not is_kept_open:
                    writer.write_eof()
                words = (await reader.readline()).split()
            except ConnectionError:
                words = []
            finally:
                writer.close()
            return int(words[1]) if len(words) > 1 else 0

    def make_head(self, path: str, headers: Mapping[str, str], size: int) -> bytes:
        lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Content-Length: {size}"]
        lines += [f"{name}: {value}" for name, value in {**JSON, **headers}.items()]
        return "\r\n".join([*lines, "", ""]).encode()

    async def post(self, way_in: WayIn, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        origin = {"Origin": f"http://127.0.0.1:{self.port}"} if way_in.is_on_own_page else {}
        sent_headers = {**origin, **(way_in.headers if headers is None else headers)}
        return await self.send(self.make_head(way_in.path, sent_headers, len(body)), body, is_kept_open=True)


@asynccontextmanager
async def attacked(way_in: WayIn) -> AsyncIterator[Place]:
    """Serve the API to hostile clients; afterwards it has done no work, and serves whoever may ask."""
    page = {"enabled": True, "per_minute": 50}
    async with served(settings(api={"port": 0, "clients": CLIENTS, "page": page})) as api:
        place = Place(int(api.url.rpartition(":")[2]))
        yield place
        assert (api.peer.agents, api.library.queries) == ([], [])
        assert await place.post(way_in, json.dumps(way_in.body).encode()) in way_in.good_statuses


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    set_tokens(monkeypatch)
    for module in (bots.api.streaming, bots.operator_page.server):
        monkeypatch.setattr(module, "READ_TIMEOUT_S", 0.3)


@pytest.mark.parametrize("name", WAYS_IN)
async def test_a_huge_body_is_refused(name: str) -> None:
    way_in = WAYS_IN[name]
    async with attacked(way_in) as place:
        body = json.dumps({**TURNS, "question": "x" * HUGE}).encode()
        # The server may close while the client still writes.
        assert await place.post(way_in, body) in (0, 413)
        head = place.make_head(way_in.path, {**way_in.headers, "X-Long": "x" * 100_000}, 2)
        assert await place.send(head, b"{}") in (0, 400, 431)


@pytest.mark.parametrize("name", WAYS_IN)
@pytest.mark.parametrize("size", [100, 10**12])
async def test_a_body_that_does_not_come_is_waited_for_in_vain(name: str, size: int) -> None:
    way_in = WAYS_IN[name]
    async with attacked(way_in) as place:
        origin = {"Origin": f"http://127.0.0.1:{place.port}"} if way_in.is_on_own_page else {}
        head = place.make_head(way_in.path, {**origin, **way_in.headers}, size)
        assert await place.send(head, b'{"m', is_kept_open=True) in (408, 413)


@pytest.mark.parametrize("name", WAYS_IN)
async def test_what_is_no_question_is_refused(name: str) -> None:
    way_in = WAYS_IN[name]
    async with attacked(way_in) as place:
        for kind, body in MALFORMED.items():
            assert await place.post(way_in, body) in REFUSED, kind
        packed = {**way_in.headers, "Content-Encoding": "gzip"}
        origin = {"Origin": f"http://127.0.0.1:{place.port}"} if way_in.is_on_own_page else {}
        assert await place.post(way_in, b"\x1f\x8b\x08\x00" * 99, {**origin, **packed}) in REFUSED


@pytest.mark.parametrize("name", WAYS_IN)
async def test_who_may_not_ask_is_refused_before_the_body_is_read(name: str) -> None:
    way_in = WAYS_IN[name]
    async with attacked(way_in) as place:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Origin": "http://evil.example"}):
            head = place.make_head(way_in.path, headers, HUGE)
            assert await place.send(head, b"{", is_kept_open=True) in (401, 403), headers


async def test_the_same_request_again_and_again_reaches_the_limit_of_the_page() -> None:
    way_in = WAYS_IN["page"]
    page = {"enabled": True, "per_minute": 3}
    async with served(settings(api={"port": 0, "clients": CLIENTS, "page": page})) as api:
        place = Place(int(api.url.rpartition(":")[2]))
        body = json.dumps(way_in.body).encode()
        assert [await place.post(way_in, body) for _ in range(6)] == [200] * 3 + [429] * 3


async def test_what_is_no_form_of_the_set_up_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_TOKEN", "")
    monkeypatch.setenv("PAGE_OWNER_TOKEN", "")
    configuration = tmp_path / "kimas.yaml"
    configuration.write_text("name: KIMAs\n", "utf-8")
    loaded = load_settings([configuration], (), {}, require_sources=False)
    monkeypatch.setenv("PAGE_OWNER_TOKEN", OWNER)
    monkeypatch.setenv("PAGE_TOKEN", "a-token-to-read-with")
    setup = BrowserSetup(configuration)
    async with (
        operator_page(tmp_path, {}, settings=loaded, setup=setup) as page,
        browser(page, OWNER) as client,
    ):
        place = Place(int(page.url.rpartition(":")[2]))
        hidden = await read(client, "/setup")
        assert "form_token" in hidden
        cookie = "; ".join(f"{item.key}={item.value}" for item in client.cookie_jar)
        form = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
        for path in ("/setup/owner", "/setup/source", "/sign-in"):
            head = place.make_head(path, form, 100)
            assert await place.send(head, b"a=", is_kept_open=True) == 408
            assert await place.send(place.make_head(path, form, HUGE), b"a=" + b"x" * HUGE, is_kept_open=True) in (
                0,
                413,
            )
            for body in (b"\xff" * 99, b"&" * 20_000, b"form_token=%00%ff"):
                way_in = WayIn(path, form, None)
                assert await place.post(way_in, body) in REFUSED, (path, body[:9])
        assert configuration.read_text("utf-8") == "name: KIMAs\n"
        await read(client, "/setup")
