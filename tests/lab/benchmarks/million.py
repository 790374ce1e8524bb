"""A million passages of public text in both stores: reading, memory, searching, the daemon's start, one change, disk.

KIMAS_TEST_PASSAGES is another number of them. The text is the documentation in the folder KIMAS_TEST_TEXTS, by
default that of the packages that are installed, again and again, each time with words of its own. All is done by the
command line, from files; only the vectors are drawn, by an endpoint of its own. Weaviate is measured with the server
that KIMAS_TEST_WEAVIATE=host:http-port:grpc-port names. Allow hours for a million.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import socket
import sys
import sysconfig
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count, islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import psutil
from aiohttp import web

from core.language.tokens import query_tokens
from core.settings import StoreSettings
from knowledge.embedding.centring import get_centred_name
from knowledge.ports import Vectors
from knowledge.stores import open_store
from tests.lab.benchmarks.figures import Figure, median, percentile
from tests.lab.benchmarks.passages import DIMENSION, OWN_PART, TOPICS, Query
from tests.lab.benchmarks.scale import AT_ONCE, searched
from tests.lab.benchmarks.stores import SERVER, forget, settings as server_settings
from tests.support.deployment import Deployment
from tests.support.free_ports import free_ports
from tests.support.peers.telegram import TelegramPeer

PASSAGES = 1_000_000
MODEL = "drawn"
SOURCES = ("guides", "manuals", "tutorials", "notes")
SUFFIXES = (".md", ".mdx", ".rst", ".adoc", ".txt")
LARGEST = 1_000_000
# A passage of documentation has so many, on average.
CHARACTERS_PER_PASSAGE = 660
OWN_WORDS = 100
QUERIES = 100
SAMPLE_S = 1.0


async def measure(folder: Path) -> list[Figure]:
    passages = int(os.environ.get("KIMAS_TEST_PASSAGES", PASSAGES))
    folder = folder / "million"
    await asyncio.to_thread(write_texts, folder / "texts", passages)
    figures = [Figure("million: load average before", os.getloadavg()[0], "")]
    async with _endpoint() as base_url:
        figures += await _measure_store(folder, "files", {"provider": "sqlite"}, base_url)
        if os.environ.get(SERVER):
            server = server_settings(f"KimasMillion{uuid4().hex}")
            store = {"provider": "weaviate", "weaviate": server.model_dump(exclude_defaults=True)}
            try:
                figures += await _measure_store(folder, "weaviate", store, base_url)
            finally:
                await forget(server)
    return figures


async def _measure_store(folder: Path, name: str, store: Mapping[str, Any], base_url: str) -> list[Figure]:
    """Read, search, change one document and start the daemon."""
    embedding = {"provider": "openai", "base_url": base_url, "model": MODEL, "dimension": DIMENSION}
    texts = folder / "texts"
    sources = {
        source: {"kind": "files", "path": str(texts / source), "max_documents": 10**7}
        for source in _list_sources(texts)
    }
    (folder / name).mkdir()
    deployment = Deployment(folder / name, {"sources": sources, "knowledge": {"store": store, "embedding": embedding}})
    read = await _run(*deployment.command("ingest"))
    listed = json.loads((await _run(*deployment.command("sources", "--json"))).output)
    passage_count = sum(source["passages"] for source in listed["sources"])
    arguments = (json.dumps(store), str(folder / name / "data"), str(texts))
    found = json.loads((await _run(sys.executable, "-m", "tests.lab.benchmarks.million", "search", *arguments)).output)
    changed_path = next(_list_files(texts / SOURCES[0]))
    await asyncio.to_thread(changed_path.write_text, "# Changed\n\nThis page is about something else now.\n", "utf-8")
    changed = await _run(*deployment.command("ingest"))
    start_s = await _start(deployment)
    disk = sum(path.stat().st_size for path in (folder / name / "data").rglob("*") if path.is_file())
    figures: dict[str, tuple[float, str]] = {
        "passages": (passage_count, ""),
        "read and filled a second": (passage_count / read.seconds, "passages"),
        "processor time of that": (read.processor_s, "s"),
        "memory of that at most": (read.peak_bytes / 2**20, "MiB"),
        **found,
        "refresh after one changed document": (changed.seconds, "s"),
        "processor time of the refresh": (changed.processor_s, "s"),
        "memory of the refresh at most": (changed.peak_bytes / 2**20, "MiB"),
        "start of the daemon": (start_s, "s"),
        "data directory": (disk / 2**30, "GiB"),
    }
    return [Figure(f"million: {name}, {label}", value, unit) for label, (value, unit) in figures.items()]


@dataclass
class Run:
    """What a process took: `peak_bytes` is that of itself, the time that of its workers, too."""

    output: bytes
    seconds: float
    processor_s: float
    peak_bytes: int


async def _run(*command: str) -> Run:
    started_at = time.monotonic()
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    reading = asyncio.create_task(process.communicate())
    peak_bytes = 0
    processor_s: dict[int, float] = {}
    while not reading.done():
        # It may just have ended.
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(process.pid)
            peak_bytes = max(peak_bytes, parent.memory_info().rss)
            for each in (parent, *parent.children(recursive=True)):
                times = each.cpu_times()
                processor_s[each.pid] = times.user + times.system
        await asyncio.wait([reading], timeout=SAMPLE_S)
    output, _ = await reading
    assert process.returncode == 0, f"{command} ended with {process.returncode}"
    return Run(output, time.monotonic() - started_at, sum(processor_s.values()), peak_bytes)


async def _start(deployment: Deployment) -> float:
    """Return how long the daemon takes until it is ready."""
    notify_path = deployment.folder / "notify"
    async with TelegramPeer() as telegram:
        deployment.settings["telegram"] = {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url}
        deployment.environment |= {"BOT_TOKEN": telegram.token, "NOTIFY_SOCKET": str(notify_path)}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(notify_path))
            started_at = time.monotonic()
            async with deployment.daemon():
                await asyncio.to_thread(notify.recv, 100)
                return time.monotonic() - started_at


async def _search(store_settings: StoreSettings, data_dir: Path, texts: Path) -> dict[str, tuple[float, str]]:
    """Search in this process, one question after the other and many at once."""
    questions = await asyncio.to_thread(make_queries, texts, QUERIES)
    sources = _list_sources(texts)
    started_at = time.perf_counter()
    store = await open_store(store_settings, data_dir, get_centred_name(MODEL), DIMENSION)
    await searched(store, questions[:1], 1, sources)
    first_s = time.perf_counter() - started_at
    await searched(store, questions[:10], 1, sources)
    alone = await searched(store, questions, 1, sources)
    at_once = await searched(store, questions, AT_ONCE, sources)
    memory = psutil.Process().memory_info().rss / 2**20
    await store.close()
    return {
        "opened and searched once": (first_s, "s"),
        "search p50": (median(alone.each), "ms"),
        "search p95": (percentile(alone.each, 0.95), "ms"),
        "processor time of a search": (alone.processor, "ms"),
        f"p50 of {AT_ONCE} at once": (median(at_once.each), "ms"),
        f"p95 of {AT_ONCE} at once": (percentile(at_once.each, 0.95), "ms"),
        "memory of a process that searches": (memory, "MiB"),
    }


def _list_sources(texts: Path) -> list[str]:
    return [source for source in SOURCES if (texts / source).exists()]


def _list_files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def make_queries(texts: Path, number: int) -> list[Query]:
    """Return questions in the words of headings, each near a topic."""
    dice = random.Random(3)
    centres = draw_centres()
    headings = {
        line.strip("#= ")
        for path in islice(_list_files(texts / SOURCES[0]), 2_000)
        for line in path.read_text("utf-8").split("\n")
        if line.startswith(("## ", "== ")) and len(line.split()) > 3
    }
    return [
        Query(query_tokens(heading), draw_vector(heading, centres)) for heading in dice.sample(sorted(headings), number)
    ]


def texts() -> Iterator[tuple[str, str]]:
    """Yield the documentation with its paths."""
    root = Path(os.environ.get("KIMAS_TEST_TEXTS", "") or sysconfig.get_paths()["purelib"])
    for path in sorted(root.rglob("*")):
        if path.suffix in SUFFIXES and path.is_file() and path.stat().st_size < LARGEST:
            yield path.relative_to(root).as_posix(), path.read_text("utf-8", "ignore")


def write_texts(folder: Path, passages: int) -> None:
    """Write copies of the documentation, about so many passages, into a folder for each source."""
    characters_left = passages * CHARACTERS_PER_PASSAGE
    for turn in count():
        for path, text in texts():
            if characters_left <= 0:
                return
            characters_left -= len(text)
            file = folder / SOURCES[turn % len(SOURCES)] / f"edition-{turn}" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_distinguish(text, turn), "utf-8")


def _distinguish(text: str, turn: int) -> str:
    """Return a text with a word of this copy at the end of every paragraph."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"{paragraph} edition{turn}word{number % OWN_WORDS}"
        if paragraph[-1:].isalpha() or paragraph[-1:] == "."
        else paragraph
        for number, paragraph in enumerate(paragraphs)
    )


def draw_vector(text: str, centres: Vectors) -> Vectors:
    """Return a vector that the hash of a text decides, near one of the topics."""
    seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
    own = np.random.default_rng(seed).standard_normal(DIMENSION, np.float32)
    vector: Vectors = centres[seed % TOPICS] + np.float32(OWN_PART) * own
    return vector


def draw_centres() -> Vectors:
    """Return the topics."""
    return np.random.default_rng(7).standard_normal((TOPICS, DIMENSION)).astype(np.float32)


@asynccontextmanager
async def _endpoint() -> AsyncIterator[str]:
    """Run an endpoint for drawn vectors in a process of its own; the block gets its address."""
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.lab.benchmarks.million", "serve", str(port)
    )
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        await process.wait()


async def _serve(port: int) -> None:
    """Serve drawn vectors as OpenAI's embeddings, until the process ends."""
    centres = draw_centres()

    async def embed(request: web.Request) -> web.Response:
        texts = (await request.json())["input"]
        vectors = [base64.b64encode(draw_vector(text, centres).tobytes()).decode() for text in texts]
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        return web.json_response({"object": "list", "model": MODEL, "data": data})

    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/embeddings", embed)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


async def _main(job: str, *arguments: str) -> None:
    if job == "serve":
        await _serve(int(arguments[0]))
    elif job == "write":
        await asyncio.to_thread(write_texts, Path(arguments[0]), int(arguments[1]))
    else:
        store, data_dir, texts_folder = arguments
        found = await _search(StoreSettings.model_validate_json(store), Path(data_dir), Path(texts_folder))
        print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
