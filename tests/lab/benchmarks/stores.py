"""The same 20,000 passages and questions in files and on a Weaviate server, side by side, and copied between both.

The server is the one that KIMAS_TEST_WEAVIATE=host:http-port:grpc-port names; without it there is nothing to compare.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from core.evidence.ranking import fuse
from core.settings import WeaviateSettings
from knowledge.ports import Store
from knowledge.stores.copying import copy_source
from knowledge.stores.sqlite.store import open_sqlite
from knowledge.stores.weaviate import open_weaviate
from knowledge.stores.weaviate.client import connect
from tests.lab.benchmarks.figures import Figure, median, percentile
from tests.lab.benchmarks.passages import DIMENSION, SOURCES, Query, queries
from tests.lab.benchmarks.scale import AT_ONCE, LIMIT, SWITCH_S, fill, searched

PASSAGES = 20_000
QUERIES = 100
BEST = 10
SERVER = "KIMAS_TEST_WEAVIATE"


async def measure(folder: Path) -> list[Figure]:
    if not os.environ.get(SERVER):
        print(f"WEAVIATE IS NOT MEASURED: set {SERVER}=host:http-port:grpc-port to a server", file=sys.stderr)
        return []
    sys.setswitchinterval(SWITCH_S)
    server = settings(f"KimasBench{uuid4().hex}")
    figures = [Figure("stores: load average before", os.getloadavg()[0], "")]
    files = await open_sqlite(folder / "stores", "drawn", DIMENSION)
    target = await open_weaviate(server, "drawn", DIMENSION)
    try:
        answers = {}
        for name, store in (("sqlite", files), ("weaviate", target)):
            results, answers[name] = await _measured(name, store)
            figures += results
        agreed = [
            len(answer & other) / max(1, len(answer | other)) for answer, other in zip(*answers.values(), strict=True)
        ]
        figures.append(Figure(f"stores: the {BEST} best that both agree on", 100 * sum(agreed) / len(agreed), "%"))
        await forget(server)
        figures += await _copied(folder, files, server)
    finally:
        await target.close()
        await files.close()
        await forget(server)
    return figures


def settings(collection: str) -> WeaviateSettings:
    """Return how to reach the server."""
    host, http_port, grpc_port = os.environ[SERVER].rsplit(":", 2)
    return WeaviateSettings(host=host, http_port=int(http_port), grpc_port=int(grpc_port), collection=collection)


async def forget(server: WeaviateSettings) -> None:
    """Delete what a measurement has left on the server."""
    cluster = await connect(server)
    await cluster.drop()
    await cluster.close()


async def _measured(name: str, store: Store) -> tuple[list[Figure], list[set[str]]]:
    started_at = time.perf_counter()
    await fill(store, PASSAGES)
    rate = PASSAGES / (time.perf_counter() - started_at)
    questions = queries(QUERIES)
    await searched(store, questions[:10], 1)
    alone_times = await searched(store, questions, 1)
    concurrent_times = await searched(store, questions, AT_ONCE)
    best_ids = [await _best(store, query) for query in questions]
    return [
        Figure(f"stores: {name}, written a second, vectors at hand", rate, "passages"),
        Figure(f"stores: {name}, p50 alone", median(alone_times.each), "ms"),
        Figure(f"stores: {name}, p95 of {AT_ONCE} at once", percentile(concurrent_times.each, 0.95), "ms"),
        Figure(f"stores: {name}, longest stall of the event loop, one at a time", alone_times.stall, "ms"),
        Figure(f"stores: {name}, longest stall of the event loop, {AT_ONCE} at once", concurrent_times.stall, "ms", 25),
    ], best_ids


async def _best(store: Store, query: Query) -> set[str]:
    passages = await store.search(query.tokens, query.vector, SOURCES, LIMIT)
    return {passage.id for passage in fuse(passages, 0.5, BEST)}


async def _copied(folder: Path, files: Store, server: WeaviateSettings) -> list[Figure]:
    """Copy to the server and back into other files, each killed once on its way and begun again."""
    figures = []
    copies: Sequence[tuple[str, str, str]] = (
        ("sqlite to weaviate", str(folder / "stores"), server.collection),
        ("weaviate to sqlite", server.collection, str(folder / "back")),
    )
    for name, origin, target in copies:
        stopped_copy = await _copy(origin, target, 3.0)
        started_at = time.perf_counter()
        await _copy(origin, target, None)
        figures.append(
            Figure(
                f"stores: copied {name}, after a kill at {stopped_copy:.1f} s", time.perf_counter() - started_at, "s"
            )
        )
        store = await _open(target)
        await store.optimize()
        missing_count = 0
        for source in SOURCES:
            original_manifest = await files.manifest(source)
            copied_manifest = await store.manifest(source)
            missing_count += sum(
                copied_manifest.get(path) != stored_document for path, stored_document in original_manifest.items()
            ) + len(copied_manifest.keys() - original_manifest.keys())
        is_same = [await _best(files, query) == await _best(store, query) for query in queries(20)]
        await store.close()
        figures.append(Figure(f"stores: documents that differ then, {name}", missing_count, "", 1))
        figures.append(Figure(f"stores: of 20 questions the same {BEST} best then, {name}", sum(is_same), ""))
    return figures


async def _copy(origin: str, target: str, seconds: float | None) -> float:
    """Copy in a process of its own, which is killed after so many seconds; return how long it lived."""
    started_at = time.perf_counter()
    arguments = (sys.executable, "-m", "tests.lab.benchmarks.stores", origin, target)
    process = await asyncio.create_subprocess_exec(*arguments)
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        process.send_signal(signal.SIGKILL)
        await process.wait()
    assert process.returncode in (0, -signal.SIGKILL), f"copying ended with {process.returncode}"
    return time.perf_counter() - started_at


async def _open(location: str) -> Any:
    if location.startswith("/"):
        return await open_sqlite(Path(location), "drawn", DIMENSION)
    # A killed writer keeps its claim for a moment only: the rest of two minutes would be waiting.
    return await open_weaviate(settings(location), "drawn", DIMENSION, lease_duration_s=3)


async def _main(origin: str, target: str) -> None:
    item = await _open(origin)
    other = await _open(target)
    for source in SOURCES:
        await copy_source(item, other, source)
    await item.close()
    await other.close()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
