"""The commands that platforms offer before anybody asks for help."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bots.daemon.adapters import make_adapters
from bots.daemon.bootstrap import make_live_settings
from core.messaging.policy.command_table import DRAFT_COMMANDS
from core.storage.messages import Journal
from tests.support import discord_helpers, telegram_helpers
from tests.support.fixtures import settings
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.telegram import TelegramPeer


@pytest.mark.parametrize(("gate", "has_drafts"), [({}, False), ({"drafts_to": "telegram:-1"}, True)])
async def test_menus_offer_drafts_where_a_team_gets_them(
    tmp_path: Path, gate: dict[str, Any], has_drafts: bool
) -> None:
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(TelegramPeer())
        discord = await stack.enter_async_context(DiscordPeer())
        journal = await Journal.open(tmp_path / "journal.db")
        stack.push_async_callback(journal.close)
        folders = [tmp_path / "telegram", tmp_path / "discord"]
        for folder in folders:
            folder.mkdir()
        sections = {
            "telegram": telegram_helpers.settings(telegram, folders[0]),
            "discord": discord_helpers.settings(discord, folders[1]),
        }
        live = make_live_settings(settings(**sections, gate=gate), journal.database)
        for adapter in make_adapters(live, journal):
            await adapter.open()
            stack.push_async_callback(adapter.close)
        menus = [[entry["command"] for entry in menu] for menu in telegram.commands.values()]
        menus.append([command["name"] for command in discord.commands])
        assert all("help" in menu for menu in menus)
        assert any(name in menu for name in DRAFT_COMMANDS for menu in menus) == has_drafts
        assert set(DRAFT_COMMANDS).issubset(menus[-1]) == has_drafts
