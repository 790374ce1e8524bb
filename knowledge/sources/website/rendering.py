"""Pages that scripts make, rendered by a browser that reaches the network through the guarded client alone."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from core.errors import SourceError
from core.install_hints import format_install_hint
from core.observability.logs import get_logger
from knowledge.web.addresses import get_site, redact_url
from knowledge.web.client import Request, Response, ResponseTooLarge, WebClient, make_user_agent

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Route

_log = get_logger(__name__)

# What makes no text is not asked for.
RESOURCE_TYPES = frozenset({"document", "script", "stylesheet", "xhr", "fetch"})
# For one page, besides the page itself.
MAX_REQUESTS = 100
MAX_BYTES = 32 << 20
# How long a page without any request under way is waited for, seconds.
IDLE_S = 5.0
CLOSE_TIMEOUT_S = 5.0
BROWSER_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Nothing listens there: what gets around the route reaches nobody.
DEAD_PROXY = "http://127.0.0.1:9"
BROWSER_OPTIONS = ("--disable-gpu", "--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp")
# Of our environment, with its secrets, the browser gets nothing else.
ENVIRONMENT = ("PATH", "HOME", "TMPDIR", "LANG")


class Renderer:
    """Renders pages of one site; `check_url` raises `SourceError` for what may not be asked for."""

    def __init__(self, browser: Browser, client: WebClient, check_url: Callable[[str], None]) -> None:
        self._browser = browser
        self._client = client
        self._check_url = check_url

    async def render(self, response: Response, timeout_s: float, max_kb: int) -> bytes:
        """Return a page that was fetched as it is after its scripts have run, in UTF-8.

        What it asks for comes from its own host only, by GET, and within the limits of this module. What is not there
        in time is left out. Raises `SourceError`, and `ResponseTooLarge`.
        """
        from playwright.async_api import Error

        try:
            context = await self._browser.new_context(
                user_agent=make_user_agent(), accept_downloads=False, service_workers="block"
            )
            try:
                # A script that never ends answers no question either.
                async with asyncio.timeout(timeout_s + IDLE_S):
                    html = await self._render(context, response, timeout_s, max_kb)
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_TIMEOUT_S):
                        await context.close()
        except TimeoutError as error:
            raise SourceError(f"{redact_url(response.url)} was not rendered within {timeout_s + IDLE_S:g} s") from error
        except Error as error:
            reason = error.message.splitlines()[0][:200]
            raise SourceError(f"{redact_url(response.url)} cannot be rendered: {reason}") from error
        if len(html) > max_kb * 1024:
            raise ResponseTooLarge(f"{redact_url(response.url)} is larger than {max_kb} kB when it is rendered")
        return html

    async def _render(self, context: BrowserContext, response: Response, timeout_s: float, max_kb: int) -> bytes:
        from playwright.async_api import TimeoutError as RenderingTimeout

        deadline = time.monotonic() + timeout_s
        guard = _RequestGuard(self._client, self._check_url, response, Request("", timeout_s=timeout_s, max_kb=max_kb))
        await context.route("**/*", guard.answer)
        page = await context.new_page()
        try:
            await page.goto(response.url, wait_until="domcontentloaded", timeout=timeout_s * 1000)
            remaining_s = min(IDLE_S, deadline - time.monotonic())
            await page.wait_for_load_state("networkidle", timeout=max(1.0, remaining_s * 1000))
        except RenderingTimeout:
            # A page that never rests is read as it is.
            _log.info("page.restless", url=redact_url(response.url))
        return (await page.content()).encode("utf-8", "replace")


class _RequestGuard:
    """Answers what one page asks for: the page itself as it was fetched, the rest by the guarded client."""

    def __init__(
        self, client: WebClient, check_url: Callable[[str], None], response: Response, request: Request
    ) -> None:
        self._client = client
        self._check_url = check_url
        self._response = response
        self._request = request
        self._request_count = 0
        self._bytes_left = MAX_BYTES

    async def answer(self, route: Route) -> None:
        """Answer a request of the page, or refuse it."""
        request = route.request
        if request.is_navigation_request() and request.url == self._response.url:
            content_type = self._response.headers.get("content-type", "text/html")
            await route.fulfill(body=self._response.content, headers={"Content-Type": content_type})
            return
        self._request_count += 1
        is_permitted = (
            request.method == "GET"
            and request.resource_type in RESOURCE_TYPES
            and get_site(request.url) == get_site(self._response.url)
            and self._request_count <= MAX_REQUESTS
            and self._bytes_left > 0
        )
        try:
            response = await self._fetch(request.url) if is_permitted else None
        except SourceError:
            # The page has to do without it, as in a browser that blocks.
            response = None
        if response is None:
            await route.abort("blockedbyclient")
            return
        headers = {"Content-Type": response.headers.get("content-type", "application/octet-stream")}
        await route.fulfill(status=response.status, body=response.content, headers=headers)

    async def _fetch(self, url: str) -> Response:
        self._check_url(url)
        max_kb = min(self._request.max_kb, self._bytes_left // 1024 + 1)
        request = Request(url, timeout_s=self._request.timeout_s, max_kb=max_kb)
        response = await self._client.fetch(request, self._check_url)
        self._bytes_left -= len(response.content)
        return response


@asynccontextmanager
async def open_renderer(client: WebClient, check_url: Callable[[str], None]) -> AsyncIterator[Renderer]:
    """Start a browser: the system's, or the one that Playwright has fetched. Raises `SourceError` for none."""
    try:
        from playwright.async_api import Error, async_playwright
    except ImportError as error:
        raise SourceError(f"render needs a package: {format_install_hint('render')}") from error

    executable = next(filter(None, map(shutil.which, BROWSER_NAMES)), None)
    async with async_playwright() as playwright:
        try:
            browser = await playwright.chromium.launch(
                executable_path=executable,
                args=[*BROWSER_OPTIONS],
                # As root there is no sandbox; elsewhere foreign scripts run in it.
                chromium_sandbox=os.geteuid() != 0,
                env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
                proxy={"server": DEAD_PROXY, "bypass": "<-loopback>"},
            )
        except Error as error:
            problem = error.message.splitlines()[0][:200]
            hint = "install Chromium, or run `playwright install chromium`"
            raise SourceError(f"render finds no browser that starts: {problem}. To mend it, {hint}") from error
        try:
            yield Renderer(browser, client, check_url)
        finally:
            await browser.close()
