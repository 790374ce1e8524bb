"""README's first picture: an answer in a model's words about a public project, Click.

    python -m tests.lab.screenshots.hero REPOSITORY     a bare clone of github.com/pallets/click

The question, the retrieval, the check of the citations, the delivery to Telegram's peer and the drawing are real. The
model is a script: it returns ANSWER, which we wrote from these passages, and cites the passages that the pipeline gave
it. Click's own text is not shown and is not part of this repository.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.lab.screenshots.telegram import GROUP, PATIENCE_S, PICTURES, YOU, bubbles, draw
from tests.support.deployment import Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer

COMMIT = "2c8cd3ac"
QUESTION = "How do I read an option from an environment variable?"
# Each statement with a heading that the passage it cites has in its title or its text.
ANSWER = (
    (
        "Name the variable in `envvar`: `@click.option('--username', envvar='USERNAME')`. If `envvar` is a list, "
        "Click takes the first variable that is set.",
        "Values from Environment Variables",
    ),
    ("What is given on the command line still wins over the environment variable.", "Value sources"),
    ("With `show_envvar=True`, the help page shows the name of the variable.", "Showing Environment Variables"),
)
PASSAGE = re.compile(r'<passage id="(p\d+)"(.*?)</passage>', re.DOTALL)


def reply(body: dict[str, Any]) -> str:
    """Return the scripted answer with the ids that its passages have in the prompt."""
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    passages = PASSAGE.findall(prompt)
    lines = []
    for statement, heading in ANSWER:
        names = [name for name, text in passages if heading in text]
        assert names, f"no passage has the heading {heading!r}"
        lines.append(f"{statement} [{names[0]}]")
    return "\n\n".join(lines)


async def picture(repository: Path, folder: Path) -> str:
    """Read Click's documentation, ask in a group, and return the drawing."""
    address = "https://github.com/pallets/click/blob/{commit}/{path}#L{start}"
    docs = {"kind": "git", "url": str(repository), "include": ["/docs/*.md"], "link": address}
    deployment = Deployment(folder, {"sources": {"docs": docs}})
    await asyncio.to_thread(deployment.kimas, "ingest")
    async with LanguageModelPeer(reply=reply) as model, TelegramPeer() as peer:
        deployment.settings["models"] = {"main": {"base_url": model.base_url, "model": "script"}}
        deployment.settings["context"] = {"complete": False, "select": False, "translate": False}
        deployment.settings["telegram"] = {"token": {"env": "BOT_TOKEN"}, "api_url": peer.api_url}
        deployment.environment["BOT_TOKEN"] = peer.token
        async with deployment.daemon():
            peer.say(GROUP, f"@{peer.username} {QUESTION}", author=YOU)
            await peer.wait_until(lambda: any(message.buttons for message in peer.messages(GROUP)), PATIENCE_S)
        description = "A question about Click in a Telegram group, and an answer with links to Click's documentation"
        return draw(bubbles(peer.chat(GROUP)), description)


def main() -> None:
    repository = Path(sys.argv[1]).resolve()
    head = subprocess.run(
        ("git", "-C", str(repository), "rev-parse", "HEAD"), check=True, capture_output=True, text=True
    ).stdout
    assert head.startswith(COMMIT), f"the answer was written for commit {COMMIT}"
    with tempfile.TemporaryDirectory(prefix="kimas-hero-") as folder:
        drawing = asyncio.run(picture(repository, Path(folder)))
    (PICTURES / "hero.svg").write_text(drawing, "utf-8")


if __name__ == "__main__":
    main()
