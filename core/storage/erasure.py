"""What is kept of people in what was said about answers and in what was taught, removed for one of them."""

from __future__ import annotations

from sqlalchemy import delete, or_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.storage.tables import feedback, learned
from core.types import Message


async def forget_person(connection: AsyncConnection, message: Message) -> None:
    """Remove, within a transaction, what the author of a message said about answers, asked and taught in its chat.

    An answer that was approved is knowledge and stays, without the names.
    """
    key, person = message.key, message.author_id
    said, taught = feedback.c, learned.c
    await connection.execute(
        delete(feedback).where(said.platform == key.platform, said.chat == key.chat, said.author_id == person)
    )
    here = (taught.platform == key.platform, taught.chat == key.chat)
    theirs = or_(taught.asked_by == person, taught.taught_by == person)
    await connection.execute(delete(learned).where(*here, theirs, taught.state != "approved"))
    await connection.execute(update(learned).where(*here, taught.asked_by == person).values(asked_by=""))
    nameless = {"taught_by": "", "teacher": ""}
    await connection.execute(update(learned).where(*here, taught.taught_by == person).values(nameless))
