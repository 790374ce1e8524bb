"""Words of a closed answer that somebody carries into a public place are the bot's own, whichever bot is asked."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiogram.types import Update
from sqlalchemy import select

from bots.discord.convert import Identity as DiscordIdentity, Location, time_snowflake, to_message as to_discord_message
from bots.discord.forwards import ForwardReader
from bots.slack.convert import Identity as SlackIdentity, from_event
from bots.telegram.convert import Identity as TelegramIdentity, to_message
from core.settings import Settings
from core.storage.tables import messages
from core.types import Message
from tests.support.recording_bot import RecordingAdapter, open_bot

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

TOLD = "The release date of the launcher is the first of May, numbat."


class OtherBot(RecordingAdapter):
    """The adapter of another bot of the daemon's."""

    bot_id = "900"
    label = "telegram of another bot"


def share_on_slack(kind: str) -> Message:
    attachment = {"author_id": "UBOT", "text": TOLD, "channel_id": "C200", "ts": "1.1", "fallback": TOLD, kind: True}
    event = {"type": "message", "channel": "C100", "ts": f"{time.time():.6f}", "user": "U42", "team": "T1"}
    event |= {"text": "<@UBOT> when is the release of the launcher?", "attachments": [attachment]}
    message = from_event({"team_id": "T1", "event": event}, SlackIdentity("UBOT", "kimas", "T1", "t", "BBOT"))
    assert isinstance(message, Message)
    return message


def reply_on_telegram() -> Message:
    chat = {"id": -100, "type": "supergroup", "title": "p"}
    answer = {"message_id": 55, "date": int(time.time()), "chat": chat, "text": TOLD}
    answer["from"] = {"id": 900, "is_bot": True, "first_name": "A", "username": "a_bot"}
    event: dict[str, Any] = {"message_id": 77, "date": int(time.time()), "chat": chat, "reply_to_message": answer}
    event |= {"text": "@b_bot is this right?", "entities": [{"type": "mention", "offset": 0, "length": 6}]}
    event["from"] = {"id": 42, "is_bot": False, "first_name": "Ann"}
    message = to_message(Update.model_validate({"update_id": 1, "message": event}), TelegramIdentity(901, "b_bot"))
    assert isinstance(message, Message)
    return message


class ClosedChannel:
    """Has the answer that was forwarded."""

    async def get_message(self, channel: str, message: str) -> dict[str, Any]:
        assert (channel, message) == ("200", "5")
        return {"id": message, "author": {"id": "900", "username": "kimas"}, "content": TOLD}


async def forward_on_discord(*, is_reply: bool) -> Message:
    """Forward the answer with a question, or ask in reply to a forward of somebody else's."""
    forward: dict[str, Any] = {"message_reference": {"type": 1, "channel_id": "200", "message_id": "5"}}
    forward |= {"message_snapshots": [{"message": {"content": TOLD, "type": 0}}], "content": "", "type": 0}
    forward |= {"id": "7", "channel_id": "300", "author": {"id": "43", "username": "bob"}}
    asked = {"content": "<@900> what does this mean?", "mentions": [{"id": "900", "username": "kimas"}]}
    asked |= {"id": str(time_snowflake(datetime.now(UTC))), "author": {"id": "42", "username": "ann"}}
    event = {**forward, **asked} if not is_reply else {**asked, "type": 19, "referenced_message": forward}
    message = to_discord_message(event, DiscordIdentity("900", "kimas", "900"), Location("300", "300", guild="1"))
    assert isinstance(message, Message)
    reader = ForwardReader(cast("DiscordClient", ClosedChannel()))
    return await reader.with_origins(message, event, event.get("referenced_message"))


async def make(kind: str) -> Message:
    if kind.startswith("is_"):
        return share_on_slack(kind)
    if kind == "reply to another bot":
        return reply_on_telegram()
    return await forward_on_discord(is_reply=kind == "reply to a forward")


@pytest.mark.parametrize("kind", ["is_share", "is_msg_unfurl", "reply to another bot", "forward", "reply to a forward"])
async def test_words_of_a_closed_answer_are_not_taken_up(tmp_path: Path, kind: str) -> None:
    message = await make(kind)
    assert "numbat" in message.quoted
    for name in ("docs", "team"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text(f"# Launcher\n\nThe launcher has a button for the {name}.\n", "utf-8")
    sources = {name: {"kind": "files", "path": tmp_path / name} for name in ("docs", "team")}
    sources["team"]["audience"] = ["owners"]
    settings = Settings.model_validate(
        {"data_dir": tmp_path / "data", "sources": sources, "telegram": {"token": {"env": "TELEGRAM"}}}
    )
    async with open_bot(settings, is_read=True) as bot:
        bot.processor.handler_for(OtherBot("telegram"))
        await bot.processor.handler_for(bot.adapter(message.key.platform))(message)
        await bot.processor.join()
        rows = await bot.journal.database.fetch_all(select(messages.c.quotes_bot, messages.c.quoted_authors))
    assert [(row.quotes_bot, row.quoted_authors) for row in rows] == [(True, None)]
