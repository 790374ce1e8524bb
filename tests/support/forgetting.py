"""A bot in whose chats Ann says a word that nobody else says, and where the journal has it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bots.daemon.bootstrap import make_live_settings, open_app
from core.messaging.journaling import RecordedSink
from core.settings import Settings
from core.settings.messaging import JournalSettings
from core.storage.engine import Database
from core.storage.messages import Journal
from core.storage.opening import open_database
from core.storage.tables import metadata
from core.types import ConversationKey, Message, Reply
from knowledge.parsing.parser import ThreadParser
from tests.support.knowledge import WordEmbedder
from tests.support.recording_bot import Bot, Sender
from tests.support.scripted import Body, ScriptedPeer

WORD = "numbatological"
# In no other number, and on the audit's and the usage's account kept for a while: docs/security.md says so.
ANN_ID = "770077007"
ANN = Sender("-100", ANN_ID)
BOB = Sender("-100", "43")
OWNER = Sender("-100", "1")
OWNER_ALONE = Sender("1", "1", is_private=True)
SAID = f"The key of the launcher is {WORD} today"
# For how long, and why, docs/security.md says.
KEPT_IN_CHAT = ("answers.author_id", "audit.author_id")


def tell(body: Body) -> str:
    """Say the word as soon as it was told."""
    is_told = WORD in str(body["messages"]).lower()
    return f"{SAID}, as somebody said [p1]." if is_told else "It starts by a button [p1]."


def make_settings(
    folder: Path,
    model: ScriptedPeer,
    journal: JournalSettings,
    models: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Settings:
    return Settings.model_validate(
        {
            "data_dir": str(folder / "data"),
            "sources": {"docs": {"kind": "files", "path": str(folder / "docs")}, "taught": {"kind": "learned"}},
            "agents": {"manual": {"sources": ["docs", "taught"], "description": "The launcher"}},
            "knowledge": {"routing": {"threshold": 0}, "parsing": {"workers": 1}},
            "telegram": {"token": {"env": "TELEGRAM"}},
            "administration": {"owners": ["telegram:1"]},
            "handoff": {"people": ["telegram:7"], "trusted": ["telegram:43"]},
            "models": {"main": {"base_url": model.base_url, "model": "peer"}, **(models or {})},
            "gate": {"mode": "auto", "wait_s": 0, "cooldown_s": 0, "answers_in_10_min": 200},
            "budget": {"deadline_s": 6000},
            "cache": {"enabled": True},
            "journal": journal.model_dump(mode="json"),
            **changes,
        }
    )


@asynccontextmanager
async def opened(folder: Path, journal_settings: JournalSettings, **changes: Any) -> AsyncIterator[Bot]:
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "start.md").write_text("# Launcher\n\nThe launcher starts by a button.\n", "utf-8")
    (folder / "data").mkdir(exist_ok=True)
    async with ScriptedPeer(write=tell, talk=tell) as model:
        settings = make_settings(folder, model, journal_settings, **changes)
        database = await open_database(journal_settings, settings.data_dir)
        live = make_live_settings(settings, database)
        try:
            async with open_app(
                settings, embedder=WordEmbedder(), parser=ThreadParser(), database=database, live=live
            ) as app:
                await app.refresh()
                bot = Bot(app, Journal(database), None, model, live)
                yield bot
                await bot.processor.drain(60)
        finally:
            await database.close()


async def find_columns(database: Database, *kept_columns: str) -> set[str]:
    """Return the columns that have the word or the id."""
    found = set[str]()
    for table in metadata.sorted_tables:
        for row in await database.fetch_all(select(table)):
            found |= {
                f"{table.name}.{name}"
                for name, value in row._asdict().items()
                if WORD in str(value).lower() or ANN_ID in str(value)
            }
    return found - set(kept_columns)


async def forget_ann(bot: Bot) -> None:
    """Let Ann say /forget in another thread."""
    key = ConversationKey("telegram", ANN.chat, "elsewhere")
    command = Message("forget", key, ANN_ID, "Ann", "", datetime.now(UTC), addressed=True, command="forget")
    await bot.journal.record_message(command)
    await bot.journal.erase_author(command)


def forget_before_showing(monkeypatch: pytest.MonkeyPatch, bot: Bot) -> list[str]:
    """Let Ann forget once the next answer is written, and before it is shown. Return where what is written goes."""
    finish = RecordedSink.finish
    written = list[str]()

    async def forget_and_finish(sink: RecordedSink, reply: Reply) -> None:
        written.append(reply.text)
        await forget_ann(bot)
        await finish(sink, reply)

    monkeypatch.setattr(RecordedSink, "finish", forget_and_finish)
    return written


def shows(bot: Bot, word: str) -> bool:
    """Return whether whole answers have a word; what was shown of one before its end is another matter."""
    return any(word in reply.text for sink in bot.adapter("telegram").sinks for reply in sink.replies)
