"""The daemon under its owner: commands over a real platform, a real database and a real configuration file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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
STRANGER = Author(1002, "Bob")


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


@asynccontextmanager
async def steered(deployment: Deployment) -> AsyncIterator[Callable[..., None]]:
    """A daemon that runs inside the block, which receives what rewrites its configuration."""
    file = deployment.config

    async def load_current_settings() -> Settings:
        return await asyncio.to_thread(load_settings, [file])

    daemon_task = asyncio.create_task(run(await load_current_settings(), reload_settings=load_current_settings))
    try:
        yield lambda **changes: changed(file, **changes)
    finally:
        if not daemon_task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(SOON_S):
            assert await daemon_task == 0


async def answer_with(telegram: TelegramPeer, question: str, expected: str) -> None:
    """Ask until an answer has something: a source is read in the background."""
    async with asyncio.timeout(SOON_S):
        while expected not in await send_command(telegram, question):
            await asyncio.sleep(0.2)


@pytest.fixture
def two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[TelegramPeer], Deployment]:
    """A configuration with one of two sources, and no model: what is found is quoted."""
    texts = {"rocket": README, "boats": "# Boats\n\n## Mooring\n\nMoor the boat with two ropes at the grey bollard.\n"}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "page.md").write_text(text, "utf-8")

    def configure(telegram: TelegramPeer) -> Deployment:
        monkeypatch.setenv("BOT_TOKEN", telegram.token)
        sections = {
            "sources": {"rocket": ROCKET},
            "telegram": {"token": {"env": "BOT_TOKEN"}, "api_url": telegram.api_url},
            "administration": {"owners": [f"telegram:{OWNER.id}"]},
        }
        return Deployment(tmp_path, sections)

    return configure


ROCKET = {"kind": "files", "path": "rocket"}
BOATS = {"kind": "files", "path": "boats"}
MOORING = "How do I moor the boat at the bollard?"
SIGNING_KEY = "How do I change the signing key of sessions?"


async def test_sources_come_and_go_without_a_restart(two_folders: Callable[[TelegramPeer], Deployment]) -> None:
    async with TelegramPeer() as telegram, steered(two_folders(telegram)) as change:
        await answer_with(telegram, SIGNING_KEY, "rotate_keys")
        assert "grey bollard" not in await send_command(telegram, MOORING)
        change(sources={"rocket": ROCKET, "boats": BOATS})
        reply_text = await send_command(telegram, "/reload")
        assert "changed now: sources" in reply_text
        assert "reading now, in the background: boats" in reply_text
        assert "restart" not in reply_text
        assert "rotate_keys" in await send_command(telegram, SIGNING_KEY), "the others answer meanwhile"
        await answer_with(telegram, MOORING, "grey bollard")
        assert "boats (files): 1 passage in 1 document" in await send_command(telegram, "/sources")
        agents = {"sea": {"sources": ["boats"], "description": "harbours"}, "web": {"sources": ["rocket"]}}
        change(agents=agents)
        assert "changed now: agents" in await send_command(telegram, "/reload")
        assert "grey bollard" in await send_command(telegram, MOORING)
        assert "Asked: sea" in await send_command(telegram, "/why")
        change(sources={"boats": BOATS}, agents={})
        reply_text = await send_command(telegram, "/reload")
        assert "changed now: sources, agents" in reply_text
        assert "rotate_keys" not in await send_command(telegram, SIGNING_KEY)
        assert "rocket" not in await send_command(telegram, "/sources")
        change(sources={"boats": {**BOATS, "exclude": ["page.md"]}})
        await send_command(telegram, "/reload")
        async with asyncio.timeout(SOON_S):
            while "grey bollard" in await send_command(telegram, MOORING):
                await asyncio.sleep(0.2)


async def test_a_reload_says_what_it_cannot_do_to_sources(
    two_folders: Callable[[TelegramPeer], Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOATS_TOKEN", "a-secret-that-no-log-knows")
    git_source = {"kind": "git", "url": "https://127.0.0.1:9/boats.git", "token": {"env": "BOATS_TOKEN"}}
    owners = {**BOATS, "audience": "owners"}
    async with TelegramPeer() as telegram, steered(two_folders(telegram)) as change:
        await answer_with(telegram, SIGNING_KEY, "rotate_keys")
        change(sources={"rocket": {**ROCKET, "path": "boats"}})
        reply_text = await send_command(telegram, "/reload")
        assert "restart needed: sources" in reply_text
        assert "restart needed, because another source had the name before: rocket" in reply_text
        change(sources={"rocket": ROCKET, "boats": git_source})
        assert "keep it out of the log: boats" in await send_command(telegram, "/reload")
        change(sources={"rocket": ROCKET, "boats": owners})
        assert "changed now: sources" in await send_command(telegram, "/reload")
        await answer_with(telegram, MOORING, "grey bollard")
        telegram.say(STRANGER.id, MOORING, author=STRANGER)
        reply = await telegram.wait_for_reply(STRANGER.id, SOON_S)
        assert "boats" not in reply.text
        assert "bollard" not in reply.text
        change(sources={"rocket": ROCKET, "boats": BOATS})
        assert "for owners alone until a restart: boats" in await send_command(telegram, "/reload")
        telegram.say(STRANGER.id, MOORING, author=STRANGER)
        reply = await telegram.wait_for_reply(STRANGER.id, SOON_S, count=2)
        assert "bollard" not in reply.text


async def test_words_that_never_leave_count_from_a_reload_on(
    two_folders: Callable[[TelegramPeer], Deployment],
) -> None:
    async with TelegramPeer() as telegram, steered(two_folders(telegram)) as change:
        await answer_with(telegram, SIGNING_KEY, "rotate_keys")
        change(outgoing={"words": ["rotate_keys"]})
        assert "changed now: outgoing" in await send_command(telegram, "/reload")
        assert "rotate_keys" not in await send_command(telegram, SIGNING_KEY)
        change(outgoing={"words": ["rotate_keys"], "moderation": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}})
        assert "restart needed: outgoing" in await send_command(telegram, "/reload")
