"""Talking to a forge's API: JSON, pages by the Link header, conditional requests, and manners about rate limits."""

from __future__ import annotations

import math
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from core.errors import SourceError
from core.settings import ForgeSource
from knowledge.web.addresses import shown
from knowledge.web.client import Request, Response, WebClient
from knowledge.web.replies import read_json

PER_PAGE = 100
MAX_PAGES = 300
UNCHANGED = 304
# How long a limit without a time holds, and the longest that is believed.
USUAL_WAIT_S = 60.0
LONGEST_WAIT_S = 7200.0
HINTS = {
    401: "the token is not accepted",
    403: "the token may not read it",
    404: "it is not there, or the token may not read it",
    410: "it is switched off",
}
_NEXT = re.compile(r'<([^<>]*)>\s*;[^<>]*?\brel="?next"?', re.IGNORECASE)


class RateLimited(Exception):
    """The service wants to be left alone until a time, in seconds since 1970."""

    def __init__(self, until: float) -> None:
        super().__init__(f"the rate limit is reached until {clock(until)}")
        self.until = until


class ForgeApi:
    """One project's API. `tags` are the ETags of earlier rounds by address; what this round got is in `seen`."""

    def __init__(
        self, client: WebClient, base: str, headers: Mapping[str, str], settings: ForgeSource, tags: Mapping[str, str]
    ) -> None:
        self.seen: dict[str, str] = {}
        self._client = client
        self._base = base.rstrip("/")
        self._headers = headers
        self._settings = settings
        self._tags = tags
        self._spent_until = 0.0

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return what is at a path. Raises `SourceError` and `RateLimited`."""
        response = await self._send(Request(self._address(path, params or {})))
        return await read_json(response)

    async def pages(self, path: str, params: Mapping[str, str], *, conditional: bool = False) -> AsyncIterator[Any]:
        """Yield the objects of a list, page by page; nothing when `conditional` and the first page is as it was.

        Raises `SourceError` and `RateLimited`.
        """
        address = first = self._address(path, {**params, "per_page": str(PER_PAGE)})
        tag = self._tags.get(first, "") if conditional else ""
        visited = set[str]()
        while address not in visited and len(visited) < MAX_PAGES:
            visited.add(address)
            response = await self._send(Request(address, headers={"If-None-Match": tag} if tag else {}))
            if address == first:
                self.seen[first] = response.headers.get("etag", tag)
            if response.status == UNCHANGED:
                return
            found = await read_json(response)
            if not isinstance(found, list):
                raise SourceError(f"{shown(address)} answered with something else than a list")
            for one in found:
                yield one
            following = _NEXT.search(response.headers.get("link", ""))
            if following is None:
                return
            address, tag = self._here(following[1]), ""
        raise SourceError(f"{shown(first)} has more than {MAX_PAGES} pages, or its pages go round")

    async def query(self, address: str, text: str, variables: Mapping[str, Any]) -> Any:
        """Send a GraphQL query and return its data. Raises `SourceError` and `RateLimited`."""
        request = Request(address, "POST", body={"query": text, "variables": dict(variables)})
        reply = await read_json(await self._send(request))
        errors = reply.get("errors") if isinstance(reply, Mapping) else None
        if errors:
            told = errors if isinstance(errors, list) else []
            kinds = {str(one.get("type")) for one in told if isinstance(one, Mapping)}
            if kinds & {"RATE_LIMITED", "RATE_LIMIT"}:
                raise RateLimited(max(self._spent_until, time.time() + USUAL_WAIT_S))
            # Their words could hold anything; what kind they are cannot.
            named = ", ".join(sorted(kind for kind in kinds if re.fullmatch(r"[A-Z_]{1,40}", kind))) or "errors"
            raise SourceError(f"{shown(address)} answered with {named}")
        data = reply.get("data") if isinstance(reply, Mapping) else None
        if not isinstance(data, Mapping):
            raise SourceError(f"{shown(address)} answered with something else than data")
        return data

    async def _send(self, request: Request) -> Response:
        if self._spent_until > time.time():
            raise RateLimited(self._spent_until)
        settings = self._settings
        response = await self._client.fetch(
            Request(
                request.url,
                request.method,
                headers={**self._headers, **request.headers},
                body=request.body,
                timeout_s=settings.timeout_s,
                kb=settings.max_page_kb,
            )
        )
        if _is_limit(response):
            raise RateLimited(_limit_ends(response.headers))
        if _number(response.headers, "remaining") == 0:
            # This reply still counts; the next request would be one too many.
            self._spent_until = _limit_ends(response.headers)
        if response.status >= 300 and response.status != UNCHANGED:
            hint = HINTS.get(response.status, "")
            told = f"{shown(request.url)} answered with status {response.status}" + (f": {hint}" if hint else "")
            raise SourceError(told)
        return response

    def _address(self, path: str, params: Mapping[str, str]) -> str:
        return f"{self._base}{path}" + (f"?{urlencode(params)}" if params else "")

    def _here(self, address: str) -> str:
        """Return the address of a next page, on the configured host whatever it says: the token goes nowhere else."""
        try:
            own, parts = urlsplit(self._base), urlsplit(address)
        except ValueError as fault:
            raise SourceError(f"{shown(self._base)} leads to a next page that is no address") from fault
        if not parts.path.startswith("/"):
            raise SourceError(f"{shown(self._base)} leads to a next page that is no address")
        return f"{own.scheme}://{own.netloc}{parts.path}" + (f"?{parts.query}" if parts.query else "")


def clock(seconds: float) -> str:
    """Return a time as messages show it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def _is_limit(response: Response) -> bool:
    if response.status == 429:
        return True
    if response.status != 403:
        return False
    told = response.content[:2000].lower()
    return (
        "retry-after" in response.headers
        or _number(response.headers, "remaining") == 0
        or b"rate limit" in told
        or b"abuse detection" in told
    )


def _limit_ends(headers: Mapping[str, str]) -> float:
    now = time.time()
    try:
        wait = float(headers["retry-after"])
    except (KeyError, ValueError):
        reset = _number(headers, "reset")
        wait = reset - now if reset else USUAL_WAIT_S
    # A clock that is off, or a server that jokes, must not stop us for ever.
    return now + (min(max(wait, 1.0), LONGEST_WAIT_S) if math.isfinite(wait) else USUAL_WAIT_S)


def _number(headers: Mapping[str, str], name: str) -> int | None:
    """Return one of the rate limit's numbers: GitHub's, or GitLab's name for it."""
    value = headers.get(f"x-ratelimit-{name}", headers.get(f"ratelimit-{name}", ""))
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None
