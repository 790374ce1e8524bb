"""What is wrong around an embedded store is said as it is: limits, rights, other writers, a deleted folder."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import StoreError
from knowledge.stores.sqlite import passage_file, store as sqlite_store
from knowledge.stores.sqlite.passage_file import REBUILD_HINT, PassageFile, map_errors
from tests.support.slow_load import MAX_WAIT_S, load_slowly
from tests.support.stores import opened, put, row

# Takes about half a minute.


def get_error_text(path: Path, error: Exception) -> str:
    with pytest.raises(StoreError) as error_info, map_errors(PassageFile(path / "passages.db"), "read"):
        raise error
    return str(error_info.value)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        RuntimeError("can't start new thread"),
        OSError(errno.EAGAIN, "Resource temporarily unavailable"),
    ],
)
def test_a_limit_of_the_process_is_no_damage(tmp_path: Path, error: Exception) -> None:
    text = get_error_text(tmp_path, error)
    assert "no more files, threads or memory" in text
    assert REBUILD_HINT not in text


@contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no further file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptor, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_a_file_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    async with opened(tmp_path / "passages") as store:
        await put(store, [row("a", "a.md")])
    file = PassageFile(tmp_path / "passages" / "passages.db")
    with (
        no_more_files(),
        pytest.raises(StoreError, match=r"no more files.*Too many open files"),
        map_errors(file, "read"),
    ):
        file.read(lambda connection: None)


async def test_a_write_has_ended_when_its_cancelled_caller_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that is removed while it is filled would come back."""
    begun, may_go_on = threading.Event(), threading.Event()
    write = sqlite_store.replace_documents

    def write_slowly(*arguments: Any) -> None:
        begun.set()
        may_go_on.wait(60)
        write(*arguments)

    monkeypatch.setattr(sqlite_store, "replace_documents", write_slowly)
    async with opened(tmp_path / "passages") as store:
        task = asyncio.create_task(put(store, [row("a", "a.md")]))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        asyncio.get_running_loop().call_later(0.2, may_go_on.set)
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert len(await store.manifest("docs")) == 1


async def test_a_store_that_is_closed_gives_up_what_it_is_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_begun = load_slowly(monkeypatch)
    async with opened(tmp_path / "passages") as store:
        await put(store, [row("a", "a.md")])
        search = asyncio.create_task(store.search("word", None, ["a"], 1))
        assert await asyncio.to_thread(has_begun.wait, 20)
        start = time.monotonic()
        await store.close()
        assert time.monotonic() - start < MAX_WAIT_S
        assert isinstance(*await asyncio.gather(search, return_exceptions=True), asyncio.CancelledError)


async def test_a_writer_that_never_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage_file, "BUSY_TIMEOUT_S", 0.05)
    async with opened(tmp_path / "passages") as store:
        await put(store, [row("a", "a.md")])
        with closing(sqlite3.connect(tmp_path / "passages" / "passages.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with opened(tmp_path / "passages") as other_store:
                with pytest.raises(StoreError, match="another process has been writing"):
                    await put(other_store, [row("b", "b.md")])
                assert set(await other_store.manifest("docs")) == {"a.md"}


async def test_a_text_that_is_not_unicode_is_refused_with_its_whole_batch(tmp_path: Path) -> None:
    async with opened(tmp_path / "passages") as store:
        await put(store, [row("a", "a.md")])
        with pytest.raises(StoreError, match="surrogates not allowed"):
            await put(store, [row("b", "b.md"), row("a", "a.md", tokens="half \ud800 a character")])
        assert set(await store.manifest("docs")) == {"a.md"}


async def test_a_store_deleted_during_use_says_so_and_can_be_filled_again(tmp_path: Path) -> None:
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


async def test_of_a_large_source_a_sample_of_its_vectors_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "MAX_SAMPLED_VECTORS", 20)
    async with opened(tmp_path) as store:
        await put(store, [row(f"n{number}", f"n{number}.md", seed=number) for number in range(100)])
        # Most of it has no vectors yet.
        unfilled_rows = [replace(row(f"u{number}", f"u{number}.md"), vector=None) for number in range(400)]
        await put(store, unfilled_rows)
        sample = await store.vectors("docs")
        assert len(sample) == 20
        expected_vectors = [row("", "", seed=number).vector for number in np.linspace(0, 99, 20).astype(int)]
        np.testing.assert_allclose(sample, expected_vectors, rtol=1e-6)
