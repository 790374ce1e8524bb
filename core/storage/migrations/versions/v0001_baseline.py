"""The schema before versions were recorded. Journals of then may lack tables and columns that came late.

A copy, and not an import: this stays what it was when `tables.py` moves on.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
)

revision = "0001"
down_revision = None

metadata = MetaData()

Table(
    "messages",
    metadata,
    Column("number", Integer, primary_key=True),
    *(Column(name, String(128), nullable=False) for name in ("platform", "bot", "chat", "thread", "id", "author_id")),
    *(Column(name, Text, nullable=False) for name in ("author", "text", "command", "reply_to", "quoted")),
    *(Column(name, Boolean, nullable=False) for name in ("private", "addressed")),
    Column("reference", JSON, nullable=False),
    *(Column(name, DateTime(timezone=True), nullable=False) for name in ("sent_at", "received_at")),
    Column("state", String(16), nullable=False),
    *(Column(name, Text, nullable=False, default="") for name in ("reason", "reply_id", "reply")),
    *(Column(name, JSON) for name in ("citations", "trace")),
    Column("settled_at", DateTime(timezone=True)),
    Column("attachments", JSON),
    Column("seen", Text),
    Index("messages_identity", "platform", "bot", "chat", "id", unique=True),
    Index("messages_conversation", "platform", "chat", "thread", "number"),
    Index("messages_state", "state"),
)

Table(
    "cursors", metadata, Column("name", String(128), primary_key=True), Column("position", BigInteger, nullable=False)
)

Table(
    "feeds",
    metadata,
    Column("feed", String(64), primary_key=True),
    Column("looked_at", Float, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("etag", "modified")),
    Column("known", JSON, nullable=False),
)

Table(
    "answers",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("day", String(10), nullable=False),
    *(Column(name, String(128), nullable=False) for name in ("platform", "chat", "author_id", "question_id")),
    Column("outcome", String(16), nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("prompt", "completion")),
    Column("cost", Float, nullable=False),
    Index("answers_day", "day", "prompt", "completion", "cost"),
    Index("answers_chat", "day", "platform", "chat"),
    Index("answers_user", "day", "platform", "author_id"),
)

Table(
    "spending",
    metadata,
    Column("answer", Integer, primary_key=True),
    Column("agent", String(128), primary_key=True),
    Column("day", String(10), nullable=False),
    *(Column(name, Integer, nullable=False) for name in ("prompt", "completion")),
    Column("cost", Float, nullable=False),
    Index("spending_day", "day"),
)

Table(
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

Table(
    "overrides",
    metadata,
    Column("scope", String(300), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("value", Text, nullable=False),
)

Table(
    "audit",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("at", DateTime(timezone=True), nullable=False),
    *(Column(name, String(128), nullable=False) for name in ("platform", "chat", "author_id")),
    Column("outcome", String(16), nullable=False),
    *(Column(name, Text, nullable=False) for name in ("command", "what", "before", "after")),
    Index("audit_chat", "platform", "chat"),
)

Table(
    "refreshes",
    metadata,
    Column("source", String(63), primary_key=True),
    *(
        Column(name, DateTime(timezone=True))
        for name in ("last_try", "ended_at", "last_success", "changed_at", "asked_at")
    ),
    *(Column(name, Boolean, nullable=False, default=False) for name in ("unfinished", "paused")),
    *(Column(name, Integer, nullable=False, default=0) for name in ("failures", "passages", "documents")),
    *(Column(name, Text, nullable=False, default="") for name in ("error", "made_by")),
    Column("counts", JSON),
)

Table(
    "feedback",
    metadata,
    Column("number", Integer, primary_key=True),
    *(Column(name, String(128), nullable=False) for name in ("platform", "bot", "chat", "question", "author_id")),
    *(Column(name, String(16), nullable=False) for name in ("verdict", "reason")),
    Column("press", String(128), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Index("feedback_person", "platform", "bot", "chat", "question", "author_id", unique=True),
    Index("feedback_at", "at"),
)

Table(
    "learned",
    metadata,
    Column("number", Integer, primary_key=True),
    *(Column(name, String(128), nullable=False) for name in ("platform", "chat", "lesson", "asked_by", "taught_by")),
    *(Column(name, Text, nullable=False) for name in ("teacher", "question", "answer", "reviewer")),
    Column("state", String(16), nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Column("reviewed_at", DateTime(timezone=True)),
    Index("learned_lesson", "platform", "chat", "lesson", unique=True),
    Index("learned_state", "state"),
    sqlite_autoincrement=True,
)


def upgrade() -> None:
    """Make what is missing. Only columns that may be empty can be added: older rows have nothing for them."""
    connection = op.get_bind()
    metadata.create_all(connection)
    inspector = inspect(connection)
    for table in metadata.sorted_tables:
        existing_columns = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in existing_columns and column.nullable:
                op.add_column(table.name, Column(column.name, column.type))
