"""The tables of the one database: the journal, the records of usage, and cached answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from core.settings.audience import ALL_CHATS, ALL_OPEN
from core.settings.labels import to_narrowest
from core.types import ConversationKey, Message, SkipReason

metadata = sa.MetaData()

# The state of a question whose answer waits until a team has decided about it.
DRAFTED = "drafted"
FINISHED_STATES = ("answered", "failed", "silent")
# What becomes of a message whose answer is never to be posted: somebody in it was forgotten.
DROPPED_STATE = {"state": "silent", "reason": SkipReason.DRAFT_FORGOTTEN.text}
# Another machine's clock may be ahead by so much.
CLOCK_TOLERANCE = timedelta(minutes=1)


class UtcDateTime(sa.TypeDecorator[datetime]):
    """A moment with its zone. SQLite keeps none: all are written in UTC, and read as such."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Return a moment as it is written."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Return a moment in UTC, whatever the zone of the database's session."""
        if value is None:
            return None
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)


class Text(sa.TypeDecorator[str]):
    """A text. PostgreSQL would enforce a length, and holds no NUL characters: they are replaced in every database."""

    impl = sa.Text
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__()
        self.declared_length = length

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[str]:
        """Return the column's type: SQLite ignores its length."""
        length = self.declared_length if dialect.name == "sqlite" else None
        return dialect.type_descriptor(sa.String(length) if length else sa.Text())

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """Return a text as it is written."""
        return value if value is None else value.replace("\0", "\ufffd")


messages = sa.Table(
    "messages",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    *(sa.Column(name, Text(128), nullable=False) for name in ("platform", "bot", "chat", "thread", "id", "author_id")),
    *(sa.Column(name, Text, nullable=False) for name in ("author", "text", "command", "reply_to", "quoted")),
    *(sa.Column(name, sa.Boolean, nullable=False) for name in ("private", "addressed")),
    sa.Column("reference", sa.JSON, nullable=False),
    *(sa.Column(name, UtcDateTime, nullable=False) for name in ("sent_at", "received_at")),
    sa.Column("state", Text(16), nullable=False),
    *(sa.Column(name, Text, nullable=False, default="") for name in ("reason", "reply_id", "reply")),
    *(sa.Column(name, sa.JSON) for name in ("citations", "trace")),
    sa.Column("settled_at", UtcDateTime),
    # Its attachments (where they can be fetched, over HTTP their bytes), and a description of its pictures.
    sa.Column("attachments", sa.JSON),
    sa.Column("image_description", Text),
    # What its platform says of it, and the purpose of a message that the bot made itself.
    *(
        sa.Column(name, sa.Boolean, nullable=False, default=False, server_default=sa.false())
        for name in (
            "is_by_bot",
            "is_forwarded",
            "quotes_bot",
            "has_guests",
            "in_restricted_thread",
            "in_main_chat",
            "is_question_hidden",
        )
    ),
    *(sa.Column(name, sa.Boolean) for name in ("is_post", "is_shared_thread")),
    sa.Column("thread_started_at", sa.Float),
    *(
        sa.Column(name, Text(128), nullable=False, default="", server_default="")
        for name in ("parent_id", "language", "purpose", "root_id", "retry_reason")
    ),
    *(sa.Column(name, sa.JSON(none_as_null=True)) for name in ("feed_entry", "mentioned_users")),
    # Whose words or files it brings, by their ids.
    sa.Column("quoted_authors", sa.JSON(none_as_null=True)),
    # While the answer is being posted: its final form, and which of its further parts are posted.
    sa.Column("delivery", sa.JSON(none_as_null=True)),
    # The labels of the sources that could be seen where it was written, then of those that its answer could be made
    # from; null where all were for everyone.
    sa.Column("visible_sources", sa.JSON(none_as_null=True)),
    # What is special about the outcome, for reports: what an answer lacks, or the label of a silence.
    sa.Column("detail", Text(16), nullable=False, default="", server_default=""),
    # Which of several daemons works on it; nobody yet, or there is only one daemon: "".
    sa.Column("owner", Text(32), nullable=False, default="", server_default=""),
    sa.Index("messages_identity", "platform", "bot", "chat", "id", unique=True),
    sa.Index("messages_conversation", "platform", "chat", "thread", "number"),
    sa.Index("messages_state", "state"),
    sa.Index("messages_detail", "detail", "number"),
    sa.Index("messages_received_at", "received_at"),
    sa.Index("messages_root", "root_id"),
)

# The tasks that one of several daemons does for all, and until when unless the lease is renewed.
leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", Text(200), primary_key=True),
    sa.Column("owner", Text(32), nullable=False),
    sa.Column("expires_at", UtcDateTime, nullable=False),
)

# What platforms call chats: groups and channels, where they say it.
chats = sa.Table(
    "chats",
    metadata,
    *(sa.Column(name, Text(128), primary_key=True) for name in ("platform", "chat")),
    sa.Column("title", Text, nullable=False),
)

# The former ids of chats that have another one by now.
moved_chats = sa.Table(
    "moved_chats",
    metadata,
    *(sa.Column(name, Text(128), primary_key=True) for name in ("platform", "former")),
    sa.Column("chat", Text(128), nullable=False),
)

cursors = sa.Table(
    "cursors",
    metadata,
    sa.Column("name", Text(128), primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
)

# How far each feed was followed: `polled_at` is the last poll that succeeded, in seconds since 1970, `known_ids` are
# those of the entries that were there, `etag` and `modified` what the server called that state.
feeds = sa.Table(
    "feeds",
    metadata,
    sa.Column("feed", Text(64), primary_key=True),
    sa.Column("polled_at", sa.Float, nullable=False),
    *(sa.Column(name, Text, nullable=False) for name in ("etag", "modified")),
    sa.Column("known_ids", sa.JSON, nullable=False),
)


def _make_counter(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default="0")


# The usage of answers: one row per answer, and one per agent that called a model for it. `day` is the local date.
answers = sa.Table(
    "answers",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("day", Text(10), nullable=False),
    *(sa.Column(name, Text(128), nullable=False) for name in ("platform", "chat", "author_id", "question_id")),
    sa.Column("outcome", Text(16), nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False) for name in ("prompt", "completion")),
    sa.Column("cost", sa.Float, nullable=False),
    # Estimated tokens are among those counted; a head start is an answer that began early, and may have been kept.
    *(_make_counter(name) for name in ("estimated", "head_starts", "head_starts_kept")),
    # The limits are looked at before every answer.
    sa.Index("answers_day", "day", "prompt", "completion", "cost"),
    # A report adds up months of them: it reads the index alone.
    sa.Index("answers_chat", "day", "platform", "chat", "outcome", "prompt", "completion", "cost"),
    sa.Index("answers_user", "day", "platform", "author_id"),
)

spending = sa.Table(
    "spending",
    metadata,
    sa.Column("answer", sa.Integer, primary_key=True),
    sa.Column("agent", Text(128), primary_key=True),
    sa.Column("day", Text(10), nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False) for name in ("prompt", "completion")),
    sa.Column("cost", sa.Float, nullable=False),
    _make_counter("estimated"),
    # The model that the agent called last for this answer.
    sa.Column("model", Text(128), nullable=False, default="", server_default=""),
    sa.Index("spending_day", "day", "agent", "model", "prompt", "completion", "cost", "estimated"),
)

# Cached replies. `scope` is the chat they belong to, `question` the question's normal form, `canonical_form` what it is
# about, `text` its words; `fingerprint` is that of the configuration, `versions` the version of every cited source by
# name.
replies = sa.Table(
    "replies",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("scope", Text(300), nullable=False),
    sa.Column("fingerprint", Text(64), nullable=False),
    *(sa.Column(name, Text, nullable=False) for name in ("question", "canonical_form", "text")),
    *(sa.Column(name, sa.JSON, nullable=False) for name in ("versions", "reply")),
    sa.Column("made_at", sa.Float, nullable=False),
    sa.Index("replies_question", "scope", "question"),
    sa.Index("replies_canonical_form", "scope", "canonical_form"),
    sa.Index("replies_made_at", "made_at"),
)

# The scope in `overrides` of what is of the whole deployment: its id, who may see what, and what was public once.
DEPLOYMENT_SCOPE = "deployment"

# Settings made by commands: `scope` is "platform:chat", or "" for the whole deployment.
overrides = sa.Table(
    "overrides",
    metadata,
    sa.Column("scope", Text(300), primary_key=True),
    sa.Column("name", Text(200), primary_key=True),
    sa.Column("value", Text, nullable=False),
)

# Who gave which command that changes something, and what it changed or why it did not.
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("at", UtcDateTime, nullable=False),
    *(sa.Column(name, Text(128), nullable=False) for name in ("platform", "chat", "author_id")),
    sa.Column("outcome", Text(16), nullable=False),
    *(sa.Column(name, Text, nullable=False) for name in ("command", "subject", "before", "after")),
    sa.Index("audit_chat", "platform", "chat"),
)

# The state of each stored source. `unfinished` is true from the start of a refresh to its end, and after a crash in
# between. `failures` counts the tries since the last success, `fingerprint` is that of the settings of the last try.
refreshes = sa.Table(
    "refreshes",
    metadata,
    sa.Column("source", Text(63), primary_key=True),
    *(sa.Column(name, UtcDateTime) for name in ("last_try", "ended_at", "last_success", "changed_at", "asked_at")),
    *(sa.Column(name, sa.Boolean, nullable=False, default=False) for name in ("unfinished", "paused")),
    *(sa.Column(name, sa.Integer, nullable=False, default=0) for name in ("failures", "passages", "documents")),
    *(sa.Column(name, Text, nullable=False, default="") for name in ("error", "fingerprint")),
    sa.Column("counts", sa.JSON),
)

# Ratings of answers: one row per person and answer, which `question` names by the message that it answers. A
# verdict that was taken back is empty; `press` is the id of the last press that counted.
feedback = sa.Table(
    "feedback",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    *(sa.Column(name, Text(128), nullable=False) for name in ("platform", "bot", "chat", "question", "author_id")),
    *(sa.Column(name, Text(16), nullable=False) for name in ("verdict", "reason")),
    sa.Column("press", Text(128), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Index("feedback_person", "platform", "bot", "chat", "question", "author_id", unique=True),
    sa.Index("feedback_at", "at"),
)

# Answers that people gave, each with its question: `state` is pending, approved or rejected. `lesson` is the id of the
# message that the answer was taken from. What was taught in a closed thread is listed in no other place of its chat;
# `thread` is null where an earlier version did not say. `closed_sources` are the labels of those that its place could
# see when it was taught; null where an earlier version did not say. `editors` are those who have changed the answer
# since, each with the platform and the chat where they did. `has_forgotten` where it has words of somebody who was
# forgotten while it was approved.
taught_answers = sa.Table(
    "taught_answers",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    *(sa.Column(name, Text(128), nullable=False) for name in ("platform", "chat", "lesson", "asked_by", "taught_by")),
    *(sa.Column(name, Text, nullable=False) for name in ("teacher", "question", "answer", "reviewer")),
    sa.Column("state", Text(16), nullable=False),
    sa.Column("at", UtcDateTime, nullable=False),
    sa.Column("reviewed_at", UtcDateTime),
    sa.Column("thread", Text(128)),
    sa.Column("in_restricted_thread", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Column("closed_sources", sa.JSON(none_as_null=True)),
    sa.Column("editors", sa.JSON(none_as_null=True)),
    sa.Column("has_forgotten", sa.Boolean, nullable=False, default=False, server_default=sa.false()),
    sa.Index("taught_answers_lesson", "platform", "chat", "lesson", unique=True),
    sa.Index("taught_answers_state", "state"),
    # A number that people have seen never becomes that of another answer.
    sqlite_autoincrement=True,
)


def chat_values(key: ConversationKey) -> dict[str, str]:
    """Return the columns that name the chat of a conversation, with their values, for a query to filter by."""
    return {"platform": key.platform, "chat": key.chat}


def to_document_name(number: int) -> str:
    """Return how the path of the document begins that an approved answer is, also in the answers that cite it."""
    return f"answer {number}, approved on "


def is_reply_in(platform: str, chat: str | None = None) -> sa.ColumnElement[bool]:
    """Return the condition that a cached reply belongs to a chat, or to any chat of a platform."""
    names = [platform] if chat is None else [platform, chat]
    prefix = json.dumps(names)[:-1]
    # LIKE takes "ann" for "Ann" on SQLite: over HTTP these are two people.
    return sa.func.substr(replies.c.scope, 1, len(prefix)) == prefix


def bot_values(message: Message) -> dict[str, str]:
    """Return the columns that name a message's chat and the bot that received it."""
    return {**chat_values(message.key), "bot": message.bot}


def identity_values(message: Message) -> dict[str, str]:
    """Return the columns that name a message."""
    return {**bot_values(message), "id": message.id}


def may_be_shown(labels: Sequence[str] | None, visible_labels: frozenset[str] | None) -> bool:
    """Return whether an answer that could rest on sources with these labels may be shown to those who see others.

    `labels` None: it is from a time when no source was closed. `visible_labels` None: to somebody who sees everything.
    """
    return visible_labels is None or visible_labels.issuperset((ALL_OPEN,) if labels is None else labels)


def to_stored_labels(visible_labels: frozenset[str] | None) -> list[str] | None:
    """Return the labels as a row keeps them: none where all sources were for everyone, and no chat was told of."""
    if visible_labels is None or ALL_OPEN not in visible_labels:
        return None if visible_labels is None else sorted(to_narrowest(visible_labels))
    return [ALL_OPEN, ALL_CHATS] if ALL_CHATS in visible_labels else None


def within_last(column: sa.Column[datetime], seconds: float) -> sa.ColumnElement[bool]:
    """Return the condition that a moment lies in the last seconds."""
    return column.between(*get_last(seconds))


def get_last(seconds: float) -> tuple[datetime, datetime]:
    """Return when the last seconds began and end.

    Moments of the future are not among them: a clock that was set back would make them count for hours.
    """
    now = datetime.now(UTC)
    return now - timedelta(seconds=seconds), now + CLOCK_TOLERANCE
