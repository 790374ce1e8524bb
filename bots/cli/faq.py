"""What `kimas faq` does: people's answers are listed, approved or rejected, and exported."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from bots.common.terminal import console, printable
from bots.daemon.bootstrap import open_database
from core.errors import UsageError
from core.settings import Settings
from core.storage.lessons import Lesson, Lessons, State

if TYPE_CHECKING:
    from core.storage.engine import Database

# Who decides on the command line.
OPERATOR = "the operator"


async def listed(settings: Settings, state: State | None, *, as_json: bool) -> int:
    """Show the answers of a state, or all. Raises `StoreError`."""
    async with _opened(settings) as database:
        found = await Lessons(database).list(state) if database else []
    if as_json:
        sys.stdout.write(json.dumps({"answers": [as_object(one) for one in found]}, ensure_ascii=False) + "\n")
        return 0
    for one in found:
        shown = f"{one.number}. [{one.state}] {one.question}\n   {one.teacher}: {' '.join(one.answer.split())}"
        console().print(printable(shown), markup=False, soft_wrap=True)
    if not found:
        console().print("no answers wait for a review" if state == "pending" else "there are no such answers")
    return 0


async def decided(settings: Settings, number: int, state: State, *, as_json: bool) -> int:
    """Approve or reject an answer. Raises `UsageError` for a number that is none, and `StoreError`."""
    async with _opened(settings) as database:
        if database is None:
            raise UsageError("nobody has taught anything yet")
        lessons = Lessons(database)
        if number not in {one.number for one in await lessons.list(None)}:
            raise UsageError(f"There is no answer {number}. `kimas faq list --state all` shows those that there are.")
        lesson = await lessons.decide(number, state, OPERATOR)
    if as_json:
        sys.stdout.write(json.dumps(as_object(lesson), ensure_ascii=False) + "\n")
    else:
        console().print(f"answer {number} is {state}")
    return 0


async def exported(settings: Settings) -> int:
    """Print the approved answers as lines that a source of the kind `faq` reads (JSON Lines). Raises `StoreError`."""
    async with _opened(settings) as database:
        found = await Lessons(database).list("approved") if database else []
    for one in found:
        sys.stdout.write(json.dumps({"question": one.question, "answer": one.answer}, ensure_ascii=False) + "\n")
    return 0


def as_object(lesson: Lesson) -> Mapping[str, Any]:
    """Return an answer as `kimas faq --json` prints it (a contract)."""
    return {
        "number": lesson.number,
        "state": lesson.state,
        "chat": f"{lesson.platform}:{lesson.chat}",
        "question": lesson.question,
        "answer": lesson.answer,
        "teacher": lesson.teacher,
        "reviewer": lesson.reviewer,
    }


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Database | None]:
    # Looking makes nothing: before the first question there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        yield None
        return
    database = await open_database(settings)
    try:
        yield database
    finally:
        await database.close()
