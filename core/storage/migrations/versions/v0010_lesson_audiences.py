"""Which closed sources the place of a taught answer could see, and whether the words of a message are its author's."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns. Of the answers that are there nobody knows it: they wait until the operator says it."""
    if not _has_column("taught_answers", "closed_sources"):
        op.add_column("taught_answers", sa.Column("closed_sources", sa.JSON(none_as_null=True)))
    if not _has_column("messages", "is_forwarded"):
        is_forwarded = sa.Column("is_forwarded", sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column("messages", is_forwarded)


def _has_column(table: str, name: str) -> bool:
    return name in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
