"""The forks that read documents for other tests (`tests/support/parser_forks.py`) are confined like the daemon's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from core.settings import ParsingSettings
from knowledge.formats import read_document
from knowledge.parsing.limits import FormatError
from knowledge.parsing.pool import WorkerPool
from tests.support.forked import are_served
from tests.support.forked_parsers import fork_parsers
from tests.support.waiting import until
from tests.support.work import eat_memory, kill_self, look_around, spin, write_file

pytestmark = pytest.mark.skipif(not are_served(), reason="forks are served with -n alone")


@pytest.fixture(autouse=True)
def _forks(_interpreters: None, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_parsers(monkeypatch)


async def test_a_fork_is_confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIMAS_TELEGRAM_TOKEN", "secret")
    async with WorkerPool(ParsingSettings(workers=1, memory_mb=128, cpu_s=1)) as pool:
        surroundings = await pool.run(look_around)
        assert "KIMAS_TELEGRAM_TOKEN" not in surroundings["environment"]
        assert len(surroundings["descriptors"]) <= 6
        assert await pool.run(write_file, str(tmp_path / "written")) == "OSError"
        for function, arguments, reason in (
            (eat_memory, (500,), "more than 128 MB of memory"),
            (spin, (), "more than 1 s of processor time"),
            (kill_self, (signal.SIGSEGV,), "crashed .SIGSEGV"),
        ):
            with pytest.raises(FormatError, match=reason):
                await pool.run(function, *arguments)  # type: ignore[arg-type]
        assert await pool.run(read_document, "a.md", "markdown", b"# Title") == ("# Title", "markdown")


async def test_a_fork_ends_with_its_pool() -> None:
    async with WorkerPool(ParsingSettings(workers=1)) as pool:
        (pid,) = (await pool.run(look_around))["pid"]
        assert Path(f"/proc/{pid}").exists()
        assert int(pid) != os.getpid()
    await until(lambda: not Path(f"/proc/{pid}").exists())
