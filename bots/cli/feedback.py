"""What people said about answers, as `kimas feedback` shows it: by day, and as labelled lines."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.table import Table

from bots.common.open_storage import open_database
from bots.common.terminal import make_console
from core.errors import UsageError
from core.messaging.feedback.rating_buttons import REASONS
from core.settings import Settings
from core.types import DOWN, UP

if TYPE_CHECKING:
    from core.storage.feedback import DailyRatings, LabelledQuestion


async def feedback(settings: Settings, days: int, *, as_json: bool, labels: bool, chat: str = "") -> int:
    """Show what was said by day, or print labelled lines for `kimas eval gate`, of one chat where one is named.

    Raises `StoreError`, and `UsageError` for a chat without labels: by day all chats are shown together.
    """
    if chat and not labels:
        raise UsageError("--chat chooses rated questions: give --labels or --calibrate with it")
    daily_feedback, labelled_questions = await read_feedback(settings, days)
    if labels:
        for question in labelled_questions:
            if chat not in ("", f"{question.platform}:{question.chat}"):
                continue
            line = {"id": _question_id(question), "text": question.text, "should_answer": question.is_good}
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    elif as_json:
        sys.stdout.write(json.dumps(feedback_as_json(daily_feedback), ensure_ascii=False) + "\n")
    elif not daily_feedback:
        make_console().print("nobody has said anything about answers in these days")
    else:
        make_console().print(_make_table(daily_feedback))
    return 0


async def read_feedback(settings: Settings, days: int) -> tuple[Sequence[DailyRatings], Sequence[LabelledQuestion]]:
    """Return the last `days` days, today among them, and all questions that were judged. Raises `StoreError`."""
    from core.storage.feedback import FeedbackRepository

    # Looking makes nothing: before the first answer there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        return [], []
    midnight = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    database = await open_database(settings)
    try:
        feedback_repository = FeedbackRepository(database)
        return await feedback_repository.get_daily_ratings(
            midnight - timedelta(days=days - 1)
        ), await feedback_repository.get_labelled_questions()
    finally:
        await database.close()


def feedback_as_json(daily_feedback: Sequence[DailyRatings]) -> Mapping[str, Any]:
    """Return the object that `kimas feedback --json` prints (a contract)."""
    days = [
        {"day": str(day.day), "up": day.up, "down": day.down, "reasons": dict(day.reasons)} for day in daily_feedback
    ]
    return {"days": days}


def _make_table(daily_feedback: Sequence[DailyRatings]) -> Table:
    """Return the days, newest first."""
    table = Table("day", box=None, header_style="bold", pad_edge=False)
    for heading in (UP, DOWN, *REASONS):
        table.add_column(heading, justify="right")
    for day in reversed(daily_feedback):
        table.add_row(str(day.day), *map(str, (day.up, day.down, *(day.reasons.get(name, 0) for name in REASONS))))
    return table


def _question_id(question: LabelledQuestion) -> str:
    return f"{question.platform}:{question.chat}:{question.id}"
