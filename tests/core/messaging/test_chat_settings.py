"""What is different in one chat: its sources, its persona, its language, with the bot as the daemon wires it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bots.daemon.bootstrap import open_app
from core.settings import Settings
from core.settings.former_keys import describe_former_key
from core.storage.messages import Journal
from knowledge.parsing.parser import ThreadParser
from tests.support.knowledge import WordEmbedder
from tests.support.recording_bot import Bot, Sender, repeat
from tests.support.scripted import ScriptedPeer

GERMANS = "-300"
QUESTION = "When is the release date of the launcher?"
TEXTS = {
    "docs": "The launcher has its release date on numbat.",
    "forum": "Somebody heard: a release date in spring, called bilby, is what the launcher will get.",
    "team": "Between us: until quoll is mended, no release date of the launcher can be named.",
}


def make_settings(folder: Path, url: str, **changes: Any) -> Settings:
    chat = {"sources": ["docs", "team"], "persona": "You are terse.", "language": "German"}
    values = {
        "data_dir": str(folder / "data"),
        "sources": {
            "docs": {"kind": "files", "path": str(folder / "docs")},
            "forum": {"kind": "files", "path": str(folder / "forum")},
            "team": {"kind": "files", "path": str(folder / "team"), "audience": ["owners"]},
        },
        "models": {"main": {"base_url": url, "model": "m"}},
        "administration": {"owners": ["telegram:1"]},
        "telegram": {"token": {"env": "TOKEN"}},
        "chats": {f"telegram:{GERMANS}": chat},
    }
    return Settings.model_validate({**values, **changes})


@asynccontextmanager
async def opened_bot(folder: Path, **changes: Any) -> AsyncIterator[Bot]:
    for name, text in TEXTS.items():
        (folder / name).mkdir()
        (folder / name / "release.md").write_text(f"# Release date\n\n{text}")
    async with ScriptedPeer(write=repeat) as model:
        if team := changes.pop("team", None):
            changes["models"] = {"main": {"base_url": model.base_url, "model": "m"}, "sets": {"team": team}}
        settings = make_settings(folder, model.base_url, **changes)
        async with open_app(settings, embedder=WordEmbedder(), parser=ThreadParser()) as app:
            assert not (await app.refresh()).failures
            journal = await Journal.open(folder / "journal.db")
            yield Bot(app, journal, None, model)
            await journal.close()


async def ask(bot: Bot, chat: str, **changes: Any) -> str:
    """Return all that a model and a chat are told after a question."""
    await bot.deliver(Sender(chat, **changes), QUESTION)
    return bot.get_requests() + bot.output()


async def test_a_chat_has_its_own_sources_persona_and_language(tmp_path: Path) -> None:
    async with opened_bot(tmp_path) as bot:
        told = await ask(bot, GERMANS)
        assert "numbat" in told
        assert "bilby" not in told
        assert "You are terse." in told
        assert "Answer in German." in told
        told = await ask(bot, "-100")
        assert "numbat" in told
        assert "bilby" in told
        assert "You are terse." not in told
        assert "Answer in the language of the question." in told


async def test_what_a_chat_may_not_see_stays_closed(tmp_path: Path) -> None:
    async with opened_bot(tmp_path) as bot:
        assert "quoll" not in await ask(bot, GERMANS)
        assert "quoll" not in await ask(bot, GERMANS, author="1")


async def test_a_reload_changes_what_a_chat_hears(tmp_path: Path) -> None:
    async with opened_bot(tmp_path) as bot:
        chats = {f"telegram:{GERMANS}": {"persona": "You are wordy.", "sources": ["forum"]}}
        bot.new_settings = make_settings(tmp_path, bot.model.base_url if bot.model else "", chats=chats)
        await bot.deliver(Sender(GERMANS, author="1"), command="reload")
        bot.output()
        told = await ask(bot, GERMANS)
        assert "You are wordy." in told
        assert "bilby" in told
        assert "numbat" not in told


async def test_a_chinese_chat_hears_chinese_notices(tmp_path: Path) -> None:
    chats = {f"telegram:{GERMANS}": {"language": "zh"}}
    async with opened_bot(tmp_path, chats=chats, models={}) as bot:
        told = await ask(bot, GERMANS)
        assert "numbat" in told
        assert "没有配置语言模型" in told
        assert "没有配置语言模型" not in await ask(bot, "-100")


async def test_settings_show_what_is_different(tmp_path: Path) -> None:
    async with opened_bot(tmp_path) as bot:
        await bot.deliver(Sender(GERMANS, author="1"), command="settings")
        notes = bot.adapter("telegram").forms[-1].notes
        assert notes == (
            "persona in this chat: You are terse.",
            "answers in this chat are written in: German",
            "searched in this chat: docs",
        )
        await bot.deliver(Sender("-100", author="1"), command="settings")
        assert bot.adapter("telegram").forms[-1].notes == ()


async def test_a_chat_with_its_own_models_tells_no_other_model(tmp_path: Path) -> None:
    async with ScriptedPeer(write=repeat) as peer:
        team = {"main": {"base_url": peer.base_url, "model": "cellar"}}
        chats = {f"telegram:{GERMANS}": {"models": "team"}}
        async with opened_bot(tmp_path, chats=chats, team=team) as bot:
            assert "numbat" in await ask(bot, GERMANS)
            assert bot.get_requests() == ""
            assert peer.agents == ["write"]
            await bot.deliver(Sender(GERMANS, author="1"), command="settings")
            assert bot.adapter("telegram").forms[-1].notes == ("language models of this chat: team (cellar)",)


def test_a_source_that_is_not_configured_is_named(tmp_path: Path) -> None:
    chats = {"telegram:-5": {"sources": ["handbok"]}}
    with pytest.raises(ValidationError, match=r"chats\.telegram:-5\.sources.*handbok"):
        make_settings(tmp_path, "http://localhost", chats=chats)


def test_a_source_that_is_searched_with_others_only_is_named(tmp_path: Path) -> None:
    chats = {"telegram:-5": {"sources": ["docs"]}}
    agents = {"main": {"sources": ["docs", "forum"]}}
    with pytest.raises(ValidationError, match=r"docs is searched only together with forum: name these too"):
        make_settings(tmp_path, "http://localhost", chats=chats, agents=agents)
    agents["docs"] = {"sources": ["docs"]}
    assert make_settings(tmp_path, "http://localhost", chats=chats, agents=agents)


def test_former_keys_name_the_new_ones() -> None:
    assert "chats: {CHAT: {mode: ...}}" in describe_former_key(["gate", "modes"])
    assert describe_former_key(["gate", "mode"]) == ""
