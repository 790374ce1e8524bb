"""Reading what an API answered: JSON of whatever shape, and text that is safe to keep."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from core.errors import SourceError
from knowledge.web.addresses import check_address, check_url, shown

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

REDIRECTS = 5
MOVED = frozenset({301, 302, 303, 307, 308})
AGENT = "KIMAs/0.1 (+question answering bot)"
CHUNK = 64 * 1024
# What may travel to another host with a redirect. Any other header may hold a secret, whatever it is called.
HARMLESS_HEADERS = frozenset({"accept", "accept-language", "if-modified-since", "if-none-match", "user-agent"})
PORTS = {"http": 80, "https": 443}

Check = Callable[[str], None]


class TooLong(SourceError):
    """A reply holds more than the request allows."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to fetch. `body` is sent as JSON. `kb` bounds the reply, unpacked; `timeout_s` the whole exchange."""

    url: str
    method: str = "GET"
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    timeout_s: float = 10.0
    kb: int = 2048


@dataclass(frozen=True, slots=True)
class Response:
    """What came back. `url` is where it was found after redirects; header names are in lower case."""

    status: int
    url: str
    headers: Mapping[str, str]
    content: bytes

    def text(self) -> str:
        """Return the content as text, by the character set that its header names, else UTF-8."""
        from email.message import Message

        header = Message()
        header["content-type"] = self.headers.get("content-type", "")
        try:
            return self.content.decode(header.get_content_charset() or "utf-8", "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")


class WebClient:
    """Use as an asynchronous context manager. `allowed` names hosts whose private addresses may be reached.

    `resolver` finds the addresses of names in place of the system's; what it finds is checked like the system's.
    """

    def __init__(self, allowed: Collection[str] = (), resolver: AbstractResolver | None = None) -> None:
        self._allowed = frozenset(allowed)
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> WebClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(self, request: Request, check: Check | None = None) -> Response:
        """Send a request and return the whole reply, whatever its status.

        Redirects are followed, each checked like the first address, and by `check`, which is told where each one leads
        and raises `SourceError` for what is not to be asked. To another origin (scheme, host, port) only harmless
        headers follow and never a body, so that no secret does. Raises `SourceError` for a refused address, a redirect
        that would take the body elsewhere, a reply that is too late and a failed connection, and `TooLong`.
        """
        where = shown(request.url)
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._follow(request, check)
        except TimeoutError as fault:
            raise SourceError(f"{where} did not answer within {request.timeout_s:g} s") from fault

    async def _follow(self, request: Request, check: Check | None) -> Response:
        step = request
        for _ in range(REDIRECTS + 1):
            check_url(step.url, self._allowed)
            reply = await self._exchange(step)
            target = reply.headers.get("location", "")
            if reply.status not in MOVED or not target:
                return reply
            step = _redirected(step, reply.status, _target(step.url, target))
            if check is not None:
                check(step.url)
        raise SourceError(f"{shown(request.url)} redirects more than {REDIRECTS} times")

    async def _exchange(self, request: Request) -> Response:
        import aiohttp

        where = shown(request.url)
        headers = {"User-Agent": AGENT, **request.headers}
        params = dict(request.params) or None
        try:
            async with self._opened().request(
                request.method, request.url, params=params, headers=headers, json=request.body, allow_redirects=False
            ) as reply:
                content = await _read(reply, request.kb, where)
                found = {name.lower(): value for name, value in reply.headers.items()}
                return Response(reply.status, str(reply.url), found, content)
        except (aiohttp.ClientError, ValueError) as fault:
            raise SourceError(f"{where}: {_reason(fault)}") from fault

    def _opened(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            resolver = guarded(self._resolver or aiohttp.ThreadedResolver(), self._allowed)
            connector = aiohttp.TCPConnector(resolver=resolver, limit_per_host=8, ttl_dns_cache=60)
            # No cookies are kept, and no proxy of the environment may see what is asked.
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


@asynccontextmanager
async def web_client(allowed: Collection[str] = ()) -> AsyncIterator[WebClient]:
    """Open a client for the block."""
    async with WebClient(allowed) as client:
        yield client


def _target(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError as fault:
        raise SourceError(f"{shown(url)} redirects to what is no web address") from fault


def _redirected(request: Request, status: int, url: str) -> Request:
    # The target carries its own query.
    moved = replace(request, url=url, params={})
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        moved = replace(moved, method="GET", body=None)
    if _origin(url) == _origin(request.url):
        return moved
    if moved.body is not None:
        told = f"{shown(request.url)} redirects to {shown(url)}, where the body of a request is not sent"
        raise SourceError(f"{told}. If it is meant, configure that address")
    kept = {name: value for name, value in moved.headers.items() if name.lower() in HARMLESS_HEADERS}
    return replace(moved, headers=kept)


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or PORTS.get(parts.scheme)
    except ValueError:
        # Nobody's: the next step refuses it.
        return "", "", None


async def _read(reply: aiohttp.ClientResponse, kb: int, where: str) -> bytes:
    """Read a reply piece by piece: its length may be a lie, and compressed content may grow without end."""
    content = bytearray()
    async for piece in reply.content.iter_chunked(CHUNK):
        content += piece
        if len(content) > kb * 1024:
            raise TooLong(f"{where} sent more than the {kb} kB that are allowed")
    return bytes(content)


def _reason(fault: BaseException) -> str:
    """Say what went wrong without the address, whose query may hold a key."""
    import aiohttp

    if isinstance(fault, aiohttp.ClientConnectorError):
        if isinstance(fault.os_error.__cause__, SourceError):
            return str(fault.os_error.__cause__)
        return f"the connection failed ({fault.os_error.strerror or type(fault.os_error).__name__})"
    return f"the connection failed ({type(fault).__name__})"


def guarded(resolver: AbstractResolver, allowed: Collection[str]) -> AbstractResolver:
    """Return a resolver that gives what another one finds, as long as every address is public.

    The connection goes to the very address that was checked here, so that a name cannot change its mind in between.
    """
    from aiohttp.abc import AbstractResolver

    class GuardedResolver(AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[Any]:
            found = await resolver.resolve(host, port, family)
            if host not in allowed:
                for one in found:
                    try:
                        check_address(host, ipaddress.ip_address(one["host"].split("%")[0]))
                    except SourceError as fault:
                        # aiohttp hands on this kind alone, with its cause.
                        raise OSError(None, str(fault)) from fault
            return list(found)

        async def close(self) -> None:
            await resolver.close()

    return GuardedResolver()


# Line breaks and tabs are text; the rest is not seen, and breaks files and terminals.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")


async def read_json(response: Response) -> Any:
    """Return the reply as JSON values. Raises `SourceError` when it is something else."""
    try:
        # Off the event loop: a reply may hold megabytes.
        return await asyncio.to_thread(json.loads, response.text())
    except (ValueError, RecursionError) as fault:
        kind = response.headers.get("content-type", "nothing").split(";")[0]
        raise SourceError(f"{shown(response.url)} answered with {kind[:60]} instead of JSON") from fault


def text_of(value: Any) -> str:
    """Return a text without control characters; nothing for what is no text.

    JSON may hold half of a surrogate pair, which no file can: a question mark stands for it.
    """
    if not isinstance(value, str):
        return ""
    return _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n")).encode("utf-8", "replace").decode()


def line_of(value: Any, longest: int = 300) -> str:
    """Return a text as one line of at most `longest` characters."""
    return " ".join(text_of(value).split())[:longest]
