"""Commands on Discord: how they are registered, who may give them, and who sees the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from bots.daemon.adapters import JournalPositions
from bots.discord.adapter import DiscordAdapter
from bots.discord.application_commands import (
    ADMINISTRATOR,
    MANAGE_GUILD,
    build_slash_commands,
    format_options,
    is_server_admin,
    suggest_sources,
)
from bots.discord.convert import Identity, to_command
from core.catalogue import ENGLISH
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.policy.command_table import COMMANDS, get_command
from core.settings import DiscordSettings, Secret
from core.storage.messages import Journal
from core.types import ConversationKey, Message
from tests.conformance.bot import Script
from tests.support import discord_helpers
from tests.support.fixtures import settings
from tests.support.peers.discord import EPHEMERAL, Author, DiscordPeer, Interaction
from tests.support.waiting import until
from tests.support.wiring import listen

ANN = Author("1001")
BOSS = Author("1003", "boss", "Boss")
OWNER = Author("1009", "owner", "Owner")
SOURCES = {name: {"kind": "faq", "path": f"{name}.yaml"} for name in ("docs", "code", "old-docs")}
ME = Identity("5001", "kimas", "5002")

PRIVATE_THREAD = 12

Start = Callable[..., Awaitable[CommandDispatcher]]


@pytest.fixture
async def peer() -> AsyncIterator[DiscordPeer]:
    async with DiscordPeer() as peer:
        # A busy machine is late with its acknowledgements; other tests look at those.
        peer.acknowledge_s = 30
        yield peer


@pytest.fixture
async def start(peer: DiscordPeer, tmp_path: Path) -> AsyncIterator[Start]:
    """Return what starts a bot that listens to the peer."""
    async with AsyncExitStack() as stack:

        async def started(**administration: object) -> CommandDispatcher:
            journal = await Journal.open(tmp_path / "journal.db")
            stack.push_async_callback(journal.close)
            configuration = settings(
                administration={"owners": [f"discord:{OWNER.id}"], **administration}, sources=SOURCES
            )
            adapter = DiscordAdapter(
                discord_helpers.settings(peer, tmp_path),
                JournalPositions(journal, "discord"),
                discord_helpers.PACE,
                get_sources=AsyncMock(return_value=tuple(configuration.sources)),
            )
            dispatcher = await listen(stack, adapter, configuration, journal, Script())
            await peer.connected()
            return dispatcher

        yield started


async def run_command(peer: DiscordPeer, channel_id: str, name: str, author: Author, **options: Any) -> Interaction:
    """Give a command and wait for its answer."""
    command = await peer.command(channel_id, name, author, **options)
    await peer.wait_until(lambda: command.response_message is not None and bool(command.response_message.content), 30)
    return command


def test_every_command_is_registered_in_discords_own_terms() -> None:
    slash_commands_by_name = {slash_command["name"]: slash_command for slash_command in build_slash_commands(COMMANDS)}
    assert set(slash_commands_by_name) == {item.name for item in COMMANDS} - {"start"}
    for name, entry in slash_commands_by_name.items():
        command = get_command(name)
        assert command is not None
        assert ("default_member_permissions" in entry) is (command.required_role != "everyone")
        assert entry.get("default_member_permissions", str(MANAGE_GUILD)) == str(MANAGE_GUILD)
    action, source, factor = slash_commands_by_name["sources"]["options"]
    assert [choice["value"] for choice in action["choices"]] == ["on", "off", "scale"]
    assert source["autocomplete"]
    assert (factor["type"], factor["min_value"], factor["max_value"]) == (10, 0.1, 10)
    minutes, pause_option = slash_commands_by_name["pause"]["options"]
    assert (pause_option["type"], pause_option["autocomplete"]) == (3, True)
    assert (minutes["type"], minutes["min_value"], minutes["required"]) == (4, 1, False)
    # A number or a word can only be a text there.
    assert slash_commands_by_name["threshold"]["options"][0]["type"] == 3
    assert slash_commands_by_name["ask"]["options"][0]["required"]
    assert slash_commands_by_name["help"]["options"] == []


def test_options_are_read_in_the_order_of_the_table() -> None:
    options: list[Any] = [
        {"name": "factor", "value": 0.5},
        {"name": "source", "value": "docs"},
        {"name": "action", "value": "off"},
    ]
    assert format_options("sources", options) == "off docs 0.5"
    assert format_options("unknown", [{"name": "x", "value": " 1 "}]) == "1"


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        (str(MANAGE_GUILD), True),
        (str(ADMINISTRATOR), True),
        ("2048", False),
        ("", False),
        (None, False),
        ("-32", False),
    ],
)
def test_permissions_are_bits(permissions: object, expected: bool) -> None:
    assert is_server_admin(permissions) is expected


def test_suggestions_begin_with_what_is_typed() -> None:
    assert [source["value"] for source in suggest_sources("DO", ["old-docs", "docs", "code"])] == ["docs", "old-docs"]
    assert len(suggest_sources("", [f"s{number}" for number in range(40)])) == 25


async def test_an_owner_is_answered_for_their_eyes_alone(peer: DiscordPeer, start: Start) -> None:
    dispatcher = await start()
    channel_id = peer.channel()
    command = await run_command(peer, channel_id, "mode", OWNER, mode="auto")
    assert command.hidden
    assert command.response_message is not None
    assert command.response_message.content == "The mode of this chat is now `auto`; it was `mention`."
    assert dispatcher.context.overrides.mode(f"discord:{channel_id}") == "auto"
    public = await run_command(peer, channel_id, "ask", ANN, question="How?")
    assert not public.hidden


async def test_the_handler_checks_whatever_the_menu_shows(peer: DiscordPeer, start: Start) -> None:
    dispatcher = await start()
    channel_id = peer.channel()
    for person, bits in ((ANN, 0), (BOSS, MANAGE_GUILD)):
        interaction = await run_command(peer, channel_id, "pause", person, permissions=bits)
        assert interaction.hidden
        assert interaction.response_message is not None
        assert interaction.response_message.content == "Only this bot's admins in this chat can do that."
    assert [entry.outcome for entry in await dispatcher.context.audit.get_newest(9, chat=None)] == [
        "refused",
        "refused",
    ]
    private = peer.channel(private=True)
    interaction = await run_command(peer, private, "reload", ANN)
    assert interaction.response_message is not None
    assert interaction.response_message.content.startswith("Only the owners")


async def test_who_manages_the_server_may_when_allowed(peer: DiscordPeer, start: Start) -> None:
    dispatcher = await start(platform_admins=True)
    channel_id = peer.channel()
    pause_reply = await run_command(peer, channel_id, "pause", BOSS, permissions=MANAGE_GUILD, minutes="5")
    assert pause_reply.response_message is not None
    assert pause_reply.response_message.content.startswith("I am silent in this chat until")
    interaction = await run_command(peer, channel_id, "resume", ANN, permissions=2048)
    assert interaction.response_message is not None
    assert interaction.response_message.content.startswith("Only")
    assert dispatcher.context.overrides.paused_until(f"discord:{channel_id}")


async def test_names_of_sources_are_completed(peer: DiscordPeer, start: Start) -> None:
    await start()
    command = await peer.typing(peer.channel(), "sources", "source", "do")
    await peer.wait_until(lambda: command.suggested is not None, 30)
    assert command.suggested == ["docs", "old-docs"]


async def test_all_parts_of_a_long_hidden_answer_are_hidden(peer: DiscordPeer, start: Start) -> None:
    dispatcher = await start()
    channel_id = peer.channel()
    command = Message(
        "1", ConversationKey("discord", channel_id), OWNER.id, "Owner", "x" * 200, datetime.now(UTC), command="mode"
    )
    for number in range(30):
        await dispatcher.context.overrides.change(command, f"discord:{channel_id}", f"note {number}", "y" * 150)
    request = await run_command(peer, channel_id, "audit", OWNER, entries="30")
    await peer.wait_until(lambda: len(peer.messages(channel_id)) > 3, 30)
    assert request.hidden
    assert all(message.flags & EPHEMERAL for message in peer.messages(channel_id))


async def test_a_hidden_answer_never_goes_into_the_channel(peer: DiscordPeer, start: Start) -> None:
    dispatcher = await start()
    channel_id = peer.channel()
    peer.fail("POST /interactions/{}/{}/callback", 404, body={"message": "Unknown interaction", "code": 10062})
    await peer.command(channel_id, "status", OWNER)
    await peer.wait_until(lambda: bool(peer.get_calls("POST /interactions/{}/{}/callback")), 30)
    await peer.command(channel_id, "mode", OWNER, mode="off")
    await until(lambda: dispatcher.context.overrides.mode(f"discord:{channel_id}") == "off")
    assert peer.get_calls("POST /channels/{}/messages") == []


async def test_a_question_in_a_private_thread_is_not_explained_in_the_channel(peer: DiscordPeer, start: Start) -> None:
    await start()
    channel_id = peer.channel()
    thread = peer.channel(parent=channel_id)
    peer.channels[thread].kind = PRIVATE_THREAD
    await peer.gateway.emit("THREAD_CREATE", peer.channels[thread].object())
    await peer.say(thread, "<@5001> whom do we lay off?", author=BOSS)
    await peer.wait_until(lambda: bool(peer.messages(thread)), 30)
    await run_command(peer, thread, "ask", BOSS, question="And when?")
    explanation = await run_command(peer, thread, "why", BOSS)
    assert explanation.response_message is not None
    assert "without a search" in explanation.response_message.content
    outside = await run_command(peer, channel_id, "why", ANN)
    assert outside.response_message is not None
    assert outside.response_message.content == ENGLISH.nothing_answered


def test_a_command_says_whether_its_author_manages_the_server() -> None:
    event = {
        "type": 2,
        "id": "1",
        "token": "t",
        "guild_id": "9",
        "channel": {"id": "7", "type": 0},
        "member": {"user": {"id": "1003", "username": "boss"}, "permissions": str(MANAGE_GUILD | 2048)},
        "data": {"type": 1, "name": "pause", "options": [{"name": "minutes", "value": 5}]},
    }
    message = to_command(event, ME)
    assert isinstance(message, Message)
    assert (message.command, message.text, message.reference["administrator"]) == ("pause", "5", True)
    member_command = to_command({**event, "member": {"user": {"id": "1"}, "permissions": "2048"}}, ME)
    assert isinstance(member_command, Message)
    assert "administrator" not in member_command.reference


@pytest.mark.parametrize(("minutes", "is_admin"), [(1, True), (20, False)])
async def test_whoever_managed_the_server_long_ago_may_not_any_more(minutes: int, *, is_admin: bool) -> None:
    """What waits in the journal, as over an outage, was given by who may have lost the right since."""
    given_at = datetime.now(UTC) - timedelta(minutes=minutes)
    reference = {"interaction": "1", "administrator": True}
    command = Message("1", ConversationKey("discord", "7"), "1003", "Boss", "", given_at, reference=reference)
    adapter = DiscordAdapter(DiscordSettings(token=Secret(env="DISCORD")), AsyncMock())
    assert await adapter.is_admin(command) is is_admin
