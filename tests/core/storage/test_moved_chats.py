"""Chats that got another id: the former ones, and what commands have set there."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import insert, select

from core.formatting import INDEFINITELY
from core.settings import ChatSettings
from core.storage.engine import Database
from core.storage.moved_chats import list_places, record_move
from core.storage.overrides import LiveSettings, RuntimeOverrides
from core.storage.tables import overrides
from core.types import ConversationKey
from tests.support.fixtures import settings


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


async def test_what_is_configured_and_set_for_a_former_id_holds_for_the_present_one_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = await Database.open(tmp_path / "journal.db")
    configuration = settings(
        telegram={"token": {"env": "TELEGRAM"}},
        sources={"plans": {"kind": "files", "path": str(tmp_path), "audience": ["telegram:-1", "owners"]}},
        gate={"chats": ["telegram:-1", "telegram:-2"], "drafts_to": "telegram:-1"},
        chats={"telegram:-1": {"mode": "off"}, "telegram:-2": {"mode": "draft"}},
        alerts={"chats": ["telegram:-1"]},
    )
    live = LiveSettings(configuration, RuntimeOverrides(database))
    await database.write(insert(overrides).values(scope="telegram:-1", name="pause", value=INDEFINITELY))
    await live.load()
    await live.record_move("telegram", "-1", "-1001")
    assert "'sources_to_open_again': ['plans'], 'event': 'chat.moved'" in caplog.text
    for chat in ("telegram:-1", "telegram:-1001"):
        assert (live.mode(chat, private=False), live.paused_until(chat)) == ("off", INDEFINITELY)
    moved = live.settings
    assert moved.gate.chats == ("telegram:-1", "telegram:-2", "telegram:-1001")
    assert [moved.get_drafts_chat("telegram:-2"), *moved.alerts.chats] == ["telegram:-1001", "telegram:-1001"]
    # It is nobody's decision that more can see a source.
    assert not live.audiences.visible_sources(live.audiences.make_asker("telegram", "-1001"))
    # What the configuration says of the present id goes first; a reload that changes nothing changes nothing.
    named = configuration.model_copy(update={"chats": {**configuration.chats, "telegram:-1001": ChatSettings()}})
    assert (await live.reload(configuration)).live == []
    assert (await live.reload(named)).live == ["chats"]
    assert live.mode("telegram:-1001", private=False) == "mention"
    await database.close()
