"""Hybrid search in the embedded store at 100,000 passages: alone, 16 at once, and while 1,000 documents change.

The store is filled by one process and measured in a new one, so that its memory is that of searching and refreshing.
A refresh is the real one, from chunking to the commit, but for the vectors: they are drawn, for an embedder of this
machine would take minutes over them. It is a gentle one, as the daemon's are.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from knowledge.ingestion.sync import SyncOptions
from knowledge.ports import Document, Listing, Store, TextKind, Vectors
from knowledge.stores.sqlite.store import open_sqlite
from tests.lab.benchmarks.figures import Figure, median, percentile
from tests.lab.benchmarks.passages import CHUNK_TOKENS, DIMENSION, SOURCES, Query, Topics, batches, documents, queries
from tests.support.knowledge import read_and_fill

PASSAGES = 100_000
QUERIES = 200
AT_ONCE = 16
LIMIT = 100
CHANGED = 1_000
TICK_S = 0.005
# As the daemon has it: how long a thread may keep the interpreter from the event loop.
SWITCH_S = 0.001


async def measure(folder: Path) -> list[Figure]:
    folder = folder / "scale"
    await _process("fill", folder)
    loaded = os.getloadavg()[0]
    data = json.loads(await _process("measure", folder))
    limits = {
        "open": ("s", None),
        "open and first search": ("s", None),
        "alone p50": ("ms", 20),
        "alone p95": ("ms", None),
        "alone processor": ("ms", None),
        "alone stall": ("ms", 25),
        "at once p50": ("ms", None),
        "at once p95": ("ms", 250),
        "at once processor": ("ms", None),
        "at once stall": ("ms", 25),
        "refresh alone p50": ("ms", 20),
        "refresh alone p95": ("ms", None),
        "refresh alone stall": ("ms", 25),
        "refresh at once p95": ("ms", 250),
        "refresh at once stall": ("ms", 25),
        "refresh": ("s", None),
        "memory while searching": ("MiB", 700),
        "memory peak": ("MiB", 700),
    }
    figures = [Figure(f"scale: {name}", data[name], *limit) for name, limit in limits.items()]
    ratio = data["at once p95"] / data["alone p50"]
    return [
        Figure("scale: passages", data["passages"], "passages"),
        Figure("scale: load average before", loaded, ""),
        *figures,
        Figure(f"scale: p95 of {AT_ONCE} at once over p50 alone", ratio, "x", 12.5),
    ]


async def _process(job: str, folder: Path) -> bytes:
    arguments = (sys.executable, "-m", "tests.lab.benchmarks.scale", job, str(folder))
    process = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, f"{job} ended with {process.returncode}"
    return output


async def fill(store: Store, count: int) -> None:
    """Put about so many passages into a store, as a refresh does it: in batches, optimized at the end."""
    for source, rows in batches(count):
        await store.replace(source, {row.passage.path for row in rows}, rows)
    await store.optimize()


@dataclass
class Times:
    """How long each search took, and for how long at most the event loop stood still meanwhile, in milliseconds.

    `processor` is how much of all processors' time a search took.
    """

    each: list[float] = field(default_factory=list)
    stall: float = 0.0
    processor: float = 0.0

    async def watch(self) -> None:
        """Look how late a short sleep ends."""
        while True:
            started_at = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self.stall = max(self.stall, (time.perf_counter() - started_at - TICK_S) * 1000)

    async def search(self, store: Store, queries: Sequence[Query], sources: Collection[str] = SOURCES) -> None:
        """Search for one after the other."""
        for query in queries:
            started_at = time.perf_counter()
            await store.search(query.tokens, query.vector, sources, LIMIT)
            self.each.append((time.perf_counter() - started_at) * 1000)


async def searched(store: Store, queries: Sequence[Query], lanes: int, sources: Collection[str] = SOURCES) -> Times:
    """Search for everything, `lanes` at a time."""
    times = Times()
    started_at = time.process_time()
    watch_task = asyncio.create_task(times.watch())
    await asyncio.gather(*(times.search(store, queries[lane::lanes], sources) for lane in range(lanes)))
    times.processor = (time.process_time() - started_at) * 1000 / len(times.each)
    watch_task.cancel()
    return times


@dataclass
class Changed:
    """Implements `Source` and `Embedder`: documents of which a thousand have another text each time."""

    name: str
    held_paths: Collection[str]
    texts: Mapping[str, str]
    version: int = 1
    dimension: int = DIMENSION
    topics: Topics = field(default_factory=lambda: Topics(9))

    async def listing(self) -> Listing:
        return Listing({path: str(self.version) if path in self.texts else "1" for path in self.held_paths})

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        for path in paths:
            yield Document(path, self.texts[path] + f"\nversion {self.version}", "text")

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        return self.topics.near(len(texts[0]), len(texts))

    async def warm_up(self) -> None:
        """Nothing to load."""

    def vocabulary_coverage(self, text: str) -> float:
        return 1.0

    async def close(self) -> None:
        pass


def _texts(paths: Collection[str]) -> dict[str, str]:
    expected_paths = set(paths)
    return {path: "".join(pieces) for path, pieces in documents() if path in expected_paths}


async def _measured(folder: Path) -> dict[str, float]:
    questions = queries(QUERIES)
    sys.setswitchinterval(SWITCH_S)
    process = psutil.Process()
    started_at = time.perf_counter()
    store = await open_sqlite(folder, "drawn", DIMENSION)
    open_s = time.perf_counter() - started_at
    await store.search(questions[0].tokens, questions[0].vector, SOURCES, LIMIT)
    results = {"open": open_s, "open and first search": time.perf_counter() - started_at}
    results["passages"] = float(sum([len(await store.vectors(source)) for source in SOURCES]))
    await searched(store, questions[:20], 1)
    # As the daemon does it once it is warm (`App.warm_up`).
    gc.collect()
    gc.freeze()
    for name, lanes in (("alone", 1), ("at once", AT_ONCE)):
        _tell(results, name, await searched(store, questions if lanes == 1 else [*questions, *questions], lanes))
    results["memory while searching"] = process.memory_info().rss / 2**20
    manifest = await store.manifest(SOURCES[0])
    changed_source = Changed(SOURCES[0], manifest, _texts(list(manifest)[:CHANGED]))
    for name, lanes in (("refresh alone", 1), ("refresh at once", AT_ONCE)):
        changed_source.version += 1
        _tell(results, name, await _search_during_refresh(store, changed_source, questions, lanes, results))
    results["memory peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    await store.close()
    return results


async def _search_during_refresh(
    store: Store, changed_source: Changed, queries: Sequence[Query], lanes: int, results: dict[str, float]
) -> Times:
    """Search over and over while the source is refreshed."""
    times = Times()

    async def search(lane: int) -> None:
        while True:
            await times.search(store, queries[lane::lanes])

    background = [asyncio.create_task(times.watch()), *(asyncio.create_task(search(lane)) for lane in range(lanes))]
    started_at = time.perf_counter()
    report = await read_and_fill(changed_source, store, changed_source, SyncOptions(CHUNK_TOKENS, throttled=True))
    if lanes == 1:
        results["refresh"] = time.perf_counter() - started_at
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    assert report.updated == CHANGED, report
    return times


def _tell(results: dict[str, float], name: str, times: Times) -> None:
    results[f"{name} p50"] = median(times.each)
    results[f"{name} p95"] = percentile(times.each, 0.95)
    results[f"{name} stall"] = times.stall
    results[f"{name} processor"] = times.processor


async def _main(job: str, folder: Path) -> None:
    if job == "measure":
        print(json.dumps(await _measured(folder)))
        return
    store = await open_sqlite(folder, "drawn", DIMENSION)
    await fill(store, PASSAGES)
    await store.close()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2])))
