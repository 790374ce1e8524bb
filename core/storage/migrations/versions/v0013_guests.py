"""Whether people of other organizations read the chat of a message."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the column: of earlier messages nobody knows, and what is answered now is asked for anew."""
    if "has_guests" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("messages")}:
        op.add_column("messages", sa.Column("has_guests", sa.Boolean, nullable=False, server_default=sa.false()))
