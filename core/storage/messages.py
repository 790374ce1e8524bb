"""The journal: received messages, their answers, and the position in each platform's stream of updates.

A journalled message is never lost: it is answered, its silence has a reason, or it is pending and recovered at the
next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, and_, case, delete, exists, null, or_, select, update
from sqlalchemy.exc import IntegrityError

from core.errors import ClaimLost, JournalError, MessageDeleted
from core.observability.logs import get_logger
from core.observability.metrics import MetricsRecorder, ProcessingOutcome
from core.runtime.tasks import iter_retry_delays, uncancellable, wait_for
from core.storage import statements
from core.storage.chat_history import are_remembered, has_question, is_readable_from
from core.storage.edits import write_edit
from core.storage.engine import Database
from core.storage.erasure import (
    ERASED_VALUES,
    HAS_KNOWN_COMMAND,
    PERSONAL_COLUMNS,
    erase_in_chat,
    erase_nobodys,
)
from core.storage.message_rows import (
    History,
    get_kept_text,
    get_skip_values,
    read_attachments,
    read_delivery,
    read_left,
    to_delivery,
    to_draft,
    to_message,
    to_message_values,
    to_parts,
    to_reply_values,
    to_turns,
    write_chat_title,
)
from core.storage.tables import (
    CLOCK_TOLERANCE,
    DRAFTED,
    FINISHED_STATES,
    bot_values,
    chats,
    identity_values,
    is_reply_in,
    may_be_shown,
    messages,
    replies,
    to_stored_labels,
)
from core.types import (
    ASK_COMMANDS,
    NOTICE_PURPOSES,
    Attachment,
    ConversationKey,
    Message,
    Reply,
    Skip,
    SkipReason,
)

_log = get_logger(__name__)

UNCERTAIN_REASON = "killed while the reply was being posted"
ERASE_BATCH_SIZE = 200
MAX_TITLE_CHARS = 200
MAX_KNOWN_TITLES = 10_000
# What goes from a message with somebody who is in it: its words, what it brings, and a recorded reply.
StoredPart = Literal["text", "quoted", "attachments", "delivery"]
# The columns of a message to be changed. What is made from what is there is made in the same transaction.
Values = Mapping[str, Any]
MakeValues = Callable[[Connection], Values]


class Journal:
    """The durable record of messages.

    A post cannot be taken back. So the methods `mark_...` wait until the database can be written. The others raise
    `JournalError` when it fails, and so do all of them after `stop_retrying`.
    """

    def __init__(self, database: Database, metrics: MetricsRecorder | None = None) -> None:
        self.database = database
        self._metrics = metrics or MetricsRecorder()
        self._stopping = asyncio.Event()
        # The titles that the database has, as far as this process wrote them.
        self._chat_titles: dict[tuple[str, str], str] = {}

    @classmethod
    async def open(cls, path: Path) -> Journal:
        """Open the journal file; create it if it is missing. Raises `StoreError` for an unknown version."""
        return cls(await Database.open(path))

    @uncancellable
    async def record_message(
        self,
        message: Message,
        *,
        is_bound: bool = False,
        reply: Reply | None = None,
        visible_sources: Sequence[str] | None = None,
    ) -> bool:
        """Store a message. Return false if it is stored already, or repeats a question that was forgotten.

        `is_bound`: of several daemons, only this one can answer it. A message of the bot's own may come with its
        `reply`, made from `visible_sources`, which is then delivered.
        """
        values = {
            **to_message_values(message),
            "delivery": to_delivery(reply, {}) if reply else None,
            "visible_sources": None if visible_sources is None else list(visible_sources),
            "state": "received",
            "owner": self.database.owner if is_bound else "",
        }
        chat = (message.key.platform, message.key.chat)
        title = message.chat_title[:MAX_TITLE_CHARS]
        is_new_title = bool(title) and self._chat_titles.get(chat) != title

        def store(connection: Connection) -> bool:
            if not (has_question(connection, message) and _insert(connection, values)):
                return False
            if is_new_title:
                write_chat_title(connection, message.key, title)
            return True

        if not await self.database.change(store):
            return False
        if is_new_title:
            if len(self._chat_titles) >= MAX_KNOWN_TITLES:
                self._chat_titles.clear()
            self._chat_titles[chat] = title
        return True

    async def record_answered(self, message: Message, reply: Reply, visible_labels: frozenset[str]) -> None:
        """Store a message that was answered without the journal, with its reply, unless it is stored already."""
        values = {
            **to_message_values(message),
            **to_reply_values(reply),
            "visible_sources": to_stored_labels(visible_labels),
            "state": "answered",
            "settled_at": datetime.now(UTC),
        }
        await self.database.change(lambda connection: _insert(connection, values))

    async def discard(self, message: Message) -> None:
        """Delete a message with its answer, so that no byte is left of them."""
        await self.database.write(delete(messages).filter_by(**identity_values(message)))
        await self.database.wipe()

    async def record_edit(self, message: Message) -> bool:
        """Store its author's new text of a message whose answer has not started, or is a draft; return if in time."""
        async with self.database.transaction() as connection:
            return await write_edit(connection, message)

    async def begin_answer(self, message: Message, visible_labels: frozenset[str] | None) -> str:
        """Record that the answer starts; return the text with all edits so far. Later edits are rejected.

        Raises `MessageDeleted` where its author was forgotten meanwhile.
        """
        values = statements.identify(message, self.database.owner)
        # A notice was written before: it tells of what could be told then.
        if message.origin.purpose not in NOTICE_PURPOSES:
            values["visible_sources"] = to_stored_labels(visible_labels)
        stored = await self.database.change(
            lambda connection: connection.execute(statements.BEGIN_ANSWER, values).first()
        )
        if stored is None and self.database.owner:
            raise ClaimLost(f"message {message.id} was taken over")
        if stored and stored.is_dropped:
            raise MessageDeleted(SkipReason.DRAFT_FORGOTTEN.text)
        return str(stored.text) if stored else message.text

    async def require_claim(self, message: Message) -> None:
        """Raise `ClaimLost` when another daemon has taken the message over, as far as can be known now."""
        if not self.database.owner:
            return
        try:
            is_ours = await self.database.fetch_value(statements.SELECT_OURS, self._identify(message)) is not None
        except JournalError as error:
            # Where we do not reach it, the others may not either.
            _log.warning("claim.unknown", error=str(error))
            return
        if not is_ours:
            raise ClaimLost(f"message {message.id} was taken over")

    async def mark_transcribed(self, message: Message, attachments: Sequence[Attachment], transcript: str) -> None:
        """Record attachments with what the voice message among them says: the text of a message that has no other."""
        text = case((messages.c.text == "", transcript), else_=messages.c.text)
        stored_attachments = [asdict(attachment) for attachment in attachments]
        await self._change_row(message, {"attachments": stored_attachments, "text": text})

    async def get_attachments(self, message: Message) -> tuple[Attachment, ...]:
        """Return a message's attachments, with what became known of them since it came."""
        query = select(messages.c.attachments).filter_by(**identity_values(message))
        row = await self.database.fetch_first(query)
        return message.attachments if row is None else read_attachments(row.attachments)

    async def mark_posting(self, message: Message) -> None:
        """Record that the reply is about to be posted; after a crash it is unknown whether it was."""
        await self._change_row(message, {"state": "sending"})

    async def mark_rejected(self, message: Message) -> None:
        """Record that nothing was posted after all."""
        await self._change_row(message, {"state": "answering"})

    async def mark_posted(self, message: Message, reply_id: str) -> None:
        """Record the platform's id of the reply: after a crash it is edited instead of posted again."""
        await self._change_row(message, {"state": "answering", "reply_id": reply_id})

    async def mark_answered(self, message: Message, reply: Reply) -> None:
        """Close a message with its reply."""
        await self._complete(message, "answered", {**to_reply_values(reply), **get_kept_text(message)})

    async def mark_delivered(self, message: Message, reply: Reply) -> None:
        """Close a message with the reply that `mark_delivery` recorded, as far as it is still there.

        Until now, who is forgotten was found in the recorded one: what went from there is not kept, either.
        """
        is_kept = True

        def keep(connection: Connection) -> Values:
            nonlocal is_kept
            kept_reply = read_left(reply, statements.lock_delivery(connection, self._identify(message)))
            is_kept = kept_reply is reply
            return {**to_reply_values(kept_reply), **get_kept_text(message)}

        await self._complete(message, "answered", keep)
        if not is_kept:
            await self._erase_cached(message)

    async def mark_skipped(
        self, message: Message, skip: Skip, visible_labels: frozenset[str] | None = None, others: Collection[int] = ()
    ) -> None:
        """Close a message without an answer, with the reason, which may name what has `visible_labels`.

        It is without a model's opinion where somebody in `others`, which that was made from, was forgotten meanwhile.
        """
        sources = {} if visible_labels is None else {"visible_sources": to_stored_labels(visible_labels)}

        def make(connection: Connection) -> Values:
            left_skip = skip if are_remembered(connection, others) else skip.without_opinion()
            return {**get_skip_values(left_skip), **sources, **get_kept_text(message)}

        await self._complete(message, "silent", make, skip)

    async def mark_failed(self, message: Message, reason: str) -> None:
        """Close a message whose answer failed."""
        await self._complete(message, "failed", {"reason": reason, **get_kept_text(message)})

    async def get_pending(self, platform: str) -> Sequence[tuple[Message, str]]:
        """Return the unfinished messages, oldest first, each with its reply's id or ""."""
        rows = await self.database.fetch_all(statements.SELECT_ALL_UNFINISHED, {"own_platform": platform})
        return [(to_message(row), row.reply_id) for row in rows]

    async def find_unfinished(self, message: Message) -> str | None:
        """Return the id of an unfinished message's reply, or ""; None for a message that is finished."""
        row = await self.database.fetch_first(statements.SELECT_UNFINISHED, self._identify(message))
        return None if row is None else row.reply_id

    async def mark_delivery(
        self, message: Message, reply: Reply, parts: Mapping[int, str], others: Collection[int] = ()
    ) -> None:
        """Record the final reply before it is posted, the ids of its further parts, and what it is made from."""
        await self._change_row(message, {"delivery": to_delivery(reply, parts, others)})

    async def mark_parts(self, message: Message, parts: Mapping[int, str]) -> None:
        """Record the ids of the further parts of the reply that `mark_delivery` recorded, if that is still there."""
        parts_by_number = to_parts(parts)

        def add(connection: Connection) -> Values:
            delivery = statements.lock_delivery(connection, self._identify(message))
            return {"delivery": {**delivery, "parts": parts_by_number} if delivery else None}

        await self._change_row(message, add)

    async def mark_drafted(
        self, message: Message, reply: Reply, parts: Collection[StoredPart] = (), others: Collection[int] = ()
    ) -> None:
        """Record that the reply waits until a team has decided about it.

        Not where somebody in what it was made from was forgotten meanwhile, as `find_forgotten` says.
        """
        values = {"state": DRAFTED, "delivery": to_draft(reply, others), "settled_at": datetime.now(UTC)}
        await self._change_row(message, values, parts, others)

    async def get_delivery(
        self, message: Message, visible_labels: frozenset[str] | None
    ) -> tuple[bool, Reply | None, dict[int, str], Sequence[int], datetime | None]:
        """Return whether the first part is being posted (or was when the last run ended), what `mark_delivery`
        recorded, and when a team let it be posted, if it was a draft.

        No reply that could be made from sources without `visible_labels`.
        """
        row = await self.database.fetch_first(statements.SELECT_DELIVERY, statements.identify(message))
        if row is None or row.delivery is None:
            return row is not None and row.state == "sending", None, {}, (), None
        shown_reply = read_delivery(row.delivery) if may_be_shown(row.visible_sources, visible_labels) else None
        return (
            row.state == "sending",
            shown_reply,
            {int(number): part for number, part in row.delivery["parts"].items()},
            # Earlier versions did not write them.
            row.delivery.get("others", ()),
            row.settled_at,
        )

    async def get_told_labels(self, message: Message) -> Sequence[str] | None:
        """Return the labels of what a message could tell of when it was begun, for `may_be_shown`."""
        row = await self.database.fetch_first(statements.SELECT_TOLD_LABELS, statements.identify(message))
        return () if row is None else row.visible_sources

    async def find_forgotten(
        self, message: Message, parts: Collection[StoredPart], others: Collection[int], *, is_final: bool
    ) -> Literal["author", "others", ""]:
        """Return whether a message was dropped with its author, or else somebody in some `parts` of it or in `others`.

        Also where `others` may not be told of there any more: their thread was closed. If its reply `is_final`, it is
        dropped as well where it is finished. All of it holds at one moment.
        """
        parameters = {**statements.identify(message), "others": list(others)}
        row = await self.database.fetch_first(statements.select_state(*parts), parameters)
        if row is None or (is_final and self.database.owner not in ("", row.owner)):
            return "author" if is_final else ""
        if row.is_dropped or (is_final and row.state not in statements.UNFINISHED_STATES):
            return "author"
        _state, _owner, _is_dropped, remembered_count, *are_there = row
        return "" if remembered_count == len(others) and all(are_there) else "others"

    async def restart_begun(self, platform: str) -> int:
        """Reset answers of which nothing was posted, so edits count again; return how many were being posted."""
        statement = update(messages).filter_by(platform=platform, state="answering", reply_id="")
        statement = statement.where(messages.c.delivery.is_(null()))
        await self.database.write(statement.values(state="received"))
        sending_messages = select(messages.c.number).filter_by(platform=platform, state="sending")
        return len(await self.database.fetch_all(sending_messages))

    async def fail_uncertain(self, platform: str) -> int:
        """Close the messages that a crash left in the state "sending"; return how many.

        This is for platforms that may or may not have posted those replies and cannot be asked. Posting again could
        answer twice, so they are closed, with that reason.
        """
        sending_update = update(messages).filter_by(platform=platform, state="sending")
        values = {"state": "failed", "reason": UNCERTAIN_REASON, "settled_at": datetime.now(UTC)}
        return await self.database.write(sending_update.values(values))

    async def get_history(
        self,
        key: ConversationKey,
        limit: int,
        max_age_s: float | None = None,
        *,
        visible_labels: frozenset[str] | None,
        reader: Message | None,
    ) -> History:
        """Return the last `limit` turns of questions answered within `max_age_s` (None: at any time), oldest first.

        Answers that could be made from sources without `visible_labels` are left out. With a `reader` other than None,
        so is what was said in private, unless its author wrote that message, in private too, and what an asker alone
        was told, unless they alone read the reply to it.
        """
        parameters = {
            **statements.identify_conversation(key),
            "is_everything": reader is None,
            "is_private": reader is not None and reader.private,
            "own_author_id": reader.author_id if reader else "",
            "is_restricted": reader is None or reader.thread_state.is_restricted,
            "since": None if max_age_s is None else datetime.now(UTC) - timedelta(seconds=max_age_s),
            "limit": (limit + 1) // 2,
        }
        rows = await self.database.fetch_all(statements.SELECT_HISTORY, parameters)
        shown_rows = [row for row in reversed(rows) if may_be_shown(row.visible_sources, visible_labels)]
        turns = [turn for row in shown_rows for turn in to_turns(row)]
        numbers = [row.number for row in shown_rows if row.author_id]
        return History(turns[-limit:], numbers) if limit else History([], [])

    async def get_recent_questions(self, limit: int) -> Sequence[str]:
        """Return the texts of the last `limit` answered questions of all chats, newest first."""
        query = select(messages.c.text).filter_by(state="answered", purpose="")
        query = query.where(messages.c.command.in_(ASK_COMMANDS))
        rows = await self.database.fetch_all(query.order_by(messages.c.number.desc()).limit(limit))
        return [row.text for row in rows]

    async def get_answer_by_reply(self, message: Message, visible_labels: frozenset[str] | None) -> History | None:
        """Return the question and answer whose reply this message replies to, or None when it is no answer of ours.

        Nothing of an answer that could be made from sources without `visible_labels`, or that may not be told of where
        the message was written.
        """
        columns = messages.c
        is_readable = is_readable_from(message).label("is_readable")
        query = select(*(columns[name] for name in statements.TURN_COLUMNS), is_readable)
        query = query.filter_by(**bot_values(message), state="answered")
        is_reply = (columns.reply_id == message.reply_to, columns.reply_id != "", columns.reply != "")
        row = await self.database.fetch_first(query.where(*is_reply))
        if row is None:
            return None
        is_shown = row.is_readable and may_be_shown(row.visible_sources, visible_labels)
        return History(to_turns(row) if is_shown else (), [row.number])

    async def get_cursor(self, cursor: str) -> int | None:
        """Return the position in a platform's stream of updates, or None for a new stream."""
        position: int | None = await self.database.fetch_value(statements.SELECT_POSITION, {"cursor": cursor})
        return position

    async def set_cursor(self, cursor: str, position: int) -> None:
        """Store the position in a platform's stream of updates."""

        def store(connection: Connection) -> None:
            if not connection.execute(statements.MOVE_CURSOR, {"cursor": cursor, "position": position}).rowcount:
                connection.execute(statements.INSERT_CURSOR, {"name": cursor, "position": position})

        await self.database.change(store)

    async def erase_expired(self, settled_before: datetime | None, unanswered_before: datetime | None) -> int:
        """Remove the texts of messages settled before `settled_before`, and of those left unanswered before
        `unanswered_before`.

        None keeps all of them. The row of a message stays, without its texts: a platform may deliver the message again,
        and it must not count as new. Messages that still wait for an answer stay. The name of a chat goes with its last
        text. Returns how many messages were emptied.
        """
        columns = messages.c
        erased_count = 0
        expiries = [
            and_(columns.state.in_(states), columns.settled_at < before)
            for states, before in ((FINISHED_STATES, settled_before), (("silent",), unanswered_before))
            if before
        ]
        has_content = or_(*(columns[name] != "" for name in PERSONAL_COLUMNS))
        # Earlier versions left what was typed as a command.
        is_left = or_(has_content, ~HAS_KNOWN_COMMAND)
        query = select(columns.number).where(or_(*expiries), is_left).limit(ERASE_BATCH_SIZE) if expiries else None
        while query is not None:
            # In small steps: new messages wait while a transaction writes.
            batch_count = await self._erase(query)
            erased_count += batch_count
            if batch_count < ERASE_BATCH_SIZE:
                break
        if expiries:
            has_text = exists().where(columns.platform == chats.c.platform, columns.chat == chats.c.chat, has_content)
            await self.database.write(delete(chats).where(~has_text))
            # Who writes there again brings it back.
            self._chat_titles.clear()
        return erased_count

    @uncancellable
    async def _erase(self, query: Select[tuple[int]]) -> int:
        async with self.database.transaction() as connection:
            numbers = (await connection.scalars(query)).all()
            await connection.execute(update(messages).where(messages.c.number.in_(numbers)).values(ERASED_VALUES))
        return len(numbers)

    @uncancellable
    async def erase_author(self, message: Message) -> int:
        """Remove the author's messages in the chat, and the answers to them; return how many messages had any text.

        The message itself loses its author and its words as well. What they asked before it and is not answered yet is
        forgotten, too; of an answer that is being posted, the rest is not posted any more.
        """
        if not message.author_id:
            return 0
        async with self.database.transaction() as connection:
            number = select(messages.c.number).filter_by(**identity_values(message)).scalar_subquery()
            erased_count = await erase_in_chat(connection, message.key, message.author_id, number)
            own_row = update(messages).filter_by(**identity_values(message))
            await connection.execute(own_row.values(author_id="", author="", text="", quoted=""))
        return erased_count

    async def close(self) -> None:
        """Close the database. Idempotent."""
        await self.database.close()

    async def _complete(
        self, message: Message, state: ProcessingOutcome, values: Values | MakeValues, skip: Skip | None = None
    ) -> None:
        # A request to be forgotten must not keep its author's name, whatever came of it: nobody can forget it again.
        is_request_to_forget = message.command == "forget"
        erased_values = ERASED_VALUES if is_request_to_forget else {}
        settled_values = {"state": state, "settled_at": datetime.now(UTC), "delivery": None}

        def complete(new_values: Values) -> Values:
            return {**erased_values, **new_values, **settled_values}

        changed_values = (lambda connection: complete(values(connection))) if callable(values) else complete(values)
        await self._change_row(message, changed_values)
        self.count(message, state, skip)
        is_command = message.command not in ASK_COMMANDS
        if is_request_to_forget or (is_command and await erase_nobodys(self.database, message)):
            await self.database.wipe()

    def count(self, message: Message, state: ProcessingOutcome, skip: Skip | None = None) -> None:
        """Count a message that is finished among the metrics."""
        self._metrics.record_message(message.key.platform, state, skip)

    async def _change_row(
        self,
        message: Message,
        values: Values | MakeValues,
        parts: Collection[StoredPart] = (),
        others: Collection[int] = (),
    ) -> None:
        """Write values of a message, or what they are made to be of what is there.

        Not where the one whom it is about was forgotten meanwhile, or somebody in its `parts` or in `others` (see
        `find_forgotten`). Raises `ClaimLost` when another daemon has taken it over.
        """
        for delay_s in iter_retry_delays():
            try:
                if not await self._write_row(message, values, parts, others):
                    await self.require_claim(message)
                    if await self.database.fetch_value(statements.SELECT_IS_DROPPED, statements.identify(message)):
                        await self._erase_cached(message)
            except ClaimLost:
                raise
            except JournalError as error:
                _log.error("journal.unwritable", error=str(error), retry_s=delay_s)
                if not await self.wait_to_retry(delay_s):
                    raise
            else:
                return

    async def _write_row(
        self, message: Message, values: Values | MakeValues, parts: Collection[StoredPart], others: Collection[int]
    ) -> int:
        own = self._identify(message)

        def write(connection: Connection) -> int:
            if not are_remembered(connection, others):
                return 0
            if parts:
                statements.lock_delivery(connection, own)
                if not all(connection.execute(statements.select_parts(*parts), own).first() or ()):
                    return 0
            new_values = values(connection) if callable(values) else values
            expressions = {name: value for name, value in new_values.items() if isinstance(value, ColumnElement)}
            change = statements.CHANGE.values(expressions) if expressions else statements.CHANGE
            plain_values = {name: value for name, value in new_values.items() if name not in expressions}
            return connection.execute(change, {**own, **plain_values}).rowcount

        return await self.database.change(write)

    async def _erase_cached(self, message: Message) -> None:
        """Erase what was cached in a chat while a message was answered: somebody in it was forgotten.

        The words that were asked are not known any more.
        """
        received_at = await self.database.fetch_value(
            select(messages.c.received_at).filter_by(**identity_values(message))
        )
        if received_at is None:
            return
        is_in_chat = is_reply_in(message.key.platform, message.key.chat)
        is_newer = replies.c.made_at >= (received_at - CLOCK_TOLERANCE).timestamp()
        if await self.database.write(delete(replies).where(is_in_chat, is_newer)):
            await self.database.wipe()

    def _identify(self, message: Message) -> dict[str, str]:
        """Return what names a message, as long as it is ours where several daemons share the journal."""
        return statements.identify(message, self.database.owner)

    async def wait_to_retry(self, delay_s: float) -> bool:
        """Wait before a failed step is tried again; return whether to try: not once `stop_retrying` was called."""
        return not await wait_for(self._stopping, delay_s)

    def stop_retrying(self) -> None:
        """Let failed writes raise from now on: the next start recovers their messages."""
        self._stopping.set()


def _insert(connection: Connection, values: Values) -> bool:
    """Insert a message; return false if it is stored already, and then end the transaction."""
    try:
        connection.execute(statements.INSERT, values)
    except IntegrityError:
        connection.rollback()
        return False
    return True
