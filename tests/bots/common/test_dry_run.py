"""A dry run on all platforms at once: everything is read and decided, and nothing at all is shown."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bots.common.dry_run import JOURNAL_COPY_NAME, make_read_only
from core.errors import PlatformError
from core.observability.logs import configure_logs
from core.settings import LogSettings
from tests.support.deployment import README, Deployment, logging_as_it_was
from tests.support.dry_runs import daemon, get_withheld_replies
from tests.support.free_ports import free_port
from tests.support.http_helpers import event
from tests.support.peers.callback import SECRET, CallbackPeer
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.slack import SlackPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("time_lapse")

GROUP = -100
QUESTION_TEXT = "How do I change the signing key?"
SHOWS_NOTHING = {
    "telegram": {"getMe", "getWebhookInfo", "getUpdates", "getFile", "getChatAdministrators"},
    "slack": {"auth.test", "apps.connections.open", "conversations.info", "files.info"},
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    with logging_as_it_was():
        configure_logs(LogSettings(format="json"), stream)
        yield stream


def states(folder: Path, name: str) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(folder / "data" / name)) as journal:
        return list(journal.execute("SELECT platform, text, state FROM messages ORDER BY number"))


async def test_nothing_is_shown_anywhere_and_nothing_counts_as_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    async with TelegramPeer() as telegram, DiscordPeer() as discord, SlackPeer() as slack, CallbackPeer() as network:
        secrets = {"T": telegram.token, "D": discord.token, "SB": slack.bot_token, "SA": slack.app_token, "H": SECRET}
        for name, value in secrets.items():
            monkeypatch.setenv(name, value)
        port = free_port()
        settings = {
            "sources": {"rocket": {"kind": "files", "path": "docs"}},
            "telegram": {"token": {"env": "T"}, "api_url": telegram.api_url},
            "discord": {"token": {"env": "D"}, "api_url": discord.api_url},
            "slack": {"bot_token": {"env": "SB"}, "app_token": {"env": "SA"}, "api_url": slack.api_url},
            "http": {"secret": {"env": "H"}, "callback_url": network.url, "port": port, "allow_private": ["127.0.0.1"]},
        }
        deployment = Deployment(tmp_path, settings)
        await asyncio.to_thread(deployment.call, "ingest")
        (tmp_path / "data" / JOURNAL_COPY_NAME).write_text("left behind by a run that was killed")
        async with daemon(deployment, dry=True):
            await discord.connected(30)
            channel_id = discord.channel()
            telegram.say(GROUP, f"@kimas_bot {QUESTION_TEXT}")
            telegram.say(7, QUESTION_TEXT)
            await discord.say(channel_id, f"{discord.mention} {QUESTION_TEXT}")
            await until(lambda: slack.deliveries.connections)
            slack.say("C1", f"<@UBOT> {QUESTION_TEXT}")
            command = slack.command(f"ask {QUESTION_TEXT}")
            await until(lambda: len(get_withheld_replies(log)) == 5)
            assert (await network.send(port, event(text=QUESTION_TEXT)))[0] == 202
            await until(lambda: len(get_withheld_replies(log)) == 6)
            assert {state for _, _, state in states(tmp_path, JOURNAL_COPY_NAME)} <= {
                "answered",
                "sending",
                "answering",
            }
        messages = get_withheld_replies(log)
        assert all("rotate_keys" in message["text"] and message["asked"] == QUESTION_TEXT for message in messages)
        assert all(message["sources"] for message in messages)
        # Nothing but reading was asked of any platform.
        assert {call.method for call in telegram.calls} <= SHOWS_NOTHING["telegram"]
        assert {call.method for call in slack.calls} <= SHOWS_NOTHING["slack"]
        assert {call.name.split()[0] for call in discord.calls} == {"GET"}
        assert (network.tries, network.violations) == (0, [])
        assert telegram.messages(GROUP) == slack.messages("C1") == discord.messages(channel_id) == []
        assert command.answer == ""
        assert telegram.commands == {}
        assert not (tmp_path / "data" / JOURNAL_COPY_NAME).exists()
        # As a dry run that was killed leaves it.
        (tmp_path / "data" / JOURNAL_COPY_NAME).write_text("what people said")
        # For the run after it none of these was answered, nor received.
        async with daemon(deployment, dry=False):
            telegram.say(GROUP, f"@kimas_bot once more: {QUESTION_TEXT}")
            await telegram.wait_for_reply(GROUP, 30, containing="rotate_keys")
        assert [text for _, text, _ in states(tmp_path, "journal.db")] == [f"once more: {QUESTION_TEXT}"]
        assert telegram.commands
        assert not (tmp_path / "data" / JOURNAL_COPY_NAME).exists()


async def test_a_source_that_a_dry_run_lacks_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    async with TelegramPeer() as telegram:
        monkeypatch.setenv("T", telegram.token)
        settings = {"telegram": {"token": {"env": "T"}, "api_url": telegram.api_url}}
        source = {"kind": "files", "path": "docs"}
        full_deployment = Deployment(tmp_path, {**settings, "sources": {"rocket": source, "more": source}})
        await asyncio.to_thread(full_deployment.call, "ingest")
        deployment = Deployment(tmp_path, {**settings, "sources": {"rocket": source}})
        async with daemon(deployment, dry=True):
            telegram.say(7, QUESTION_TEXT)
            await until(lambda: get_withheld_replies(log))
        assert "source.removed" not in log.getvalue()
        async with daemon(deployment, dry=False):
            await until(lambda: "source.removed" in log.getvalue())


async def test_only_what_is_named_gets_through() -> None:
    class Client:
        url = "here"

        async def read(self) -> str:
            return "read"

        async def post(self, text: str) -> str:
            raise AssertionError("posted")

    client = make_read_only(Client(), ("read", "url"))
    assert (await client.read(), client.url) == ("read", "here")
    with pytest.raises(PlatformError, match="post is not called"):
        await client.post("hello")
