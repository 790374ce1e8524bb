"""The worker processes: their limits, their end, and what of this process they get."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from core.settings import ParsingSettings
from knowledge.chunking import chunk_and_tokenize
from knowledge.formats import read_document
from knowledge.parsing.limits import FormatError
from knowledge.parsing.pool import WorkerPool
from knowledge.ports import Document
from tests.support.work import (
    Pair,
    eat_memory,
    fail,
    kill_self,
    kill_self_once,
    lie,
    look_around,
    make_pairs,
    print_noise,
    refuse,
    sleep,
    spin,
    write_file,
    write_much,
)

HEAVY = ("aiohttp", "asyncio", "bots", "numpy", "openai", "pydantic", "sqlalchemy")


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WorkerPool]:
    monkeypatch.setattr("knowledge.parsing.pool.MAX_OUTPUT_BYTES", 1 << 20)
    async with WorkerPool(ParsingSettings(workers=2, memory_mb=128, cpu_s=1, wall_s=30)) as client:
        yield client


async def test_results_keep_their_types(pool: WorkerPool) -> None:
    assert await pool.run(make_pairs, 2) == [Pair("half of a pair: ?", (0, 1)), Pair("half of a pair: ?", (1, 2))]
    # A large reply, which is decoded in a thread.
    assert len(await pool.run(make_pairs, 5_000)) == 5_000
    assert await pool.run(print_noise) == "quiet"


@pytest.mark.parametrize(
    ("function", "argument", "reason"),
    [
        (refuse, "it is torn", "^it is torn$"),
        (eat_memory, 500, "more than 128 MB of memory"),
        (write_much, 2, "more than 1 MB of text"),
        (kill_self, signal.SIGSEGV, "crashed .SIGSEGV"),
        (kill_self, signal.SIGKILL, "was killed"),
    ],
)
async def test_a_limit_costs_one_document(pool: WorkerPool, function: object, argument: object, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        await pool.run(function, argument)  # type: ignore[arg-type]
    assert await pool.run(sleep, 0) == "awake"


async def test_time_is_limited() -> None:
    async with WorkerPool(ParsingSettings(workers=1, wall_s=1)) as pool:
        with pytest.raises(FormatError, match="longer than 1 s"):
            await pool.run(sleep, 30)


async def test_processor_time_is_limited() -> None:
    async with WorkerPool(ParsingSettings(cpu_s=1)) as pool:
        with pytest.raises(FormatError, match="more than 1 s of processor time"):
            await pool.run(spin)
        assert await pool.run(sleep, 0) == "awake"


async def test_an_unexpected_error_is_named_without_its_details(pool: WorkerPool) -> None:
    with pytest.raises(FormatError, match=r"^it cannot be read \(ZeroDivisionError\)$"):
        await pool.run(fail)


async def test_a_reply_that_is_no_result_is_refused(pool: WorkerPool) -> None:
    with pytest.raises(FormatError, match="nonsense"):
        await pool.run(lie)


async def test_a_document_whose_worker_somebody_killed_is_tried_again(pool: WorkerPool, tmp_path: Path) -> None:
    assert await pool.run(kill_self_once, str(tmp_path / "mark")) == "second try"


async def test_a_worker_that_died_while_it_idled_is_replaced(pool: WorkerPool) -> None:
    (pid,) = (await pool.run(look_around))["pid"]
    os.kill(int(pid), signal.SIGKILL)
    assert (await pool.run(look_around))["pid"] != [pid]


async def test_the_poisoned_documents_of_many_are_lost_alone(pool: WorkerPool) -> None:
    async def attempt(number: int) -> str:
        try:
            return await pool.run(kill_self, signal.SIGSEGV) if number % 7 == 3 else await pool.run(sleep, 0.0)
        except FormatError:
            return "lost"

    results = await asyncio.gather(*(attempt(number) for number in range(21)))
    assert results == ["lost" if number % 7 == 3 else "awake" for number in range(21)]
    assert len(get_workers()) <= 2


async def test_a_cancelled_call_leaves_no_worker_busy(pool: WorkerPool) -> None:
    call = asyncio.create_task(pool.run(sleep, 30))
    await asyncio.sleep(1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert get_workers() == []


async def test_a_worker_gets_nothing_of_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KIMAS_TELEGRAM_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    async with WorkerPool(ParsingSettings(workers=1)) as pool:
        with (tmp_path / "open").open("w") as file:
            os.set_inheritable(file.fileno(), True)
            surroundings = await pool.run(look_around)
            assert set(surroundings["environment"]) <= {
                "PATH",
                "LANG",
                "LC_ALL",
                "LC_CTYPE",
                "TZ",
                "TMPDIR",
                "PYTHONPATH",
                "PYTHONHASHSEED",
            }
            # The three standard ones, one for replies, the devnull, and the listing's own.
            assert len(surroundings["descriptors"]) <= 6
        assert await pool.run(write_file, str(tmp_path / "written")) == "OSError"
        await pool.run(read_document, "a.md", "markdown", b"# Title\n\nText.")
        await pool.run(read_document, "a.html", "html", b"<h1>Title</h1><p>Text of some length.</p>")
        await pool.run(chunk_and_tokenize, Document("a.py", "def f():\n    pass\n", "python"), 200, 100)
        modules = (await pool.run(look_around))["modules"]
        assert [name for name in HEAVY if name in modules] == []


def test_a_worker_for_documents_imports_little() -> None:
    code = f"""
import sys, knowledge.parsing.worker, knowledge.chunking
import knowledge.formats.attached, knowledge.formats.confluence, knowledge.formats.discourse
import knowledge.formats.google_drive, knowledge.formats.notion, knowledge.formats.posts
import knowledge.sources.feed.parsing, knowledge.sources.forge.items, knowledge.sources.website.sitemaps
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert result.stdout.strip() == "[]"


async def test_closing_ends_all_workers() -> None:
    async with WorkerPool(ParsingSettings(workers=2)) as pool:
        await asyncio.gather(pool.run(sleep, 0.5), pool.run(sleep, 0.5))
        assert len(get_workers()) == 2
    assert get_workers() == []


@pytest.mark.parametrize("work", ["spin", "sleep, 0"])
def test_workers_end_with_a_killed_parent(work: str, tmp_path: Path) -> None:
    code = f"""
import asyncio, psutil
from core.settings import ParsingSettings
from knowledge.parsing.pool import WorkerPool
from tests.support.work import sleep, spin
from tests.support.waiting import until

async def main():
    async with WorkerPool(ParsingSettings(workers=1)) as pool:
        task = asyncio.create_task(pool.run({work}))
        await until(lambda: psutil.Process().children())
        await asyncio.sleep(1)
        print(*(child.pid for child in psutil.Process().children()), flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 1
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def get_workers() -> list[int]:
    """Return the living workers of this process. A database server of other tests may be its child as well."""
    children = [child for child in psutil.Process().children() if is_alive(child.pid)]
    return [child.pid for child in children if "knowledge.parsing.worker" in child.cmdline()]
