"""Whose words or files a message brings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column: of earlier messages nobody knows."""
    if "quoted_authors" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("messages")}:
        op.add_column("messages", sa.Column("quoted_authors", sa.JSON(none_as_null=True)))
