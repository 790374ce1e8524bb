"""What reports are made of: what is special about an outcome, and the model behind each agent's usage."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, String, inspect

revision = "0006"
down_revision = "0005"

_COLUMNS = {
    "messages": Column("detail", String(16), nullable=False, server_default=""),
    "spending": Column("model", String(128), nullable=False, server_default=""),
}
_SUMS = ("prompt", "completion", "cost")
# Those of before are made anew where they have more columns now.
_INDEXES = {
    "messages_detail": ("messages", "detail", "number"),
    "messages_received_at": ("messages", "received_at"),
    "messages_root": ("messages", "root_id"),
    "answers_chat": ("answers", "day", "platform", "chat", "outcome", *_SUMS),
    "spending_day": ("spending", "day", "agent", "model", *_SUMS, "estimated"),
}


def upgrade() -> None:
    """Add the columns and the indexes; nothing is known of the outcomes and models of rows that are there."""
    inspector = inspect(op.get_bind())
    for table, column in _COLUMNS.items():
        if column.name not in {existing["name"] for existing in inspector.get_columns(table)}:
            op.add_column(table, column)
    for name, (table, *columns) in _INDEXES.items():
        existing_indexes = {index["name"]: index["column_names"] for index in inspector.get_indexes(table)}
        if existing_indexes.get(name) == columns:
            continue
        if name in existing_indexes:
            op.drop_index(name, table)
        op.create_index(name, table, columns)
