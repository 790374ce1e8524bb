"""Commands on Telegram: the menus, and who administers a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bots.common.connection import Unreachable
from bots.daemon.adapters import JournalPositions
from bots.telegram.adapter import TelegramAdapter
from bots.telegram.commands import AdministratorCache
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.policy.command_table import COMMANDS
from core.storage.messages import Journal
from core.types import ConversationKey, Message
from tests.conformance.bot import Script
from tests.conformance.platforms import TELEGRAM_PACE
from tests.support.fixtures import settings
from tests.support.peers.telegram import Author, TelegramPeer
from tests.support.telegram_helpers import settings as telegram_settings
from tests.support.wiring import listen

GROUP = -1005
ANN = Author(1001, "Ann")
BOSS = Author(1003, "Boss")
OWNER = Author(1001001, "Owner")
GROUP_AUTHOR = Author(1087968824, "Group", "GroupAnonymousBot", is_bot=True)

Start = Callable[..., Awaitable[CommandDispatcher]]


@pytest.fixture
async def peer() -> AsyncIterator[TelegramPeer]:
    async with TelegramPeer() as peer:
        peer.chat(GROUP).administrators = [BOSS]
        yield peer


@pytest.fixture
async def start(peer: TelegramPeer, tmp_path: Path) -> AsyncIterator[Start]:
    """Return what starts a bot that listens to the peer."""
    async with AsyncExitStack() as stack:

        async def started(**administration: object) -> CommandDispatcher:
            journal = await Journal.open(tmp_path / "journal.db")
            stack.push_async_callback(journal.close)
            adapter = TelegramAdapter(
                telegram_settings(peer, tmp_path), JournalPositions(journal, "telegram"), TELEGRAM_PACE
            )
            configuration = settings(administration={"owners": [f"telegram:{OWNER.id}"], **administration})
            return await listen(stack, adapter, configuration, journal, Script())

        yield started


async def send_command(peer: TelegramPeer, text: str, author: Author, **extra_fields: Any) -> str:
    message_count = len(peer.messages(GROUP))
    peer.say(GROUP, text, author=author, **extra_fields)
    return (await peer.wait_for_reply(GROUP, 30, count=message_count + 1)).text


async def test_each_menu_shows_what_its_readers_may_do(peer: TelegramPeer, start: Start) -> None:
    await start()
    commands = {scope: [entry["command"] for entry in menu] for scope, menu in peer.commands.items()}
    everyone = [command.name for command in COMMANDS if command.required_role == "everyone"]
    assert commands["default"] == commands["all_private_chats"] == commands["all_group_chats"] == everyone
    assert set(commands["all_chat_administrators"]) == {
        command.name for command in COMMANDS if command.required_role != "owner"
    } - {"start"}


async def test_an_owner_commands_in_a_group_and_gets_a_reply(peer: TelegramPeer, start: Start) -> None:
    await start()
    answer = await send_command(peer, "/mode@kimas_bot auto", OWNER)
    assert answer.startswith("The mode of this chat is now auto; it was mention. I do not see all messages here")
    assert peer.messages(GROUP)[-1].reply_to is not None
    assert await send_command(peer, "/mode off", ANN) == "Only this bot's admins in this chat can do that."
    assert peer.get_calls("getChatAdministrators") == []


async def test_administrators_of_the_group_are_looked_up_once_in_a_while(peer: TelegramPeer, start: Start) -> None:
    dispatcher = await start(platform_admins=True)
    assert (await send_command(peer, "/pause 5", BOSS)).startswith("I am silent in this chat until")
    assert (await send_command(peer, "/resume", ANN)).startswith("Only")
    assert dispatcher.context.overrides.paused_until(f"telegram:{GROUP}")
    assert len(peer.get_calls("getChatAdministrators")) == 1


async def test_who_writes_in_the_groups_name_is_an_administrator_and_no_more(peer: TelegramPeer, start: Start) -> None:
    await start(platform_admins=True, owners=["telegram:1087968824", "telegram:1005"])
    group = {"sender_chat": {"id": GROUP, "type": "supergroup", "title": "Team"}}
    assert (await send_command(peer, "/pause", GROUP_AUTHOR, **group)).startswith("I am silent")
    assert (
        await send_command(peer, "/sources off docs", GROUP_AUTHOR, **group)
        == "Only the owners of this bot may do that."
    )
    channel = {"sender_chat": {"id": -1009, "type": "channel", "title": "News"}}
    assert (await send_command(peer, "/resume", GROUP_AUTHOR, **channel)).startswith("Only this bot's admins")


async def test_without_leave_nobody_who_is_anonymous_may_anything(peer: TelegramPeer, start: Start) -> None:
    await start()
    group = {"sender_chat": {"id": GROUP, "type": "supergroup", "title": "Team"}}
    assert (await send_command(peer, "/pause", GROUP_AUTHOR, **group)).startswith("Only")


async def test_another_bots_command_and_an_edited_one_do_nothing(peer: TelegramPeer, start: Start) -> None:
    dispatcher = await start()
    peer.say(GROUP, "/pause@kimas_bot", author=Author(OWNER.id, "Robot", is_bot=True))
    message = peer.say(GROUP, "hello all", author=OWNER)
    peer.edit(GROUP, message, "/mode@kimas_bot off")
    assert "Version" in await send_command(peer, "/status", OWNER)
    assert dispatcher.context.overrides.mode(f"telegram:{GROUP}") is None
    assert not dispatcher.context.overrides.paused_until(f"telegram:{GROUP}")


async def test_a_replied_to_silence_is_explained(peer: TelegramPeer, start: Start) -> None:
    await start()
    message = peer.say(GROUP, "nice weather", author=ANN)
    assert await send_command(peer, "/why", ANN, reply_to=message) == "Why I was silent: the bot was not addressed."


async def test_telegram_that_does_not_answer_makes_no_administrators(peer: TelegramPeer, start: Start) -> None:
    await start(platform_admins=True)
    peer.fail("getChatAdministrators", 502)
    assert (await send_command(peer, "/pause", BOSS)).startswith("Only")
    assert (await send_command(peer, "/pause", BOSS)).startswith("I am silent")


def from_(author: str, *, chat: str = str(GROUP), private: bool = False) -> Message:
    key = ConversationKey("telegram", chat)
    return Message("1", key, author, "Ann", "", datetime.now(UTC), private=private, command="pause")


class AdministratorClient:
    """What the administrators are asked of; the second time it cannot be reached."""

    def __init__(self, *count: int) -> None:
        self.counts = list(count)
        self.times = 0

    async def get_administrators(self, chat_id: int) -> frozenset[int]:
        self.times += 1
        if not self.counts:
            raise Unreachable("no route")
        return frozenset(self.counts)


async def test_what_is_remembered_ends() -> None:
    client = AdministratorClient(1003)
    administrators = AdministratorCache(ttl_s=0.5)
    assert await administrators.is_admin(client, from_("1003"))  # type: ignore[arg-type]
    assert not await administrators.is_admin(client, from_("1001"))  # type: ignore[arg-type]
    assert client.times == 1
    client.counts.clear()
    await asyncio.sleep(0.51)
    with pytest.raises(Unreachable):
        await administrators.is_admin(client, from_("1003"))  # type: ignore[arg-type]


async def test_a_private_chat_and_a_channel_are_not_asked_about() -> None:
    client = AdministratorClient(1003)
    administrators = AdministratorCache()
    assert not await administrators.is_admin(client, from_("1003", chat="1003", private=True))  # type: ignore[arg-type]
    assert not await administrators.is_admin(client, from_("-1009"))  # type: ignore[arg-type]
    assert client.times == 0
