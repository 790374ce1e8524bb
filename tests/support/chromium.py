"""A real browser: Debian's Chromium. Where there is none, tests that need it are skipped."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import axe_playwright_python
import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

CHROMIUM = shutil.which("chromium") or ""
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
)
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")

needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed: apt-get install chromium")


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=[*OPTIONS])
        try:
            yield browser
        finally:
            await browser.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    """A browser for all tests of a module, which share its event loop: starting one takes longer than most of them."""
    async with launched() as browser:
        yield browser
