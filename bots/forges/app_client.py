"""A GitHub App instead of an account: its key signs proofs, and for one it is given a token that lasts an hour."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import jwt

from bots.common.connection import TokenRefused
from bots.forges.connection import ForgeIntervals
from knowledge.sources.forge.api import ApiLimits, ForgeApi, StatusError, parse_timestamp
from knowledge.sources.forge.github import HEADERS
from knowledge.web.client import RedirectCheck, Request, Response, WebClient
from knowledge.web.values import dig, get_int, to_line

# A proof may be valid for ten minutes; whose clock is ahead of GitHub's has signed it in the future.
PROOF_BACK_S = 60
PROOF_AHEAD_S = 540
# So long before its end a token is replaced. A clock that goes wrong asks for one a minute.
RENEW_BEFORE_S = 300
MIN_USE_S = 60
MAX_REPLY_KB = 1024


@dataclass(frozen=True, slots=True)
class App:
    """An app with its key (PEM), and a repository of the account where it is installed."""

    app_id: str
    private_key: str
    repository: str


class AppClient(WebClient):
    """Sends requests with the token of an installation, which it renews; `clock` tells the seconds since 1970.

    Raises `TokenRefused` for a key that cannot sign.
    """

    def __init__(
        self, app: App, api_url: str, intervals: ForgeIntervals, clock: Callable[[], float] = time.time
    ) -> None:
        hosts = [urlsplit(api_url).hostname or ""]
        super().__init__(hosts)
        self._app = app
        self._clock = clock
        self._headers = dict(HEADERS)
        self._web = WebClient(hosts)
        self._api = ForgeApi(self._web, api_url, self._headers, ApiLimits(intervals.timeout_s, MAX_REPLY_KB), etags={})
        self._lock = asyncio.Lock()
        self._token = ""
        self._renew_at = 0.0
        self._sign()

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await super().close()
        await self._web.close()

    async def get_login(self) -> str:
        """Return the account that the app writes with. Raises `SourceError` and `RateLimited`."""
        self._sign()
        return f"{to_line(dig(await self._api.get('/app'), 'slug'))}[bot]"

    async def fetch(self, request: Request, check_redirect: RedirectCheck | None = None) -> Response:
        """Send a request, as `WebClient` does; with a new token if the one in use is refused."""
        token = await self._get_token()
        response = await super().fetch(_authorize(request, token), check_redirect)
        if response.status != 401:
            return response
        return await super().fetch(_authorize(request, await self._get_token(token)), check_redirect)

    async def _get_token(self, refused_token: str = "") -> str:
        async with self._lock:
            if self._clock() >= self._renew_at or self._token == refused_token:
                await self._renew()
            return self._token

    async def _renew(self) -> None:
        repository = self._app.repository
        self._sign()
        try:
            installation = get_int(await self._api.get(f"/repos/{repository}/installation"), "id")
        except StatusError as error:
            if error.status != 404:
                raise
            raise StatusError(f"the app is not installed in {repository}", 403, error.reason) from error
        self._sign()
        grant = await self._api.change("POST", f"/app/installations/{installation}/access_tokens", {})
        now = self._clock()
        self._token = to_line(dig(grant, "token"))
        self._renew_at = max(parse_timestamp(dig(grant, "expires_at")) - RENEW_BEFORE_S, now + MIN_USE_S)

    def _sign(self) -> None:
        """Put a proof into the headers."""
        now = int(self._clock())
        claims = {"iat": now - PROOF_BACK_S, "exp": now + PROOF_AHEAD_S, "iss": self._app.app_id}
        try:
            proof = jwt.encode(claims, self._app.private_key, "RS256")
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise TokenRefused(
                "github.private_key is no RSA key in PEM: make one in the settings of the app"
            ) from error
        self._headers["Authorization"] = f"Bearer {proof}"


def _authorize(request: Request, token: str) -> Request:
    return replace(request, headers={**request.headers, "Authorization": f"Bearer {token}"})
