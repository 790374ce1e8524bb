"""The guarded HTTP client against a server that misbehaves."""

import time
from collections.abc import AsyncIterator

import pytest

from core.errors import SourceError
from knowledge.web.addresses import check_url
from knowledge.web.client import Request, WebClient
from tests.peers.web import Page, WebPeer

ALLOWED = ("127.0.0.1", "localhost")


@pytest.fixture
async def web() -> AsyncIterator[WebPeer]:
    async with WebPeer() as peer:
        yield peer


@pytest.fixture
async def client() -> AsyncIterator[WebClient]:
    async with WebClient(ALLOWED) as opened:
        yield opened


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://10.1.2.3/",
        "http://192.168.0.1:8080/",
        "http://172.16.5.4/",
        "http://169.254.169.254/latest/meta-data/",
        "http://100.64.0.1/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://[::1]/",
        "http://[fe80::1%25eth0]/",
        "http://[fd00::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[2002:7f00:1::]/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://",
        "http://user:secret@example.org/",
        "http://[broken/",
        "http://example.org:port/",
        "gopher://example.org",
    ],
)
async def test_an_address_that_is_not_public_is_refused(url: str) -> None:
    with pytest.raises(SourceError) as refused:
        check_url(url, ())
    assert "secret" not in str(refused.value)
    async with WebClient() as client:
        with pytest.raises(SourceError):
            await client.fetch(Request(url, timeout_s=2))


def test_public_addresses_pass() -> None:
    for url in ("https://example.org/a?b=c", "http://1.1.1.1/", "http://[2606:4700::1111]/"):
        check_url(url, ())
    with pytest.raises(SourceError):
        check_url("http://10.0.0.1/", ())


@pytest.mark.parametrize("form", ["2130706433", "127.1", "0x7f000001", "0177.0.0.1"])
async def test_other_spellings_of_a_private_address_are_refused(web: WebPeer, form: str) -> None:
    async with WebClient() as client:
        with pytest.raises(SourceError):
            await client.fetch(Request(web.url("/", form), timeout_s=3))
    assert web.requests == []


async def test_a_name_that_resolves_to_a_private_address_is_refused(web: WebPeer) -> None:
    async with WebClient() as client:
        with pytest.raises(SourceError, match="allow_private"):
            await client.fetch(Request(web.url("/", "localhost"), timeout_s=3))
    assert web.requests == []


async def test_a_redirect_inward_is_refused(web: WebPeer) -> None:
    web.pages["/away"] = Page(status=302, headers={"Location": web.url("/secret", "localhost")})
    web.pages["/secret"] = Page("inside")
    async with WebClient(("127.0.0.1",)) as client:
        with pytest.raises(SourceError, match="private address"):
            await client.fetch(Request(web.url("/away")))
    assert [request.path for request in web.requests] == ["/away"]


async def test_a_secret_does_not_follow_to_another_host(web: WebPeer, client: WebClient) -> None:
    web.pages["/away"] = Page(status=307, headers={"Location": web.url("/there", "localhost")})
    web.pages["/there"] = Page("there")
    headers = {"Authorization": "Bearer secret", "X-API-Key": "secret", "Accept": "text/html"}
    reply = await client.fetch(Request(web.url("/away"), headers=headers, params={"key": "secret"}))
    assert reply.text() == "there"
    there = web.requests[-1]
    assert "secret" not in str(dict(there.headers)) + there.path_qs
    assert there.headers["Accept"] == "text/html"


async def test_a_redirect_on_the_same_host_keeps_the_secret(web: WebPeer, client: WebClient) -> None:
    web.pages["/old"] = Page(status=301, headers={"Location": "/new?x=1"})
    web.pages["/new"] = Page("new")
    reply = await client.fetch(Request(web.url("/old"), headers={"Authorization": "Bearer secret"}, params={"a": "b"}))
    assert reply.url.endswith("/new?x=1")
    assert web.requests[-1].headers["Authorization"] == "Bearer secret"


async def test_a_circle_of_redirects_ends(web: WebPeer, client: WebClient) -> None:
    web.pages["/round"] = Page(status=302, headers={"Location": "/round"})
    with pytest.raises(SourceError, match="redirects more than"):
        await client.fetch(Request(web.url("/round")))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("slow", "did not answer within 0.3 s"),
        ("endless", "more than the 256 kB"),
        ("short", "connection failed"),
        ("bomb", "more than the 256 kB"),
        ("drop", "connection failed"),
    ],
)
async def test_a_server_that_misbehaves_is_named(web: WebPeer, client: WebClient, fault: str, message: str) -> None:
    web.fault = fault
    limit = 0.3 if fault == "slow" else 10
    started = time.monotonic()
    with pytest.raises(SourceError, match=message) as failed:
        await client.fetch(Request(web.url("/x"), params={"key": "secret"}, timeout_s=limit, kb=256))
    assert "/x" in str(failed.value)
    assert "secret" not in str(failed.value)
    assert time.monotonic() - started < 5


async def test_nobody_listening_is_said(client: WebClient) -> None:
    with pytest.raises(SourceError, match="connection failed"):
        await client.fetch(Request("http://127.0.0.1:1/"))


async def test_text_is_read_by_its_character_set(web: WebPeer, client: WebClient) -> None:
    web.pages["/latin"] = Page("größer".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"})
    web.pages["/odd"] = Page("größer".encode(), headers={"Content-Type": "text/plain; charset=klingon"})
    for path in ("/latin", "/odd"):
        assert (await client.fetch(Request(web.url(path)))).text() == "größer"
