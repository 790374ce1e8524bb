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
    name_type = sa.String().with_variant(sa.String(128), "sqlite")
    names = (sa.Column(name, name_type, primary_key=True) for name in ("platform", "chat"))
    title = sa.Column("title", sa.String().with_variant(sa.Text(), "sqlite"), nullable=False)
    op.create_table("chats", *names, title)
