"""Edits of messages: the new text, and that there was an edit where its platform delivers that as an event."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from core.storage.message_rows import UNKNOWN_COMMAND, get_skip_values, to_edited_values, to_message_values
from core.storage.tables import DRAFTED, identity_values, is_reply_in, messages, replies
from core.storage.told_words import FORMER_TEXTS
from core.types import ASK_COMMANDS, Message, SkipReason, skip

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection


# All former texts are kept, so that what others took over of them is found: then the last one counts.
MAX_EDITS = 20


async def write_edit(connection: AsyncConnection, message: Message) -> bool:
    """Store its author's new text of a message whose answer has not started, or is a draft; return if in time.

    Further edits than `MAX_EDITS` are not. A command runs as it was first sent. That the event came is stored in any
    case: it may tell that others read the chat by now.
    """
    if message.edit_id:
        await _write_event(connection, message)
    if message.command not in ASK_COMMANDS:
        return False
    own = select(messages).filter_by(**identity_values(message), author_id=message.author_id)
    is_waiting = and_(messages.c.command.in_(ASK_COMMANDS), messages.c.state.in_(("received", DRAFTED)))
    row = (await connection.execute(own.where(is_waiting).with_for_update())).first()
    if row and len(row.reference.get(FORMER_TEXTS, ())) >= MAX_EDITS:
        return False
    if row and row.state == DRAFTED:
        # Under the former words nobody would find it once its asker is forgotten.
        is_of_draft = and_(is_reply_in(row.platform, row.chat), replies.c.text == row.text)
        await connection.execute(delete(replies).where(is_of_draft))
    if row:
        change = update(messages).filter_by(number=row.number)
        await connection.execute(change.values(to_edited_values(row, message)))
    return row is not None


async def _write_event(connection: AsyncConnection, message: Message) -> None:
    """Store the event of an edit, without its words, as a message with a reason for silence; once."""
    event = replace(
        message,
        id=message.edit_id,
        text="",
        quoted="",
        quoted_authors=(),
        attachments=(),
        reply_to="",
        # It is no part of a conversation, as a question without text would be.
        command=UNKNOWN_COMMAND,
        addressed=False,
        reference={},
    )
    values = {**to_message_values(event), "state": "silent", "settled_at": datetime.now(UTC)}
    # The network may have sent it before.
    with suppress(IntegrityError):
        async with connection.begin_nested():
            await connection.execute(insert(messages).values({**values, **get_skip_values(skip(SkipReason.EDIT))}))
