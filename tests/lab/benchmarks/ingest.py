"""A repository of 500 files: from nothing, unchanged, and after one change. Each is a whole process."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from tests.lab.benchmarks.corpus import repository_of_500_files
from tests.lab.benchmarks.figures import Figure
from tests.support.deployment import Deployment, commit


async def measure(folder: Path) -> list[Figure]:
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
