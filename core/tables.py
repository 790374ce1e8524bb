"""The tables of the journal's database."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, DateTime, Index, Integer, MetaData, String, Table, Text

tables = MetaData()

messages = Table(
    "messages",
    tables,
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
    Index("messages_identity", "platform", "bot", "chat", "id", unique=True),
    Index("messages_conversation", "platform", "chat", "thread", "number"),
    Index("messages_state", "state"),
)

cursors = Table(
    "cursors", tables, Column("name", String(128), primary_key=True), Column("position", Integer, nullable=False)
)
