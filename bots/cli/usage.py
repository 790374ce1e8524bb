"""What answers consumed, as `kimas usage` shows it: a table by day and one by agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from bots.common.open_storage import open_database
from bots.common.terminal import make_console, print_json, strip_control_characters
from core.settings import Settings

if TYPE_CHECKING:
    from core.storage.usage import AgentUsage, DailyUsage, TokenUsage


async def usage(settings: Settings, days: int, *, as_json: bool) -> int:
    """Show what the answers of the last days consumed. Raises `StoreError`."""
    usage_rows = await read_usage(settings, days)
    if as_json:
        print_json(usage_as_json(*usage_rows))
    else:
        print_usage(make_console(), *usage_rows)
    return 0


async def read_usage(settings: Settings, days: int) -> tuple[Sequence[DailyUsage], Sequence[AgentUsage]]:
    """Return the last `days` days, today among them, and what the agents consumed in them. Raises `StoreError`."""
    from core.storage.usage import UsageRepository

    # Looking makes nothing: before the first answer there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        return [], []
    since = _today() - timedelta(days=days - 1)
    database = await open_database(settings)
    try:
        usage_repository = UsageRepository(database)
        return await usage_repository.get_daily_usage(since), await usage_repository.get_agent_usage(since)
    finally:
        await database.close()


def usage_as_json(days: Sequence[DailyUsage], agents: Sequence[AgentUsage]) -> Mapping[str, Any]:
    """Return the object that `kimas usage --json` prints."""
    return {
        "days": [
            {
                "day": day.day,
                "answers": day.answers,
                "cached": day.cached,
                "failed": day.failed,
                **_tokens_as_json(day.usage),
            }
            for day in days
        ],
        "agents": [
            {"agent": agent.agent, "answers": agent.answers, **_tokens_as_json(agent.usage)} for agent in agents
        ],
    }


def print_usage(out: Console, days: Sequence[DailyUsage], agents: Sequence[AgentUsage]) -> None:
    """Print the days, newest first, and the agents, most tokens first."""
    if not days:
        out.print("nothing has been answered with a language model in these days")
        return
    table = _make_table("day", "answers", "cached", "failed", *_COLUMNS)
    for day in days:
        table.add_row(day.day, str(day.answers), str(day.cached), str(day.failed), *_format_tokens(day.usage))
    out.print(table)
    out.print()
    table = _make_table("agent", "answers", *_COLUMNS)
    for agent in agents:
        table.add_row(strip_control_characters(agent.agent), str(agent.answers), *_format_tokens(agent.usage))
    out.print(table)


_COLUMNS = ("tokens read", "written", "together", "cost")


def _make_table(first_heading: str, *headings: str) -> Table:
    table = Table(first_heading, box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _tokens_as_json(token_usage: TokenUsage) -> Mapping[str, Any]:
    return {
        "prompt": token_usage.prompt_tokens,
        "completion": token_usage.completion_tokens,
        "cost": round(token_usage.cost, 6),
    }


def _format_tokens(token_usage: TokenUsage) -> tuple[str, ...]:
    cost = f"{token_usage.cost:,.4f}" if token_usage.cost else "-"
    return f"{token_usage.prompt_tokens:,}", f"{token_usage.completion_tokens:,}", f"{token_usage.total_tokens:,}", cost


def _today() -> date:
    return datetime.now().astimezone().date()
