"""The daemon under its owner: commands over a real platform, a real database and a real configuration file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from bots.daemon.runner import run
from core.settings import Settings
from core.settings.loader import load_settings
from tests.support.deployment import README, Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import Author, TelegramPeer

SOON_S = 60
OWNER = Author(1001, "Ann")


async def send_command(telegram: TelegramPeer, text: str) -> str:
    """Write to the bot in private and wait for its last word: the final message, not a draft."""
    message_count = len(telegram.messages(OWNER.id))
    telegram.say(OWNER.id, text, author=OWNER)
    return (await telegram.wait_for_reply(OWNER.id, SOON_S, count=message_count + 1)).text


def changed(file: Path, **changes: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **changes}), "utf-8")


async def test_an_owner_steers_a_running_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    async with TelegramPeer() as telegram, LanguageModelPeer(reply="Call `rotate_keys` [p1].") as model:
        monkeypatch.setenv("BOT_TOKEN", telegram.token)
        deployment = Deployment(
            tmp_path,
            {
                "sources": {"rocket": {"kind": "files", "path": "docs"}},
                "models": {"main": {"base_url": model.base_url, "model": "peer"}},
                "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url},
                "administration": {"owners": [f"telegram:{OWNER.id}"]},
            },
        )
        await asyncio.to_thread(deployment.call, "ingest")
        file = deployment.config

        async def load_current_settings() -> Settings:
            return await asyncio.to_thread(load_settings, [file])

        daemon_task = asyncio.create_task(run(await load_current_settings(), reload_settings=load_current_settings))
        try:
            assert "rotate_keys" in await send_command(telegram, "How do I change the signing key?")
            explanation = await send_command(telegram, "/why")
            assert "Asked: rocket" in explanation
            assert "Cited: rocket (1)" in explanation
            reply_text = await send_command(telegram, "/sources")
            assert "rocket (files): " in reply_text
            assert "refreshed" in reply_text
            assert "no longer used" in await send_command(telegram, "/sources off rocket")
            await asyncio.sleep(2.1)
            await send_command(telegram, "How do I change the signing key?")
            assert "Cited: nothing" in await send_command(telegram, "/why")
            await send_command(telegram, "/sources on rocket")
            await send_command(telegram, "/quota daily_tokens 1")
            await asyncio.sleep(2.1)
            assert "used up" in await send_command(telegram, "How do I change the signing key?")
            assert "no limit" in await send_command(telegram, "/quota daily_tokens none")
            changed(file, gate={"mode": "auto"}, limits={"daily_cost": 5}, run={"workers": 2})
            reloaded = await send_command(telegram, "/reload")
            assert "changed now: limits, gate" in reloaded
            assert "restart needed: run" in reloaded
            changed(file, gate={"mode": "sometimes"})
            assert "gate.mode" in await send_command(telegram, "/reload")
            assert "I am refreshing rocket now" in await send_command(telegram, "/refresh rocket")
            assert "rocket" in await send_command(telegram, "/audit")
            assert "Platforms: telegram" in await send_command(telegram, "/status")
        finally:
            # One that ended by itself takes no signal any more: it would end the tests.
            if not daemon_task.done():
                os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(SOON_S):
                assert await daemon_task == 0
        changed(file, gate={"mode": "mention"})
        thread = await asyncio.to_thread(deployment.json, "audit")
        assert {entry["outcome"] for entry in thread["entries"]} == {"changed", "failed"}
