"""The usage of answers says how much of it is estimated, and counts the answers that began early."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Integer, inspect

revision = "0003"
down_revision = "0002"

COLUMNS = {"answers": ("estimated", "head_starts", "head_starts_kept"), "spending": ("estimated",)}


def upgrade() -> None:
    """Add the columns; rows that are there have estimated and begun nothing."""
    for table, names in COLUMNS.items():
        existing_names = {column["name"] for column in inspect(op.get_bind()).get_columns(table)}
        for name in names:
            if name not in existing_names:
                op.add_column(table, Column(name, Integer, nullable=False, server_default="0"))
