"""Signed callbacks: one POST per state of a reply, its outcome told apart by what to do about it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bots.common.connection import Intervals, RetryLater, Unreachable
from bots.http.signing import SIGNATURE, TIMESTAMP, sign
from core.errors import CommentSuppressed, MessageDeleted, PlatformError, SourceError
from core.runtime.retry_after import read_retry_after
from core.settings import HttpSettings
from core.types import SkipReason, skip
from knowledge.web.addresses import check_url
from knowledge.web.client import Request, Response, WebClient

MAX_RESPONSE_KB = 64
MAX_RETRY_AFTER_S = 3600.0
DEFAULT_WAIT_S = 1.0
MAX_REPLY_ID_CHARS = 512
RETRYABLE_STATUSES = (425, 429, 503)


@dataclass(frozen=True, slots=True)
class HttpIntervals(Intervals):
    """All intervals in seconds. `partial_s` is the pause between two states of a reply that is being written."""

    partial_s: float = 1.0
    retry_s: float = 0.5
    max_retry_s: float = 30.0


class CallbackClient:
    """Sends callbacks to one address. `close` it at the end."""

    def __init__(self, settings: HttpSettings, secret: str) -> None:
        try:
            check_url(settings.callback_url, settings.allow_private)
        except SourceError as error:
            raise PlatformError(f"http.callback_url cannot be used: {error}") from error
        self._settings = settings
        self._secret = secret
        self._web = WebClient(settings.allow_private)

    async def send(self, payload: Mapping[str, Any], idempotency_key: str) -> str:
        """Post one callback and return the id that the network gave the reply, or nothing.

        `idempotency_key` is the same for every try, so that the network shows the callback once. Raises `Unreachable`,
        `RetryLater`, `CommentSuppressed`, `MessageDeleted`, and `PlatformError` for other refusals.
        """
        # aiohttp writes the body in exactly this way; what is signed must be what is sent.
        # The key is in it as well: no signature covers a header.
        signed_payload = {**payload, "idempotency_key": idempotency_key}
        body = json.dumps(signed_payload).encode()
        timestamp = str(int(time.time()))
        headers = {
            TIMESTAMP: timestamp,
            SIGNATURE: sign(self._secret, timestamp, body),
            "Idempotency-Key": idempotency_key,
        }
        url = self._settings.callback_url
        timeout_s = self._settings.timeout_s
        request = Request(
            url, "POST", headers=headers, body=signed_payload, timeout_s=timeout_s, max_kb=MAX_RESPONSE_KB
        )
        try:
            response = await self._web.fetch(request)
        except SourceError as error:
            raise Unreachable(f"the callback failed: {error}") from error
        if _to_endpoint(response.url) != _to_endpoint(url):
            raise PlatformError("http.callback_url redirects: configure the address where it leads")
        _raise_for_status(response)
        return _parse_reply_id(response)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._web.close()


def make_idempotency_key(chat: str, event_id: str, state: str, sequence: int = 0) -> str:
    """Return the idempotency key of one state of the reply to an event."""
    return hashlib.sha256(json.dumps([chat, event_id, state, sequence]).encode()).hexdigest()[:32]


def _raise_for_status(response: Response) -> None:
    """Raise the error that a status means."""
    status = response.status
    if 200 <= status < 300:
        return
    reason = f"the callback was answered with status {status}"
    if status == 410:
        raise MessageDeleted("the network says that the question is gone (status 410)")
    if status == 412:
        raise CommentSuppressed(skip(SkipReason.COMPETITORS_ON_NETWORK))
    if status in RETRYABLE_STATUSES:
        wait_s = read_retry_after(response.headers, max_s=MAX_RETRY_AFTER_S)
        raise RetryLater(reason, DEFAULT_WAIT_S if wait_s is None else wait_s)
    if status >= 500 or status == 408:
        raise Unreachable(reason)
    raise PlatformError(reason)


def _parse_reply_id(response: Response) -> str:
    """Return the reply's id on the network, where the body names one."""
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError):
        return ""
    reply_id = body.get("id") if isinstance(body, dict) else None
    if isinstance(reply_id, bool) or not isinstance(reply_id, str | int):
        return ""
    return str(reply_id) if len(str(reply_id)) <= MAX_REPLY_ID_CHARS else ""


def _to_endpoint(url: str) -> tuple[str, str | None, int | None, str, str]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port, parts.path or "/", parts.query
