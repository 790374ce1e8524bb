"""Posts and other bots on Discord and Slack: commented on in time, counted twice, never answered, never too many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from bots.discord.adapter import DiscordAdapter
from bots.slack.adapter import SlackAdapter
from core.ports import Adapter, Sink
from core.storage.messages import Journal
from core.storage.tables import messages
from core.types import Citation, Question, Reply
from tests.support import discord_helpers, slack_helpers
from tests.support.fixtures import InMemoryLibrary, settings
from tests.support.peers.discord import Author, DiscordPeer
from tests.support.peers.slack import SlackPeer
from tests.support.wiring import make_processor, running

pytestmark = pytest.mark.usefixtures("time_lapse")

GOOD = Reply("Gold, at last! [1]", (Citation(1, "p", "docs", "Final", "final.md", "https://example.org/final"),))
NEWS = 5
FORUM = 15
CROSSPOST = 1 << 1
COMPETITORS = [Author(str(number), f"robot{number}", f"Robot {number}", bot=True) for number in (2001, 2002, 2003)]


@dataclass
class Writing:
    """Writes the same comment to every post; while it is being written, `meanwhile` happens."""

    meanwhile: Callable[[], Awaitable[object]] | None = None
    started_event: asyncio.Event = field(default_factory=asyncio.Event)
    questions: list[str] = field(default_factory=list)

    async def answer(self, question: Question, sink: Sink) -> Reply:
        self.questions.append(question.text)
        self.started_event.set()
        await sink.open()
        await sink.update("Gold")
        if self.meanwhile:
            await self.meanwhile()
        await sink.finish(GOOD)
        return GOOD


@dataclass
class Board:
    journal: Journal
    writing: Writing

    async def outcomes(self) -> dict[str, tuple[str, str]]:
        query = select(messages.c.text, messages.c.state, messages.c.reason)
        async with self.journal.database.connect() as connection:
            return {row.text: (row.state, row.reason) for row in (await connection.execute(query)).all()}

    async def wait_for_messages(self, *texts: str) -> None:
        """Wait until these messages are in the journal: while a comment is written, its conversation waits."""
        async with asyncio.timeout(30):
            while not set(texts) <= set(await self.outcomes()):
                await asyncio.sleep(0.01)

    async def until(self, *texts: str, timeout: float = 30) -> list[tuple[str, str]]:
        """Wait until these messages came to their end, and return how."""
        async with asyncio.timeout(timeout):
            while True:
                results = await self.outcomes()
                if all(results.get(text, ("", ""))[0] in ("answered", "silent", "failed") for text in texts):
                    return [results[text] for text in texts]
                await asyncio.sleep(0.01)


@asynccontextmanager
async def board(folder: Path, adapter: Adapter, chat: str, **changes: object) -> AsyncIterator[Board]:
    journal = await Journal.open(folder / "journal.db")
    writing = Writing()
    # Longer than usual, for a machine that has much to do.
    configuration = settings(auto_comment={"chats": [chat], "deadline_s": 60, **changes})
    processor = make_processor(configuration, journal, writing.answer, InMemoryLibrary())
    try:
        async with running(adapter, processor, drain_s=0):
            yield Board(journal, writing)
    finally:
        await journal.close()


@asynccontextmanager
async def on_discord(
    folder: Path, kind: int = NEWS, **changes: object
) -> AsyncIterator[tuple[Board, DiscordPeer, str]]:
    async with DiscordPeer() as peer:
        channel_id = peer.channel(kind)
        discord_settings = discord_helpers.settings(peer, folder)
        adapter = DiscordAdapter(
            discord_settings, discord_helpers.Positions(), discord_helpers.PACE, bot_message_chats={channel_id}
        )
        async with board(folder, adapter, f"discord:{channel_id}", **changes) as item:
            await peer.connected()
            yield item, peer, channel_id


@asynccontextmanager
async def on_slack(folder: Path, **changes: object) -> AsyncIterator[tuple[Board, SlackPeer]]:
    async with SlackPeer() as peer:
        # A post's age counts from its timestamp.
        peer._clock = int(time.time() * 1e6)
        slack_settings = slack_helpers.settings(peer, folder)
        adapter = SlackAdapter(
            slack_settings, slack_helpers.Threads().answered_in, slack_helpers.PACE, bot_message_chats={"C1"}
        )
        async with board(folder, adapter, "slack:C1", **changes) as item:
            yield item, peer


async def test_discord_announcements_are_commented_on(tmp_path: Path) -> None:
    async with on_discord(tmp_path) as (results, peer, channel_id):
        first = await peer.say(channel_id, "Diving: gold")
        message = await peer.wait_for_reply(channel_id, 30, containing="Gold")
        assert message.reply_to == first
        assert "Gold" not in [text for _, text in message.history]
        # What somebody says to an announcement is none, nor is what another channel's bot says.
        await peer.say(channel_id, "what a final", reply_to=first)
        await peer.say(channel_id, "Published by a followed channel", webhook=True, flags=CROSSPOST)
        await peer.wait_for_reply(channel_id, 30, containing="Gold", count=2)
        await peer.say(channel_id, "An app's own news", webhook=True)
        assert await results.until("what a final", "An app's own news") == [
            ("silent", "the bot was not addressed"),
            ("silent", "written by another bot"),
        ]
        assert results.writing.questions == ["Diving: gold", "Published by a followed channel"]


async def test_discord_announcements_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async with on_discord(tmp_path) as (results, peer, channel_id):
        hold = asyncio.Event()
        results.writing.meanwhile = hold.wait
        await peer.say(channel_id, "first")
        await results.writing.started_event.wait()
        results.writing.meanwhile = None
        await peer.say(channel_id, "second")
        assert await results.until("second") == [("answered", "")]
        assert (await results.outcomes())["first"][0] != "answered"
        hold.set()
        assert await results.until("first") == [("answered", "")]


async def test_discord_forum_posts_are_commented_on_in_their_thread(tmp_path: Path) -> None:
    async with on_discord(tmp_path, FORUM) as (results, peer, forum):
        thread = await peer.thread(forum)
        channel = peer.channels[thread]
        # The first message of a forum post has the number of its thread.
        peer.snowflake, original = lambda at=None: thread, peer.snowflake  # type: ignore[method-assign, assignment]
        await peer.say(thread, "How was the final?")
        peer.snowflake = original  # type: ignore[method-assign]
        await peer.wait_for_reply(thread, 30, containing="Gold")
        await peer.say(thread, "Robots too", author=COMPETITORS[0])
        assert await results.until("Robots too") == [("silent", "written by another bot")]
        assert len(channel.messages) == 3


@pytest.mark.parametrize("threaded", [False, True])
async def test_on_discord_bots_count_before_writing_and_again_before_sending(tmp_path: Path, threaded: bool) -> None:
    async with on_discord(tmp_path) as (results, peer, channel_id):

        async def competitors(post: str) -> None:
            for robot in COMPETITORS[:2]:
                channel = peer.channels[channel_id] if not threaded else None
                if channel is not None:
                    await peer.say(channel_id, f"{robot.username} below {post}", author=robot, reply_to=post)
                else:
                    await peer.say(thread_of[post], f"{robot.username} below {post}", author=robot)

        thread_of: dict[str, str] = {}

        async def posted(text: str) -> str:
            number = await peer.say(channel_id, text)
            if threaded:
                thread_of[number] = number
                peer.channels[number] = type(peer.channels[channel_id])(number, peer.guild, 11, channel_id)
                channel = {**peer.channels[number].object(), "newly_created": True}
                await peer.gateway.emit("THREAD_CREATE", channel)
            return number

        # They come while we write: the last look sees them.
        slow_event = asyncio.Event()
        results.writing.meanwhile = slow_event.wait
        post = await posted("one")
        await results.writing.started_event.wait()
        await competitors(post)
        await results.wait_for_messages(*(f"{robot.username} below {post}" for robot in COMPETITORS[:2]))
        slow_event.set()
        ((state, reason),) = await results.until("one")
        assert (state, reason) == ("silent", "2 replies of bots below the post already (2 at most)")
        assert peer.messages(channel_id) == []
        # One competitor leaves room for us, and persons do not count.
        results.writing.meanwhile = None
        await posted("two")
        await peer.wait_for_reply(channel_id, 30, containing="Gold")


async def test_on_discord_a_race_that_is_lost_already_costs_no_answer(tmp_path: Path) -> None:
    async with on_discord(tmp_path, replies_per_post=1) as (results, peer, channel_id):
        hold = asyncio.Event()
        results.writing.meanwhile = hold.wait
        await peer.say(channel_id, "first")
        await results.writing.started_event.wait()
        # A competitor's reply that overtakes its post, as it does when both were written during a break.
        late_id = peer.snowflake()
        await peer.say(
            channel_id,
            "quick robot",
            author=COMPETITORS[0],
            reply_to=late_id,
            referenced_message={"id": late_id, "author": {"id": "9"}},
        )
        await results.wait_for_messages("quick robot")
        peer.snowflake, original = lambda at=None: late_id, peer.snowflake  # type: ignore[method-assign, assignment]
        await peer.say(channel_id, "second")
        peer.snowflake = original  # type: ignore[method-assign]
        await results.wait_for_messages("second")
        hold.set()
        ((state, reason),) = await results.until("second")
        assert (state, "1 replies of bots" in reason) == ("silent", True)
        assert results.writing.questions == ["first"]


async def test_elsewhere_on_discord_bots_are_not_even_kept(tmp_path: Path) -> None:
    async with on_discord(tmp_path) as (results, peer, channel_id):
        other = peer.channel()
        await peer.say(other, "beep", author=COMPETITORS[0])
        await peer.say(other, f"{peer.mention} hello, answer me", author=COMPETITORS[1])
        await peer.say(channel_id, f"{peer.mention} hello, answer me", author=COMPETITORS[2])
        assert await results.until("hello, answer me") == [("silent", "written by another bot")]
        assert list(await results.outcomes()) == ["hello, answer me"]
        assert peer.messages(other) == peer.messages(channel_id) == []


async def test_slack_channel_posts_are_commented_on_in_their_threads(tmp_path: Path) -> None:
    async with on_slack(tmp_path) as (results, peer):
        post = peer.say("C1", "Diving: gold")
        message = await peer.wait_for_reply("C1", 30, containing="Gold")
        assert message.thread_ts == post
        peer.say("C1", "<@U7|bea> what a final", thread=post)
        peer.say("C1", "beep", user="U9", bot_id="B9")
        peer.say("C1", "<@UBOT> answer me", user="U9", bot_id="B9", thread=post)
        peer.say("C2", "beep elsewhere", user="U9", bot_id="B9")
        peer.say("C1", "not even mine", subtype="bot_message", bot_id="B8", username="Robot")
        peer.say("C2", "Swimming: silver")
        ends = await results.until("@bea what a final", "beep", "answer me", "not even mine", "Swimming: silver")
        assert ends == [
            ("silent", "the bot was not addressed"),
            *[("silent", "written by another bot")] * 3,
            ("silent", "the bot was not addressed"),
        ]
        assert results.writing.questions == ["Diving: gold"]
        assert "beep elsewhere" not in await results.outcomes()


async def test_on_slack_bots_count_before_writing_and_again_before_sending(tmp_path: Path) -> None:
    async with on_slack(tmp_path) as (results, peer):
        slow_event = asyncio.Event()
        results.writing.meanwhile = slow_event.wait
        post = peer.say("C1", "one")
        await results.writing.started_event.wait()
        for number in (1, 2):
            peer.say("C1", f"robot {number}", user=f"U{number}", bot_id=f"B{number}", thread=post)
        await results.wait_for_messages("robot 1", "robot 2")
        slow_event.set()
        assert await results.until("one") == [("silent", "2 replies of bots below the post already (2 at most)")]
        assert peer.messages("C1") == []
        # Two that were there before us: not a word is written.
        results.writing.meanwhile = None
        earlier_ts = f"{time.time():.6f}"
        for number in (3, 4):
            message_fields: dict[str, Any] = {"user": f"U{number}", "bot_id": f"B{number}", "thread_ts": earlier_ts}
            peer.say("C1", f"robot {number}", **message_fields)
        await results.wait_for_messages("robot 3", "robot 4")
        peer.event(
            {
                "type": "message",
                "channel": "C1",
                "channel_type": "channel",
                "user": "U1",
                "text": "two",
                "ts": earlier_ts,
            }
        )
        ((state, reason),) = await results.until("two")
        assert (state, "2 replies of bots" in reason) == ("silent", True)
        assert results.writing.questions == ["one"]
