"""Races in channels of Slack, where nobody but us can count the bots below a post."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bots.slack.adapter import SlackAdapter
from bots.slack.connection import SlackIntervals
from core.ports import Sink
from core.settings import Settings
from core.storage.messages import Journal
from core.types import Citation, Question, Reply
from tests.support import fixtures
from tests.support.peers.slack import SlackPeer
from tests.support.race_helpers import CHATS, COMPETITORS, LATER_S, NEWS, US, get_end, listening, raced
from tests.support.slack_helpers import Threads, settings
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")
CHANNELS = [f"C{number}" for number in range(1, CHATS + 1)]
ROBOTS = {name: (f"U{number}", f"B{number}") for number, name in enumerate(COMPETITORS)}

GOOD = Reply("Gold, at last! [1]", (Citation(1, "p", "docs", "Final", "final.md", "https://example.org/final"),))


@dataclass
class OnSlack:
    """Implements `Network` over the peer, in channels that take a message in a second each."""

    peer: SlackPeer
    channel_of: dict[str, str] = field(default_factory=dict)
    chats: tuple[str, ...] = tuple(f"slack:{channel}" for channel in CHANNELS)

    async def ready(self) -> None:
        await self.peer.wait_until(lambda: bool(self.peer.deliveries.connections), 10)

    async def post(self, chat: str, number: int, text: str) -> str:
        self.peer._clock = max(self.peer._clock, int((time.time() + LATER_S) * 1e6))
        post = self.peer.say(chat, text)
        self.channel_of[post] = chat
        return post

    async def reply(self, post: str, competitor: str) -> None:
        user, bot = ROBOTS[competitor]
        self.peer.say(self.channel_of[post], "What a jump!", user=user, bot_id=bot, thread=post)

    def below(self, post: str) -> list[str]:
        channel = self.channel_of[post]
        names = {user: name for name, (user, _) in ROBOTS.items()}
        thread = [
            message
            for message in self.peer._messages.values()
            if (message.channel, message.thread_ts) == (channel, post)
        ]
        return [names.get(message.user, US) for message in thread]


async def test_on_slack_we_are_among_the_first_two_or_silent_never_the_third(tmp_path: Path) -> None:
    async with SlackPeer() as peer:
        network = OnSlack(peer)

        def make(configuration: Settings) -> SlackAdapter:
            chats = configuration.auto_comment.get_chats("slack")
            return SlackAdapter(settings(peer, tmp_path), Threads().answered_in, bot_message_chats=chats)

        series = await raced(tmp_path, network, make)
        series.judge()
        comments = [message for channel in CHANNELS for message in peer.messages(channel)]
    assert comments
    assert all(NEWS.url in comment.links() for comment in comments)


async def write(question: Question, sink: Sink) -> Reply:
    await sink.finish(GOOD)
    return GOOD


@asynccontextmanager
async def two_at_once(folder: Path, post_s: float, deadline_s: float) -> AsyncIterator[tuple[SlackPeer, Journal, str]]:
    """Have two posts commented on in one channel; yield the id of the one whose comment waits for its turn."""
    journal = await Journal.open(folder / "journal.db")
    try:
        async with SlackPeer() as peer:
            network = OnSlack(peer)
            adapter = SlackAdapter(
                settings(peer, folder), Threads().answered_in, SlackIntervals(post_s=post_s), bot_message_chats={"C1"}
            )
            comments = {"chats": ["slack:C1"], "deadline_s": deadline_s}
            processor = make_processor(fixtures.settings(auto_comment=comments), journal, write)
            async with listening(adapter, processor.handler_for(adapter), processor, network):
                posts = {await network.post("C1", number, f"post {number}") for number in (1, 2)}
                first = await peer.wait_for_reply("C1", 10)
                yield peer, journal, (posts - {first.thread_ts}).pop()
            assert [message.ts for message in peer.messages("C1")] == [first.ts]
    finally:
        await journal.close()


async def wait_until_finished(journal: Journal, post: str) -> tuple[str, str]:
    async with asyncio.timeout(10):
        while (end := await get_end(journal, post))[0] not in ("answered", "silent", "failed"):
            await asyncio.sleep(0.02)
    return end


async def test_on_slack_competitors_are_counted_when_our_comment_is_posted(tmp_path: Path) -> None:
    async with two_at_once(tmp_path, post_s=2, deadline_s=30) as (peer, journal, waiting_posts):
        for competitor in COMPETITORS:
            await OnSlack(peer, {waiting_posts: "C1"}).reply(waiting_posts, competitor)
        assert await wait_until_finished(journal, waiting_posts) == (
            "silent",
            "2 replies of bots below the post already (2 at most)",
        )


async def test_on_slack_a_comment_after_the_deadline_is_not_posted(tmp_path: Path) -> None:
    async with two_at_once(tmp_path, post_s=5, deadline_s=2.5) as (_, journal, waiting_posts):
        state, reason = await wait_until_finished(journal, waiting_posts)
    assert (state, "auto_comment.deadline_s" in reason) == ("silent", True), reason
