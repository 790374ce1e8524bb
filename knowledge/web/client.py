"""The guarded HTTP client: public addresses only, with limits on size, time and redirects; and reading its replies."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

from core.errors import SourceError
from core.runtime import foreign_json
from core.runtime.foreign_json import JsonTooComplex
from core.settings.base import Secret
from core.version import get_version
from knowledge.web.addresses import Address, check_address, check_url, parse_literal, redact_url
from knowledge.web.charsets import decode_content
from knowledge.web.page_rules import ROBOT_NAME

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver

MAX_REDIRECTS = 5
MIN_ERROR_STATUS = 400
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
CHUNK_BYTES = 64 * 1024
# Headers that may follow a redirect to another host. Any other header may hold a secret.
SAFE_HEADERS = frozenset({"accept", "accept-language", "if-modified-since", "if-none-match", "user-agent"})
REPEATED_HEADERS = frozenset({"link", "x-robots-tag"})
DEFAULT_PORTS = {"http": 80, "https": 443}

RedirectCheck = Callable[[str], None]

# Line breaks and tabs are text; other control characters are invisible and break files and terminals.


class ResponseTooLarge(SourceError):
    """A reply holds more than the request allows."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request. `body` is sent as JSON, bytes as they are.

    `max_kb` bounds the reply, unpacked; `timeout_s` the whole exchange. With `is_cut` only the first `max_kb` of a
    longer reply are read; otherwise it is refused.
    """

    url: str
    method: str = "GET"
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    timeout_s: float = 10.0
    max_kb: int = 2048
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """A reply. `url` is the address after redirects; header names are in lower case.

    Of a header that comes several times the last one counts; those of `REPEATED_HEADERS` are joined by line feeds.
    """

    status: int
    url: str
    headers: Mapping[str, str]
    content: bytes

    def text(self) -> str:
        """Return the content as text, by the character set that its header names, else UTF-8."""
        return decode_content(self.content, self.headers.get("content-type", ""))


class WebClient:
    """Use as an asynchronous context manager. `allowed` names hosts whose private addresses may be reached.

    `resolver` replaces the system's resolver; its results are checked in the same way.
    """

    def __init__(self, allowed_hosts: Collection[str] = (), resolver: AbstractResolver | None = None) -> None:
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)
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

    async def fetch(self, request: Request, check_redirect: RedirectCheck | None = None) -> Response:
        """Send a request and return the whole reply, whatever its status.

        Redirects are followed, each checked like the first address, and by `check_redirect`, which is told where each
        one leads and raises `SourceError` for what is not to be asked. To another origin (scheme, host, port) only
        harmless headers follow and never a body, so that no secret does. Raises `SourceError` for a refused address, a
        redirect that would take the body elsewhere, a reply that is too late and a failed connection, and
        `ResponseTooLarge`.
        """
        display_url = redact_url(request.url)
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self._follow_redirects(request, check_redirect)
        except TimeoutError as error:
            raise SourceError(f"{display_url} did not answer within {request.timeout_s:g} s") from error

    async def _follow_redirects(self, request: Request, check_redirect: RedirectCheck | None) -> Response:
        current_request = request
        for _ in range(MAX_REDIRECTS + 1):
            check_url(current_request.url, self._allowed_hosts)
            response = await self._send(current_request)
            location = response.headers.get("location", "")
            if response.status not in REDIRECT_STATUSES or not location:
                return response
            current_request = _to_redirect_request(
                current_request, response.status, _resolve_location(current_request.url, location)
            )
            if check_redirect is not None:
                check_redirect(current_request.url)
        raise SourceError(f"{redact_url(request.url)} redirects more than {MAX_REDIRECTS} times")

    async def _send(self, request: Request) -> Response:
        import aiohttp

        display_url = redact_url(request.url)
        headers = {"User-Agent": make_user_agent(), **request.headers}
        params = dict(request.params) or None
        body = {"data" if isinstance(request.body, bytes) else "json": request.body}
        try:
            async with self._get_session().request(
                request.method, request.url, params=params, headers=headers, allow_redirects=False, **body
            ) as response:
                try:
                    content = await _read_limited(response, request, display_url)
                except aiohttp.ClientPayloadError:
                    # Some refuse with a page that is not compressed as they say: the refusal says enough.
                    if response.status < MIN_ERROR_STATUS:
                        raise
                    content = b""
                response_headers = {name.lower(): value for name, value in response.headers.items()}
                response_headers |= {
                    name: "\n".join(response.headers.getall(name))
                    for name in REPEATED_HEADERS & response_headers.keys()
                }
                return Response(response.status, str(response.url), response_headers, content)
        except (aiohttp.ClientError, ValueError) as error:
            raise SourceError(f"{display_url}: {_describe_error(error)}") from error

    async def open(self, request: Request, content: bytes) -> aiohttp.ClientResponse:
        """Send a request with this content as it is, and return its reply as soon as it begins. Close it at the end.

        For streams: `timeout_s`, `max_kb` and `body` of the request do not count, and no redirect is followed. Raises
        `SourceError` for a refused address and a failed connection.
        """
        import aiohttp

        check_url(request.url, self._allowed_hosts)
        try:
            return await self._get_session().request(
                request.method,
                request.url,
                headers={"User-Agent": make_user_agent(), **request.headers},
                data=content or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        except (aiohttp.ClientError, ValueError) as error:
            raise SourceError(f"{redact_url(request.url)}: {_describe_error(error)}") from error

    def _get_session(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None:
            guard = _SocketGuard(self._allowed_hosts)
            resolver = guard_resolver(self._resolver or aiohttp.ThreadedResolver(), self._allowed_hosts, guard.permit)
            connector = aiohttp.TCPConnector(
                resolver=resolver, limit_per_host=8, ttl_dns_cache=60, socket_factory=guard.make_socket
            )
            # No cookies are kept, and no proxy of the environment may see what is asked.
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session


def make_user_agent() -> str:
    """Return what servers read of who asks."""
    return f"{ROBOT_NAME}/{get_version()} (+question answering bot)"


def _resolve_location(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError as error:
        raise SourceError(f"{redact_url(url)} redirects to what is no web address") from error


def _to_redirect_request(request: Request, status: int, url: str) -> Request:
    # The target carries its own query.
    new_request = replace(request, url=url, params={})
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        new_request = replace(new_request, method="GET", body=None)
    if _origin(url) == _origin(request.url):
        return new_request
    if new_request.body is not None:
        message = f"{redact_url(request.url)} redirects to {redact_url(url)}, where the body of a request is not sent"
        raise SourceError(f"{message}. If it is meant, configure that address")
    headers = {name: value for name, value in new_request.headers.items() if name.lower() in SAFE_HEADERS}
    return replace(new_request, headers=headers)


def _origin(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        return parts.scheme, parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        # Nobody's: the next step refuses it.
        return "", "", None


async def _read_limited(response: aiohttp.ClientResponse, request: Request, display_url: str) -> bytes:
    """Read a reply in pieces: its declared length may be wrong, and compressed content may grow without end."""
    content = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        content += chunk
        if len(content) > request.max_kb * 1024:
            if request.is_cut:
                break
            raise ResponseTooLarge(f"{display_url} sent more than the {request.max_kb} kB that are allowed")
    return bytes(content[: request.max_kb * 1024])


def _describe_error(error: BaseException) -> str:
    """Describe an error without the address, whose query may hold a key."""
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorError):
        if isinstance(error.os_error.__cause__, SourceError):
            return str(error.os_error.__cause__)
        return f"the connection failed ({error.os_error.strerror or type(error.os_error).__name__})"
    return f"the connection failed ({type(error).__name__})"


class _SocketGuard:
    """Judges each address right before a socket connects to it, however it was spelled and wherever it came from."""

    def __init__(self, allowed_hosts: Collection[str]) -> None:
        self._permitted = {str(literal) for host in allowed_hosts if (literal := parse_literal(host))}

    def permit(self, address: Address) -> None:
        """Let sockets connect to an address of a host that is allowed by name."""
        self._permitted.add(str(address))

    def make_socket(self, address_info: tuple[Any, ...]) -> socket.socket:
        """Return a socket for an address. Raises `OSError`, caused by `SourceError`, for one that is not public."""
        family, kind, protocol, _, (host, *_) = address_info
        address = ipaddress.ip_address(host.split("%")[0])
        if str(address) not in self._permitted:
            _check_for_aiohttp(host, address)
        return socket.socket(family, kind, protocol)


def guard_resolver(
    resolver: AbstractResolver, allowed_hosts: Collection[str], permit: Callable[[Address], None] = lambda _: None
) -> AbstractResolver:
    """Return a resolver that passes on the results of another one as long as every address is public.

    `permit` gets the addresses of the hosts that are allowed by name.
    """
    from aiohttp.abc import AbstractResolver

    class GuardedResolver(AbstractResolver):
        async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[Any]:
            results = await resolver.resolve(host, port, family)
            for address in (ipaddress.ip_address(result["host"].split("%")[0]) for result in results):
                if host in allowed_hosts:
                    permit(address)
                else:
                    _check_for_aiohttp(host, address)
            return list(results)

        async def close(self) -> None:
            await resolver.close()

    return GuardedResolver()


def _check_for_aiohttp(host: str, address: Address) -> None:
    try:
        check_address(host, address)
    except SourceError as error:
        # aiohttp hands on this kind alone, with its cause.
        raise OSError(None, str(error)) from error


Result = TypeVar("Result")


async def read_json(response: Response, convert: Callable[[Any], Result] = lambda values: values) -> Result:
    """Return what `convert` makes of a reply in JSON: by default its values.

    Off the event loop, unless it is short. Raises `SourceError` for what is no JSON, is nested too deeply or has too
    many values, and what `convert` raises.
    """
    try:
        return await foreign_json.read_json(response.content, convert, decode=lambda _: response.text())
    except JsonTooComplex as error:
        raise SourceError(f"{redact_url(response.url)} {error}") from error
    except json.JSONDecodeError as error:
        content_type = response.headers.get("content-type", "nothing").split(";")[0]
        raise SourceError(f"{redact_url(response.url)} answered with {content_type[:60]} instead of JSON") from error


async def resolve_secret(secret: Secret | None) -> str:
    """Return a secret, or an empty text when none is configured. Raises `SourceError` when it is missing or empty."""
    if secret is None:
        return ""
    # The file may be on a slow disk.
    return _read_secret(secret) if secret.file is None else await asyncio.to_thread(_read_secret, secret)


def _read_secret(secret: Secret) -> str:
    try:
        value = secret.value()
    except (KeyError, OSError, UnicodeDecodeError) as error:
        raise SourceError(f"api_key: {secret.missing_reason() or 'it was missing a moment ago'}") from error
    if not value:
        raise SourceError(f"api_key: {secret.missing_reason()}")
    return value
