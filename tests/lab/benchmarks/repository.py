"""A repository of 10,000 files behind a remote address: a refresh with nothing new, and one after one change."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from tests.lab.benchmarks.figures import Figure
from tests.support.deployment import Deployment, commit, make_repository

FILES = 10_000
WORDS = ("handler", "session", "token", "cache", "worker", "queue", "index", "passage", "vector", "search", "router")


async def measure(folder: Path) -> list[Figure]:
    repository = await asyncio.to_thread(repository_of_10k_files, folder / "large")
    directory = folder / "large-deployment"
    directory.mkdir()
    deployment = Deployment(directory, {"sources": {"code": {"kind": "git", "url": f"file://{repository}"}}})

    def ingest() -> tuple[float, float, int]:
        """Return the seconds of the refresh, those of the whole process, and the documents that were read."""
        started_at = time.monotonic()
        report = json.loads(deployment.kimas("ingest", "--json").stdout)["sources"][0]
        return report["seconds"], time.monotonic() - started_at, report["added"] + report["updated"]

    first, _, files = await asyncio.to_thread(ingest)
    same_s, same_process, reread_count = await asyncio.to_thread(ingest)
    await asyncio.to_thread(
        commit, repository, {text_path(17): "# Changed\n\nThis page is about something else now.\n"}
    )
    changed_s, changed_process, number = await asyncio.to_thread(ingest)
    assert (files, reread_count, number) == (FILES, 0, 1)
    return [
        Figure("repository: 10,000 files from nothing, with embedding", first, "s"),
        Figure("repository: refresh with nothing new", same_s, "s", 2),
        Figure("repository: the same with the start of a process", same_process, "s"),
        Figure("repository: refresh after one change, with embedding", changed_s, "s", 5),
        Figure("repository: the same with the start of a process", changed_process, "s"),
    ]


def text_path(number: int) -> str:
    return f"part_{number % 100}/group_{number % 7}/page_{number}.md"


def repository_of_10k_files(folder: Path) -> Path:
    """Make a git repository of many short pages, no two alike."""
    files = {}
    for number in range(FILES):
        words = " ".join(WORDS[(number * step) % len(WORDS)] for step in range(1, 12))
        files[text_path(number)] = f"# Page {number}\n\nThe {words} of part {number % 100} has the number {number}.\n"
    return make_repository(folder, files)
