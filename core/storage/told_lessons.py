"""What was answered from taught answers, which goes with their author once they are no knowledge any more."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, case, cast, delete, null, or_, update

from core.storage.tables import DRAFTED, messages, replies, to_document_name
from core.types import SkipReason

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.ext.asyncio import AsyncConnection

# Of a draft that is not posted any more, because somebody was forgotten.
DROPPED_STATE = {"state": "silent", "reason": SkipReason.DRAFT_FORGOTTEN.text}


async def erase_told_lessons(connection: AsyncConnection, numbers: Collection[int]) -> None:
    """Erase what was answered anywhere from taught answers while they were approved: they are no knowledge any more."""
    columns = messages.c
    for number in numbers:
        name = json.dumps(to_document_name(number)).rstrip('"')

        def has_name(column: ColumnElement[Any], name: str = name) -> ColumnElement[bool]:
            return cast(column, Text).contains(name, autoescape=True)

        await connection.execute(delete(replies).where(has_name(replies.c.reply)))
        is_cited = or_(has_name(columns.citations), has_name(columns.delivery))
        cited_values = {"reply": "", "citations": null(), "delivery": null()}
        dropped = {
            name: case((columns.state == DRAFTED, value), else_=columns[name]) for name, value in DROPPED_STATE.items()
        }
        await connection.execute(update(messages).where(is_cited).values(**cited_values, **dropped, trace=null()))
        # It was found, and not cited.
        await connection.execute(update(messages).where(has_name(columns.trace)).values(trace=null()))
