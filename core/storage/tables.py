"""The tables of the one database: the journal, the ledger, and replies to be given again."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    false,
)

from core.types import ConversationKey, Message

metadata = MetaData()


class UtcDateTime(TypeDecorator[datetime]):
    """A moment with its zone. SQLite keeps none: all are written in UTC, and read as such."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a moment as it is written."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a moment in UTC, whatever the zone of the database's session."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


messages = Table(
    "messages",
    metadata,
    Column("number", Integer, primary_key=True),
    *(Column(name, String(128), nullable=False) for name in ("platform", "bot", "chat", "thread", "id", "author_id")),
    *(Column(name, Text, nullable=False) for name in ("author", "text", "command", "reply_to", "quoted")),
    *(Column(name, Boolean, nullable=False) for name in ("private", "addressed")),
    Column("reference", JSON, nullable=False),
    *(Column(name, UtcDateTime, nullable=False) for name in ("sent_at", "received_at")),
    Column("state", String(16), nullable=False),
    *(Column(name, Text, nullable=False, default="") for name in ("reason", "reply_id", "reply")),
    *(Column(name, JSON) for name in ("citations", "trace")),
    Column("settled_at", UtcDateTime),
    # What else came with it: where it can be fetched, over HTTP its bytes; and what its pictures showed.
    Column("attachments", JSON),
    Column("seen", Text),
    # What its platform says of it, and of a message of the bot's own making what it is for.
    *(
        Column(name, Boolean, nullable=False, default=False, server_default=false())
        for name in ("is_by_bot", "in_restricted_thread", "in_main_chat", "is_question_hidden")
    ),
    *(Column(name, Boolean) for name in ("is_post", "is_shared_thread")),
    Column("thread_started_at", Float),
    *(
        Column(name, String(128), nullable=False, default="", server_default="")
        for name in ("parent_id", "language", "purpose", "root_id", "retry_reason")
    ),
    *(Column(name, JSON) for name in ("feed_entry", "mentioned_users")),
    Index("messages_identity", "platform", "bot", "chat", "id", unique=True),
    Index("messages_conversation", "platform", "chat", "thread", "number"),
    Index("messages_state", "state"),
)

cursors = Table(
    "cursors", metadata, Column("name", String(128), primary_key=True), Column("position", BigInteger, nullable=False)
)

# How far each feed was followed: `looked_at` is the last look that succeeded, in seconds since 1970, `known` holds the
# entries that were there, `etag` and `modified` what the server called that state.
feeds = Table(
    "feeds",
    metadata,
    Column("feed", String(64), primary_key=True),
    Column("looked_at", Float, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("etag", "modified")),
    Column("known", JSON, nullable=False),
)

# What answers consumed: one row per answer, and one per agent that called a model for it. `day` is the local date.
answers = Table(
    "answers",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("day", String(10), nullable=False),
    *(Column(name, String(128), nullable=False) for name in ("platform", "chat", "author_id", "question_id")),
    Column("outcome", String(16), nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("prompt", "completion")),
    Column("cost", Float, nullable=False),
    # The limits are looked at before every answer.
    Index("answers_day", "day", "prompt", "completion", "cost"),
    Index("answers_chat", "day", "platform", "chat"),
    Index("answers_user", "day", "platform", "author_id"),
)

spending = Table(
    "spending",
    metadata,
    Column("answer", Integer, primary_key=True),
    Column("agent", String(128), primary_key=True),
    Column("day", String(10), nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("prompt", "completion")),
    Column("cost", Float, nullable=False),
    Index("spending_day", "day"),
)

# Replies to be given again. `scope` is the chat they belong to, `question` its normal form, `sense` what it is about,
# `made_by` a fingerprint of the configuration, `versions` the version of every cited source by name.
replies = Table(
    "replies",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("scope", String(300), nullable=False),
    Column("made_by", String(64), nullable=False),
    *(Column(name, Text, nullable=False) for name in ("question", "sense", "asked")),
    *(Column(name, JSON, nullable=False) for name in ("versions", "reply")),
    Column("made_at", Float, nullable=False),
    Index("replies_question", "scope", "question"),
    Index("replies_sense", "scope", "sense"),
    Index("replies_made_at", "made_at"),
)

# What commands changed: `scope` is "platform:chat", or "" for the whole deployment.
overrides = Table(
    "overrides",
    metadata,
    Column("scope", String(300), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("value", Text, nullable=False),
)

# Who gave which command that changes something, and what it changed or why it did not.
audit = Table(
    "audit",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    *(Column(name, String(128), nullable=False) for name in ("platform", "chat", "author_id")),
    Column("outcome", String(16), nullable=False),
    *(Column(name, Text, nullable=False) for name in ("command", "what", "before", "after")),
    Index("audit_chat", "platform", "chat"),
)

# How each stored source stands. `unfinished` holds from the beginning of a try to its end: what dies in between leaves
# it behind. `failures` counts the tries since the last success, `made_by` is a fingerprint of what the last one read.
refreshes = Table(
    "refreshes",
    metadata,
    Column("source", String(63), primary_key=True),
    *(Column(name, UtcDateTime) for name in ("last_try", "ended_at", "last_success", "changed_at", "asked_at")),
    *(Column(name, Boolean, nullable=False, default=False) for name in ("unfinished", "paused")),
    *(Column(name, Integer, nullable=False, default=0) for name in ("failures", "passages", "documents")),
    *(Column(name, Text, nullable=False, default="") for name in ("error", "made_by")),
    Column("counts", JSON),
)

# What people say about answers: one row per person and answer, which `question` names by the message it answers. A
# verdict that was taken back is empty; `press` is the id of the last press that counted.
feedback = Table(
    "feedback",
    metadata,
    Column("number", Integer, primary_key=True),
    *(Column(name, String(128), nullable=False) for name in ("platform", "bot", "chat", "question", "author_id")),
    *(Column(name, String(16), nullable=False) for name in ("verdict", "reason")),
    Column("press", String(128), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Index("feedback_person", "platform", "bot", "chat", "question", "author_id", unique=True),
    Index("feedback_at", "at"),
)

# Answers that people gave, each with its question: `state` is pending, approved or rejected. `lesson` is the id of the
# message that the answer was taken from.
learned = Table(
    "learned",
    metadata,
    Column("number", Integer, primary_key=True),
    *(Column(name, String(128), nullable=False) for name in ("platform", "chat", "lesson", "asked_by", "taught_by")),
    *(Column(name, Text, nullable=False) for name in ("teacher", "question", "answer", "reviewer")),
    Column("state", String(16), nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("reviewed_at", UtcDateTime),
    Index("learned_lesson", "platform", "chat", "lesson", unique=True),
    Index("learned_state", "state"),
    # A number that people have seen never becomes that of another answer.
    sqlite_autoincrement=True,
)


def chat_values(key: ConversationKey) -> dict[str, str]:
    """Return the columns that name the chat of a conversation, with their values, for a query to filter by."""
    return {"platform": key.platform, "chat": key.chat}


def bot_values(message: Message) -> dict[str, str]:
    """Return the columns that name a message's chat and the bot that received it."""
    return {**chat_values(message.key), "bot": message.bot}


def identity_values(message: Message) -> dict[str, str]:
    """Return the columns that name a message."""
    return {**bot_values(message), "id": message.id}
