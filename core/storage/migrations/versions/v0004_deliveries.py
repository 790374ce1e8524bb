"""What is left to deliver of an answer: its final text, and which of its parts are posted."""

from __future__ import annotations

from alembic import op
from sqlalchemy import JSON, Column, inspect

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column; nothing is known of the deliveries of rows that are there."""
    if "delivery" not in {column["name"] for column in inspect(op.get_bind()).get_columns("messages")}:
        op.add_column("messages", Column("delivery", JSON(none_as_null=True)))
