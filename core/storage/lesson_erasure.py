"""Erases what one person taught, or has words in of what others taught."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Text, and_, case, cast, delete, null, or_, select, update

from core.storage.copies import Place, Said, erase_said
from core.storage.tables import DRAFTED, DROPPED_STATE, messages, replies, taught_answers, to_document_name
from core.storage.told_words import lists
from core.types.messages import PERSONAL_THREAD

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

_WITHOUT_TEACHER = {"taught_by": "", "teacher": ""}


async def erase_lessons(connection: AsyncConnection, place: Mapping[str, str], author_id: str) -> None:
    """Erase what somebody taught, asked, edited or was quoted with where the columns of `place` have its values.

    An approved lesson is knowledge: it loses their name, and it is marked for the day when it is none any more. Call it
    while it is known whose words others have brought.
    """
    columns = taught_answers.c
    is_here = and_(*(columns[name] == value for name, value in place.items()))
    bringing = select(messages.c.id, messages.c.reply_to).filter_by(**place, command="learn")
    quoting = (await connection.execute(bringing.where(lists(messages.c.quoted_authors, author_id)))).all()
    is_quoted = columns.lesson.in_({message_id for row in quoting for message_id in row} - {""})
    is_involved = and_(is_here, or_(columns.asked_by == author_id, columns.taught_by == author_id, is_quoted))
    # Owners edit what was taught in other chats, too.
    other_editors = await _find_edited(connection, {**place, "author_id": author_id})
    has_words = or_(is_involved, columns.number.in_(other_editors))
    is_forgotten = and_(has_words, columns.state != "approved")
    forgotten = (await connection.scalars(select(columns.number).where(is_forgotten))).all()
    await erase_told(connection, forgotten)
    await connection.execute(delete(taught_answers).where(is_forgotten))
    await connection.execute(update(taught_answers).where(has_words).values(has_forgotten=True))
    await connection.execute(update(taught_answers).where(is_here, columns.asked_by == author_id).values(asked_by=""))
    await connection.execute(
        update(taught_answers).where(is_here, columns.taught_by == author_id).values(_WITHOUT_TEACHER)
    )
    for number, others in other_editors.items():
        await connection.execute(update(taught_answers).filter_by(number=number).values(editors=others or null()))
    own_thread = PERSONAL_THREAD + author_id
    is_in_own_thread = or_(columns.thread == own_thread, columns.thread.startswith(f"{own_thread}:", autoescape=True))
    await connection.execute(update(taught_answers).where(is_here, is_in_own_thread).values(thread=PERSONAL_THREAD))
    # Earlier versions kept the reviewer's name: it is that of the messages, as long as these are there.
    names = select(messages.c.author).filter_by(platform=place["platform"], author_id=author_id)
    # A name is no id: only where the person is.
    is_reviewer = or_(
        columns.reviewer == f"{place['platform']}:{author_id}", and_(is_here, columns.reviewer.in_(names))
    )
    await connection.execute(update(taught_answers).where(columns.reviewer != "", is_reviewer).values(reviewer=""))


async def erase_told(connection: AsyncConnection, numbers: Collection[int]) -> None:
    """Erase what was answered anywhere from lessons while they were approved: they are no knowledge any more.

    Also what was made from such answers, which cites no lesson.
    """
    columns = messages.c
    for number in numbers:
        name = json.dumps(to_document_name(number)).rstrip('"')

        def has_name(column: ColumnElement[Any], name: str = name) -> ColumnElement[bool]:
            return cast(column, Text).contains(name, autoescape=True)

        await connection.execute(delete(replies).where(has_name(replies.c.reply)))
        is_cited = or_(has_name(columns.citations), has_name(columns.delivery))
        told_in = await _find_told(connection, number, or_(is_cited, has_name(columns.trace)))
        cited_values = {"reply": "", "citations": null(), "delivery": null()}
        is_draft = columns.state == DRAFTED
        dropped = {name: case((is_draft, value), else_=columns[name]) for name, value in DROPPED_STATE.items()}
        await connection.execute(update(messages).where(is_cited).values(**cited_values, **dropped, trace=null()))
        # It was found, and not cited.
        await connection.execute(update(messages).where(has_name(columns.trace)).values(trace=null()))
        await erase_said(connection, told_in)


async def _find_told(connection: AsyncConnection, number: int, is_told: ColumnElement[bool]) -> dict[Place, Said]:
    """Return the chats in which a lesson was told, with its words."""
    answer = await connection.scalar(select(taught_answers.c.answer).filter_by(number=number))
    names = ("platform", "chat", "received_at", "number", "reply", "reply_id")
    told_in = dict[Place, Said]()
    for row in await connection.execute(select(*(messages.c[name] for name in names)).where(is_told)):
        told_in.setdefault((row.platform, row.chat), Said("")).add_told(row, answer or "")
    return told_in


async def _find_edited(
    connection: AsyncConnection, by_person: Mapping[str, str]
) -> Mapping[int, Sequence[Mapping[str, str]]]:
    """Return the other editors of the lessons that somebody edited, by their numbers."""
    columns = taught_answers.c
    edited = select(columns.number, columns.editors).where(columns.editors.is_not(null()))
    others = {
        row.number: ([each for each in row.editors if not by_person.items() <= each.items()], len(row.editors))
        for row in (await connection.execute(edited)).all()
    }
    return {number: left for number, (left, count) in others.items() if len(left) < count}
