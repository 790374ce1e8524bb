"""The guarded HTTP client against a server that misbehaves."""

import encodings.aliases
import socket
import time
from collections.abc import AsyncIterator
from functools import partial
from importlib.metadata import version
from typing import Any

import pytest
from aiohttp.abc import AbstractResolver

from core.errors import SourceError
from knowledge.web.addresses import check_url
from knowledge.web.charsets import decode_content
from knowledge.web.client import Request, WebClient, guard_resolver
from tests.support.growth import Growth, Text, find_growth
from tests.support.peers.web import Page, WebPeer

# A linear codec takes some 10 ns a character, a quadratic one 50 ms for 8000.
CODEC_LIMITS = Growth(800, 0.0005, 8000, 0.02)
ALLOWED = ("127.0.0.1", "localhost")


@pytest.fixture
async def web() -> AsyncIterator[WebPeer]:
    async with WebPeer() as peer:
        yield peer


@pytest.fixture
async def client() -> AsyncIterator[WebClient]:
    async with WebClient(ALLOWED) as client:
        yield client


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
        "http://192.0.0.8/",
        "http://168.63.129.16/",
        "http://192.88.99.1/",
        "http://[5f00::1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[64:ff9b:1::7f00:1]/",
        "http://[fec0::1]/",
        "http://[::127.0.0.1]/",
        "http://[::ffff:0:127.0.0.1]/",
        "http://[::]/",
        "http://１２７.0.0.1/",
        "http://①②⑦.0.0.1/",
        "http://127。0。0。1/",
        "http://127．0．0．1/",
        "http://１０.１.２.３/",
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
    with pytest.raises(SourceError) as error_info:
        check_url(url, ())
    assert "secret" not in str(error_info.value)
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


@pytest.mark.parametrize("host", ["127.0.0.1", "①②⑦.0.0.1", "127。0。0。1"])
async def test_the_socket_itself_refuses_a_private_address(
    web: WebPeer, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """An address that the check of the URL would miss gets no connection: a literal is never resolved."""
    monkeypatch.setattr("knowledge.web.client.check_url", lambda url, allowed_hosts: None)
    async with WebClient(("localhost",)) as client:
        with pytest.raises(SourceError, match="allow_private"):
            await client.fetch(Request(web.url("/", host), timeout_s=3))
        assert web.requests == []
        # What is allowed by name is reached, and what it resolved to counts as allowed.
        assert (await client.fetch(Request(web.url("/", "localhost")))).status == 404


@pytest.mark.parametrize("host", ["①②⑦.0.0.1", "１２７.0.0.1", "127.0.0.1."])
async def test_a_redirect_to_another_spelling_of_a_private_address_is_refused(web: WebPeer, host: str) -> None:
    web.pages["/away"] = Page(status=302, headers={"Location": web.url("/secret", host)})
    async with WebClient(("localhost",)) as client:
        with pytest.raises(SourceError):
            await client.fetch(Request(web.url("/away", "localhost")))
    assert [request.path for request in web.requests] == ["/away"]


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


@pytest.mark.parametrize("name", ["Authorization", "X-API-Key", "X-Auth-Token", "PRIVATE-TOKEN", "Cookie", "Api-Key"])
async def test_a_secret_does_not_follow_to_another_host(web: WebPeer, client: WebClient, name: str) -> None:
    web.pages["/away"] = Page(status=307, headers={"Location": web.url("/there", "localhost")})
    web.pages["/there"] = Page("there")
    headers = {name: "secret", "Accept": "text/html"}
    reply = await client.fetch(Request(web.url("/away"), headers=headers, params={"key": "secret"}))
    assert reply.text() == "there"
    last_request = web.requests[-1]
    assert "secret" not in str(dict(last_request.headers)) + last_request.path_qs
    assert last_request.headers["Accept"] == "text/html"


async def test_servers_read_who_asks_and_in_which_version(client: WebClient, web: WebPeer) -> None:
    web.pages["/"] = Page("text")
    await client.fetch(Request(web.url("/")))
    assert web.requests[-1].headers["User-Agent"].startswith(f"KIMAs/{version('kimas')} ")


@pytest.mark.parametrize("status", [307, 308])
async def test_a_body_does_not_follow_to_another_host(web: WebPeer, client: WebClient, status: int) -> None:
    web.pages["/away"] = Page(status=status, headers={"Location": web.url("/there", "localhost")})
    web.pages["/there"] = Page("there")
    with pytest.raises(SourceError, match="the body of a request is not sent") as error_info:
        await client.fetch(Request(web.url("/away"), "POST", body={"api_key": "secret"}))
    assert [request.path for request in web.requests] == ["/away"]
    assert "secret" not in str(error_info.value)


async def test_another_port_of_the_same_host_is_another_host(web: WebPeer, client: WebClient) -> None:
    async with WebPeer() as other:
        web.pages["/away"] = Page(status=302, headers={"Location": other.url("/there")})
        other.pages["/there"] = Page("there")
        await client.fetch(Request(web.url("/away"), headers={"X-Token": "secret"}))
        assert "X-Token" not in other.requests[-1].headers


async def test_a_body_follows_on_the_same_host(web: WebPeer, client: WebClient) -> None:
    web.pages["/old"] = Page(status=307, headers={"Location": "/new"})
    web.pages["/new"] = Page("new")
    await client.fetch(Request(web.url("/old"), "POST", body={"query": "x"}))
    assert web.bodies == [{"query": "x"}, {"query": "x"}]


async def test_a_redirect_to_nonsense_is_refused(web: WebPeer, client: WebClient) -> None:
    web.pages["/away"] = Page(status=302, headers={"Location": "http://[broken/"})
    with pytest.raises(SourceError, match="no web address"):
        await client.fetch(Request(web.url("/away")))


async def test_the_caller_judges_where_a_redirect_leads(web: WebPeer, client: WebClient) -> None:
    def refuse(url: str) -> None:
        if "/secret" in url:
            raise SourceError("not that one")

    web.pages["/away"] = Page(status=302, headers={"Location": "/secret"})
    with pytest.raises(SourceError, match="not that one"):
        await client.fetch(Request(web.url("/away")), refuse)
    assert [request.path for request in web.requests] == ["/away"]


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
    ("failure_mode", "message"),
    [
        ("slow", "did not answer within 0.3 s"),
        ("endless", "more than the 256 kB"),
        ("short", "connection failed"),
        ("bomb", "more than the 256 kB"),
        ("drop", "connection failed"),
    ],
)
async def test_a_server_that_misbehaves_is_named(
    web: WebPeer, client: WebClient, failure_mode: str, message: str
) -> None:
    web.failure_mode = failure_mode
    limit = 0.3 if failure_mode == "slow" else 60
    started_at = time.monotonic()
    with pytest.raises(SourceError, match=message) as error_info:
        await client.fetch(Request(web.url("/x"), params={"key": "secret"}, timeout_s=limit, max_kb=256))
    assert "/x" in str(error_info.value)
    assert "secret" not in str(error_info.value)
    assert time.monotonic() - started_at < 30


async def test_nobody_listening_is_said(client: WebClient) -> None:
    with pytest.raises(SourceError, match="connection failed"):
        await client.fetch(Request("http://127.0.0.1:1/"))


async def test_text_is_read_by_its_character_set(web: WebPeer, client: WebClient) -> None:
    web.pages["/latin"] = Page("größer".encode("latin-1"), headers={"Content-Type": "text/plain; charset=latin-1"})
    web.pages["/odd"] = Page("größer".encode(), headers={"Content-Type": "text/plain; charset=klingon"})
    for path in ("/latin", "/odd"):
        assert (await client.fetch(Request(web.url(path)))).text() == "größer"


@pytest.mark.parametrize(
    ("charset", "content", "text"),
    [
        ("utf-8", "größer".encode(), "größer"),
        ('"UTF-8"', "größer".encode(), "größer"),
        ("latin-1", "größer".encode("latin-1"), "größer"),
        ("windows-1252", "„größer“".encode("cp1252"), "„größer“"),
        ("gb18030", "安装".encode("gb18030"), "安装"),
        ("big5", "安裝".encode("big5"), "安裝"),
        ("shift_jis", "設定".encode("shift_jis"), "設定"),
        ("euc-kr", "설치".encode("euc-kr"), "설치"),
        ("koi8-r", "как".encode("koi8-r"), "как"),
        ("utf-16", "größer".encode("utf-16"), "größer"),
        ("klingon", "größer".encode(), "größer"),
        ("", "größer".encode(), "größer"),
        # No character sets of documents.
        ("punycode", b"a-b", "a-b"),
        ("unicode_escape", rb"\u0041\z", r"\u0041\z"),
        ("idna", b"xn--a", "xn--a"),
        ("base64", b"YQ==", "YQ=="),
    ],
)
def test_a_header_names_the_character_set(charset: str, content: bytes, text: str) -> None:
    assert decode_content(content, f"text/plain; charset={charset}") == text


def test_every_codec_that_a_header_can_name_takes_linear_time() -> None:
    for name in sorted({*encodings.aliases.aliases.values(), "punycode", "idna", "unicode_escape"}):
        texts = [Text("", unit, "") for unit in ("a", "+", "xn--", "\\u0041", "-", "\x1b$B")]
        assert not find_growth(partial(_decode, f"text/html; charset={name}"), texts, CODEC_LIMITS), name


def _decode(content_type: str, text: str) -> str:
    return decode_content(text.encode(), content_type)


class ChangingResolver(AbstractResolver):
    """Gives another answer at each question, as a name does whose owner wants to get inside; then the last for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.request_count = 0

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[Any]:
        self.request_count += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        kind = socket.AF_INET
        numeric = socket.AI_NUMERICHOST
        return [
            {"hostname": host, "host": text, "port": port, "family": kind, "proto": 0, "flags": numeric}
            for text in answer
        ]

    async def close(self) -> None:
        pass


async def test_the_connection_goes_to_the_address_that_was_checked(web: WebPeer) -> None:
    """Asked a second time, the name would lead to 127.0.0.2, where another server listens on the same port."""
    web.pages["/"] = Page("the one that was checked")
    with socket.create_server(("127.0.0.2", web.port)):
        resolver = ChangingResolver(["127.0.0.1"], ["127.0.0.2"])
        async with WebClient(("rebound.example",), resolver) as client:
            reply = await client.fetch(Request(web.url("/", "rebound.example"), timeout_s=3))
    assert reply.text() == "the one that was checked"
    assert resolver.request_count == 1


async def test_a_name_that_turns_inward_is_refused_at_the_next_connection(web: WebPeer) -> None:
    resolver = ChangingResolver(["1.1.1.1"], ["127.0.0.1"], ["1.1.1.1", "10.0.0.1"])
    checked = guard_resolver(resolver, ())
    assert [entry["host"] for entry in await checked.resolve("rebound.example")] == ["1.1.1.1"]
    for _ in range(2):  # inward, and inward beside an address that is public
        with pytest.raises(OSError, match="allow_private"):
            await checked.resolve("rebound.example")
    async with WebClient((), ChangingResolver(["127.0.0.1"])) as client:
        with pytest.raises(SourceError, match="allow_private"):
            await client.fetch(Request(web.url("/", "rebound.example"), timeout_s=3))
    assert web.requests == []


async def test_a_refusal_that_is_not_compressed_as_it_says_is_one(web: WebPeer, client: WebClient) -> None:
    headers = {"Content-Encoding": "gzip"}
    web.pages = {"/no": Page("No.", status=403, headers=headers), "/yes": Page("Yes.", headers=headers)}
    assert (await client.fetch(Request(web.url("/no")))).status == 403
    with pytest.raises(SourceError, match="failed"):
        await client.fetch(Request(web.url("/yes")))
