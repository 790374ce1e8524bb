"""What platforms call chats."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the table: each chat says its title with its next message."""
    if sa.inspect(op.get_bind()).has_table("chats"):
        return
    names = (sa.Column(name, sa.String(128), primary_key=True) for name in ("platform", "chat"))
    op.create_table("chats", *names, sa.Column("title", sa.Text, nullable=False))
