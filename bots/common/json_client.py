"""Calls of one account to an API that speaks JSON: bounded, without redirects, none while the server wants a pause."""

from __future__ import annotations

import asyncio
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout

from bots.common.bounded_response import BoundedResponse, ResponseTooLarge
from bots.common.connection import NotAllowed, Refused, RetryLater, TokenRefused, Unreachable
from core.errors import MessageDeleted, PlatformError
from core.runtime.foreign_json import JsonTooComplex
from core.runtime.retry_after import read_retry_after
from core.version import get_version
from knowledge.web.client import Request, WebClient

DEFAULT_WAIT_S = 60.0
MAX_REASON_CHARS = 200
# What people store may be nested so deeply that no parser reads it; a thread of 80 posts is half as deep.
MAX_DEPTH = 400
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*\\?(?:"|\Z)|[\[\]{}]', re.DOTALL)
_CLASSES: Mapping[int, type[PlatformError]] = {
    401: TokenRefused,
    403: NotAllowed,
    404: MessageDeleted,
    410: MessageDeleted,
    422: Refused,
}


class TooLarge(Unreachable):
    """A response holds more than is read. `newest_id` is the id of its first item, "" if the server names none."""

    def __init__(self, text: str, newest_id: str = "") -> None:
        super().__init__(text)
        self.newest_id = newest_id


class JsonClient(ABC):
    """Calls raise a `PlatformError`. `timeout_s` bounds each; a server may ask for a pause of `max_wait_s` seconds."""

    def __init__(self, url: str, timeout_s: float, max_wait_s: float, headers: Mapping[str, str]) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._max_wait_s = max_wait_s
        # The rate limit counts all calls of the account.
        self._not_before = 0.0
        self._session = ClientSession(
            headers={"User-Agent": f"KIMAs/{get_version()}", **headers}, response_class=BoundedResponse, trust_env=True
        )

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._session.close()

    async def download(self, url: str, max_bytes: int) -> bytes:
        """Return a file that the server names: from a public address, or from the server's own."""
        async with WebClient([urlsplit(self._url).hostname or ""]) as web:
            response = await web.fetch(Request(url, max_kb=max_bytes // 1024, timeout_s=self._timeout_s))
        if response.status != 200:
            raise Unreachable(f"the file was not handed over: status {response.status}")
        return response.content

    async def _request(
        self,
        method: str,
        url: str,
        *,
        params: Sequence[tuple[str, str]] = (),
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Make a call and return the values of its answer. Raises `TooLarge` as well."""
        self._check_pause()
        call = f"{method} {urlsplit(url).path}"
        timeout = ClientTimeout(total=self._timeout_s)
        try:
            async with self._session.request(
                method, url, params=params, json=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                if not 200 <= response.status < 300:
                    raise await self._read_error(call, response)
                try:
                    values = await response.json(content_type=None, loads=_load)
                except JsonTooComplex:
                    values = await asyncio.to_thread(_load, await response.text())
                except ResponseTooLarge as error:
                    raise TooLarge(f"{call} failed: {error}", _get_newest_id(response)) from error
        except (ClientError, OSError, ValueError, TimeoutError) as error:
            raise Unreachable(f"{call} failed: {type(error).__name__}") from error
        if values is None:
            raise Unreachable(f"{call} was answered with nothing")
        return values

    def _check_pause(self) -> None:
        """Raise `RetryLater` while the server wants a pause: a call would be refused, and count."""
        wait_s = self._not_before - time.monotonic()
        if wait_s > 0:
            raise RetryLater("the server's rate limit is used up", wait_s)

    async def _read_error(self, call: str, response: Any) -> PlatformError:
        try:
            values = json.loads(await response.text())
        except (ValueError, RecursionError):
            values = None
        error = self._to_error(call, response.status, response.headers, values if isinstance(values, dict) else {})
        if response.status == 429 and isinstance(error, RetryLater):
            self._not_before = time.monotonic() + error.seconds
        return error

    @abstractmethod
    def _to_error(self, call: str, status: int, headers: Mapping[str, str], values: Mapping[str, Any]) -> PlatformError:
        """Return the error that a response means, whose body has these values."""


def to_platform_error(
    setting: str, call: str, status: int, headers: Mapping[str, str], reason: str, *, max_wait_s: float
) -> PlatformError:
    """Return the error that a response means by its status; `reason` is what the server says.

    `setting` names the setting with the server's address, `max_wait_s` is the longest pause that it may ask for.
    """
    said = f"{call} was answered with status {status}: {reason[:MAX_REASON_CHARS] or 'no reason given'}"
    if 300 <= status < 400:
        host = urlsplit(headers.get("Location", "")).netloc
        return PlatformError(f"{setting} redirects to {host or 'another address'}: write that address there")
    if status == 429 or (status == 503 and "Retry-After" in headers):
        wait_s = read_retry_after(headers, max_s=max_wait_s)
        return RetryLater(said, DEFAULT_WAIT_S if wait_s is None else wait_s)
    if status >= 500 or status == 408:
        return Unreachable(said)
    return _CLASSES.get(status, PlatformError)(said)


def _load(text: str) -> Any:
    """Return the values of a JSON text; null stands for what is nested too deeply. Raises `ValueError`."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_cut_nesting(text))


def _cut_nesting(text: str) -> str:
    """Return a JSON text with null in place of what is nested deeper than `MAX_DEPTH`.

    >>> _cut_nesting("[" * 402 + "]" * 402) == "[" * 400 + "null" + "]" * 400
    True
    """
    pieces = []
    depth = 0
    position = 0
    for match in _NESTING.finditer(text):
        if match[0] in ("[", "{"):
            depth += 1
            if depth == MAX_DEPTH + 1:
                pieces += [text[position : match.start()], "null"]
        elif match[0] in ("]", "}"):
            depth -= 1
            if depth == MAX_DEPTH:
                position = match.end()
    return "".join([*pieces, text[position:]])


def _get_newest_id(response: ClientResponse) -> str:
    """Return the id of the first item of a page, as its headers name it, or ""."""
    link = response.links.get("prev")
    query = parse_qs(urlsplit(str(link["url"])).query) if link else {}
    return query.get("min_id", [""])[0]
