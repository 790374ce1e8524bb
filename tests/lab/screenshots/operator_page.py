"""Pictures of the operator's page: a real browser shows it over a journal of a small community."""

from __future__ import annotations

import os
import shutil
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.async_api import async_playwright

from tests.support.operator_page import OWNER, fill, make_states, operator_page

# Name: the page, the scheme, and the window's size.
PICTURES = {
    "operator-questions": ("/", "dark", 1100, 760),
    "operator-question": ("/questions/13", "light", 1100, 1240),
    "operator-unanswered": ("/unanswered", "light", 1100, 640),
    "operator-phone": ("/questions/13", "light", 360, 760),
}
COLOURS = 192


async def photograph(folder: Path) -> dict[str, bytes]:
    """Return the pictures by name, as PNG files of few colours."""
    pictures: dict[str, bytes] = {}
    async with operator_page(folder, os.environ, states=make_states()) as page, async_playwright() as playwright:
        await fill(page.journal)
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        )
        for name, (path, scheme, width, height) in PICTURES.items():
            context = await browser.new_context(
                color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": height}
            )
            tab = await context.new_page()
            await tab.goto(f"{page.url}/sign-in")
            await tab.get_by_label("Token").fill(OWNER)
            await tab.get_by_role("button", name="Sign in").click()
            await tab.goto(f"{page.url}{path}")
            pictures[name] = shrink(await tab.screenshot())
            await context.close()
        await browser.close()
    return pictures


def shrink(png: bytes) -> bytes:
    """Return a picture with few colours."""
    output = BytesIO()
    with Image.open(BytesIO(png)) as picture:
        picture.convert("RGB").quantize(COLOURS).save(output, "PNG", optimize=True)
    return output.getvalue()
