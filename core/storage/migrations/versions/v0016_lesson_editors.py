"""Who has changed a taught answer."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add the column: of earlier changes nobody knows."""
    if "editors" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("taught_answers")}:
        op.add_column("taught_answers", sa.Column("editors", sa.JSON(none_as_null=True)))
