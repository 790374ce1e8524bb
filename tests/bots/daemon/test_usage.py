"""The daemon counts, limits, answers again and forgets: real signals, sockets and peers, in this process."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bots.daemon.runner import run
from core.settings.loader import load_settings
from core.storage.messages import Journal
from core.types import ConversationKey, Message, SkipReason, skip
from tests.support.deployment import README, Deployment
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.waiting import until

GROUP = -100200300
SOON_S = 60
QUESTION_TEXT = "@kimas_bot How do I change the signing key?"


async def wait_for_text(telegram: TelegramPeer, words: str, times: int = 1) -> None:
    """Wait until the bot has said something so many times."""
    await until(lambda: sum(words in message.text for message in telegram.messages(GROUP)) >= times)


async def seed_old_chatter(path: Path) -> None:
    """Journal a message that nobody answered, years ago."""
    journal = await Journal.open(path)
    key = ConversationKey("telegram", "-1")
    chatter = Message("1", key, "42", "Ann", "Nice weather", datetime(2020, 1, 1, tzinfo=UTC))
    await journal.record_message(chatter)
    await journal.mark_skipped(chatter, skip(SkipReason.NOT_ADDRESSED))
    await journal.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE messages SET settled_at = '2020-01-01 00:00:00.000000'")


def rows(path: Path, query: str) -> Sequence[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


async def test_a_day_of_a_group_with_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
                "cache": {"enabled": True},
                "limits": {"daily_tokens_per_chat": 1},
            },
        )
        await asyncio.to_thread(deployment.call, "ingest")
        database = tmp_path / "data" / "journal.db"
        await seed_old_chatter(database)
        daemon_task = asyncio.create_task(run(load_settings([deployment.config])))
        try:
            telegram.say(GROUP, QUESTION_TEXT)
            await wait_for_text(telegram, "rotate_keys")
            calls = len(model.requests)
            telegram.say(GROUP, QUESTION_TEXT)
            await wait_for_text(telegram, "rotate_keys", 2)
            assert len(model.requests) == calls, "given again, and what costs nothing is not limited"
            telegram.say(GROUP, "@kimas_bot How do I install Rocket?")
            await wait_for_text(
                telegram, "Today's limit for this chat is used up (1 tokens). Please ask again after midnight"
            )
            assert len(model.requests) == calls
            os.kill(os.getpid(), signal.SIGTERM)
            assert await asyncio.wait_for(daemon_task, SOON_S) == 0
        finally:
            daemon_task.cancel()
            await asyncio.gather(daemon_task, return_exceptions=True)
        (reason,) = rows(database, "SELECT reason FROM messages WHERE state = 'failed'")
        assert "Today's limit for this chat is used up" in str(reason[0])
        assert rows(database, "SELECT json_extract(trace, '$.cached') FROM messages WHERE state = 'answered'") == [
            (0,),
            (1,),
        ]
        assert rows(database, "SELECT text, author, reason FROM messages WHERE chat = '-1'") == [
            ("", "", "the bot was not addressed")
        ]
        days = (await asyncio.to_thread(deployment.json, "usage"))["days"]
        # It may have become midnight.
        answers, cached, prompt = (sum(day[name] for day in days) for name in ("answers", "cached", "prompt"))
        assert (answers, cached) == (2, 1)
        assert prompt > 0
