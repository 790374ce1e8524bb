"""Chats of the unnamed network are no chats of a named one; and whether a message quotes the bot itself."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_SUFFIX = re.compile(r"@([a-z0-9][a-z0-9_-]{0,62})$")
_TABLES = ("messages", "feedback", "answers", "audit", "taught_answers")
_TABLES_WITH_BOT = ("messages", "feedback")
_SCOPE = "http:"


def upgrade() -> None:
    """Add the column, and rename chats whose ids end as those of a named network.

    Such ids are refused now; earlier, those that ended as a network that was added later were not. The messages of a
    named network have its name as their bot. Of a chat without messages nobody knows, where its network has others.
    """
    if "quotes_bot" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns("messages")}:
        op.add_column("messages", sa.Column("quotes_bot", sa.Boolean, nullable=False, server_default=sa.false()))
    bots_by_chat = _find_chats()
    networks = set().union(*bots_by_chat.values())
    taken_names = set(bots_by_chat)
    for chat, bots in sorted(bots_by_chat.items()):
        suffix = _SUFFIX.search(chat)
        if suffix and ("" in bots or (not bots and suffix[1] not in networks)):
            new_name = next(name for count in itertools.count(1) if (name := chat + "." * count) not in taken_names)
            taken_names.add(new_name)
            _rename(chat, new_name, is_of_one_network=bots <= {""})


def _find_chats() -> dict[str, set[str]]:
    """Return the chats of all networks with the bots of their messages: none where their messages are gone."""
    bots_by_chat: dict[str, set[str]] = defaultdict(set)
    for name in _TABLES:
        table = _make_table(name)
        bot = table.c.bot if name in _TABLES_WITH_BOT else sa.null()
        for chat, bot_name in op.get_bind().execute(sa.select(table.c.chat, bot).filter_by(platform="http").distinct()):
            bots_by_chat[chat] |= set() if bot_name is None else {bot_name}
    overrides = sa.table("overrides", sa.column("scope"))
    for scope in op.get_bind().scalars(sa.select(overrides.c.scope).where(overrides.c.scope.startswith(_SCOPE))):
        bots_by_chat[scope.removeprefix(_SCOPE)] |= set()
    return bots_by_chat


def _rename(chat: str, new_name: str, *, is_of_one_network: bool) -> None:
    for name in _TABLES if is_of_one_network else _TABLES_WITH_BOT:
        table = _make_table(name)
        rename = table.update().where(table.c.platform == "http", table.c.chat == chat).values(chat=new_name)
        op.execute(rename.where(table.c.bot == "") if name in _TABLES_WITH_BOT else rename)
    if is_of_one_network:
        overrides = sa.table("overrides", sa.column("scope"))
        op.execute(overrides.update().where(overrides.c.scope == _SCOPE + chat).values(scope=_SCOPE + new_name))
        # Cached answers are made again.
        op.execute(sa.table("replies").delete())


def _make_table(name: str) -> sa.TableClause:
    return sa.table(name, *(sa.column(column) for column in ("platform", "chat", "bot")))
