"""From an empty folder to the first answer in a Telegram group, as somebody would do it, recorded.

    python -m tests.lab.first_answer WHEEL          installs the wheel with pip and prints the record
    python -m tests.lab.first_answer WHEEL --save   also writes it into docs/telegram.md
    python -m tests.lab.first_answer WHEEL --model http://127.0.0.1:8080/v1    with a model of this machine

Telegram is the peer of the tests (`tests/support/peers/telegram.py`), over real HTTP; everything else is what a user
has. `tests/lab/independent/first_answer.py` goes the same way with a server of others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.support.peers.telegram import TelegramPeer
from tests.support.terminal import GRACE_S, Terminal, open_kimas, open_terminal

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "telegram.md"
BEGIN = "<!-- recorded by tests/lab/first_answer.py -->"
END = "<!-- end of the record -->"
GROUP = -1001234567890
QUESTION = "Which messages does the bot get when privacy mode is on?"
DOCS = "/home/ann/rocket/docs"


class Group(Protocol):
    """A group with a bot in it, and somebody who writes there."""

    @property
    def api_url(self) -> str:
        """Where Telegram is."""
        ...

    @property
    def token(self) -> str:
        """The bot's token."""
        ...

    def say(self, command: str) -> None:
        """Give the bot a command."""
        ...

    async def wait_for_answer(self) -> str:
        """Return the bot's first answer with a citation."""
        ...


@dataclass(frozen=True, slots=True)
class PeerGroup:
    """A group on our own server."""

    peer: TelegramPeer

    @property
    def api_url(self) -> str:
        return self.peer.api_url

    @property
    def token(self) -> str:
        return self.peer.token

    def say(self, command: str) -> None:
        self.peer.say(GROUP, command)

    async def wait_for_answer(self) -> str:
        reply = await self.peer.wait_for_reply(GROUP, GRACE_S, containing="[1]")
        return reply.text


@dataclass(slots=True)
class Record:
    """What was typed and shown, a text per step, and how long it took."""

    steps: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    answer: str = ""

    def add(self, started_at: float, text: str) -> None:
        self.steps.append(text.strip())
        self.seconds.append(time.monotonic() - started_at)

    def render(self) -> str:
        """Return the steps as they are shown in the guide."""
        steps = [
            f"# Step {number}, after {sum(self.seconds[: number - 1]):.0f} s\n{step}"
            for number, step in enumerate(self.steps, 1)
        ]
        return "\n\n".join(steps)


async def record(
    kimas: Sequence[str],
    docs: Path,
    folder: Path,
    environment: Mapping[str, str],
    result: Record,
    model_url: str = "",
) -> Record:
    """Set a bot up in an empty folder and ask it in a group. `docs` is what it answers from.

    `kimas` is the command; where it is empty, this checkout is run. `model_url` is an endpoint with one model.
    """
    async with TelegramPeer() as peer:
        peer.reads_all = True
        await record_in(PeerGroup(peer), kimas, docs, folder, environment, result, model_url)
    return result


async def record_in(
    group: Group,
    kimas: Sequence[str],
    docs: Path,
    folder: Path,
    environment: Mapping[str, str],
    result: Record,
    model_url: str = "",
) -> None:
    """Do the same in a group that is there."""
    started_at = time.monotonic()
    async with _open(kimas, ["init", "--api-url", group.api_url], folder, environment) as terminal:
        await _set_up(terminal, group, docs, model_url)
        assert await terminal.end() == 0, terminal.output
        result.add(started_at, "$ kimas init\n" + terminal.output)
    for arguments in (["check", "--live"], ["ingest"]):
        started_at = time.monotonic()
        async with _open(kimas, arguments, folder, environment) as terminal:
            assert await terminal.end(2 * GRACE_S) == 0, terminal.output
            result.add(started_at, f"$ kimas {' '.join(arguments)}\n" + terminal.output)
    started_at = time.monotonic()
    async with _open(kimas, ["run"], folder, environment) as terminal:
        await terminal.read("telegram.open")
        result.add(started_at, "$ kimas run")
        started_at = time.monotonic()
        group.say(f"/ask {QUESTION}")
        result.answer = await group.wait_for_answer()
        result.add(started_at, f"Ann, in the group: /ask {QUESTION}\n\nThe bot replies:\n{result.answer}")
        terminal.process.terminate()
        assert await terminal.end() == 0, terminal.output
    replacements = {str(docs): DOCS, str(folder): "/home/ann/bot", group.api_url: "https://api.telegram.org"}
    for original, output_text in replacements.items():
        result.steps[:] = [step.replace(original, output_text) for step in result.steps]


def _open(
    kimas: Sequence[str], arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> AbstractAsyncContextManager[Terminal]:
    if kimas:
        return open_terminal([*kimas, *arguments], folder, environment)
    return open_kimas(arguments, folder, environment)


async def _set_up(terminal: Terminal, group: Group, docs: Path, model_url: str) -> None:
    await terminal.answer("[telegram]:", "")
    await terminal.answer("not shown", group.token)
    await terminal.answer("s: skip", "")
    await terminal.read("waiting for up to")
    group.say("/ask hello")
    await terminal.answer("answer in this group only?", "")
    await terminal.answer("is that you", "")
    await terminal.answer("Source [.]:", str(docs))
    await terminal.answer("Another source", "")
    await terminal.answer("Model (", "other" if model_url else "")
    if model_url:
        await terminal.answer("Address of the endpoint", model_url)
        await terminal.answer("API key", "")
        await terminal.answer("Model's name", "")


def install(wheel: Path, folder: Path, result: Record) -> Path:
    """Install the wheel with plain pip in a new environment; return the command."""
    started_at = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", wheel], check=True)
    result.add(started_at, f"$ pip install {wheel.name}")
    return folder / "bin" / "kimas"


async def record_installed(wheel: Path, group: Group | None = None, model_url: str = "") -> Record:
    """Install the wheel and go the whole way, on our own server if no group is given, without a model if none is."""
    with tempfile.TemporaryDirectory(prefix="kimas-first-answer-") as directory:
        result = Record()
        home = Path(directory) / "home"
        folder = Path(directory) / "bot"
        home.mkdir()
        folder.mkdir()
        kimas = [str(install(wheel.absolute(), Path(directory) / "venv", result))]
        environment = {"HOME": str(home), "PYTHONPATH": "", "PATH": os.environ["PATH"]}
        docs = copy_docs(Path(directory))
        if group is None:
            return await record(kimas, docs, folder, environment, result, model_url)
        await record_in(group, kimas, docs, folder, environment, result, model_url)
        return result


def copy_docs(folder: Path) -> Path:
    """Copy the guide, without the record: a bot that answers from it would quote its own answer."""
    docs = Path(shutil.copytree(ROOT / "docs", folder / "docs"))
    page = docs / PAGE.name
    page.write_text(re.sub(f"{BEGIN}.*{END}", "", page.read_text("utf-8"), flags=re.DOTALL), "utf-8")
    return docs


def save(result: Record) -> None:
    """Put the record into the guide."""
    page = PAGE.read_text("utf-8")
    block = f"{BEGIN}\n\n````text\n{result.render()}\n````\n\n{END}"
    PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: block, page, flags=re.DOTALL), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--model", default="", help="an OpenAI-compatible endpoint with one model; none: quotes")
    options = parser.parse_args()
    result = asyncio.run(record_installed(options.wheel, model_url=options.model))
    print(result.render())
    print(f"\n{len(result.steps)} steps, {sum(result.seconds):.0f} s")
    if options.save:
        save(result)


if __name__ == "__main__":
    main()
