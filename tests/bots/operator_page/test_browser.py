"""The operator's page in a real browser: Debian's Chromium. Where there is none, these tests are skipped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page as Tab, expect

from core.observability.logs import get_logger
from core.types import Citation, Reply
from tests.support.chromium import AXE, browser, needs_chromium
from tests.support.operator_page import (
    EVIL,
    NOTHING,
    OWNER,
    PAGES,
    TRACE,
    Page,
    answered,
    fill,
    make_message,
    make_states,
    operator_page,
)

ALL_PAGES = (*PAGES, "/questions/13", "/questions/6", "/questions/6/teach")

__all__ = ["browser"]
pytestmark = [needs_chromium, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(loop_scope="module")
async def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Page]:
    for name in ("PAGE_TOKEN", "PAGE_OWNER_TOKEN"):
        monkeypatch.setenv(name, "")
    async with operator_page(tmp_path, os.environ, states=make_states()) as served:
        await fill(served.journal)
        yield served


@asynccontextmanager
async def signed_in(browser: Browser, page: Page, **options: Any) -> AsyncIterator[tuple[Tab, list[str]]]:
    """A browser's window that has signed in as the owner, and its errors, which must be none in the end.

    An error is one in its console, a dialog, and a request to anywhere else.
    """
    context = await browser.new_context(**options)
    tab = await context.new_page()
    page_errors: list[str] = []
    tab.on("console", lambda message: page_errors.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: page_errors.append(str(error)))
    tab.on("dialog", lambda dialog: page_errors.append(dialog.message))
    tab.on("request", lambda request: None if request.url.startswith(page.url) else page_errors.append(request.url))
    await tab.goto(f"{page.url}/sign-in")
    await tab.get_by_label("Token").fill(OWNER)
    await tab.get_by_role("button", name="Sign in").click()
    await tab.wait_for_url(f"{page.url}/")
    try:
        yield tab, page_errors
    finally:
        await context.close()
    assert page_errors == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
async def test_everybody_can_read_it(browser: Browser, page: Page, scheme: str, width: int) -> None:
    get_logger("core.x").error("platform.disconnected", platform="telegram")
    viewport = {"width": width, "height": 800}
    async with (
        # The checker is a script of its own, which the page's policy would refuse.
        signed_in(browser, page, color_scheme=scheme, viewport=viewport, bypass_csp=True) as (tab, _),
    ):
        for path in ALL_PAGES:
            await tab.goto(f"{page.url}{path}")
            await tab.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
            await tab.add_script_tag(path=AXE)
            report = await tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
            violations = [
                (item["id"], item["impact"], item["nodes"][0]["html"])
                for item in report["violations"]
                if item["impact"] in ("serious", "critical", "moderate")
            ]
            assert violations == [], path
            size = "document.documentElement.{0}Width"
            assert await tab.evaluate(f"{size.format('scroll')} <= {size.format('client')}"), f"{path} is too wide"


async def test_what_strangers_wrote_does_nothing(browser: Browser, page: Page) -> None:
    citation = Citation(1, EVIL, EVIL, EVIL, EVIL, "javascript:alert(5)")
    reply = Reply(f"{EVIL} [1] [press](https://a.example/)", (citation,), trace=TRACE)
    message = await answered(page.journal, make_message(500, EVIL, author=EVIL), reply)
    await page.context.taught_answers.submit(message, "1", EVIL, EVIL, (), words_of=())
    get_logger("core.x").error(EVIL, value=EVIL)
    async with signed_in(browser, page) as (tab, page_errors):
        for path in (*PAGES, "/questions/14", "/questions/14/teach"):
            await tab.goto(f"{page.url}{path}")
            assert await tab.locator("img[src='x'], svg[onload]").count() == 0
        cookies = await tab.context.cookies()
        assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in cookies] == [(True, "Strict")]
        assert await tab.evaluate("document.cookie") == ""
        assert page_errors == []
        # Even a script that got into the page would not run.
        await tab.evaluate(
            "document.body.insertAdjacentHTML('beforeend', '<img src=/static/icon.svg onload=alert(1)>')"
        )
        async with asyncio.timeout(20):
            while not page_errors:
                await tab.wait_for_timeout(50)
        assert "violates the following Content Security Policy" in page_errors.pop()


async def test_an_owner_teaches_with_the_keyboard_alone(browser: Browser, page: Page) -> None:
    await answered(page.journal, make_message(500, "Does it use Redis?"), NOTHING)
    async with await browser.new_context() as context:
        tab = await context.new_page()
        await tab.goto(page.url)
        await tab.keyboard.type(OWNER)
        await tab.keyboard.press("Enter")
        await tab.wait_for_url(f"{page.url}/")
        await tab.keyboard.press("Tab")
        assert await tab.evaluate("document.activeElement.textContent") == "Skip to the content"
        await tab.goto(f"{page.url}/questions/14/teach")
        await tab.get_by_label("Question").focus()
        await tab.keyboard.press("Tab")
        await tab.keyboard.type("No. Sessions are kept in signed cookies.")
        await tab.keyboard.press("Tab")
        await tab.keyboard.press("Enter")
        await tab.wait_for_url("**/taught")
        await expect(tab.get_by_role("status")).to_contain_text("kept as number 1")
        await tab.get_by_role("button", name="Approve answer 1").press("Enter")
        await expect(tab.get_by_role("status")).to_contain_text("Answer 1 is approved")
    (answer,) = await page.context.taught_answers.list_answers("approved", reader=None)
    assert answer.answer == "No. Sessions are kept in signed cookies."


async def test_the_log_goes_on_by_itself(browser: Browser, page: Page) -> None:
    logger = get_logger("core.x")
    logger.warning("before")
    async with signed_in(browser, page) as (tab, _):
        await tab.goto(f"{page.url}/log")
        lines = tab.get_by_label("Lines of the log").locator("li:visible")
        await expect(lines.filter(has_text="before")).to_have_count(1)
        await expect(tab.locator("#log-state")).to_contain_text("New lines appear")
        logger.error(EVIL, value=EVIL)
        await expect(lines.filter(has_text="<script>alert(1)</script>")).to_have_count(1)
        await tab.get_by_role("button", name="Pause").click()
        logger.warning("held")
        logger.warning("held.too")
        await tab.wait_for_timeout(1200)
        await expect(lines.filter(has_text="held")).to_have_count(0)
        await tab.get_by_role("button", name="Go on").click()
        await expect(lines.filter(has_text="held")).to_have_count(2)
        await tab.get_by_label("Only with").fill("HELD.T")
        await expect(lines).to_have_count(1)
        logger.warning("another")
        logger.warning("held.third")
        await expect(lines).to_have_count(2)
        texts = await lines.all_inner_texts()
    assert [name for name in ("another", "held.too", "held.third") if any(name in text for text in texts)] == [
        "held.too",
        "held.third",
    ]
