"""Feeds as places of posts: each new entry is delivered to the intake as an adapter delivers a post of its platform."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from bots.common.proactive import reference_in
from core.errors import KimasError, SourceError, UsageError
from core.messaging.auto_comment.commenter import FEED, LATE, LINK, TITLE
from core.messaging.multi_bot import bot_of, label_of
from core.observability.logs import logger
from core.ports import Adapter, Receive
from core.settings import Settings
from core.settings.messaging import FollowedFeedSettings
from core.storage.feed_state import Followed, FollowedFeeds, known_from
from core.storage.messages import Journal
from core.types import KIND, POST, ConversationKey, Message
from knowledge.sources.feed.poll import Busy, NewEntry, News, look
from knowledge.web.addresses import check_url, shown

MINUTE_S = 60.0
# Chats of a further HTTP network carry its name everywhere; elsewhere the ending only says which bot writes.
KEEPS_ENDING = "http"
PASSED_BY = "too old to be answered: the entry came while nobody looked at the feed"


class FeedFollower:
    """Follows one feed for a chat of one bot.

    The first look at a feed only notes what is there. `minute_s` is how long a minute of the settings takes.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        adapter: Adapter,
        record: FollowedFeeds,
        *,
        minute_s: float = MINUTE_S,
    ) -> None:
        self.name = name
        self.adapter = adapter
        self._feed = feed = settings.auto_comment.feeds[name]
        self._record = record
        self._kept_as = hashlib.sha256(f"{name}\n{feed.url}".encode()).hexdigest()[:32]
        self._pause_s = feed.every_minutes * minute_s
        # Whoever looks no later than planned, give or take what a comment may take, has seen an entry as it came.
        self._fresh_s = self._pause_s + settings.auto_comment.deadline_s
        self._is_down = False

    async def listen(self, receive: Receive) -> None:
        """Look at the feed again and again until cancelled, and deliver what is new. A failing feed is waited out."""
        while True:
            begun, pause_s = time.monotonic(), self._pause_s
            try:
                await self._look(receive)
            except Exception as fault:
                # Whatever a feed does to its reader: others and the platform go on.
                pause_s = max(pause_s, fault.wait_s if isinstance(fault, Busy) else 0.0)
                self._failed(fault)
            else:
                self._worked()
            await asyncio.sleep(max(0.0, pause_s - (time.monotonic() - begun)))

    async def _look(self, receive: Receive) -> None:
        before, now = await self._record.load(self._kept_as), time.time()
        last = before or Followed(now)
        known = None if before is None else frozenset(before.known)
        url, private = self._feed.url, self._feed.allow_private
        news = await look(url, private, known=known, etag=last.etag, modified=last.modified)
        if news is None:
            await self._record.save(self._kept_as, replace(last, looked_at=now))
            return
        missed = now - last.looked_at > self._fresh_s
        for entry in news.new:
            passed_by = missed and (entry.published is None or entry.published < now - self._fresh_s)
            await receive(self._post(entry, news, PASSED_BY if passed_by else ""))
        # Not before all are in the journal, which knows an entry that is delivered twice.
        there = known_from(news.present, last.known)
        await self._record.save(self._kept_as, Followed(now, there, news.etag, news.modified))
        logger(__name__).debug("feed.looked_at", feed=self.name, entries=len(news.present), new=len(news.new))

    def _post(self, entry: NewEntry, news: News, late: str) -> Message:
        platform, chat, place = place_of(self._feed, self.adapter)
        number = f"feed-{entry.id}"
        return Message(
            id=number,
            key=ConversationKey(platform, chat, number),
            author_id=f"feed:{self.name}",
            author=news.title or self.name,
            text="\n\n".join(part for part in (entry.title, entry.text) if part),
            sent_at=datetime.now(UTC),
            bot=bot_of(self.adapter),
            reference={
                **reference_in(platform, place),
                **{KIND: POST, FEED: self.name, TITLE: entry.title, LINK: entry.link},
                **({LATE: late} if late else {}),
            },
        )

    def _failed(self, fault: Exception) -> None:
        if self._is_down:
            logger(__name__).debug("feed.still_down", feed=self.name, error=str(fault))
            return
        self._is_down = True
        expected = isinstance(fault, KimasError)
        logger(__name__).error("feed.not_read", feed=self.name, error=str(fault), exc_info=None if expected else fault)

    def _worked(self) -> None:
        if self._is_down:
            logger(__name__).info("feed.read_again", feed=self.name)
        self._is_down = False


def make_followers(settings: Settings, adapters: Sequence[Adapter], journal: Journal) -> list[FeedFollower]:
    """Return a follower per configured feed. Raises `UsageError` for one whose chat no bot can write to."""
    if astray := misplaced(settings):
        raise UsageError("\n".join(astray.values()))
    record = FollowedFeeds(journal.database)
    return [
        FeedFollower(name, settings, _writer(feed, adapters), record)
        for name, feed in settings.auto_comment.feeds.items()
    ]


def misplaced(settings: Settings) -> dict[str, str]:
    """Return what is wrong with feeds whose chat no bot can write to: a sentence by the feed's name."""
    found = {}
    for name, feed in settings.auto_comment.feeds.items():
        platform, _, chat = feed.chat.partition(":")
        bots = [bot for bot, _, _ in settings.bots_on(platform)]
        wanted = chat.partition("@")[2] if platform != KEEPS_ENDING else ""
        place = f"auto_comment.feeds.{name}.chat is {feed.chat}"
        if not bots:
            found[name] = (
                f"{place}, but there is no {platform} bot: add a {platform} section (docs/{platform}.md), or name a "
                "chat of a platform that is configured"
            )
        elif wanted and wanted not in bots:
            known = ", ".join(bot for bot in bots if bot) or "none"
            found[name] = f"{place}, but no further {platform} bot is named {wanted!r} (known: {known})"
    return found


def unusable(settings: Settings) -> dict[str, str]:
    """Return what is wrong with feeds that cannot be followed, as far as it shows without asking for them."""
    found = misplaced(settings)
    for name, feed in settings.auto_comment.feeds.items():
        try:
            check_url(feed.url, feed.allow_private)
        except SourceError as fault:
            found.setdefault(name, str(fault))
    return found


async def reached(feed: FollowedFeedSettings) -> str:
    """Return in a few words what a feed answers. Raises `SourceError`."""
    news = await look(feed.url, feed.allow_private)
    return f"{shown(feed.url)}: {len(news.present) if news else 0} entries"


def place_of(feed: FollowedFeedSettings, adapter: Adapter) -> tuple[str, str, str]:
    """Return the platform, the chat as the journal knows it, and the chat as the platform knows it."""
    platform, _, chat = feed.chat.partition(":")
    name = label_of(adapter).partition(":")[2]
    plain = chat.removesuffix(f"@{name}") if name else chat
    return platform, f"{plain}@{name}" if name and platform == KEEPS_ENDING else plain, plain


def _writer(feed: FollowedFeedSettings, adapters: Sequence[Adapter]) -> Adapter:
    """Return the bot that writes to a feed's chat: the one that the chat names, else the platform's first."""
    platform = feed.chat.partition(":")[0]
    writers = [one for one in adapters if one.name == platform]
    by_name = {label_of(one).partition(":")[2]: one for one in writers}
    return by_name.get(feed.chat.rpartition("@")[2], writers[0])
