"""What the bot branches on has columns: it stood in the adapters' references, and at the end of ids, before."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from alembic.util import CommandError

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
MOVED_KEYS = {*FLAGS.values(), *TEXTS.values(), *VALUES.values(), "feed", "title", "link", "late"}

COLUMNS = (
    *(sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false()) for name in FLAGS),
    *(sa.Column(name, sa.Boolean) for name in ("is_post", "is_shared_thread")),
    sa.Column("thread_started_at", sa.Float),
    *(
        sa.Column(name, sa.String(128), nullable=False, server_default="")
        for name in ("parent_id", "language", "purpose", "root_id", "retry_reason")
    ),
    *(sa.Column(name, sa.JSON(none_as_null=True)) for name in ("feed_entry", "mentioned_users")),
)
messages = sa.Table(
    "messages",
    sa.MetaData(),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("id", sa.String(128)),
    sa.Column("command", sa.Text),
    sa.Column("reference", sa.JSON),
    *(sa.Column(column.name, column.type) for column in COLUMNS),
)


def upgrade() -> None:
    """Add the columns and move what they hold now out of references and ids, which stay unique as they are."""
    connection = op.get_bind()
    columns = messages.c
    last_number = 0
    existing_names = {column["name"] for column in sa.inspect(connection).get_columns("messages")}
    for column in COLUMNS:
        if column.name not in existing_names:
            op.add_column("messages", column)
    if missing_names := {column.name for column in columns} - existing_names - {column.name for column in COLUMNS}:
        raise CommandError(f"no such column: messages.{min(missing_names)}")
    query = sa.select(columns.number, columns.id, columns.command, columns.reference).order_by(columns.number)
    while rows := connection.execute(query.where(columns.number > last_number).limit(BATCH_SIZE)).all():
        for row in rows:
            if values := move_values(row.id, row.command, row.reference or {}):
                connection.execute(sa.update(messages).where(columns.number == row.number).values(values))
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
