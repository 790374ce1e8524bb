"""What the scripts share: a bot with documents in a folder of its own, steps that are printed, calls over HTTP."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

TIMEOUT_S = 60.0
Json = dict[str, Any]
T = TypeVar("T")

QUESTION = "How do I rotate the keys?"
FOLLOW_UP = "And what if I lose a key?"
ANSWER = "keys rotate"
SECOND_ANSWER = "keys revoke"
DOCUMENTS = {
    "rotating.md": "# Rotating the keys\n\nRotate the keys with `rocket keys rotate`. Old keys work for a week.\n",
    "losing.md": "# Losing a key\n\nWho loses a key revokes it with `rocket keys revoke NAME`, at once.\n",
}
CONFIGURATION = """
data_dir: {folder}/data
sources:
  guide:
    kind: files
    path: {folder}/docs
"""
# The model looks things up by calling a tool, and writes slowly enough to be seen writing.
MODEL = """
models:
  main:
    base_url: {model}
    model: mock
    tools: true
strategies:
  allowed: [react]
  default: react
budget:
  deadline_s: 60
"""


def parse_arguments(server: str, example: str, **other_options: str) -> argparse.Namespace:
    """Return a script's arguments: the address of the `server`, of the model, if there is one, and `other_options`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("server", help=f"{server}, for example {example}")
    parser.add_argument("--model", default="", help="aimock, for example http://127.0.0.1:4010/v1; none: quotes")
    for name, default in other_options.items():
        parser.add_argument(f"--{name}", default=default, help=f"another address of it; {default} when not given")
    arguments = parser.parse_args()
    arguments.server = arguments.server.rstrip("/")
    return arguments


def call(url: str, body: object = None, *, method: str = "", headers: Mapping[str, str] | None = None) -> Any:
    """Make one request with a JSON body, and return the JSON of its answer."""
    data = None if body is None else json.dumps(body).encode()
    all_headers = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(  # noqa: S310 - the address is an argument of the script
        url, data, all_headers, method=method or ("GET" if body is None else "POST")
    )
    with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
        text = response.read()
    return json.loads(text) if text else None


def wait_for(find: Callable[[], T | None], description: str) -> T:
    """Wait until something is found, print the step and return it. Raises `SystemExit` when it never is."""
    started_at = time.monotonic()
    while not (result := find()):
        if time.monotonic() > started_at + TIMEOUT_S:
            raise SystemExit(f"failed: {description}")
        time.sleep(0.1)
    print(f"ok   {description} ({time.monotonic() - started_at:.1f} s)", flush=True)
    return result


def wait_until_streamed(read_text: Callable[[], str], end: str) -> None:
    """Wait until a text with `end` is there, and was seen growing before. Raises `SystemExit` otherwise."""
    texts: list[str] = []

    def grow() -> bool:
        text = read_text()
        if text and text not in texts:
            texts.append(text)
        return end in text

    wait_for(grow, "the model's answer is complete")
    partial = [text for text in texts if end not in text]
    if not partial:
        raise SystemExit("failed: it was shown while it was written")
    print(f"ok   it was shown while it was written ({len(partial)} times before)", flush=True)


def is_cited(text: str) -> bool:
    """Return whether an answer names its source, by a number and in a list."""
    return "[1]" in text and "rotating.md" in text


@dataclass(frozen=True, slots=True)
class Bot:
    """A bot that runs: its folder, and how its commands begin and end."""

    folder: Path

    def run(self, *arguments: str) -> str:
        """Give one command of `kimas` and return what it prints. Raises `CalledProcessError`."""
        command = [sys.executable, "-m", "kimas", *arguments, "--config", str(self.folder / "kimas.yaml")]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def has_logged(self, event: str) -> bool:
        """Return whether an event is in the log of the bot."""
        return f'"{event}"' in (self.folder / "kimas.log").read_text()

    def count_ratings(self) -> tuple[int, int]:
        """Return how many thumbs up and down the journal has."""
        days = json.loads(self.run("feedback", "--json"))["days"]
        return sum(day["up"] for day in days), sum(day["down"] for day in days)


@contextmanager
def run_bot(platform: str, secrets: Mapping[str, str], model: str = "") -> Iterator[Bot]:
    """Run a bot with two documents for the length of the block; its log is in `kimas.log` in its folder.

    `platform` is a section of the configuration; in it, `{NAME}` is the path of the file of a secret.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "docs").mkdir()
        for file, text in DOCUMENTS.items():
            (folder / "docs" / file).write_text(text)
        for secret, value in secrets.items():
            (folder / secret).write_text(value)
        section = platform.format_map({secret: folder / secret for secret in secrets})
        text = CONFIGURATION.format(folder=folder) + section + (MODEL.format(model=model) if model else "")
        (folder / "kimas.yaml").write_text(text)
        bot = Bot(folder)
        bot.run("ingest")
        command = [sys.executable, "-m", "kimas", "run", "--config", str(folder / "kimas.yaml")]
        with (folder / "kimas.log").open("w") as log:
            process = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            wait_for(lambda: bot.has_logged("daemon.ready"), "the bot runs")
            yield bot
        except BaseException:
            print((folder / "kimas.log").read_text(), file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait(30)
