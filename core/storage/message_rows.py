"""Messages and replies as rows of the journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row as ResultRow, insert, update
from sqlalchemy.exc import IntegrityError

from core.formatting import with_description
from core.storage.details import get_detail
from core.storage.tables import chat_values, chats
from core.storage.told_words import FORMER_TEXTS, MADE_FROM
from core.types import (
    Attachment,
    Citation,
    ConversationKey,
    FeedEntry,
    Message,
    Origin,
    Reply,
    Skip,
    ThreadState,
    Turn,
)
from core.types.replies import trace_from_json

# What is typed behind a slash may be any word. With none, the message would count as a question.
UNKNOWN_COMMAND = "unknown"
_DELIVERED_NAMES = ("image_description", "failure", "is_extractive", "found_nothing", "heard")
_MESSAGE_COLUMNS = (
    "id",
    "bot",
    "author_id",
    "author",
    "text",
    "command",
    "reply_to",
    "quoted",
    "private",
    "addressed",
    "sent_at",
    "is_by_bot",
    "is_forwarded",
    "quotes_bot",
    "has_guests",
    "is_post",
    "parent_id",
    "language",
)


@dataclass(frozen=True, slots=True)
class History:
    """Turns of a conversation, oldest first, and the numbers of the messages that they are made of."""

    turns: Sequence[Turn]
    numbers: Sequence[int]


def to_message(row: ResultRow[Any]) -> Message:
    """Return the message of a complete row."""
    values = {name: getattr(row, name) for name in _MESSAGE_COLUMNS}
    values["feed_entry"] = FeedEntry(**row.feed_entry) if row.feed_entry else None
    values["thread_state"] = ThreadState(
        row.in_restricted_thread, row.in_main_chat, row.is_shared_thread, row.thread_started_at
    )
    mentioned_users = tuple(row.mentioned_users or ())
    values["origin"] = Origin(row.purpose, row.root_id, row.retry_reason, mentioned_users, row.is_question_hidden)
    values["attachments"] = read_attachments(row.attachments)
    values["quoted_authors"] = tuple(row.quoted_authors or ())
    return Message(key=ConversationKey(row.platform, row.chat, row.thread), reference=row.reference, **values)


def to_edited_values(row: ResultRow[*tuple[Any, ...]], message: Message) -> dict[str, Any]:
    """Return the new values of a row whose author has edited its text: copies of the former one are found by it.

    The new text may be what somebody else wrote.
    """
    former_texts = [*row.reference.get(FORMER_TEXTS, ()), row.text]
    quoted_authors = dict.fromkeys((*(row.quoted_authors or ()), *message.quoted_authors))
    return {
        "text": message.text,
        "reference": {**row.reference, FORMER_TEXTS: former_texts},
        "is_forwarded": row.is_forwarded or message.is_forwarded,
        "quotes_bot": row.quotes_bot or message.quotes_bot,
        "quoted_authors": list(quoted_authors) or None,
    }


def to_delivery(reply: Reply, parts: Mapping[int, str], others: Collection[int] = ()) -> dict[str, Any]:
    """Return a reply that is to be delivered, as a row keeps it.

    With the ids of its further parts, and the numbers of the other messages that it is made from.
    """
    values = {
        "text": reply.text,
        "citations": [asdict(citation) for citation in reply.citations],
        "nearest_pages": [asdict(page) for page in reply.nearest_pages],
        "trace": reply.trace.to_json(),
    }
    return {
        **values,
        **{name: getattr(reply, name) for name in _DELIVERED_NAMES},
        "parts": to_parts(parts),
        "others": sorted(others),
    }


def to_draft(reply: Reply, made_from: Collection[int]) -> dict[str, Any]:
    """Return a reply that a team decides about, as a row keeps it, with the numbers of the messages it is made from.

    Who is forgotten takes it along if theirs is one of these.
    """
    return {**to_delivery(reply, {}), MADE_FROM: sorted(made_from)}


def to_parts(parts: Mapping[int, str]) -> dict[str, str]:
    """Return the ids of the further parts of a reply, as a row keeps them."""
    return {str(number): part_id for number, part_id in parts.items()}


def read_left(reply: Reply, delivery: Mapping[str, Any] | None) -> Reply:
    """Return a reply as far as it is still there where it was recorded; itself if nothing of it was forgotten."""
    if delivery is None:
        return Reply("")
    if trace_from_json(delivery["trace"]) == Reply("").trace:
        reply = replace(reply, trace=Reply("").trace)
    if reply.image_description and not delivery["image_description"]:
        reply = replace(reply, image_description="")
    return reply


def read_delivery(values: Mapping[str, Any]) -> Reply:
    """Return the reply that `to_delivery` made these values of, also an earlier version's."""
    citations = tuple(Citation(**item) for item in values["citations"])
    pages = tuple(Citation(**item) for item in values.get("nearest_pages", ()))
    optional_values = {name: values[name] for name in _DELIVERED_NAMES if name in values}
    trace = trace_from_json(values["trace"])
    return Reply(values["text"], citations, trace=trace, nearest_pages=pages, **optional_values)


def get_kept_text(message: Message) -> dict[str, Any]:
    """Return what replaces the text of a closed message: a report quotes questions that people may want forgotten."""
    return {"text": ""} if message.origin.purpose == "report" else {}


def get_skip_values(skip: Skip) -> dict[str, Any]:
    """Return the columns that say why a message has no answer."""
    values = {name: value if isinstance(value, int | float) else str(value) for name, value in skip.values.items()}
    trace = {"skip": skip.reason.name, "values": values}
    return {"reason": str(skip), "trace": trace, "detail": skip.reason.label}


def read_attachments(stored: Sequence[Mapping[str, Any]] | None) -> tuple[Attachment, ...]:
    """Return the attachments that a row keeps."""
    return tuple(Attachment(**attachment) for attachment in stored or ())


def to_message_values(message: Message) -> dict[str, Any]:
    """Return the columns of a message that came just now."""
    return {
        **chat_values(message.key),
        "thread": message.key.thread,
        **{name: getattr(message, name) for name in _MESSAGE_COLUMNS},
        "reference": dict(message.reference),
        "attachments": [asdict(attachment) for attachment in message.attachments] or None,
        "feed_entry": asdict(message.feed_entry) if message.feed_entry else None,
        "in_restricted_thread": message.thread_state.is_restricted,
        "in_main_chat": message.thread_state.in_main_chat,
        "is_shared_thread": message.thread_state.is_shared,
        "thread_started_at": message.thread_state.started_at,
        "purpose": message.origin.purpose,
        "root_id": message.origin.root_id,
        "retry_reason": message.origin.retry_reason,
        "mentioned_users": list(message.origin.mentioned_users) or None,
        "quoted_authors": list(message.quoted_authors) or None,
        "is_question_hidden": message.origin.is_question_hidden,
        "received_at": datetime.now(UTC),
    }


def to_reply_values(reply: Reply) -> dict[str, Any]:
    """Return the columns of a reply."""
    names = ("n", "passage_id", "source", "path")
    return {
        "reply": reply.text.removeprefix(reply.heard),
        "citations": [{name: getattr(citation, name) for name in names} for citation in reply.citations],
        "trace": reply.trace.to_json(),
        "image_description": reply.image_description,
        "detail": get_detail(reply),
    }


def to_turns(row: ResultRow[Any]) -> tuple[Turn, Turn]:
    """Return a question and its answer as turns."""
    text = with_description(row.text, row.image_description or "")
    return Turn("user", text, row.author, row.author_id), Turn("assistant", row.reply)


def write_chat_title(connection: Connection, key: ConversationKey, title: str) -> None:
    """Write what a chat is called, in the transaction of its message, which must not fail because of it."""
    values = chat_values(key)
    if connection.execute(update(chats).filter_by(**values).values(title=title)).rowcount:
        return
    # Another daemon may write the same at this moment.
    with suppress(IntegrityError), connection.begin_nested():
        connection.execute(insert(chats).values(**values, title=title))
