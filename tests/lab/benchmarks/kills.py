"""SIGKILL at random moments of a refresh: what is stored afterwards, and whether the next start gets on with it."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import defaultdict
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from core.runtime.locks import is_refreshing
from tests.lab.benchmarks.figures import Figure
from tests.support.deployment import Deployment

SOURCES = 3
DOCUMENTS = 6
KILLS = 50
SEED = 20261121
# Refreshes that end before they are killed do not count.
MOST = 4 * KILLS
LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class StoreContents:
    """What the store holds after a kill: editions by document, and what is wrong with them."""

    editions: dict[str, int]
    errors: list[str]


def sections(edition: int) -> int:
    """Return how many passages a document of an edition has: another number each time, never none."""
    return 2 + edition % 3


def write(folder: Path, edition: int) -> None:
    """Write all documents of all sources in an edition; every passage names it and its document."""
    for source in range(SOURCES):
        (folder / f"source-{source}").mkdir(parents=True, exist_ok=True)
        for document in range(DOCUMENTS):
            parts = [
                f"# Part {part}\n\nEdition {edition} of document {document} in source {source}, part {part}. "
                + f"The rocket number {document * 7 + part} flies to the moon and comes back with stones. " * 2
                for part in range(sections(edition))
            ]
            path = folder / f"source-{source}" / f"{document}.md"
            path.write_text("\n\n".join(parts), "utf-8")


def deployment_in(folder: Path) -> Deployment:
    write(folder, 0)
    sources = {name: {"kind": "files", "path": name} for name in (f"source-{source}" for source in range(SOURCES))}
    # So short that every part of a document is a passage of its own.
    return Deployment(folder, {"sources": sources, "knowledge": {"chunking": {"tokens": 50}}})


async def read_store_contents(folder: Path) -> StoreContents:
    """Read all passages as they are on disk, and compare each document with the editions that it ever had."""
    texts = defaultdict(list)
    counts = dict[str, int]()
    for source, path, passage_count, text in await asyncio.to_thread(_read_texts, folder / "data" / "passages"):
        texts[f"{source}/{path}"].append(text)
        counts[f"{source}/{path}"] = passage_count
    editions = dict[str, int]()
    problems = list[str]()
    for name, parts in texts.items():
        numbers = {int(text.split("Edition ")[1].split()[0]) for text in parts}
        editions[name] = min(numbers)
        if len(numbers) != 1 or len(parts) != counts[name] or len(parts) != sections(min(numbers)):
            problems.append(f"{name}: {len(parts)} passages of the editions {sorted(numbers)}")
    return StoreContents(editions, problems)


def _read_texts(folder: Path) -> list[tuple[str, str, int, str]]:
    """Return source, path and number of passages of every passage's document, and its text. The file must be sound."""
    file = folder / "passages.db"
    if not file.exists():
        return []
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            return []
        return connection.execute(
            "SELECT source, path, passage_count, text FROM documents LEFT JOIN passages "
            "ON row_number BETWEEN first_row AND first_row + passage_count - 1 "
            # The labels of the sources, which stand beside them.
            "WHERE source NOT LIKE '%#label'"
        ).fetchall()


async def ingest_and_kill(deployment: Deployment, after_s: float = math.inf) -> tuple[bool, float]:
    """Run `kimas ingest` as a process, killed so many seconds after its refresh has begun.

    Return whether it was still at work then, and how many seconds the refresh had until its end.
    """
    process = await asyncio.create_subprocess_exec(
        *deployment.command("ingest", "--json"),
        cwd=deployment.folder,
        env=deployment.variables(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.returncode is None and not is_refreshing(deployment.folder / "data", "source-0"):
        await asyncio.sleep(LOOK_S)
    started_at = time.monotonic()
    try:
        await asyncio.wait_for(process.wait(), after_s)
    except TimeoutError:
        # Not `process.kill()`: where the process has just ended by itself, that takes its exit code away.
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    return await process.wait() == -signal.SIGKILL, time.monotonic() - started_at


async def ingested(deployment: Deployment) -> None:
    """Run `kimas ingest` to its end, which must come."""
    report = json.loads((await asyncio.to_thread(deployment.kimas, "ingest", "--json")).stdout)
    assert all("error" not in source for source in report["sources"]), report


async def measure(folder: Path) -> list[Figure]:
    deployment = deployment_in(folder / "kills")
    await ingested(deployment)
    write(deployment.folder, 1)
    # Without the conversion of the model, which the first one has done.
    _, usual = await ingest_and_kill(deployment)
    chance = random.Random(SEED)
    torn = 0
    unserved = 0
    mixed = 0
    kills = 0
    edition = 1
    while kills < KILLS:
        edition += 1
        assert edition < MOST, f"only {kills} of {edition} refreshes were killed before their end"
        write(deployment.folder, edition)
        killed, lasted = await ingest_and_kill(deployment, chance.uniform(0.0, usual))
        kills += killed
        # The machine is not always as fast.
        usual = usual if killed else (usual + lasted) / 2
        contents = await read_store_contents(deployment.folder)
        torn += bool(contents.errors) or len(contents.editions) != SOURCES * DOCUMENTS
        mixed += len(set(contents.editions.values())) > 1
        hits = await asyncio.to_thread(deployment.json, "search", "rocket to the moon")
        unserved += not hits["passages"]
        if edition % 10 == 0:
            await ingested(deployment)
            newest = await read_store_contents(deployment.folder)
            torn += bool(newest.errors) or set(newest.editions.values()) != {edition}
    return [
        Figure("kills: of a refresh with SIGKILL", kills, "kills"),
        Figure("kills: a document neither old nor new, or gone", torn, "times", 0.5),
        Figure("kills: the next start finds nothing", unserved, "times", 0.5),
        Figure("kills: in the middle, some documents new", mixed, "times"),
    ]
