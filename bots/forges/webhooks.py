"""Webhooks: a genuine request says that something happened in a project, and the bot looks at once.

Nothing of a request but its project is used. What is new is read from the forge as at any other time, so that a request
which is lost, late, doubled or sent by two hooks changes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from bots.common.web_server import serve_application
from core.errors import PlatformError
from core.observability.logs import get_logger
from core.settings.messaging import ForgeSettings
from knowledge.web.values import dig

_log = get_logger(__name__)

# Who sends GitLab's is known before; GitHub's are read to be verified, and the largest that are of use are smaller.
MAX_BODY_BYTES = {"github": 1_000_000, "gitlab": 25_000_000}
# Strangers could fill the log.
MAX_LOGGED_PEERS = 20
READ_TIMEOUT_S = 8.0
GITHUB_SIGNATURE = "X-Hub-Signature-256"
GITLAB_HEADER = "X-Gitlab-Token"
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}")


class WebhookServer:
    """Takes the requests of a forge; `wake` is told the project, "" where the event names none."""

    def __init__(self, settings: ForgeSettings, platform: str, secret: str, wake: Callable[[str], None]) -> None:
        self._settings = settings
        self._platform = platform
        self._secret = secret
        self._wake = wake
        self._logged_peers = set[str | None]()

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[int]:
        """Listen inside the block; its value is the port. Raises `PlatformError` for an address that cannot be used."""
        application = web.Application(client_max_size=MAX_BODY_BYTES[self._platform])
        application.router.add_post(f"/{self._platform}", self._handle_request)
        settings = self._settings
        async with serve_application(
            application, settings.host, settings.port, section=self._platform, error_class=PlatformError
        ) as port:
            yield port

    async def _handle_request(self, request: web.Request) -> web.Response:
        # A body is read for whoever can know the secret.
        if not self._may_be_genuine(request):
            return self._refuse(request)
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                body = await request.read()
        except TimeoutError:
            return web.Response(status=408, text="the body did not arrive in time")
        if self._platform == "github" and not verify_signature(self._secret, request.headers[GITHUB_SIGNATURE], body):
            return self._refuse(request)
        # Whatever it is about: forges switch hooks off that are refused.
        self._wake(await asyncio.to_thread(_read_project, body))
        return web.Response(status=202, text="noted")

    def _may_be_genuine(self, request: web.Request) -> bool:
        """Return whether the headers are those of the forge: GitLab's token, or what looks like GitHub's signature."""
        if self._platform == "github":
            return _SIGNATURE.fullmatch(request.headers.get(GITHUB_SIGNATURE, "")) is not None
        token = request.headers.get(GITLAB_HEADER, "").encode("utf-8", "replace")
        return hmac.compare_digest(token, self._secret.encode())

    def _refuse(self, request: web.Request) -> web.Response:
        if request.remote not in self._logged_peers and len(self._logged_peers) < MAX_LOGGED_PEERS:
            self._logged_peers.add(request.remote)
            _log.warning(f"{self._platform}.webhook_refused", peer=request.remote)
        header = GITHUB_SIGNATURE if self._platform == "github" else GITLAB_HEADER
        return web.Response(status=401, text=f"{header} does not fit the secret")


def verify_signature(secret: str, signature: str, body: bytes) -> bool:
    """Return whether GitHub signed these bytes with the secret."""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))


def _read_project(body: bytes) -> str:
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    name = dig(event, "repository", "full_name") or dig(event, "project", "path_with_namespace")
    return name if isinstance(name, str) else ""
