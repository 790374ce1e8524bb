"""A repository of 500 files: from nothing, unchanged, and after one change. Each is a whole process."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from tests.benchmarks.corpus import repository_of_500_files
from tests.benchmarks.figures import Figure
from tests.deployment import Deployment, commit


async def measure(folder: Path) -> list[Figure]:
    repository = await asyncio.to_thread(repository_of_500_files, folder / "repository")
    deployment = Deployment(folder, {"sources": {"code": {"kind": "git", "url": str(repository)}}})

    def timed() -> tuple[float, int]:
        started = time.monotonic()
        report = json.loads(deployment.kimas("ingest", "--json").stdout)["sources"][0]
        return time.monotonic() - started, report["passages"]

    first, passages = await asyncio.to_thread(timed)
    again, _ = await asyncio.to_thread(timed)
    await asyncio.to_thread(commit, repository, {"src/module_1.py": '"""Changed."""\n\nANSWER = 42\n'})
    changed, _ = await asyncio.to_thread(timed)
    return [
        Figure("ingest: 500 files from nothing", first, "s", 180),
        Figure("ingest: passages of these", passages, "passages"),
        Figure("ingest: again, nothing changed", again, "s", 3),
        Figure("ingest: again, one file changed", changed, "s", 5),
    ]
