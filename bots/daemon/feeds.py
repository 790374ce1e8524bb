"""Followed feeds: each new entry reaches the inbox as a post does from a platform."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from bots.daemon.posting import find_chat_error, find_posting_adapter, make_reference, resolve_chat
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

_log = get_logger(__name__)

MINUTE_S = 60.0


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
            started_at = time.monotonic()
            delay_s = self._interval_s
            try:
                await self._poll(receive)
            except Exception as error:
                # After any error of one feed, the other feeds and the platform continue.
                delay_s = max(delay_s, error.wait_s if isinstance(error, FeedRateLimited) else 0.0)
                self._log_failure(error)
            else:
                self._log_recovery()
            await asyncio.sleep(max(0.0, delay_s - (time.monotonic() - started_at)))

    async def _poll(self, receive: MessageHandler) -> None:
        stored_state = await self._feed_states.load(self._state_key)
        now = time.time()
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
            await self._feed_states.save(self._state_key, replace(state, polled_at=now))
            return
        is_overdue = now - state.polled_at > self._max_age_s
        for entry in feed_update.new_entries:
            is_too_old = is_overdue and (entry.published is None or entry.published < now - self._max_age_s)
            await receive(self._to_message(entry, feed_update, is_too_old))
        # Only once all are in the journal, which recognizes an entry that arrives twice.
        seen_ids = merge_known_ids(feed_update.entry_ids, state.known_ids)
        await self._feed_states.save(self._state_key, FeedState(now, seen_ids, feed_update.etag, feed_update.modified))
        _log.debug("feed.polled", feed=self.name, entries=len(feed_update.entry_ids), new=len(feed_update.new_entries))

    def _to_message(self, entry: NewEntry, feed_update: FeedUpdate, is_too_old: bool) -> Message:
        platform, chat, native_chat = resolve_chat(self._feed.chat)
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
            _log.debug("feed.still_failing", feed=self.name, error=str(error))
            return
        self._is_down = True
        is_expected = isinstance(error, KimasError)
        _log.error("feed.poll_failed", feed=self.name, error=str(error), exc_info=None if is_expected else error)

    def _log_recovery(self) -> None:
        if self._is_down:
            _log.info("feed.recovered", feed=self.name)
        self._is_down = False


def make_feed_followers(
    settings: Settings, adapters: Sequence[Adapter], journal: Journal, parser: Parser
) -> list[FeedFollower]:
    """Return a follower per configured feed. Raises `UsageError` for one whose chat no bot can write to."""
    if errors := find_misplaced_feeds(settings):
        raise UsageError("\n".join(errors.values()))
    feed_states = FeedStateRepository(journal.database)
    return [
        FeedFollower(name, settings, find_posting_adapter(feed.chat, adapters), feed_states, parser=parser)
        for name, feed in settings.auto_comment.feeds.items()
    ]


def find_misplaced_feeds(settings: Settings) -> dict[str, str]:
    """Return an error by name for each feed whose chat no bot can write to."""
    errors = {
        name: find_chat_error(settings, f"auto_comment.feeds.{name}.chat", feed.chat)
        for name, feed in settings.auto_comment.feeds.items()
    }
    return {name: error for name, error in errors.items() if error}


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
