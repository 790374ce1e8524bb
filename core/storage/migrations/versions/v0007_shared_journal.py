"""Several daemons share a journal: who works on a message, and who holds which lease until when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column and the table; nobody works on the messages that are there."""
    inspector = sa.inspect(op.get_bind())
    if "owner" not in {column["name"] for column in inspector.get_columns("messages")}:
        op.add_column("messages", sa.Column("owner", sa.String(32), nullable=False, server_default=""))
    if "leases" not in inspector.get_table_names():
        op.create_table(
            "leases",
            sa.Column("name", sa.String(200), primary_key=True),
            sa.Column("owner", sa.String(32), nullable=False),
            sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        )
