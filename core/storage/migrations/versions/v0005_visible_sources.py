"""Which sources an answer could be made from: it is told of only to who may see them."""

from __future__ import annotations

from alembic import op
from sqlalchemy import JSON, Column, inspect

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; the answers that are there could be made from every source."""
    if "visible_sources" not in {column["name"] for column in inspect(op.get_bind()).get_columns("messages")}:
        op.add_column("messages", Column("visible_sources", JSON(none_as_null=True)))
