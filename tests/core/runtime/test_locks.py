"""Who may refresh: one per source, all of them apart from who needs the whole store; writes take turns."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from core.errors import StoreLocked
from core.runtime.locks import is_refreshing, refresh_lock, source_lock, writing_lock
from tests.support import forked

HOLDER = """
import asyncio, sys
from pathlib import Path
from core.runtime.locks import source_lock, writing_lock

async def hold():
    async with source_lock(Path(sys.argv[1]), "docs"), writing_lock(Path(sys.argv[1])):
        print("held", flush=True)
        await asyncio.sleep(60)

asyncio.run(hold())
"""


async def test_a_source_is_refreshed_by_one_and_others_meanwhile(tmp_path: Path) -> None:
    async with source_lock(tmp_path, "docs"):
        with pytest.raises(StoreLocked, match=r"another process is refreshing source docs and holds .*docs\.lock"):
            async with source_lock(tmp_path, "docs"):
                pytest.fail("two at a time")
        async with source_lock(tmp_path, "code"):
            assert is_refreshing(tmp_path, "code")
        assert not is_refreshing(tmp_path, "code")
        assert is_refreshing(tmp_path, "docs")
        assert not is_refreshing(tmp_path, "never")
    async with source_lock(tmp_path, "docs"):
        pass


async def test_whoever_looks_at_a_lock_is_in_nobodys_way(tmp_path: Path) -> None:
    async with source_lock(tmp_path, "docs"):
        pass
    enough_event = threading.Event()
    look_count = 0
    taken_count = 0

    def poll_lock() -> None:
        nonlocal look_count
        while not enough_event.is_set():
            is_refreshing(tmp_path, "docs")
            look_count += 1
            time.sleep(0.002)

    polling = asyncio.create_task(asyncio.to_thread(poll_lock))
    try:
        async with asyncio.timeout(60):
            while min(look_count, taken_count) < 50:
                async with source_lock(tmp_path, "docs"):
                    taken_count += 1
                await asyncio.sleep(0)
    finally:
        enough_event.set()
        await polling
    assert min(look_count, taken_count) >= 50, "it was taken again and again while somebody looked"
    assert not is_refreshing(tmp_path, "docs")


async def test_the_whole_store_and_a_source_exclude_each_other(tmp_path: Path) -> None:
    async with source_lock(tmp_path, "docs"):
        with pytest.raises(StoreLocked, match=r"docs\.lock"), refresh_lock(tmp_path):
            pytest.fail("emptied in the middle of a refresh")
    with refresh_lock(tmp_path), pytest.raises(StoreLocked, match=r"refreshing the knowledge in .*refresh\.lock"):
        async with source_lock(tmp_path, "new"):
            pytest.fail("refreshed while the store is emptied")
    async with source_lock(tmp_path, "new"):
        pass


async def test_many_sources_begin_at_once(tmp_path: Path) -> None:
    locked_names: list[str] = []

    async def refresh(name: str) -> None:
        async with source_lock(tmp_path, name):
            locked_names.append(name)
            await asyncio.sleep(0.05)

    names = [f"source-{number}" for number in range(20)]
    await asyncio.gather(*map(refresh, names))
    assert sorted(locked_names) == sorted(names)


async def test_writers_take_turns_and_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    holder = await forked.start_piped(HOLDER, str(tmp_path))
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    assert is_refreshing(tmp_path, "docs")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), writing_lock(tmp_path):
            pytest.fail("two writers")
    started_at = time.monotonic()
    asyncio.get_running_loop().call_later(0.3, os.kill, holder.pid, signal.SIGKILL)
    async with asyncio.timeout(60), writing_lock(tmp_path):
        assert time.monotonic() - started_at > 0.25
    await holder.communicate()
    async with source_lock(tmp_path, "docs"):
        pass
