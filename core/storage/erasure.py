"""What is kept of people in what was said about answers and in what was taught, removed for one of them."""

from __future__ import annotations

from sqlalchemy import delete, or_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.storage.tables import feedback, learned
from core.types import Message


async def erase_person(connection: AsyncConnection, message: Message) -> None:
    """Remove, within a transaction, what the author of a message said about answers, asked and taught in its chat.

    An answer that was approved is knowledge and stays, without the names.
    """
    key, author_id = message.key, message.author_id
    feedback_columns, learned_columns = feedback.c, learned.c
    await connection.execute(
        delete(feedback).where(
            feedback_columns.platform == key.platform,
            feedback_columns.chat == key.chat,
            feedback_columns.author_id == author_id,
        )
    )
    in_chat = (learned_columns.platform == key.platform, learned_columns.chat == key.chat)
    is_involved = or_(learned_columns.asked_by == author_id, learned_columns.taught_by == author_id)
    await connection.execute(delete(learned).where(*in_chat, is_involved, learned_columns.state != "approved"))
    await connection.execute(update(learned).where(*in_chat, learned_columns.asked_by == author_id).values(asked_by=""))
    erased_names = {"taught_by": "", "teacher": ""}
    await connection.execute(
        update(learned).where(*in_chat, learned_columns.taught_by == author_id).values(erased_names)
    )
