"""By which numbers forges know accounts, as the cursors keep them, and what people left who have none there yet."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import exists, func, or_, select

from core.storage.engine import Database
from core.storage.tables import cursors, feedback, messages, taught_answers
from core.types import RATING_COMMAND


async def find_cursors(database: Database, prefix: str, position: int | None = None) -> Sequence[str]:
    """Return the names of cursors that begin in a way, without that; with a position, those that are there.

    Raises `JournalError`.
    """
    query = select(cursors.c.name).where(cursors.c.name.startswith(prefix, autoescape=True)).order_by(cursors.c.name)
    if position is not None:
        query = query.filter_by(position=position)
    return [row.name.removeprefix(prefix) for row in await database.fetch_all(query)]


async def find_first_and_last(database: Database, platform: str, author_id: str) -> Sequence[tuple[str, str, str]]:
    """Return the chat, the thread and the id of the first and the last message that a person wrote.

    Who left only ratings or lessons gets one with empty values. Raises `JournalError`.
    """
    columns = messages.c
    rows_of_person = select(columns.number).filter_by(platform=platform, author_id=author_id)
    number = rows_of_person.where(columns.purpose == "", columns.command != RATING_COMMAND)
    ends = (number.with_only_columns(end(columns.number)).scalar_subquery() for end in (func.min, func.max))
    rows = await database.fetch_all(
        select(columns.chat, columns.thread, columns.id).where(columns.number.in_(list(ends)))
    )
    if rows:
        return [(row.chat, row.thread, row.id) for row in rows]
    lessons = taught_answers.c
    has_pressed = rows_of_person.exists()
    has_rated = exists().where(feedback.c.platform == platform, feedback.c.author_id == author_id)
    has_taught = exists().where(
        lessons.platform == platform, or_(lessons.asked_by == author_id, lessons.taught_by == author_id)
    )
    return [("", "", "")] if await database.fetch_value(select(or_(has_pressed, has_rated, has_taught))) else []
