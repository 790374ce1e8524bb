"""What people said about answers, as `kimas feedback` shows it: by day, and as labelled lines."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.table import Table

from bots.common.terminal import console
from bots.daemon.bootstrap import open_database
from core.errors import UsageError
from core.messaging.feedback.rating_buttons import REASONS
from core.settings import Settings
from core.types import DOWN, UP

if TYPE_CHECKING:
    from core.storage.feedback import Day, Labelled


async def feedback(settings: Settings, days: int, *, as_json: bool, labels: bool, chat: str = "") -> int:
    """Show what was said by day, or print labelled lines for `kimas eval gate`, of one chat where one is named.

    Raises `StoreError`, and `UsageError` for a chat without labels: by day all chats are shown together.
    """
    if chat and not labels:
        raise UsageError("--chat chooses rated questions: give --labels or --calibrate with it")
    said, labelled = await read(settings, days)
    if labels:
        for one in labelled:
            if chat not in ("", f"{one.platform}:{one.chat}"):
                continue
            line = {"id": _name(one), "text": one.text, "should_answer": one.good}
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    elif as_json:
        sys.stdout.write(json.dumps(as_object(said), ensure_ascii=False) + "\n")
    elif not said:
        console().print("nobody has said anything about answers in these days")
    else:
        console().print(_table(said))
    return 0


async def read(settings: Settings, days: int) -> tuple[Sequence[Day], Sequence[Labelled]]:
    """Return the last `days` days, today among them, and all questions that were judged. Raises `StoreError`."""
    from core.storage.feedback import Opinions

    # Looking makes nothing: before the first answer there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        return [], []
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    database = await open_database(settings)
    try:
        opinions = Opinions(database)
        return await opinions.days(midnight - timedelta(days=days - 1)), await opinions.labelled()
    finally:
        await database.close()


def as_object(said: Sequence[Day]) -> Mapping[str, Any]:
    """Return the object that `kimas feedback --json` prints (a contract)."""
    days = [{"day": str(one.day), "up": one.up, "down": one.down, "reasons": dict(one.reasons)} for one in said]
    return {"days": days}


def _table(said: Sequence[Day]) -> Table:
    """Return the days, newest first."""
    table = Table("day", box=None, header_style="bold", pad_edge=False)
    for heading in (UP, DOWN, *REASONS):
        table.add_column(heading, justify="right")
    for one in reversed(said):
        table.add_row(str(one.day), *map(str, (one.up, one.down, *(one.reasons.get(name, 0) for name in REASONS))))
    return table


def _name(one: Labelled) -> str:
    return f"{one.platform}:{one.chat}:{one.id}"
