"""Chats of the unnamed network are no chats of a named one; and whether a message quotes the bot itself."""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_SUFFIX = re.compile(r"@[a-z0-9][a-z0-9_-]{0,62}$")
_TABLES = ("messages", "feedback", "answers", "audit", "taught_answers")
_TABLES_WITH_BOT = ("messages", "feedback")


def upgrade() -> None:
    """Add the column, and rename chats whose ids end as those of a named network.

    Such ids are refused now; earlier, those that ended as a network that was added later were not. The messages of a
    named network have its name as their bot.
    """
    if "quotes_bot" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("messages")}:
        op.add_column("messages", sa.Column("quotes_bot", sa.Boolean, nullable=False, server_default=sa.false()))
    messages = _make_table("messages")
    query = sa.select(messages.c.chat, messages.c.bot).where(messages.c.platform == "http").distinct()
    chats = op.get_bind().execute(query).all()
    known_names = {chat for chat, _ in chats}
    names_of_networks = {chat for chat, bot in chats if bot}
    for chat in sorted(chat for chat, bot in chats if not bot and _SUFFIX.search(chat)):
        new_name = f"{chat}."
        while new_name in known_names:
            new_name += "."
        _rename(chat, new_name, is_of_one_network=chat not in names_of_networks)


def _rename(chat: str, new_name: str, *, is_of_one_network: bool) -> None:
    for name in _TABLES if is_of_one_network else _TABLES_WITH_BOT:
        table = _make_table(name)
        rename = table.update().where(table.c.platform == "http", table.c.chat == chat).values(chat=new_name)
        op.execute(rename.where(table.c.bot == "") if name in _TABLES_WITH_BOT else rename)
    if is_of_one_network:
        overrides = sa.table("overrides", sa.column("scope"))
        op.execute(overrides.update().where(overrides.c.scope == f"http:{chat}").values(scope=f"http:{new_name}"))
        # Cached answers are made again.
        op.execute(sa.table("replies").delete())


def _make_table(name: str) -> sa.TableClause:
    return sa.table(name, *(sa.column(column) for column in ("platform", "chat", "bot")))
