"""What `kimas faq` does: people's answers are listed, approved or rejected, and exported."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from bots.common.open_storage import open_database
from bots.common.terminal import make_console, strip_control_characters
from core.errors import UsageError
from core.settings import Settings
from core.storage.lessons import ReviewState, TaughtAnswer, TaughtAnswerRepository

if TYPE_CHECKING:
    from core.storage.engine import Database

# Who decides on the command line.
OPERATOR = "the operator"


async def list_answers(settings: Settings, state: ReviewState | None, *, as_json: bool) -> int:
    """Show the answers of a state, or all. Raises `StoreError`."""
    async with _open_existing_database(settings) as database:
        taught_answers = await TaughtAnswerRepository(database).list_answers(state) if database else []
    if as_json:
        sys.stdout.write(
            json.dumps(
                {"answers": [taught_answer_as_json(taught_answer) for taught_answer in taught_answers]},
                ensure_ascii=False,
            )
            + "\n"
        )
        return 0
    for taught_answer in taught_answers:
        text = (
            f"{taught_answer.number}. [{taught_answer.state}] {taught_answer.question}\n   "
            f"{taught_answer.teacher}: {' '.join(taught_answer.answer.split())}"
        )
        make_console().print(strip_control_characters(text), markup=False, soft_wrap=True)
    if not taught_answers:
        make_console().print("no answers wait for a review" if state == "pending" else "there are no such answers")
    return 0


async def review_answer(settings: Settings, number: int, state: ReviewState, *, as_json: bool) -> int:
    """Approve or reject an answer. Raises `UsageError` for a number that is none, and `StoreError`."""
    async with _open_existing_database(settings) as database:
        if database is None:
            raise UsageError("nobody has taught anything yet")
        repository = TaughtAnswerRepository(database)
        if number not in {answer.number for answer in await repository.list_answers(None)}:
            raise UsageError(f"There is no answer {number}. `kimas faq list --state all` shows those that there are.")
        taught_answer = await repository.decide(number, state, OPERATOR)
    if as_json:
        sys.stdout.write(json.dumps(taught_answer_as_json(taught_answer), ensure_ascii=False) + "\n")
    else:
        make_console().print(f"answer {number} is {state}")
    return 0


async def export_answers(settings: Settings) -> int:
    """Print the approved answers as lines that a source of the kind `faq` reads (JSON Lines). Raises `StoreError`."""
    async with _open_existing_database(settings) as database:
        taught_answers = await TaughtAnswerRepository(database).list_answers("approved") if database else []
    for taught_answer in taught_answers:
        sys.stdout.write(
            json.dumps({"question": taught_answer.question, "answer": taught_answer.answer}, ensure_ascii=False) + "\n"
        )
    return 0


def taught_answer_as_json(taught_answer: TaughtAnswer) -> Mapping[str, Any]:
    """Return an answer as `kimas faq --json` prints it (a contract)."""
    return {
        "number": taught_answer.number,
        "state": taught_answer.state,
        "chat": f"{taught_answer.platform}:{taught_answer.chat}",
        "question": taught_answer.question,
        "answer": taught_answer.answer,
        "teacher": taught_answer.teacher,
        "reviewer": taught_answer.reviewer,
    }


@asynccontextmanager
async def _open_existing_database(settings: Settings) -> AsyncIterator[Database | None]:
    # Looking makes nothing: before the first question there is no database.
    if not await asyncio.to_thread((settings.data_dir / "journal.db").exists):
        yield None
        return
    database = await open_database(settings)
    try:
        yield database
    finally:
        await database.close()
