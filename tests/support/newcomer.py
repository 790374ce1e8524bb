"""A newcomer sets up a bot in the browser alone: for the test of it, and for its pictures."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page as Tab, expect

from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.terminal import Terminal, open_kimas

GROUP = -1001234567890
OWNER = "telegram:5"
API_KEY = "sk-a-key-for-tests"
DOCUMENT = "# Rocket\n\nThe launch key is in the blue safe.\n"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/sign-in\?once=\S+")
SLOW_MS = 60_000

Look = Callable[[str], Awaitable[None]]


@asynccontextmanager
async def init_in_browser(folder: Path, *arguments: str) -> AsyncIterator[tuple[Terminal, str]]:
    """Run `kimas init --browser` in a folder with a document; the address is the one that it prints."""
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    (folder / "docs" / "rocket.md").write_text(DOCUMENT, "utf-8")
    async with open_kimas(["init", "--browser", *arguments], folder) as terminal:
        await terminal.read("Ctrl-C ends KIMAs")
        match = LINK.search(terminal.output)
        assert match, terminal.output
        yield terminal, match[0]


async def set_up(tab: Tab, address: str, telegram: TelegramPeer, models: LanguageModelPeer, look: Look) -> None:
    """Go from the printed address to an answer in a group, and `look` at what is shown on the way."""
    await tab.goto(address)
    await look("open")
    await tab.get_by_role("button", name="Open").click()
    await expect(tab.get_by_role("heading", name="Set up")).to_be_visible()
    await look("empty")
    await _add_source(tab, look)
    await _add_model(tab, models)
    await tab.get_by_text("Connect Telegram").click()
    await tab.locator("#telegram-token").fill(telegram.token)
    await tab.get_by_role("button", name="Check and connect").first.click()
    await expect(tab.get_by_role("status")).to_contain_text("startgroup=true", timeout=SLOW_MS)
    await look("connected")
    await tab.get_by_role("button", name="Restart now").click()
    await tab.wait_for_url("**/setup", timeout=SLOW_MS)
    telegram.say(GROUP, "/ask Where is the launch key?")
    await _add(tab, "Who may give every command", OWNER, "Add", "owner")
    await _add(tab, "Answer in one group only", f"telegram:{GROUP}", "Check and add", "chat")
    await tab.get_by_label("Question").fill("Where is the launch key?")
    await tab.get_by_role("button", name="Ask").click()
    await expect(tab.get_by_role("heading", name="Where the time went")).to_be_visible(timeout=SLOW_MS)
    await look("tried")


async def _add_source(tab: Tab, look: Look) -> None:
    location = tab.get_by_label("Folder, file, repository or web site")
    await location.fill("dosc")
    await tab.locator("form[action='/setup/source'] button").click()
    await expect(tab.get_by_role("alert")).to_contain_text("does not exist: name a folder, a file or an address")
    await look("mistake")
    await location.fill("docs")
    await tab.locator("form[action='/setup/source'] button").click()
    await expect(tab.get_by_role("status")).to_contain_text("It counts now.", timeout=SLOW_MS)
    await expect(tab.locator("#progress")).to_contain_text("1 passage of 1 document", timeout=SLOW_MS)


async def _add_model(tab: Tab, models: LanguageModelPeer) -> None:
    for name in ("", "qwen3:8b"):
        await tab.get_by_label("Address of an OpenAI-compatible endpoint").fill(models.base_url)
        await tab.get_by_label("API key").fill(API_KEY)
        await tab.get_by_label("Model's name").fill(name)
        await tab.locator("form[action='/setup/model'] button").click()
        if not name:
            await expect(tab.get_by_role("alert")).to_contain_text("llama3.2, qwen3:8b")
    await expect(tab.get_by_role("status")).to_contain_text("A restart is needed for: models", timeout=SLOW_MS)


async def _add(tab: Tab, label: str, value: str, button: str, kind: str) -> None:
    await tab.get_by_label(label).fill(value)
    await tab.locator(f"form[action='/setup/{kind}']").get_by_role("button", name=button).click()
    await expect(tab.get_by_role("status")).to_contain_text("Added", timeout=SLOW_MS)
