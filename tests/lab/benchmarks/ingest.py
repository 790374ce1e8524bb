"""What a refresh costs where little or nothing has changed.

A repository of 500 files, each time a whole process; the listing of a folder with 20,000 pages of documentation, which
has nothing to go by the first time.
"""

from __future__ import annotations

import asyncio
import json
import time
from itertools import cycle, islice
from pathlib import Path

import psutil

from core.settings import FilesSource
from knowledge.sources.files import FilesFolder
from tests.lab.benchmarks.corpus import repository_of_500_files
from tests.lab.benchmarks.figures import Figure
from tests.lab.benchmarks.million import texts
from tests.support.deployment import Deployment, commit

FILES = 20_000


async def measure(folder: Path) -> list[Figure]:
    return await _measure_repository(folder) + await _measure_folder(folder / "pages")


async def _measure_repository(folder: Path) -> list[Figure]:
    repository = await asyncio.to_thread(repository_of_500_files, folder / "repository")
    deployment = Deployment(folder, {"sources": {"code": {"kind": "git", "url": str(repository)}}})

    def timed() -> tuple[float, int]:
        started_at = time.monotonic()
        report = json.loads(deployment.kimas("ingest", "--json").stdout)["sources"][0]
        return time.monotonic() - started_at, report["passages"]

    first, passages = await asyncio.to_thread(timed)
    second_s, _ = await asyncio.to_thread(timed)
    await asyncio.to_thread(commit, repository, {"src/module_1.py": '"""Changed."""\n\nANSWER = 42\n'})
    changed_s, _ = await asyncio.to_thread(timed)
    return [
        Figure("ingest: 500 files from nothing", first, "s", 180),
        Figure("ingest: passages of these", passages, "passages"),
        Figure("ingest: again, nothing changed", second_s, "s", 3),
        Figure("ingest: again, one file changed", changed_s, "s", 5),
    ]


async def _measure_folder(folder: Path) -> list[Figure]:
    await asyncio.to_thread(_write_pages, folder / "texts")
    settings = FilesSource(kind="files", path=folder / "texts", max_documents=FILES)
    process = psutil.Process()
    figures = []
    for label in ("first", "nothing changed", "one file changed"):
        if label == "one file changed":
            await asyncio.to_thread((folder / "texts/page-0.md").write_text, "# Changed\n", "utf-8")
        started_s, started_bytes = time.process_time(), process.io_counters().read_chars
        listing = await FilesFolder("pages", settings, folder / "data").listing()
        read_mb = (process.io_counters().read_chars - started_bytes) / 1e6
        figures += [
            Figure(f"listing of {len(listing.fingerprints)} files, {label}", time.process_time() - started_s, "s"),
            Figure(f"bytes read, {label}", read_mb, "MB"),
        ]
    return figures


def _write_pages(folder: Path) -> None:
    folder.mkdir(parents=True)
    pages = [text for _, text in texts()]
    for number, text in enumerate(islice(cycle(pages), FILES)):
        (folder / f"page-{number}.md").write_text(f"{text}\n\nEdition {number}.\n", "utf-8")
