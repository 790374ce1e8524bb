"""Signed callbacks: one POST per state of a reply, its outcome told apart by what to do about it."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bots.common.connection import BasicPace, RetryLater, Unreachable
from bots.http.signing import SIGNATURE, TIMESTAMP, sign
from core.errors import MessageGone, PlatformError, SourceError, Withheld
from core.settings import HttpSettings
from knowledge.web.addresses import check_url
from knowledge.web.client import Request, Response, WebClient


@dataclass(frozen=True, slots=True)
class Pace(BasicPace):
    """All intervals in seconds. `partial_s` is the pause between two states of a reply that is being written."""

    partial_s: float = 1.0
    retry_s: float = 0.5
    longest_retry_s: float = 30.0


__all__ = ["RetryLater", "Unreachable"]


LONGEST_REPLY_KB = 64
LONGEST_WAIT_S = 3600.0
LONGEST_ID = 512
REFUSED_FOR_NOW = (425, 429, 503)


class Client:
    """Sends callbacks to one address. `close` it at the end."""

    def __init__(self, settings: HttpSettings, secret: str) -> None:
        try:
            check_url(settings.callback_url, settings.allow_private)
        except SourceError as fault:
            raise PlatformError(f"http.callback_url cannot be used: {fault}") from fault
        self._settings = settings
        self._secret = secret
        self._web = WebClient(settings.allow_private)

    async def send(self, payload: Mapping[str, Any], key: str) -> str:
        """Post one callback and return the id that the network gave the reply, or nothing.

        `key` is the same for every try at the same thing, so that the network shows it once. Raises `Unreachable`,
        `RetryLater`, `Withheld`, `MessageGone`, and `PlatformError` for other refusals.
        """
        # aiohttp writes the body in exactly this way; what is signed must be what is sent.
        body = json.dumps(dict(payload)).encode()
        timestamp = str(int(time.time()))
        headers = {
            TIMESTAMP: timestamp,
            SIGNATURE: sign(self._secret, timestamp, body),
            "Idempotency-Key": key,
        }
        url, timeout_s = self._settings.callback_url, self._settings.timeout_s
        request = Request(url, "POST", headers=headers, body=dict(payload), timeout_s=timeout_s, kb=LONGEST_REPLY_KB)
        try:
            response = await self._web.fetch(request)
        except SourceError as fault:
            raise Unreachable(f"the callback failed: {fault}") from fault
        if _place(response.url) != _place(url):
            raise PlatformError("http.callback_url redirects: configure the address where it leads")
        _check(response)
        return _id_of(response)

    async def close(self) -> None:
        """Let go of the connections. Idempotent."""
        await self._web.close()


def key_of(chat: str, event: str, state: str, number: int = 0) -> str:
    """Return the idempotency key of one state of the reply to an event."""
    return hashlib.sha256(json.dumps([chat, event, state, number]).encode()).hexdigest()[:32]


def _check(response: Response) -> None:
    """Raise what a status means."""
    status = response.status
    if 200 <= status < 300:
        return
    told = f"the callback was answered with status {status}"
    if status == 410:
        raise MessageGone("the network says that the question is gone (status 410)")
    if status == 412:
        raise Withheld("the network has enough replies of bots below this post")
    if status in REFUSED_FOR_NOW:
        raise RetryLater(told, _seconds(response.headers.get("retry-after", "")))
    if status >= 500 or status == 408:
        raise Unreachable(told)
    raise PlatformError(told)


def _seconds(header: str) -> float:
    try:
        seconds = float(header)
    except ValueError:
        return 1.0
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if math.isfinite(seconds) else 1.0


def _id_of(response: Response) -> str:
    """Return the reply's id on the network, where the body names one."""
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        return ""
    number = found.get("id") if isinstance(found, dict) else None
    if isinstance(number, bool) or not isinstance(number, str | int):
        return ""
    return str(number) if len(str(number)) <= LONGEST_ID else ""


def _place(url: str) -> tuple[str, str | None, int | None, str, str]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port, parts.path or "/", parts.query
