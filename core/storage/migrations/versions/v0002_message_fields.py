"""What the bot branches on has columns: it stood in the adapters' references, and at the end of ids, before."""

from __future__ import annotations

from typing import Any

from alembic import op
from alembic.util import CommandError
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    false,
    inspect,
    select,
    update,
)

revision = "0002"
down_revision = "0001"

BATCH_SIZE = 1000
FLAGS = {
    "is_by_bot": "by_bot",
    "in_restricted_thread": "closed",
    "in_main_chat": "in_chat",
    "is_question_hidden": "unseen",
}
TEXTS = {"parent_id": "before", "language": "language", "retry_reason": "unsatisfying"}
VALUES = {"is_shared_thread": "followed", "thread_started_at": "begun", "mentioned_users": "called"}
MOVED_KEYS = {
    *FLAGS.values(),
    *TEXTS.values(),
    *VALUES.values(),
    *("feed", "title", "link", "late"),
}

COLUMNS = (
    *(Column(name, Boolean, nullable=False, server_default=false()) for name in FLAGS),
    *(Column(name, Boolean) for name in ("is_post", "is_shared_thread")),
    Column("thread_started_at", Float),
    *(
        Column(name, String(128), nullable=False, server_default="")
        for name in ("parent_id", "language", "purpose", "root_id", "retry_reason")
    ),
    *(Column(name, JSON(none_as_null=True)) for name in ("feed_entry", "mentioned_users")),
)
messages = Table(
    "messages",
    MetaData(),
    Column("number", Integer, primary_key=True),
    Column("id", String(128)),
    Column("command", Text),
    Column("reference", JSON),
    *(Column(column.name, column.type) for column in COLUMNS),
)


def upgrade() -> None:
    """Add the columns and move what they hold now out of references and ids, which stay unique as they are."""
    connection, columns, last_number = op.get_bind(), messages.c, 0
    existing_names = {column["name"] for column in inspect(connection).get_columns("messages")}
    for column in COLUMNS:
        if column.name not in existing_names:
            op.add_column("messages", column)
    if missing_names := {column.name for column in columns} - existing_names - {column.name for column in COLUMNS}:
        raise CommandError(f"no such column: messages.{min(missing_names)}")
    query = select(columns.number, columns.id, columns.command, columns.reference).order_by(columns.number)
    while rows := connection.execute(query.where(columns.number > last_number).limit(BATCH_SIZE)).all():
        for row in rows:
            if values := move_values(row.id, row.command, row.reference or {}):
                connection.execute(update(messages).where(columns.number == row.number).values(values))
        last_number = rows[-1].number


def move_values(message_id: str, command: str, reference: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the columns that change: a message's typed fields, and what is left of its reference."""
    values: dict[str, Any] = {name: True for name, key in FLAGS.items() if reference.get(key)}
    values |= {name: str(reference[key] or "") for name, key in TEXTS.items() if key in reference}
    values |= {name: reference[key] for name, key in VALUES.items() if key in reference}
    if "kind" in reference:
        values["is_post"] = reference["kind"] == "post"
    if "feed" in reference:
        entry = {name: str(reference.get(name, "")) for name in ("feed", "title", "link")}
        values["feed_entry"] = {**entry, "is_too_old": bool(reference.get("late"))}
    if command == "handoff" and message_id.endswith("~h"):
        values |= {"purpose": "escalation", "root_id": message_id.removesuffix("~h").removesuffix("~2")}
    elif message_id.endswith("~2"):
        values |= {"purpose": "retry", "root_id": message_id.removesuffix("~2")}
    rest = {key: value for key, value in reference.items() if key not in MOVED_KEYS}
    return {**values, "reference": rest} if rest != reference else values
