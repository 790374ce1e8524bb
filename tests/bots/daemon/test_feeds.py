"""Feeds as sources of posts: new entries are commented on once, in time, on every network, and nothing else is."""

from __future__ import annotations

import asyncio
import io
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text, update

from bots.cli.check import check
from bots.common.namespaced import NamespacedAdapter
from bots.daemon.adapters import JournalPositions
from bots.daemon.alerts import find_alert_errors
from bots.daemon.feeds import FeedFollower, find_misplaced_feeds, make_feed_followers
from bots.daemon.posting import resolve_chat
from bots.daemon.runner import run
from bots.discord.adapter import DiscordAdapter
from bots.http.adapter import HttpAdapter
from bots.slack.adapter import SlackAdapter
from bots.telegram.adapter import TelegramAdapter
from core.errors import ConfigurationError, SourceError, UsageError
from core.messaging.auto_comment.commenter import entry_heading
from core.observability.logs import configure_logs
from core.ports import Adapter, Sink
from core.runtime.retry_after import MAX_WAIT_S
from core.settings import LogSettings, Settings
from core.settings.loader import load_settings
from core.storage.auto_comments import MAX_REMEMBERED_IDS, FeedStateRepository, merge_known_ids
from core.storage.messages import Journal
from core.storage.tables import feeds, messages
from core.types import Citation, ConversationKey, FeedEntry, Message, Question, Reply, SkipReason
from knowledge.parsing.parser import ThreadParser
from knowledge.sources.feed.poll import FeedRateLimited, poll_feed
from tests.support import discord_helpers, slack_helpers
from tests.support.deployment import README, Deployment, logging_as_it_was
from tests.support.dry_runs import daemon, get_withheld_replies
from tests.support.fixtures import settings
from tests.support.http_helpers import QUICK, event, http_settings
from tests.support.peers.callback import CallbackPeer
from tests.support.peers.discord import DiscordPeer
from tests.support.peers.slack import SlackPeer
from tests.support.peers.telegram import TelegramPeer
from tests.support.peers.web import Page, WebPeer
from tests.support.telegram_helpers import PACE as TELEGRAM_PACE, settings as telegram_settings
from tests.support.waiting import until
from tests.support.wiring import make_processor

pytestmark = pytest.mark.usefixtures("time_lapse")

GOOD = Reply("Gold, at last! [1]", (Citation(1, "p", "docs", "Final", "final.md", "https://example.org/final"),))
# A minute of the settings takes so long here.
MINUTE_S = 0.05
PLATFORMS = ("telegram", "discord", "slack", "http")
GROUP = -100
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Item:
    number: int
    title: str = ""
    body: str = "The pair from Brazil won the final."
    age_s: float | None = None
    link: str = ""

    def xml(self) -> str:
        dated = "" if self.age_s is None else f"<pubDate>{formatdate(time.time() - self.age_s)}</pubDate>"
        link = self.link or f"https://games.example.org/{self.number}?a=1&amp;copy=2"
        title = self.title or f"Diving, day {self.number}"
        return (
            f"<item><guid>urn:{self.number}</guid><title><![CDATA[{title}]]></title><link>{link}</link>"
            f"<description><![CDATA[<p>{self.body}</p><script>evil()</script>]]></description>{dated}</item>"
        )


def rss(*items: Item) -> Page:
    entries = "".join(item.xml() for item in items)
    return Page(f"<?xml version='1.0'?><rss version='2.0'><channel><title>Games</title>{entries}</channel></rss>")


@dataclass
class Network:
    """A platform with a chat; `get_posts` are the bot's messages there, as raw text and what each replies to."""

    adapter: Adapter
    chat: str
    get_posts: Callable[[], list[tuple[str, object]]]
    peer: Any


async def open_network(name: str, stack: AsyncExitStack, journal: Journal, folder: Path) -> Network:
    if name == "telegram":
        telegram = await stack.enter_async_context(TelegramPeer())
        adapter: Adapter = TelegramAdapter(
            telegram_settings(telegram, folder), JournalPositions(journal, "telegram"), TELEGRAM_PACE
        )
        chat = f"telegram:{GROUP}"
        result = Network(adapter, chat, lambda: [(m.html, m.reply_to) for m in telegram.messages(GROUP)], telegram)
        # A group exists once somebody has spoken there.
        telegram.say(GROUP, "good morning")
    elif name == "discord":
        discord = await stack.enter_async_context(DiscordPeer())
        channel_id = discord.channel()
        adapter = DiscordAdapter(
            discord_helpers.settings(discord, folder), JournalPositions(journal, "discord"), discord_helpers.PACE
        )
        result = Network(
            adapter,
            f"discord:{channel_id}",
            lambda: [(m.content, m.reply_to) for m in discord.messages(channel_id)],
            discord,
        )
    elif name == "slack":
        slack = await stack.enter_async_context(SlackPeer())
        adapter = SlackAdapter(
            slack_helpers.settings(slack, folder), slack_helpers.Threads().answered_in, slack_helpers.PACE
        )
        slack.say("C1", "good morning")
        result = Network(adapter, "slack:C1", lambda: [(m.text, m.thread_ts) for m in slack.messages("C1")], slack)
    else:
        callback = await stack.enter_async_context(CallbackPeer())
        adapter = HttpAdapter(http_settings(callback, folder), QUICK)
        result = Network(
            adapter,
            "http:room",
            lambda: [(message["text"], message["event_id"] + message["thread"]) for message in callback.of("final")],
            callback,
        )
    await adapter.open()
    stack.push_async_callback(adapter.close)
    return result


@dataclass
class Writer:
    """Writes the same comment to every post."""

    questions: list[Question] = field(default_factory=list)

    async def __call__(self, question: Question, sink: Sink) -> Reply:
        self.questions.append(question)
        await sink.open()
        await sink.update("Gold")
        await sink.finish(GOOD)
        return GOOD


@pytest.fixture
async def web() -> AsyncIterator[WebPeer]:
    async with WebPeer() as peer:
        peer.tagged = True
        peer.pages["/feed"] = rss(Item(1), Item(0))
        yield peer


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as exit_stack:
        yield exit_stack


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    with logging_as_it_was():
        configure_logs(LogSettings(format="json"), stream)
        yield stream


def events(log: io.StringIO, name: str) -> list[dict[str, Any]]:
    return [record for record in map(json.loads, log.getvalue().splitlines()) if record["event"] == name]


def make_feed_settings(web: WebPeer, chat: str, path: str = "/feed", **changes: object) -> Settings:
    feed = {"url": web.url(path), "chat": chat, "every_minutes": 1, "allow_private": ["127.0.0.1"]}
    # Longer than usual, for a machine that has much to do.
    return settings(auto_comment={"feeds": {"games": feed}, "deadline_s": 30, **changes})


@asynccontextmanager
async def follow_feeds(
    configuration: Settings, network: Network, journal: Journal, *, minute_s: float = MINUTE_S, poll_count: int = 2
) -> AsyncIterator[Writer]:
    """Follow the configured feeds as the daemon does, once `poll_count` looks at the first are over."""
    writer = Writer()
    processor = make_processor(configuration, journal, writer)
    await processor.resume(network.adapter)
    record = FeedStateRepository(journal.database)
    tasks = [
        asyncio.create_task(
            FeedFollower(name, configuration, network.adapter, record, minute_s=minute_s).listen(
                processor.handler_for(network.adapter)
            )
        )
        for name in configuration.auto_comment.feeds
    ]
    try:
        await wait_for_polls(journal, poll_count)
        yield writer
        assert [task for task in tasks if task.done()] == []
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await processor.drain(30) == 0


async def wait_for_polls(journal: Journal, times: int = 2) -> None:
    """Wait for so many looks that worked, beginning from now."""
    intervals: set[float] = set()
    async with asyncio.timeout(30):
        while len(intervals) <= times:
            async with journal.database.connect() as connection:
                intervals.update(await connection.scalars(select(feeds.c.polled_at)))
            await asyncio.sleep(0.005)


async def outcomes(journal: Journal, count: int = 0) -> dict[str, tuple[str, str]]:
    """Return how the posts ended, by the first line of their text, once `count` of them have."""
    query = select(messages.c.text, messages.c.state, messages.c.reason).where(messages.c.id.like("feed-%"))
    async with asyncio.timeout(30):
        while True:
            async with journal.database.connect() as connection:
                rows = (await connection.execute(query)).all()
            if len(rows) >= count and all(row.state in ("answered", "silent", "failed") for row in rows):
                return {row.text.split("\n")[0]: (row.state, row.reason) for row in rows}
            await asyncio.sleep(0.01)


async def backdate_polls(journal: Journal, seconds: float) -> None:
    """Make the last look at every feed longer ago, as a daemon leaves it that was down."""
    async with journal.database.transaction() as connection:
        await connection.execute(text("UPDATE feeds SET polled_at = polled_at - :s"), {"s": seconds})


async def forget_entries(journal: Journal, newest: int) -> None:
    """Make the newest entries unknown again."""
    async with journal.database.transaction() as connection:
        known_ids = (await connection.scalars(select(feeds.c.known_ids))).one()
        await connection.execute(update(feeds).values(known_ids=known_ids[newest:], etag="", modified=""))


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_new_entry_is_commented_on_once(
    name: str, web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network(name, stack, journal, tmp_path)
    configuration = make_feed_settings(web, network.chat)
    async with follow_feeds(configuration, network, journal) as writer:
        assert (await outcomes(journal), network.get_posts()) == ({}, [])
        web.pages["/feed"] = rss(Item(2, "Gold [1] for *us*, @everyone & <@7>!"), Item(1), Item(0))
        await until(network.get_posts)
        assert await outcomes(journal, 1) == {"Gold [1] for *us*, @everyone & <@7>!": ("answered", "")}
        (question,) = writer.questions
        assert (question.author, question.text.split("\n\n")[1]) == ("Games", "The pair from Brazil won the final.")
        await wait_for_polls(journal)
        # The same entry with another title, and one that has left the feed and come back.
        web.pages["/feed"] = rss(Item(2, "Silver for us"), Item(0))
        await wait_for_polls(journal)
        web.pages["/feed"] = rss(Item(2, "Silver for us"), Item(1), Item(0))
        await wait_for_polls(journal)
    # As a crash right before the end of the look leaves it.
    await forget_entries(journal, newest=1)
    async with follow_feeds(configuration, network, journal) as reader:
        assert reader.questions == []
    ((output, reply_to),) = network.get_posts()
    assert not reply_to
    visible_output = output.replace("\u2060", "")
    assert "us" in visible_output.partition("Gold, at last!")[0]
    assert "games.example.org/2?a=1" in visible_output
    # Nobody is notified by a title, and its number is no citation.
    assert "@everyone" not in output
    assert "final" not in visible_output.partition("Gold, at last!")[0]
    if name == "discord":
        assert network.peer.notified == []
        assert "\\*us\\*" in output
        assert "(<https://games.example.org/2?a=1&copy=2>)" in output
    elif name == "telegram":
        assert visible_output.startswith(
            '<b><a href="https://games.example.org/2?a=1&amp;copy=2">Gold [1] for *us*, @everyone &amp; '
        )
    elif name == "slack":
        assert "<https://games.example.org/2?a=1&amp;copy=2|" in output
    else:
        assert network.peer.of("final")[0]["chat"] == "room"
        assert "bot_replies_below" not in network.peer.of("final")[0]


async def test_an_entry_is_asked_for_only_where_the_feed_changed(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    async with follow_feeds(make_feed_settings(web, network.chat), network, journal, poll_count=3):
        assert web.statuses[:3] == [200, 304, 304]
        web.pages["/feed"] = rss(Item(2), Item(1))
        await until(network.get_posts)
    assert web.statuses.count(200) == 2


async def test_several_new_entries_are_each_commented_on_within_the_hourly_rate(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    async with follow_feeds(make_feed_settings(web, network.chat, per_hour=3), network, journal):
        web.pages["/feed"] = rss(*(Item(number) for number in range(6, -1, -1)))
        results = await outcomes(journal, 5)
    assert sorted(state for state, _ in results.values()) == ["answered"] * 3 + ["silent"] * 2
    assert all("auto_comment.per_hour" in reason for state, reason in results.values() if state == "silent")
    assert len(network.get_posts()) == 3


async def test_the_rules_for_posts_hold_for_entries(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    async with follow_feeds(
        make_feed_settings(web, network.chat, include=["boxing", "won the final"], exclude=["Advert"]), network, journal
    ):
        web.pages["/feed"] = rss(Item(5, "Advert"), Item(4, "Rowing", "Third."), Item(3), Item(1), Item(0))
        results = await outcomes(journal, 3)
    assert {title: state for title, (state, _) in results.items()} == {
        "Advert": "silent",
        "Rowing": "silent",
        "Diving, day 3": "answered",
    }
    assert "auto_comment.exclude" in results["Advert"][1]
    assert "auto_comment.include" in results["Rowing"][1]


async def test_at_night_nothing_is_said(web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    now = time.time()
    hours = "-".join(time.strftime("%H:%M", time.localtime(now + away)) for away in (-3600, 3600))
    async with follow_feeds(make_feed_settings(web, network.chat, quiet_hours=hours), network, journal):
        web.pages["/feed"] = rss(Item(2), Item(1))
        results = await outcomes(journal, 1)
    assert results == {"Diving, day 2": ("silent", f"quiet hours ({hours})")}
    assert network.get_posts() == []


async def test_what_came_while_nobody_looked_is_left_alone(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    configuration = make_feed_settings(web, network.chat)
    async with follow_feeds(configuration, network, journal):
        pass
    await backdate_polls(journal, 60)
    web.pages["/feed"] = rss(Item(4, age_s=1), Item(3, age_s=45), Item(2), Item(1), Item(0))
    async with follow_feeds(configuration, network, journal):
        results = await outcomes(journal, 3)
    assert results["Diving, day 2"][1] == SkipReason.ENTRY_TOO_OLD.text
    # Only its date can say that an entry has just come.
    assert results["Diving, day 4"] == ("answered", "")
    for title in ("Diving, day 3", "Diving, day 2"):
        assert results[title] == ("silent", "too old to be answered: the entry appeared while the feed was not fetched")
    assert len(network.get_posts()) == 1


async def test_a_short_stop_loses_no_entry(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    configuration = make_feed_settings(web, network.chat)
    async with follow_feeds(configuration, network, journal):
        pass
    await backdate_polls(journal, 15)
    web.pages["/feed"] = rss(Item(2, age_s=900), Item(1), Item(0))
    async with follow_feeds(configuration, network, journal):
        # The deadline counts from now on, whatever its date says.
        assert await outcomes(journal, 1) == {"Diving, day 2": ("answered", "")}


async def test_an_entry_in_hand_at_a_stop_is_commented_on_by_the_next_start(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    configuration = make_feed_settings(web, network.chat)
    start_event = asyncio.Event()

    async def hang(question: Question, sink: Sink) -> Reply:
        start_event.set()
        await asyncio.Event().wait()
        raise AssertionError

    processor = make_processor(configuration, journal, hang)
    follower = FeedFollower(
        "games", configuration, network.adapter, FeedStateRepository(journal.database), minute_s=MINUTE_S
    )
    task = asyncio.create_task(follower.listen(processor.handler_for(network.adapter)))
    await wait_for_polls(journal)
    web.pages["/feed"] = rss(Item(2), Item(1), Item(0))
    await start_event.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert await processor.drain(0) == 1
    async with follow_feeds(configuration, network, journal):
        assert await outcomes(journal, 1) == {"Diving, day 2": ("answered", "")}
    ((output, _),) = network.get_posts()
    assert output.startswith("**[Diving, day 2](<https://games.example.org/2?a=1\\&copy=2>)**\n\nGold, at last!")


async def test_the_deadline_counts_from_the_first_look(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)

    async def slow(question: Question, sink: Sink) -> Reply:
        await asyncio.sleep(30)
        raise AssertionError

    configuration = make_feed_settings(web, network.chat, deadline_s=0.2)
    processor = make_processor(configuration, journal, slow)
    follower = FeedFollower(
        "games", configuration, network.adapter, FeedStateRepository(journal.database), minute_s=MINUTE_S
    )
    task = asyncio.create_task(follower.listen(processor.handler_for(network.adapter)))
    await wait_for_polls(journal)
    web.pages["/feed"] = rss(Item(2, age_s=-60), Item(1), Item(0))
    results = await outcomes(journal, 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert results["Diving, day 2"] == ("silent", "not finished within 0.2 s after the post (auto_comment.deadline_s)")
    assert network.get_posts() == []


async def test_a_broken_feed_is_told_once_and_stops_no_other(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path, log: io.StringIO
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    web.pages["/other"] = Page("<html>no feed")
    feed = {"chat": network.chat, "every_minutes": 1, "allow_private": ["127.0.0.1"]}
    feeds = {"games": {**feed, "url": web.url("/feed")}, "other": {**feed, "url": web.url("/other")}}
    async with follow_feeds(settings(auto_comment={"feeds": feeds, "deadline_s": 30}), network, journal, poll_count=4):
        await until(lambda: events(log, "feed.poll_failed"))
        assert [entry["feed"] for entry in events(log, "feed.poll_failed")] == ["other"]
        web.pages["/feed"] = rss(Item(2), Item(1), Item(0))
        await until(network.get_posts)
        web.pages["/other"] = rss(Item(7))
        await until(lambda: events(log, "feed.recovered"))
    (data,) = events(log, "feed.poll_failed")
    assert "no feed that can be read" in data["error"]
    # Its first look that worked came after the outage.
    assert list(await outcomes(journal)) == ["Diving, day 2"]


@pytest.mark.parametrize("failure_mode", ["short", "drop", "endless"])
async def test_a_feed_that_breaks_off_makes_nothing_new(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path, log: io.StringIO, failure_mode: str
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    async with follow_feeds(make_feed_settings(web, network.chat), network, journal):
        web.failure_mode = failure_mode
        await until(lambda: events(log, "feed.poll_failed"))
        web.failure_mode = ""
        await wait_for_polls(journal)
    assert await outcomes(journal) == {}
    assert len(events(log, "feed.poll_failed")) == 1


async def test_a_private_address_is_refused(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path, log: io.StringIO
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    feed = {"url": web.url("/feed"), "chat": network.chat, "every_minutes": 1}
    configuration = settings(auto_comment={"feeds": {"games": feed}})
    follower = FeedFollower(
        "games", configuration, network.adapter, FeedStateRepository(journal.database), minute_s=MINUTE_S
    )
    task = asyncio.create_task(
        follower.listen(make_processor(configuration, journal, Writer()).handler_for(network.adapter))
    )
    await until(lambda: events(log, "feed.poll_failed"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert web.requests == []
    assert "127.0.0.1 is a private address" in events(log, "feed.poll_failed")[0]["error"]
    # Nor behind a redirect, from a host that is allowed.
    web.pages["/moved"] = Page("", 302, {"Location": web.url("/feed", "127.0.0.2")})
    with pytest.raises(SourceError, match=r"127\.0\.0\.2 is a private address"):
        await poll_feed(web.url("/moved"), ["127.0.0.1"])


async def test_a_body_is_never_taken_for_the_name_of_a_file(web: WebPeer, tmp_path: Path) -> None:
    secret = tmp_path / "secret.xml"
    secret.write_text(str(rss(Item(1, "The secret")).body), "utf-8")
    web.pages["/feed"] = Page(str(secret))
    with pytest.raises(SourceError, match="no feed that can be read"):
        await poll_feed(web.url("/feed"), ["127.0.0.1"])


async def test_a_date_that_no_clock_has_shown_costs_no_entry(web: WebPeer) -> None:
    feed_text = str(rss(Item(1, age_s=60), Item(2, age_s=60)).body)
    dated = re.sub("<pubDate>.*?</pubDate>", "<pubDate>0000-00-00 00:00:00</pubDate>", feed_text, count=1)
    assert dated != feed_text
    web.pages["/feed"] = Page(dated)
    update = await poll_feed(web.url("/feed"), ["127.0.0.1"], known_ids=())
    assert update is not None
    assert len(update.new_entries) == 2


@pytest.mark.parametrize(
    ("header", "min_s", "max_s"),
    [
        ("120", 120, 120),
        ("in ten minutes", 400, 600),
        ("999999999", MAX_WAIT_S, MAX_WAIT_S),
        ("soon", 900, 900),
        ("-5", 1, 1),
        ("nan", 900, 900),
    ],
)
async def test_a_busy_server_says_for_how_long(web: WebPeer, header: str, min_s: float, max_s: float) -> None:
    if header == "in ten minutes":
        header = formatdate(time.time() + 600, usegmt=True)
    web.pages["/feed"] = Page("", 429, {"Retry-After": header})
    with pytest.raises(FeedRateLimited, match="status 429") as error_info:
        await poll_feed(web.url("/feed"), ["127.0.0.1"])
    assert min_s <= error_info.value.wait_s <= max_s


async def test_a_busy_server_is_left_alone(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path, log: io.StringIO
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    async with follow_feeds(make_feed_settings(web, network.chat), network, journal):
        web.pages["/feed"] = Page("", 503, {"Retry-After": "60"})
        await until(lambda: events(log, "feed.poll_failed"))
        request_count = len(web.requests)
        await asyncio.sleep(6 * MINUTE_S)
        assert len(web.requests) == request_count


async def test_entries_are_read_as_plain_text(web: WebPeer) -> None:
    web.pages["/feed"] = Page(
        "<feed xmlns='http://www.w3.org/2005/Atom'><title type='html'>One &amp;amp; &lt;b>two&lt;/b></title>"
        "<entry><id>urn:1</id><title>A</title><link href='javascript:alert(1)'/>"
        "<summary type='html'>&lt;p>Body &lt;b>bold&lt;/b> &lt;script>evil()&lt;/script>&lt;/p></summary>"
        "</entry><entry><title></title></entry></feed>"
    )
    first_update = await poll_feed(web.url("/feed"), ["127.0.0.1"], known_ids=())
    assert first_update is not None
    (entry,) = first_update.new_entries
    assert (first_update.title, entry.title, entry.text, entry.link, entry.published) == (
        "One & two",
        "A",
        "Body bold",
        "",
        None,
    )
    assert (await poll_feed(web.url("/feed"), ["127.0.0.1"])).new_entries == ()  # type: ignore[union-attr]
    # Another feed's entry of the same id is another entry.
    web.pages["/same"] = web.pages["/feed"]
    update = await poll_feed(web.url("/same"), ["127.0.0.1"], known_ids=())
    assert update is not None
    assert update.entry_ids != first_update.entry_ids


async def test_a_reply_to_the_comment_goes_on_about_the_entry(
    web: WebPeer, journal: Journal, stack: AsyncExitStack, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    assert isinstance(network.adapter, HttpAdapter)
    async with follow_feeds(make_feed_settings(web, network.chat), network, journal) as writer:
        web.pages["/feed"] = rss(Item(2), Item(1))
        await outcomes(journal, 1)
        processor = make_processor(settings(), journal, writer)
        listen_task = asyncio.create_task(network.adapter.listen(processor.handler_for(network.adapter)))
        await network.adapter.ready.wait()
        output = network.peer._responses_by_key[network.peer.keys[0]]
        message = event("9", chat="room", kind="comment", reply_to=output, text="Who came second?")
        assert (await network.peer.send(network.adapter.port, message))[0] == 202
        await until(lambda: len(writer.questions) == 2)
        assert await processor.drain(30) == 0
        listen_task.cancel()
        await asyncio.gather(listen_task, return_exceptions=True)
    texts = [turn.text for turn in writer.questions[1].history]
    assert texts == ["Diving, day 2\n\nThe pair from Brazil won the final.", GOOD.text]


def test_what_has_left_a_feed_stays_known_for_a_while() -> None:
    earlier_ids = [str(number) for number in range(3 * MAX_REMEMBERED_IDS)]
    known_ids = merge_known_ids(["a", "5", "a"], earlier_ids)
    assert known_ids[:3] == ("a", "5", "0")
    assert len(known_ids) == MAX_REMEMBERED_IDS + 2


def test_a_heading_is_text_and_a_link() -> None:
    def heading(title: str, link: str) -> str:
        entry = FeedEntry("games", title, link)
        return entry_heading(Message("1", ConversationKey("http", "c"), "f", "Games", "x", NOON, feed_entry=entry))

    assert heading("", "https://e.org/a b>(c)\n") == "**[https://e.org/a b>(c)](<https://e.org/a%20b%3E(c)%0A>)**\n\n"
    assert heading("a\nb `c`", "") == "**a b \\`c\\`**\n\n"
    assert heading("", "") == "**Games**\n\n"
    assert len(heading("x" * 400, "")) < 220
    assert entry_heading(Message("1", ConversationKey("http", "c"), "f", "Games", "x", NOON)) == ""


@pytest.mark.parametrize(
    ("chat", "finding_text"),
    [
        ("discord:5", "there is no discord bot: add a discord section (docs/discord.md)"),
        ("telegram:-5@other", "no further telegram bot is named 'other' (known: support)"),
        ("telegram:-5@support", ""),
        ("telegram:-5", ""),
    ],
)
async def test_a_chat_that_no_bot_writes_to_is_a_fault_of_the_configuration(
    tmp_path: Path, journal: Journal, chat: str, finding_text: str
) -> None:
    feed = {"url": "http://127.0.0.1/feed" if not finding_text else "https://example.org/feed", "chat": chat}
    configuration = settings(
        data_dir=tmp_path,
        auto_comment={"feeds": {"games": feed}},
        bots={"support": {"telegram": {"token": {"env": "NO_SUCH_TOKEN"}}}},
    )
    (finding,) = [item for item in await check(configuration, live=False) if item.subject == "auto_comment.feeds.games"]
    assert finding.level == "error"
    if finding_text:
        assert finding_text in finding.text
        with pytest.raises(UsageError) as error_info:
            make_feed_followers(configuration, (), journal, ThreadParser())
        assert finding_text in str(error_info.value)
    else:
        assert find_misplaced_feeds(configuration) == {}
        assert "private address" in finding.text


@pytest.mark.parametrize("chat", ["telegram:games", "telegram", "discord:general", "slack:#games", "http:"])
def test_a_chat_is_written_as_its_platform_numbers_it(tmp_path: Path, chat: str) -> None:
    file = tmp_path / "kimas.yaml"
    file.write_text(json.dumps({"auto_comment": {"feeds": {"news": {"url": "https://e.org/", "chat": chat}}}}), "utf-8")
    with pytest.raises(ConfigurationError, match=r"auto_comment\.feeds\.news\.chat: is no chat: write platform:id"):
        load_settings([file], (), {}, require_secrets=False)


async def test_a_chat_may_name_the_bot_that_writes(
    web: WebPeer, stack: AsyncExitStack, journal: Journal, tmp_path: Path
) -> None:
    network = await open_network("http", stack, journal, tmp_path)
    forum = NamespacedAdapter("forum", network.adapter)
    section = {"secret": {"env": "S"}, "callback_url": "http://127.0.0.1/"}
    for chat, adapters, writes in (
        ("http:room@forum", (network.adapter, forum), ("http", "room@forum", "room")),
        ("http:room", (network.adapter, forum), ("http", "room", "room")),
    ):
        configuration = make_feed_settings(web, chat).model_copy(
            update={"bots": settings(bots={"forum": {"http": section}}).bots, "http": settings(http=section).http}
        )
        (follower,) = make_feed_followers(configuration, adapters, journal, ThreadParser())
        feed = configuration.auto_comment.feeds["games"]
        assert follower.adapter is (forum if "@" in chat else network.adapter)
        assert resolve_chat(feed.chat) == writes


@pytest.mark.parametrize("chat", ["http:room", "http:room@gone"])
def test_no_network_writes_into_the_chat_of_another(web: WebPeer, chat: str) -> None:
    section = {"secret": {"env": "S"}, "callback_url": "http://127.0.0.1/"}
    forum = settings(bots={"forum": {"http": section}}, alerts={"chats": [chat]})
    configuration = make_feed_settings(web, chat).model_copy(update={"bots": forum.bots})
    assert "games" in find_misplaced_feeds(configuration)
    (error,) = find_alert_errors(forum)
    assert chat in error


async def test_check_asks_for_the_feeds_only_when_told_to(tmp_path: Path, web: WebPeer) -> None:
    section = {"secret": {"env": "S"}, "callback_url": "http://127.0.0.1/"}
    configuration = make_feed_settings(web, "http:room").model_copy(update={"http": settings(http=section).http})

    async def list_entries(*, is_live: bool) -> list[tuple[str, str]]:
        findings = await check(configuration, live=is_live)
        return [(finding.level, finding.text) for finding in findings if finding.subject == "auto_comment.feeds.games"]

    ((level, output),) = await list_entries(is_live=False)
    assert (level, web.requests) == ("ok", [])
    assert "for http:room" in output
    assert (await list_entries(is_live=True))[1] == ("ok", f"{web.url('/feed')}: 2 entries")
    web.pages["/feed"] = Page("<html>")
    assert [level for level, _ in await list_entries(is_live=True)] == ["error"]


async def test_the_daemon_follows_feeds_and_a_dry_run_posts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: io.StringIO, web: WebPeer
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rocket.md").write_text(README, "utf-8")
    async with TelegramPeer() as telegram:
        monkeypatch.setenv("T", telegram.token)
        telegram.say(GROUP, "good morning")
        feed = {"url": web.url("/feed"), "chat": f"telegram:{GROUP}", "allow_private": ["127.0.0.1"]}
        deployment = Deployment(
            tmp_path,
            {
                "sources": {"rocket": {"kind": "files", "path": "docs"}},
                "telegram": {"token": {"env": "T"}, "api_url": telegram.api_url},
                "auto_comment": {"feeds": {"games": feed}, "deadline_s": 60},
                "log": {"level": "debug"},
            },
        )
        await asyncio.to_thread(deployment.call, "ingest")
        configure_logs(LogSettings(format="json", level="debug"), log)
        async with daemon(deployment, dry=False):
            await until(lambda: events(log, "feed.polled"), 60)
        new = Item(2, "How do I change the signing key?", "Sessions are kept in signed cookies.")
        web.pages["/feed"] = rss(new, Item(1), Item(0))
        async with daemon(deployment, dry=True):
            await until(lambda: get_withheld_replies(log), 60)
        assert "rotate_keys" in get_withheld_replies(log)[0]["text"]
        assert telegram.messages(GROUP) == []
        async with daemon(deployment, dry=False):
            message = await telegram.wait_for_reply(GROUP, 30, containing="rotate_keys")
        assert "How do I change the signing key?" in message.text
        assert message.reply_to is None
        discord = deployment.settings["auto_comment"]["feeds"]["games"] | {"chat": "discord:5"}
        deployment.settings["auto_comment"]["feeds"]["games"] = discord
        with pytest.raises(UsageError, match="there is no discord bot"):
            await run(load_settings([deployment.config]))
