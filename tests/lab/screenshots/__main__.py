"""Draw the guide's pictures again: `python -m tests.lab.screenshots`."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.lab.screenshots.clients import demo, discord, slack, with_transcript
from tests.lab.screenshots.operator_page import photograph
from tests.lab.screenshots.telegram import PICTURES, exchange
from tests.support.deployment import ROOT, Deployment


def main() -> None:
    """Read the guide, ask, and write the pictures, and the demo's answer into the page that shows it."""
    documents = {
        "kind": "files",
        "path": str(ROOT),
        "include": ["/docs/*.md"],
        "exclude": ["/docs/architecture.md", "/docs/decisions.md", "/docs/protocols.md"],
        "link": "https://example.org/kimas/{path}#L{start}",
    }
    with tempfile.TemporaryDirectory(prefix="kimas-pictures-") as folder:
        deployment = Deployment(Path(folder), {"sources": {"guide": documents}})
        deployment.kimas("ingest")
        pictures = asyncio.run(exchange(deployment))
        del deployment.settings["telegram"]
        pictures |= {"discord": asyncio.run(discord(deployment)), "slack": asyncio.run(slack(deployment))}
        photographs = asyncio.run(photograph(Path(folder)))
        pictures["ask"], transcript = demo(Path(folder) / "demo")
    for name, picture in pictures.items():
        (PICTURES / f"{name}.svg").write_text(picture, "utf-8")
    for name, photograph_png in photographs.items():
        (PICTURES / f"{name}.png").write_bytes(photograph_png)
    page = ROOT / "README.md"
    page.write_text(with_transcript(page.read_text("utf-8"), transcript), "utf-8")


if __name__ == "__main__":
    main()
