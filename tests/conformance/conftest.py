"""Every scenario runs once per platform; what a platform cannot have is skipped for a reason that it states."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from core.storage.messages import Journal
from tests.conformance.bot import Bot, Terminal
from tests.conformance.platforms import Bluesky, Discord, Driver, Github, Gitlab, Mastodon, Slack, Telegram
from tests.conformance.played import Played
from tests.conformance.scenarios import PLATFORMS, does_run_in_terminal, reasons

DRIVERS: dict[str, Callable[[], Driver]] = {
    "telegram": Telegram,
    "discord": Discord,
    "slack": Slack,
    "mastodon": Mastodon,
    "bluesky": Bluesky,
    "github": Github,
    "gitlab": Gitlab,
    "console": Played,
}


@pytest.fixture(scope="session")
def empty_journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with its tables, to be copied: making them takes longer than most scenarios."""
    path = tmp_path_factory.mktemp("journal") / "journal.db"

    async def make() -> None:
        await (await Journal.open(path)).close()

    asyncio.run(make())
    return path


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Let every scenario run on all platforms, and what one person does alone in `kimas chat` as well."""
    if "bot" in metafunc.fixturenames:
        runs_in_terminal = ["terminal"] if does_run_in_terminal(metafunc.function) else []
        metafunc.parametrize("bot", [*PLATFORMS, *runs_in_terminal], indirect=True)


@pytest.fixture
async def bot(request: pytest.FixtureRequest, tmp_path: Path, empty_journal: Path) -> AsyncIterator[Bot]:
    """A bot that listens."""
    reason = reasons(request.function).get(request.param)
    if reason:
        pytest.skip(f"{request.param}: {reason}")
    async with AsyncExitStack() as stack:
        if request.param == "terminal":
            runs_in_terminal = Terminal(tmp_path)
            stack.push_async_callback(runs_in_terminal.stop)
            await runs_in_terminal.start()
            yield runs_in_terminal
            return
        driver = DRIVERS[request.param]()
        await driver.open(stack)
        created = Bot(driver, tmp_path)
        shutil.copy(empty_journal, created.file)
        stack.push_async_callback(created.stop)
        await created.start()
        yield created
