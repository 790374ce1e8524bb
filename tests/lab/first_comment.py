"""From an empty folder to the first cited comment below a post, or answer in a discussion, recorded step by step.

    python -m tests.lab.first_comment mastodon                   this checkout
    python -m tests.lab.first_comment github --wheel WHEEL       installs the wheel with pip first

The network is the peer of the tests over real HTTP, and a program says what the language model does; everything else is
what a user has. `first_answer.py` goes the same way on Telegram.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lab.first_answer import DOCS, Record, copy_docs, install
from tests.support.peers.github import REPOSITORY, GithubPeer
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.mastodon import MastodonPeer
from tests.support.terminal import open_kimas, open_terminal

QUESTION = "How does the gate decide when the bot speaks?"
REPLY = "It judges whether a message is a question that the bot can answer [p1]; every silence has a reason [p1]."
ANSWER_S = 120
CONFIGURATION = """sources:
  docs: {{kind: files, path: {docs}, link: "https://example.org/docs/{{path}}"}}
models:
  main: {{base_url: "{model}", model: your-model}}
{section}"""
MASTODON = """mastodon:
  url: {url}
  token: {{env: BOT_TOKEN}}
auto_comment:
  chats: ["mastodon:tag/rocket"]
"""
GITHUB = """github:
  api_url: {url}
  token: {{env: BOT_TOKEN}}
  repositories: [{repository}]
  discussions: true
  poll_s: 5
"""


class Network(ABC):
    """A network on which somebody writes, and the bot below it."""

    peer: Any
    real_url = ""

    @abstractmethod
    def write_section(self) -> str:
        """Return the network's part of the configuration."""

    @abstractmethod
    async def write(self) -> str:
        """Let somebody write, and return how that is told."""

    @abstractmethod
    def get_answers(self) -> list[str]:
        """Return what the bot wrote."""


class OnMastodon(Network):
    real_url = "https://mastodon.example"

    def __init__(self) -> None:
        self.peer = MastodonPeer()

    def write_section(self) -> str:
        return MASTODON.format(url=self.peer.url)

    async def write(self) -> str:
        await self.peer.until_streaming("hashtag rocket", 60)
        await self.peer.say(self.peer.account("ann"), f"{QUESTION} #rocket")
        return f"Ann posts: {QUESTION} #rocket"

    def get_answers(self) -> list[str]:
        return [status.text for status in self.peer.posts()]


class OnGithub(Network):
    real_url = "https://api.github.com"

    def __init__(self) -> None:
        self.peer = GithubPeer()
        self.peer.repositories[REPOSITORY].can_write = True

    def write_section(self) -> str:
        return GITHUB.format(url=self.peer.url, repository=REPOSITORY)

    async def write(self) -> str:
        # What was there at the first look is not answered.
        await self.peer.until_polled(5, 60)
        self.peer.discussions.open(QUESTION, f"@{self.peer.login} {QUESTION}")
        return f"Ann opens a discussion: @{self.peer.login} {QUESTION}"

    def get_answers(self) -> list[str]:
        return [remark.text.partition("<!--")[0].strip() for remark in self.peer.discussions.posts()]


NETWORKS = {"mastodon": OnMastodon, "github": OnGithub}


async def record(name: str, kimas: Sequence[str], directory: Path, result: Record) -> None:
    """Set a bot up in an empty folder, and wait for what it writes. `kimas` is the command; empty: this checkout."""
    network: Network = NETWORKS[name]()
    home, folder = directory / "home", directory / "bot"
    home.mkdir()
    folder.mkdir()
    docs = copy_docs(directory)
    async with network.peer, LanguageModelPeer(reply=REPLY) as model:
        environment = {"HOME": str(home), "PATH": os.environ["PATH"], "BOT_TOKEN": network.peer.token}
        started_at = time.monotonic()
        configuration = CONFIGURATION.format(docs=docs, model=model.base_url, section=network.write_section())
        (folder / "kimas.yaml").write_text(configuration, "utf-8")
        result.add(started_at, f"$ cat kimas.yaml\n{configuration}")
        for arguments in (["check", "--live"], ["ingest"]):
            await _run(kimas, arguments, folder, environment, result)
        started_at = time.monotonic()
        async with _open(kimas, ["run"], folder, environment) as terminal:
            await terminal.read(f"{name}.open")
            result.add(started_at, "$ kimas run")
            started_at = time.monotonic()
            said = await network.write()
            async with asyncio.timeout(ANSWER_S):
                while not (answers := network.get_answers()) or "[1]" not in answers[0]:
                    await asyncio.sleep(0.05)
            result.answer = "\n\n".join(answers)
            result.add(started_at, f"{said}\n\nThe bot writes below it:\n{result.answer}")
            terminal.process.terminate()
            assert await terminal.end() == 0, terminal.output
        replacements = {
            str(docs): DOCS,
            str(folder): "/home/ann/bot",
            str(home): "/home/ann",
            network.peer.url: network.real_url,
            model.base_url: "https://llm.example.org/v1",
        }
    for original, text in replacements.items():
        result.steps[:] = [step.replace(original, text) for step in result.steps]


async def _run(
    kimas: Sequence[str], arguments: Sequence[str], folder: Path, environment: Mapping[str, str], result: Record
) -> None:
    started_at = time.monotonic()
    async with _open(kimas, arguments, folder, environment) as terminal:
        assert await terminal.end(300) == 0, terminal.output
        result.add(started_at, f"$ kimas {' '.join(arguments)}\n{terminal.output}")


def _open(kimas: Sequence[str], arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Any:
    if kimas:
        return open_terminal([*kimas, *arguments], folder, {**environment, "PYTHONPATH": ""})
    return open_kimas(arguments, folder, environment)


def main() -> None:
    """Go the way by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--wheel", type=Path)
    options = parser.parse_args()
    result = Record()
    with tempfile.TemporaryDirectory(prefix="kimas-first-comment-") as name:
        directory = Path(name)
        kimas = [str(install(options.wheel.absolute(), directory / "venv", result))] if options.wheel else []
        asyncio.run(record(options.network, kimas, directory, result))
    print(result.render())
    print(f"\n{len(result.steps)} steps, {sum(result.seconds):.0f} s")


if __name__ == "__main__":
    main()
