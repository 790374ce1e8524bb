"""Chats that got another id: the former ones, and what commands have set there."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import insert, select

from core.storage.engine import Database
from core.storage.moved_chats import list_places, record_move
from core.storage.tables import overrides
from core.types import ConversationKey


async def list_ids(database: Database, chat: str) -> set[str]:
    async with database.connect() as connection:
        return {place["chat"] for place in await list_places(connection, ConversationKey("slack", chat))}


async def test_a_chat_that_moves_on_or_back_has_all_its_ids(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "journal.db")
    for former, chat in (("A", "B"), ("A", "B"), ("B", "C")):
        await record_move(database, "slack", former, chat)
    assert await list_ids(database, "C") == {"A", "B", "C"}
    assert await list_ids(database, "B") == {"B"}
    await record_move(database, "slack", "C", "A")
    assert await list_ids(database, "A") == {"A", "B", "C"}
    async with database.connect() as connection:
        assert len(await list_places(connection, ConversationKey("telegram", "A"))) == 1
    await database.close()


async def test_what_was_set_under_the_present_id_stays(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "journal.db")
    rows = [
        {"scope": "slack:A", "name": "mode", "value": "off"},
        {"scope": "slack:A", "name": "admin.U1", "value": "yes"},
        {"scope": "slack:B", "name": "mode", "value": "auto"},
        {"scope": "telegram:A", "name": "mode", "value": "off"},
    ]
    await database.write(insert(overrides).values(rows))
    await record_move(database, "slack", "A", "B")
    kept = [tuple(row) for row in await database.fetch_all(select(overrides).order_by("scope", "name"))]
    assert kept == [("slack:B", "admin.U1", "yes"), ("slack:B", "mode", "auto"), ("telegram:A", "mode", "off")]
    await database.close()
