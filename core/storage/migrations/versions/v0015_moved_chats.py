"""Chats that got another id."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the table: of what was moved before, nobody knows."""
    if sa.inspect(op.get_bind()).has_table("moved_chats"):
        return
    name_type = sa.String().with_variant(sa.String(128), "sqlite")
    names = (sa.Column(name, name_type, primary_key=True) for name in ("platform", "former"))
    op.create_table("moved_chats", *names, sa.Column("chat", name_type, nullable=False))
