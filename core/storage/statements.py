"""What is asked of the journal for every message: statements with parameters.

To make one anew takes SQLAlchemy longer than all the rest of a read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    case,
    func,
    insert,
    or_,
    select,
    update,
)

from core.storage.tables import DRAFTED, Text, UtcDateTime, cursors, identity_values, messages
from core.types import (
    ASK_COMMANDS,
    NOTICE_PURPOSES,
    PAGE_PURPOSES,
    ConversationKey,
    Message,
    SkipReason,
)

# The number of newest messages of all chats to scan: faster than an index, because only recent messages are needed.
MAX_SCANNED_ROWS = 20_000
MAX_MESSAGES = 200
ANSWERING_STATES = ("answering", "sending", DRAFTED, "answered")
UNFINISHED_STATES = ("received", "answering", "sending")
TURN_COLUMNS = ("number", "text", "author", "author_id", "reply", "image_description", "visible_sources")
_DELIVERY_COLUMNS = ("state", "delivery", "visible_sources", "settled_at")


_COLUMNS = messages.c
# That columns have the values of parameters, which must not be called as a column.
_IS_OF = {
    name: _COLUMNS[name] == bindparam(f"own_{name}")
    for name in ("platform", "chat", "bot", "id", "thread", "author_id")
}
_OWNER = bindparam("own_owner", type_=Text())
_IS_EVERYTHING = bindparam("is_everything", type_=Boolean())
_IS_PRIVATE = bindparam("is_private", type_=Boolean())
_IS_RESTRICTED = bindparam("is_restricted", type_=Boolean())
_SINCE = bindparam("since", type_=UtcDateTime())
_IS_OWN = and_(*(_IS_OF[name] for name in ("platform", "chat", "bot", "id")))
# As long as it is ours where several daemons share the journal.
_IS_OURS = and_(_IS_OWN, or_(_OWNER == "", _COLUMNS.owner == _OWNER))
_OWN_NUMBER = select(_COLUMNS.number).where(_IS_OWN).correlate(None).scalar_subquery()
_OWN_SENT_AT = select(_COLUMNS.sent_at).where(_IS_OWN).correlate(None).scalar_subquery()
_IS_DROPPED = and_(_COLUMNS.state == "silent", _COLUMNS.reason == SkipReason.DRAFT_FORGOTTEN.text)
_IS_QUESTION = _COLUMNS.command.in_(ASK_COMMANDS)
_IS_UNFINISHED = _COLUMNS.state.in_(UNFINISHED_STATES)
# Who was forgotten may have asked another question: then its answer, which had words of theirs, is gone.
# Notices are nobody's: they are whole as long as they have their words.
_HAS_REPLY = _COLUMNS.reply != ""
_IS_WHOLE = or_(
    and_(_COLUMNS.author_id != "", or_(_COLUMNS.state != "answered", _HAS_REPLY)),
    and_(_COLUMNS.purpose.in_(NOTICE_PURPOSES), _HAS_REPLY),
)
_IS_REMEMBERED = and_(_COLUMNS.number.in_(bindparam("others", expanding=True)), _IS_WHOLE)

INSERT = insert(messages)
# The new values of columns are given beside the parameters.
CHANGE = update(messages).where(_IS_OURS, ~_IS_DROPPED)
BEGIN_ANSWER = (
    update(messages)
    .where(_IS_OURS)
    .values(state=case((_COLUMNS.state == "received", "answering"), else_=_COLUMNS.state))
    .returning(_COLUMNS.text, _IS_DROPPED.label("is_dropped"))
)
SELECT_OURS = select(_COLUMNS.number).where(_IS_OURS)
SELECT_UNFINISHED = select(_COLUMNS.reply_id).where(_IS_OURS, _IS_UNFINISHED)
SELECT_ALL_UNFINISHED = select(messages).where(_IS_OF["platform"], _IS_UNFINISHED).order_by(_COLUMNS.number)
SELECT_IS_DROPPED = select(_IS_DROPPED).where(_IS_OWN)
SELECT_DELIVERY = select(*(_COLUMNS[name] for name in _DELIVERY_COLUMNS)).where(_IS_OWN)
SELECT_LOCKED_DELIVERY = select(_COLUMNS.delivery).where(_IS_OWN).with_for_update()
SELECT_TOLD_LABELS = select(_COLUMNS.visible_sources).where(_IS_OWN)
# What people wrote or pressed in the same chat after a message, not in private or not its author: the chat is not what
# it was then. A network may deliver what it is late with.
SELECT_LATER_OF_OTHERS = (
    select(_COLUMNS.number)
    .where(_IS_OF["platform"], _IS_OF["chat"], _COLUMNS.purpose == "")
    .where(or_(~_COLUMNS.private, ~_IS_OF["author_id"]))
    .where(or_(_COLUMNS.number > _OWN_NUMBER, _COLUMNS.sent_at > _OWN_SENT_AT))
    .limit(1)
)
# Those of `others`, by their numbers, that have their authors and answers: who was forgotten is in none.
SELECT_REMEMBERED = select(_COLUMNS.number).where(_IS_REMEMBERED)
SELECT_LOCKED_REMEMBERED = SELECT_REMEMBERED.with_for_update(read=True)
SELECT_HISTORY = (
    select(*(_COLUMNS[name] for name in TURN_COLUMNS))
    .where(_IS_OF["platform"], _IS_OF["chat"], _IS_OF["thread"], _COLUMNS.state == "answered")
    .where(_IS_QUESTION, _COLUMNS.reply != "")
    .where(or_(_IS_RESTRICTED, ~_COLUMNS.in_restricted_thread))
    .where(or_(_IS_EVERYTHING, ~_COLUMNS.private, and_(_IS_PRIVATE, _IS_OF["author_id"])))
    .where(or_(_SINCE.is_(None), _COLUMNS.settled_at > _SINCE))
    .order_by(_COLUMNS.number.desc())
    .limit(bindparam("limit", type_=Integer()))
)
SELECT_POSITION = select(cursors.c.position).where(cursors.c.name == bindparam("cursor"))
MOVE_CURSOR = update(cursors).where(cursors.c.name == bindparam("cursor"))
INSERT_CURSOR = insert(cursors)


def select_newest(*column_names: str) -> Select[Any]:
    """Return the query of columns of the newest messages of a chat, the newest first."""
    newest_number = select(func.max(_COLUMNS.number)).scalar_subquery()
    # Appending "" disables the index on conversations, which would read and sort the whole chat.
    is_in_chat = and_(*(_COLUMNS[name] + "" == bindparam(f"own_{name}") for name in ("platform", "chat")))
    return (
        select(*(_COLUMNS[name] for name in column_names))
        .where(_COLUMNS.number > newest_number - MAX_SCANNED_ROWS, is_in_chat)
        .order_by(_COLUMNS.number.desc())
        .limit(MAX_MESSAGES)
    )


@cache
def select_answers(*, to_questions: bool) -> Select[Any]:
    """Return the query of the answers to other messages of an author's, between two moments; to questions, or to none.

    Those in progress, drafts and failed ones are among them; pages of the bot that somebody opened are not.
    """
    return select_newest("id").where(
        _IS_OF["author_id"],
        _COLUMNS.id != bindparam("own_id"),
        _COLUMNS.state.in_((*ANSWERING_STATES, "failed")),
        _COLUMNS.received_at.between(_SINCE, bindparam("until", type_=UtcDateTime())),
        _COLUMNS.purpose.not_in(PAGE_PURPOSES),
        _IS_QUESTION if to_questions else ~_IS_QUESTION,
    )


@cache
def select_parts(*parts: str) -> Select[Any]:
    """Return the query of some columns of a message."""
    return select(*(_COLUMNS[part] for part in parts)).where(_IS_OWN)


@cache
def select_state(*parts: str) -> Select[Any]:
    """Return the query whether a message was dropped, and how many of `others` are told there, then of some columns.

    Those are remembered, and in no other thread that is closed by now.
    """
    other = messages.alias()
    is_same_thread = and_(other.c.thread == _COLUMNS.thread, _COLUMNS.in_restricted_thread)
    is_told = and_(
        other.c.number.in_(SELECT_REMEMBERED.correlate(None)), or_(~other.c.in_restricted_thread, is_same_thread)
    )
    other_count = select(func.count()).select_from(other).where(is_told).correlate(messages).scalar_subquery()
    columns = (_COLUMNS.state, _COLUMNS.owner, _IS_DROPPED.label("is_dropped"), other_count.label("other_count"))
    return select(*columns, *(_COLUMNS[part] for part in parts)).where(_IS_OWN)


def lock_delivery(connection: Connection, identity: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the reply that is recorded. Who reads the row keeps it from everybody else until it is written."""
    delivery: Mapping[str, Any] | None = connection.scalar(SELECT_LOCKED_DELIVERY, identity)
    return delivery


def identify(message: Message, owner: str = "") -> dict[str, Any]:
    """Return the parameters that name a message; with an `owner`, as long as it is theirs."""
    return {**{f"own_{name}": value for name, value in identity_values(message).items()}, "own_owner": owner}


def identify_conversation(key: ConversationKey) -> dict[str, Any]:
    """Return the parameters that name a conversation."""
    return {"own_platform": key.platform, "own_chat": key.chat, "own_thread": key.thread}
