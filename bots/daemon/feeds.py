"""Followed feeds: each new entry reaches the message processor as a post does from a platform."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from core.errors import KimasError, SourceError, UsageError
from core.observability.logs import get_logger
from core.ports import Adapter, MessageHandler
from core.settings import Settings
from core.settings.messaging import FollowedFeedSettings
from core.storage.auto_comments import FeedState, FeedStateRepository, merge_known_ids
from core.storage.messages import Journal
from core.types import ConversationKey, FeedEntry, Message
from knowledge.parsing.parser import Parser
from knowledge.sources.feed.parsing import NewEntry
from knowledge.sources.feed.poll import FeedRateLimited, FeedUpdate, poll_feed
from knowledge.web.addresses import check_url, redact_url

MINUTE_S = 60.0
# Chats of a further HTTP network carry its name everywhere; elsewhere the ending only says which bot writes.
NAMESPACED_PLATFORM = "http"


class FeedFollower:
    """Follows one feed for a chat of one bot.

    The first poll only records the known entries. `minute_s` is the length of a configured minute.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        adapter: Adapter,
        feed_states: FeedStateRepository,
        *,
        minute_s: float = MINUTE_S,
        parser: Parser | None = None,
    ) -> None:
        self._parser = parser
        self.name = name
        self.adapter = adapter
        self._feed = feed = settings.auto_comment.feeds[name]
        self._feed_states = feed_states
        self._state_key = hashlib.sha256(f"{name}\n{feed.url}".encode()).hexdigest()[:32]
        self._interval_s = feed.every_minutes * minute_s
        # A poll on schedule, plus the time of a comment, sees an entry soon after it appears.
        self._max_age_s = self._interval_s + settings.auto_comment.deadline_s
        self._is_down = False

    async def listen(self, receive: MessageHandler) -> None:
        """Poll the feed until cancelled, and deliver new entries. A failing feed is retried."""
        while True:
            started_at, delay_s = time.monotonic(), self._interval_s
            try:
                await self._poll(receive)
            except Exception as error:
                # Whatever one feed raises, the other feeds and the platform go on.
                delay_s = max(delay_s, error.wait_s if isinstance(error, FeedRateLimited) else 0.0)
                self._log_failure(error)
            else:
                self._log_recovery()
            await asyncio.sleep(max(0.0, delay_s - (time.monotonic() - started_at)))

    async def _poll(self, receive: MessageHandler) -> None:
        stored_state, now = await self._feed_states.load(self._state_key), time.time()
        state = stored_state or FeedState(now)
        known_ids = None if stored_state is None else frozenset(stored_state.known_ids)
        feed_update = await poll_feed(
            self._feed.url,
            self._feed.allow_private,
            known_ids=known_ids,
            etag=state.etag,
            modified=state.modified,
            parser=self._parser,
        )
        if feed_update is None:
            await self._feed_states.save(self._state_key, replace(state, looked_at=now))
            return
        is_overdue = now - state.looked_at > self._max_age_s
        for entry in feed_update.new_entries:
            is_too_old = is_overdue and (entry.published is None or entry.published < now - self._max_age_s)
            await receive(self._to_message(entry, feed_update, is_too_old))
        # Only once all are in the journal, which recognizes an entry that arrives twice.
        seen_ids = merge_known_ids(feed_update.entry_ids, state.known_ids)
        await self._feed_states.save(self._state_key, FeedState(now, seen_ids, feed_update.etag, feed_update.modified))
        get_logger(__name__).debug(
            "feed.looked_at", feed=self.name, entries=len(feed_update.entry_ids), new=len(feed_update.new_entries)
        )

    def _to_message(self, entry: NewEntry, feed_update: FeedUpdate, is_too_old: bool) -> Message:
        platform, chat, native_chat = resolve_chat(self._feed, self.adapter)
        message_id = f"feed-{entry.id}"
        return Message(
            id=message_id,
            key=ConversationKey(platform, chat, message_id),
            author_id=f"feed:{self.name}",
            author=feed_update.title or self.name,
            text="\n\n".join(part for part in (entry.title, entry.text) if part),
            sent_at=datetime.now(UTC),
            bot=self.adapter.bot_id,
            reference=make_reference(platform, native_chat),
            is_post=True,
            feed_entry=FeedEntry(self.name, entry.title, entry.link, is_too_old),
        )

    def _log_failure(self, error: Exception) -> None:
        if self._is_down:
            get_logger(__name__).debug("feed.still_down", feed=self.name, error=str(error))
            return
        self._is_down = True
        is_expected = isinstance(error, KimasError)
        get_logger(__name__).error(
            "feed.not_read", feed=self.name, error=str(error), exc_info=None if is_expected else error
        )

    def _log_recovery(self) -> None:
        if self._is_down:
            get_logger(__name__).info("feed.read_again", feed=self.name)
        self._is_down = False


def make_feed_followers(
    settings: Settings, adapters: Sequence[Adapter], journal: Journal, parser: Parser
) -> list[FeedFollower]:
    """Return a follower per configured feed. Raises `UsageError` for one whose chat no bot can write to."""
    if errors := find_misplaced_feeds(settings):
        raise UsageError("\n".join(errors.values()))
    feed_states = FeedStateRepository(journal.database)
    return [
        FeedFollower(name, settings, _find_posting_adapter(feed, adapters), feed_states, parser=parser)
        for name, feed in settings.auto_comment.feeds.items()
    ]


def find_misplaced_feeds(settings: Settings) -> dict[str, str]:
    """Return an error by name for each feed whose chat no bot can write to."""
    errors = {}
    for name, feed in settings.auto_comment.feeds.items():
        platform, _, chat = feed.chat.partition(":")
        bot_names = [bot_name for bot_name, _, _ in settings.get_bots(platform)]
        requested_bot = chat.partition("@")[2] if platform != NAMESPACED_PLATFORM else ""
        setting = f"auto_comment.feeds.{name}.chat is {feed.chat}"
        if not bot_names:
            errors[name] = (
                f"{setting}, but there is no {platform} bot: add a {platform} section (docs/{platform}.md), or name a "
                "chat of a platform that is configured"
            )
        elif requested_bot and requested_bot not in bot_names:
            known_names = ", ".join(bot for bot in bot_names if bot) or "none"
            errors[name] = f"{setting}, but no further {platform} bot is named {requested_bot!r} (known: {known_names})"
    return errors


def find_feed_errors(settings: Settings) -> dict[str, str]:
    """Return an error by name for each feed that cannot be followed, as far as known without a request."""
    errors = find_misplaced_feeds(settings)
    for name, feed in settings.auto_comment.feeds.items():
        try:
            check_url(feed.url, feed.allow_private)
        except SourceError as error:
            errors.setdefault(name, str(error))
    return errors


async def probe_feed(feed: FollowedFeedSettings) -> str:
    """Describe a feed's response in a few words. Raises `SourceError`."""
    feed_update = await poll_feed(feed.url, feed.allow_private)
    return f"{redact_url(feed.url)}: {len(feed_update.entry_ids) if feed_update else 0} entries"


def resolve_chat(feed: FollowedFeedSettings, adapter: Adapter) -> tuple[str, str, str]:
    """Return the platform, the chat as the journal knows it, and the chat as the platform knows it."""
    platform, _, chat = feed.chat.partition(":")
    bot_name = adapter.label.partition(":")[2]
    native_chat = chat.removesuffix(f"@{bot_name}") if bot_name else chat
    return (
        platform,
        f"{native_chat}@{bot_name}" if bot_name and platform == NAMESPACED_PLATFORM else native_chat,
        native_chat,
    )


def _find_posting_adapter(feed: FollowedFeedSettings, adapters: Sequence[Adapter]) -> Adapter:
    """Return the bot that writes to a feed's chat: the one that the chat names, else the platform's first."""
    platform = feed.chat.partition(":")[0]
    candidates = [adapter for adapter in adapters if adapter.name == platform]
    by_name = {adapter.label.partition(":")[2]: adapter for adapter in candidates}
    return by_name.get(feed.chat.rpartition("@")[2], candidates[0])


def make_reference(platform: str, chat: str) -> Mapping[str, Any]:
    """Return the reference with which the platform's sink posts a new message into a chat.

    Over HTTP the callback then names no event.
    """
    match platform:
        case "telegram":
            return {"chat_id": int(chat), "message_id": 0, "thread_id": None}
        case "discord":
            return {"channel": chat, "message": ""}
        case "slack":
            return {"channel": chat, "ts": "", "thread_ts": None}
        case _:
            return {"event": ""}
