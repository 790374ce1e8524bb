"""Pictures of a newcomer who sets up a bot: `python -m tests.lab.screenshots.newcomer` draws them again.

It prints the steps as a transcript. What the guide shows goes to its pictures, all others to the folder that is named.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.lab.screenshots.operator_page import shrink
from tests.lab.screenshots.telegram import PICTURES
from tests.support.chromium import launched
from tests.support.newcomer import init_in_browser, set_up
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer

SHOWN = ("tried",)
STEPS = {
    "open": "The printed address is open.",
    "empty": "Nothing is configured yet.",
    "mistake": "A wrong folder is named, and said to be wrong.",
    "connected": "The source is read, the model answers, the token belongs to a bot.",
    "tried": "After the restart, a question is answered, with where its time went.",
}


async def photograph(folder: Path) -> dict[str, bytes]:
    """Set up a bot in a folder, print what is done, and return the pictures by name, as PNG files of few colours."""
    pictures: dict[str, bytes] = {}
    async with (
        TelegramPeer() as telegram,
        LanguageModelPeer(reply="The launch key is in the blue safe. [p1]", ttft_s=0.4, tokens_per_s=30) as models,
        init_in_browser(folder, "--api-url", telegram.api_url) as (terminal, address),
        launched() as browser,
    ):
        models.models = ("qwen3:8b", "llama3.2")
        context = await browser.new_context(viewport={"width": 1100, "height": 1000})
        tab = await context.new_page()

        async def look(name: str) -> None:
            print(f"{len(pictures) + 1}. {STEPS[name]}")
            for banner in await tab.locator(".banner").all_inner_texts():
                print(f"   The page says: {banner}")
            pictures[name] = shrink(await tab.screenshot())

        await set_up(tab, address, telegram, models, look)
        await context.close()
        terminal.type(b"\x03")
        await terminal.end()
    return pictures


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory(prefix="kimas-newcomer-") as folder:
        pictures = asyncio.run(photograph(Path(folder) / "bot"))
    for name, picture in pictures.items():
        target = PICTURES if name in SHOWN else Path(sys.argv[1]) if len(sys.argv) > 1 else None
        if target:
            (target / f"setup-{name}.png").write_bytes(picture)


if __name__ == "__main__":
    main()
