"""What the tests of feedback share: a bot that has answered a question in a group, and what was thought of that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from sqlalchemy import text as sql

from tests.conformance.bot import Bot
from tests.conformance.platforms import Driver


@asynccontextmanager
async def answered(driver: Driver, folder: Path) -> AsyncIterator[Bot]:
    """A bot of this platform that has answered one question in its group."""
    async with AsyncExitStack() as stack:
        await driver.open(stack)
        bot = Bot(driver, folder)
        stack.push_async_callback(bot.stop)
        await bot.start()
        await bot.ask(bot.group(), "How?")
        yield bot


async def votes(bot: Bot) -> list[str]:
    """Return what was pressed, in order."""
    async with bot.journal.database.connect() as connection:
        return list((await connection.scalars(sql("SELECT verdict FROM feedback ORDER BY number"))).all())
