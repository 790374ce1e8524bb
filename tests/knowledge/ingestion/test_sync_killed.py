"""SIGKILL in the middle of `kimas ingest`: every document is wholly old or wholly new, and the next one gets on."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from tests.lab.benchmarks.kills import (
    DOCUMENTS,
    SOURCES,
    deployment_in,
    ingest_and_kill,
    ingested,
    read_store_contents,
    write,
)


def test_killed_refreshes_leave_whole_documents_and_the_next_one_finishes(tmp_path: Path) -> None:
    deployment = deployment_in(tmp_path)
    _, usual = asyncio.run(ingest_and_kill(deployment))
    chance = random.Random(7)
    killed_count = 0
    for edition in (1, 2):
        write(tmp_path, edition)
        killed_count += asyncio.run(ingest_and_kill(deployment, chance.uniform(0.1, 0.6) * usual))[0]
        contents = asyncio.run(read_store_contents(tmp_path))
        assert contents.errors == []
        assert len(contents.editions) == SOURCES * DOCUMENTS
        assert set(contents.editions.values()) <= set(range(edition + 1))
    assert killed_count
    sources = deployment.json("sources")["sources"]
    assert not any(source["running"] for source in sources), "its locks went with it"
    assert deployment.json("search", "rocket to the moon")["passages"]
    asyncio.run(ingested(deployment))
    assert set(asyncio.run(read_store_contents(tmp_path)).editions.values()) == {2}
    assert all(
        source["documents"] == DOCUMENTS and not source["error"] for source in deployment.json("sources")["sources"]
    )
