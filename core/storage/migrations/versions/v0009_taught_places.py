"""Where an answer was taught: what was taught in a closed thread is listed nowhere else."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

# On the other platforms everybody in a chat reads all of it.
_PLATFORMS_WITH_CLOSED_THREADS = ("discord", "slack")
_PLACE = ("platform", "chat", "thread", "in_restricted_thread")


def upgrade() -> None:
    """Add the columns; where an answer was taught, its message says.

    Without the message (it was taught from one that the bot never received, or on the operator's page) the thread is
    unknown, and may have been a closed one.
    """
    connection = op.get_bind()
    existing_names = {column["name"] for column in sa.inspect(connection).get_columns("taught_answers")}
    if "thread" not in existing_names:
        op.add_column("taught_answers", sa.Column("thread", sa.String().with_variant(sa.String(128), "sqlite")))
    if "in_restricted_thread" not in existing_names:
        is_open = sa.Column("in_restricted_thread", sa.Boolean, nullable=False, server_default=sa.false())
        op.add_column("taught_answers", is_open)
    answers = sa.table("taught_answers", sa.column("lesson"), *(sa.column(name) for name in _PLACE))
    messages = sa.table("messages", sa.column("number"), sa.column("id"), *(sa.column(name) for name in _PLACE))
    # Several bots may have received it: one of them may have known that the thread is closed.
    order = (messages.c.in_restricted_thread.desc(), messages.c.number)
    same_message = (
        messages.c.platform == answers.c.platform,
        messages.c.chat == answers.c.chat,
        messages.c.id == answers.c.lesson,
    )

    def read_place(name: str) -> sa.ScalarSelect[object]:
        return sa.select(messages.c[name]).where(*same_message).order_by(*order).limit(1).scalar_subquery()

    may_be_closed = answers.c.platform.in_(_PLATFORMS_WITH_CLOSED_THREADS)
    values = {
        "thread": read_place("thread"),
        "in_restricted_thread": sa.func.coalesce(read_place("in_restricted_thread"), may_be_closed),
    }
    op.execute(answers.update().values(values))
