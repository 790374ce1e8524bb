"""How ingest, search and memory grow with the corpus: 1,000 to 500,000 passages in the embedded store.

Each size is filled by one process and searched by a new one. Vectors are drawn, for embedding is measured elsewhere
(`sustained`); the rate of the fill is that of storing alone.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from pathlib import Path

import psutil

from knowledge.stores.sqlite.store import open_sqlite
from tests.lab.benchmarks.figures import Figure, median, percentile
from tests.lab.benchmarks.passages import DIMENSION, queries
from tests.lab.benchmarks.scale import QUERIES, fill, searched

SIZES = (1_000, 10_000, 100_000, 500_000)


async def measure(folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    for size in SIZES:
        directory = folder / f"size-{size}"
        fill_result = await _process("fill", directory, size)
        result = await _process("search", directory, size)
        name = f"{size:,} passages"
        figures += [
            Figure(f"{name}: stored", size / fill_result["seconds"], "passages/s"),
            Figure(f"{name}: first search after the start", result["first"], "s"),
            Figure(f"{name}: search p50", result["p50"], "ms"),
            Figure(f"{name}: search p95", result["p95"], "ms"),
            Figure(f"{name}: memory of a process that searches", result["memory"], "MiB"),
        ]
        await asyncio.to_thread(shutil.rmtree, directory)
    return figures


async def _process(job: str, folder: Path, size: int) -> dict[str, float]:
    arguments = (sys.executable, "-m", "tests.lab.benchmarks.sizes", job, str(folder), str(size))
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, f"{job} ended with {process.returncode}"
    values: dict[str, float] = json.loads(output)
    return values


async def _main(job: str, folder: Path, size: int) -> None:
    started_at = time.perf_counter()
    store = await open_sqlite(folder, "drawn", DIMENSION)
    if job == "fill":
        await fill(store, size)
        print(json.dumps({"seconds": time.perf_counter() - started_at}))
    else:
        questions = queries(QUERIES)
        started_at = time.perf_counter()
        await searched(store, questions[:1], 1)
        first = time.perf_counter() - started_at
        await searched(store, questions[:20], 1)
        times = (await searched(store, questions, 1)).each
        memory = psutil.Process().memory_info().rss / 2**20
        print(json.dumps({"first": first, "p50": median(times), "p95": percentile(times, 0.95), "memory": memory}))
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
