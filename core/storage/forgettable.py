"""Whether there is anything for `/forget` to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Select, Table, and_, exists, func, or_, select

from core.storage.moved_chats import list_places, list_timelines
from core.storage.tables import feedback, messages, taught_answers
from core.storage.told_words import lists
from core.types import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from core.storage.engine import Database


async def has_something_of(database: Database, command: Message) -> bool:
    """Return whether the journal has anything that a `/forget` would erase and an earlier one would not.

    Whoever gave one that waits for its turn has that carried out: it erases what came until then. Raises `StoreError`.
    """
    author_id = command.author_id
    if not author_id:
        return False
    async with database.connect() as connection:
        timelines = await list_timelines(connection, command.key, author_id)
        for place in (*await list_places(connection, command.key), *timelines):
            if await connection.scalar(_select_something(place, author_id)):
                return True
    return False


def _select_something(place: Mapping[str, str], author_id: str) -> Select[tuple[bool]]:
    columns = messages.c
    waiting = select(func.max(columns.received_at)).filter_by(**place, author_id=author_id, command="forget")
    asked_at = waiting.correlate(None).scalar_subquery()

    def is_newer(moment: ColumnElement[object]) -> ColumnElement[bool]:
        return or_(asked_at.is_(None), moment >= asked_at)

    is_own = and_(columns.author_id == author_id, columns.command != "forget")
    brings = lists(columns.quoted_authors, author_id)
    lessons = taught_answers.c
    is_in_lesson = or_(lessons.asked_by == author_id, lessons.taught_by == author_id)
    # Owners edit what was taught in other chats, too.
    is_edited = lists(lessons.editors, {**place, "author_id": author_id})
    return select(
        or_(
            exists().where(*_is_in(messages, place), or_(is_own, brings), is_newer(columns.received_at)),
            exists().where(*_is_in(feedback, place), feedback.c.author_id == author_id, is_newer(feedback.c.at)),
            exists().where(*_is_in(taught_answers, place), is_in_lesson, is_newer(lessons.at)),
            exists().where(is_edited, is_newer(lessons.at)),
        )
    )


def _is_in(table: Table, place: Mapping[str, str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in place.items()]
