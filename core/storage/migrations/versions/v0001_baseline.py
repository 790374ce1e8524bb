"""The schema before versions were recorded. Journals of then may lack tables and columns that came late.

A copy, and not an import: this stays what it was when `tables.py` moves on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

metadata = sa.MetaData()

sa.Table(
    "messages",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    *(
        sa.Column(name, sa.String(128), nullable=False)
        for name in ("platform", "bot", "chat", "thread", "id", "author_id")
    ),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("author", "text", "command", "reply_to", "quoted")),
    *(sa.Column(name, sa.Boolean, nullable=False) for name in ("private", "addressed")),
    sa.Column("reference", sa.JSON, nullable=False),
    *(sa.Column(name, sa.DateTime(timezone=True), nullable=False) for name in ("sent_at", "received_at")),
    sa.Column("state", sa.String(16), nullable=False),
    *(sa.Column(name, sa.Text, nullable=False, default="") for name in ("reason", "reply_id", "reply")),
    *(sa.Column(name, sa.JSON) for name in ("citations", "trace")),
    sa.Column("settled_at", sa.DateTime(timezone=True)),
    sa.Column("attachments", sa.JSON),
    sa.Column("seen", sa.Text),
    sa.Index("messages_identity", "platform", "bot", "chat", "id", unique=True),
    sa.Index("messages_conversation", "platform", "chat", "thread", "number"),
    sa.Index("messages_state", "state"),
)

sa.Table(
    "cursors",
    metadata,
    sa.Column("name", sa.String(128), primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
)

sa.Table(
    "feeds",
    metadata,
    sa.Column("feed", sa.String(64), primary_key=True),
    sa.Column("looked_at", sa.Float, nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("etag", "modified")),
    sa.Column("known", sa.JSON, nullable=False),
)

sa.Table(
    "answers",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("day", sa.String(10), nullable=False),
    *(sa.Column(name, sa.String(128), nullable=False) for name in ("platform", "chat", "author_id", "question_id")),
    sa.Column("outcome", sa.String(16), nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False) for name in ("prompt", "completion")),
    sa.Column("cost", sa.Float, nullable=False),
    sa.Index("answers_day", "day", "prompt", "completion", "cost"),
    sa.Index("answers_chat", "day", "platform", "chat"),
    sa.Index("answers_user", "day", "platform", "author_id"),
)

sa.Table(
    "spending",
    metadata,
    sa.Column("answer", sa.Integer, primary_key=True),
    sa.Column("agent", sa.String(128), primary_key=True),
    sa.Column("day", sa.String(10), nullable=False),
    *(sa.Column(name, sa.Integer, nullable=False) for name in ("prompt", "completion")),
    sa.Column("cost", sa.Float, nullable=False),
    sa.Index("spending_day", "day"),
)

sa.Table(
    "replies",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("scope", sa.String(300), nullable=False),
    sa.Column("made_by", sa.String(64), nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("question", "sense", "asked")),
    *(sa.Column(name, sa.JSON, nullable=False) for name in ("versions", "reply")),
    sa.Column("made_at", sa.Float, nullable=False),
    sa.Index("replies_question", "scope", "question"),
    sa.Index("replies_sense", "scope", "sense"),
    sa.Index("replies_made_at", "made_at"),
)

sa.Table(
    "overrides",
    metadata,
    sa.Column("scope", sa.String(300), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

sa.Table(
    "audit",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    *(sa.Column(name, sa.String(128), nullable=False) for name in ("platform", "chat", "author_id")),
    sa.Column("outcome", sa.String(16), nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("command", "what", "before", "after")),
    sa.Index("audit_chat", "platform", "chat"),
)

sa.Table(
    "refreshes",
    metadata,
    sa.Column("source", sa.String(63), primary_key=True),
    *(
        sa.Column(name, sa.DateTime(timezone=True))
        for name in ("last_try", "ended_at", "last_success", "changed_at", "asked_at")
    ),
    *(sa.Column(name, sa.Boolean, nullable=False, default=False) for name in ("unfinished", "paused")),
    *(sa.Column(name, sa.Integer, nullable=False, default=0) for name in ("failures", "passages", "documents")),
    *(sa.Column(name, sa.Text, nullable=False, default="") for name in ("error", "made_by")),
    sa.Column("counts", sa.JSON),
)

sa.Table(
    "feedback",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    *(sa.Column(name, sa.String(128), nullable=False) for name in ("platform", "bot", "chat", "question", "author_id")),
    *(sa.Column(name, sa.String(16), nullable=False) for name in ("verdict", "reason")),
    sa.Column("press", sa.String(128), nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    sa.Index("feedback_person", "platform", "bot", "chat", "question", "author_id", unique=True),
    sa.Index("feedback_at", "at"),
)

sa.Table(
    "learned",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True),
    *(
        sa.Column(name, sa.String(128), nullable=False)
        for name in ("platform", "chat", "lesson", "asked_by", "taught_by")
    ),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("teacher", "question", "answer", "reviewer")),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    sa.Column("reviewed_at", sa.DateTime(timezone=True)),
    sa.Index("learned_lesson", "platform", "chat", "lesson", unique=True),
    sa.Index("learned_state", "state"),
    sqlite_autoincrement=True,
)


def upgrade() -> None:
    """Make what is missing. Only columns that may be empty can be added: older rows have nothing for them."""
    connection = op.get_bind()
    metadata.create_all(connection)
    inspector = sa.inspect(connection)
    for table in metadata.sorted_tables:
        existing_columns = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in existing_columns and column.nullable:
                op.add_column(table.name, sa.Column(column.name, column.type))
