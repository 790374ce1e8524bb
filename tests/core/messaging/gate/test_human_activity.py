"""Somebody is typing: the bot that nobody asked waits a little, and judges again by what they wrote."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from sqlalchemy import select

from bots.common.dry_run import DryRunAdapter
from bots.common.namespaced import NamespacedAdapter
from bots.discord.adapter import DiscordAdapter, TypingTracker
from core.messaging.gate.human_activity import wait_while_typing
from core.messaging.inbox import Inbox
from core.ports import Sink
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import ConversationKey, Question, Reply
from tests.support import discord_helpers
from tests.support.fixtures import InMemoryLibrary, settings
from tests.support.peers.discord import Author, DiscordPeer
from tests.support.plain_bot import Plain, message
from tests.support.waiting import until
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")

QUESTION = "How do I install the package with pip?"
BEA = Author("1002", "bea", "Bea")
ROBOT = Author("2001", "echo", "Echo", bot=True)
WAIT_S = 2.0


class Watched(DiscordAdapter):
    """The real one; `waiting` is set once it was asked who is typing, and somebody was."""

    waiting: asyncio.Event

    def is_typing(self, key: ConversationKey) -> bool:
        typing = super().is_typing(key)
        if typing:
            self.waiting.set()
        return typing


@dataclass
class Channel:
    peer: DiscordPeer
    journal: Journal
    processor: Inbox
    adapter: Watched
    id: str

    async def wait_until_finished(self, number: str) -> tuple[str, str]:
        """Wait until a message is finished; return how."""
        query = select(messages.c.state, messages.c.reason).where(messages.c.id == number)
        async with asyncio.timeout(30):
            while True:
                async with self.journal.database.connect() as connection:
                    row = (await connection.execute(query)).first()
                if row is not None and row.state in ("answered", "silent"):
                    return row.state, row.reason
                await asyncio.sleep(0.02)

    async def show_typing(self, channel_id: str, person: Author) -> None:
        """Let somebody type until the adapter knows; what it knows ends soon."""
        async with asyncio.timeout(30):
            while not self.adapter.is_typing(ConversationKey("discord", channel_id)):
                await self.peer.write(channel_id, person)
                await asyncio.sleep(0.005)

    async def over(self) -> None:
        """Wait until nobody is known to type in the channel any more."""
        await until(lambda: not self.adapter.is_typing(ConversationKey("discord", self.id)))


async def answer(question: Question, sink: Sink) -> Reply:
    reply = Reply("Use pip.")
    await sink.finish(reply)
    return reply


@pytest.fixture
def typed_s() -> float:
    """For how long somebody is taken to be typing: longer than a busy machine needs from one notice to the next."""
    return 10


@pytest.fixture
async def channel(tmp_path: Path, typed_s: float) -> AsyncIterator[Channel]:
    async with AsyncExitStack() as stack:
        peer = await stack.enter_async_context(DiscordPeer())
        journal = await Journal.open(tmp_path / "journal.db")
        stack.push_async_callback(journal.close)
        configured = settings(gate={"mode": "auto", "wait_s": WAIT_S})
        processor = make_processor(configured, journal, answer, InMemoryLibrary())
        pace = replace(discord_helpers.PACE, typing_ttl_s=typed_s)
        adapter = Watched(discord_helpers.settings(peer, tmp_path), discord_helpers.Positions(), pace)
        adapter.waiting = asyncio.Event()
        channel_id = peer.channel()
        await stack.enter_async_context(discord_helpers.listening(peer, adapter, processor.handler_for(adapter)))
        stack.push_async_callback(processor.drain, 0)
        yield Channel(peer, journal, processor, adapter, channel_id)


@pytest.mark.parametrize(
    ("person", "expected_text", "reason"),
    [
        (BEA, "With pip install kimas, as for everything", "a human replied"),
        (Author(), "never mind, found it", "the asker took the question back"),
    ],
)
async def test_who_is_typing_is_waited_for_and_heard(
    channel: Channel, person: Author, expected_text: str, reason: str
) -> None:
    question = await channel.peer.say(channel.id, QUESTION)
    async with typing_on(channel, person):
        await asyncio.wait_for(channel.adapter.waiting.wait(), 30)
        assert channel.peer.messages(channel.id) == [], "the wait alone is over"
        await channel.peer.say(channel.id, expected_text, author=person)
    assert await channel.wait_until_finished(question) == ("silent", reason)


async def test_who_types_for_ever_is_not_waited_for(channel: Channel) -> None:
    started_at = time.monotonic()
    question = await channel.peer.say(channel.id, QUESTION)
    async with typing_on(channel, BEA):
        state, _ = await channel.wait_until_finished(question)
    assert state == "answered"
    assert time.monotonic() - started_at > 1.5 * WAIT_S, "it waited once more, as long"


@asynccontextmanager
async def typing_on(channel: Channel, person: Author) -> AsyncIterator[None]:
    """Let somebody type all the time."""

    async def type_on() -> None:
        while True:
            await channel.peer.write(channel.id, person)
            await asyncio.sleep(0.2)

    typing = asyncio.create_task(type_on())
    try:
        yield
    finally:
        typing.cancel()
        await asyncio.gather(typing, return_exceptions=True)


@pytest.mark.parametrize("typed_s", [0.3])
async def test_bots_and_other_channels_are_not_waited_for(channel: Channel) -> None:
    other = channel.peer.channel()
    await channel.peer.write(other, BEA)
    await channel.peer.write(channel.id, ROBOT)
    await channel.peer.write(channel.id, channel.peer.me)
    await channel.show_typing(channel.id, BEA)
    await channel.over()
    await channel.peer.write(channel.id, ROBOT)
    await channel.show_typing(other, BEA)
    assert not channel.adapter.is_typing(ConversationKey("discord", channel.id))
    assert channel.adapter.is_typing(ConversationKey("discord", "above", other)), "a thread is a channel of its own"


def test_notices_that_make_no_sense_are_nobody_typing() -> None:
    typing = TypingTracker("5001", 10)
    for event in ({}, {"channel_id": "1"}, {"channel_id": "1", "user_id": None}, {"channel_id": "1", "user_id": 5001}):
        typing.on_typing(event)
    assert not typing.is_typing(ConversationKey("discord", "1"))
    typing.on_typing({"channel_id": "1", "user_id": "7", "member": "somebody"})
    assert typing.is_typing(ConversationKey("discord", "1"))


class Writing(Plain):
    """An adapter of a platform that tells who is writing; it notes where it was asked for."""

    def __init__(self) -> None:
        super().__init__("http")
        self.asked_for: list[ConversationKey] = []

    def is_typing(self, key: ConversationKey) -> bool:
        self.asked_for.append(key)
        return True


async def test_a_stop_ends_the_wait_and_other_platforms_know_nothing() -> None:
    async def no_time(seconds: float) -> bool:
        return False

    writing = Writing()
    request = message("1", "two", key=ConversationKey("http", "5@two"))
    assert not await wait_while_typing(NamespacedAdapter("two", writing), request, 10, no_time)
    assert writing.asked_for == [ConversationKey("http", "5")], "by the name that the platform knows"
    assert not await wait_while_typing(DryRunAdapter(writing), request, 10, no_time)
    assert await wait_while_typing(writing, request, 0, no_time)
    for adapter in (Plain("slack"), NamespacedAdapter("two", Plain("slack")), DryRunAdapter(Plain("slack"))):
        assert await wait_while_typing(adapter, request, 10, no_time)
    assert not Plain("slack").is_typing(request.key)
