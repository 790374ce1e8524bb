"""What answers consumed, as `kimas usage` shows it: a table by day and one by agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bots.common.terminal import console, print_json, printable
from bots.daemon.bootstrap import open_database
from core.settings import Settings

if TYPE_CHECKING:
    from core.storage.usage import AgentUsage, Consumed, DayUsage


async def usage(settings: Settings, days: int, *, as_json: bool) -> int:
    """Show what the answers of the last days consumed. Raises `StoreError`."""
    found = await read_usage(settings, days)
    if as_json:
        print_json(usage_as_json(*found))
    else:
        print_usage(console(), *found)
    return 0


async def read_usage(settings: Settings, days: int) -> tuple[Sequence[DayUsage], Sequence[AgentUsage]]:
    """Return the last `days` days, today among them, and what the agents consumed in them. Raises `StoreError`."""
    from core.storage.usage import Ledger

    # Looking makes nothing: before the first answer there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        return [], []
    since = _today() - timedelta(days=days - 1)
    database = await open_database(settings)
    try:
        ledger = Ledger(database)
        return await ledger.by_day(since), await ledger.by_agent(since)
    finally:
        await database.close()


def usage_as_json(days: Sequence[DayUsage], agents: Sequence[AgentUsage]) -> Mapping[str, Any]:
    """Return the object that `kimas usage --json` prints."""
    return {
        "days": [
            {
                "day": one.day,
                "answers": one.answers,
                "cached": one.cached,
                "failed": one.failed,
                **_consumed(one.consumed),
            }
            for one in days
        ],
        "agents": [{"agent": one.agent, "answers": one.answers, **_consumed(one.consumed)} for one in agents],
    }


def print_usage(out: Console, days: Sequence[DayUsage], agents: Sequence[AgentUsage]) -> None:
    """Print the days, newest first, and the agents, most tokens first."""
    if not days:
        out.print("nothing has been answered with a language model in these days")
        return
    table = _table("day", "answers", "cached", "failed", *_COLUMNS)
    for day in days:
        table.add_row(day.day, str(day.answers), str(day.cached), str(day.failed), *_shown(day.consumed))
    out.print(table)
    out.print()
    table = _table("agent", "answers", *_COLUMNS)
    for agent in agents:
        table.add_row(printable(agent.agent), str(agent.answers), *_shown(agent.consumed))
    out.print(table)


_COLUMNS = ("tokens read", "written", "together", "cost")


def _table(first: str, *numbers: str) -> Table:
    table = Table(first, box=None, header_style="bold", pad_edge=False)
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def _consumed(consumed: Consumed) -> Mapping[str, Any]:
    return {"prompt": consumed.prompt, "completion": consumed.completion, "cost": round(consumed.cost, 6)}


def _shown(consumed: Consumed) -> tuple[str, ...]:
    cost = f"{consumed.cost:,.4f}" if consumed.cost else "-"
    return f"{consumed.prompt:,}", f"{consumed.completion:,}", f"{consumed.tokens:,}", cost


def _today() -> date:
    return datetime.now().astimezone().date()
