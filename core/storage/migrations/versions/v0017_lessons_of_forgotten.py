"""Whether a taught answer has words of somebody who was forgotten."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add the column: of who was forgotten earlier nobody knows, but a teacher without an id was."""
    if "has_forgotten" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("taught_answers")}:
        column = sa.Column("has_forgotten", sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column("taught_answers", column)
        answers = sa.table("taught_answers", *(sa.column(name) for name in ("taught_by", "asked_by", "has_forgotten")))
        is_nobodys = sa.or_(answers.c.taught_by == "", answers.c.asked_by == "")
        op.execute(sa.update(answers).where(is_nobodys).values(has_forgotten=True))
