"""What is wrong around an embedded store is said as it is: limits of the process, and a folder that was deleted."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from core.errors import StoreError
from knowledge.stores.lance.lancedb_api import REBUILD_HINT, explain_error
from tests.contracts.test_store import opened, put, row


@pytest.mark.parametrize(
    "reason",
    [
        "lance error: LanceError(IO): Generic LocalFileSystem error: Too many open files (os error 24), /home/x.rs:5",
        "can't start new thread",
        "failed to spawn thread: Resource temporarily unavailable (os error 11)",
    ],
)
def test_a_limit_of_the_process_is_no_damage(reason: str) -> None:
    text = explain_error("the passage store data", "read", reason)
    assert "no more files, threads or memory" in text
    assert REBUILD_HINT not in text


async def test_a_store_that_is_deleted_while_it_is_used_says_so_and_can_be_filled_again(tmp_path: Path) -> None:
    async with opened(tmp_path / "passages") as store:
        assert await store.search("rocket", None, ["docs"], 5) == [], "never written: empty"
        await put(store, [row("a", "a.md")])
        assert await store.search("rocket", None, ["docs"], 5) is not None
        shutil.rmtree(tmp_path / "passages")
        # What is in memory may be searched for the second that it takes to notice.
        await asyncio.sleep(1.2)
        for _ in range(2):
            with pytest.raises(StoreError, match="was deleted while it was in use"):
                await store.search("rocket", None, ["docs"], 5)
        # A refresh finds nothing there, and so reads everything again.
        assert await store.manifest("docs") == {}
        await put(store, [row("a", "a.md")])
        assert len(await store.manifest("docs")) == 1
