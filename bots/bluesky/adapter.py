"""The Bluesky adapter: notifications and feeds are polled, and each is delivered once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bots.bluesky.client import MAX_ABOVE, BlueskyClient, Identity
from bots.bluesky.connection import BlueskyIntervals
from bots.bluesky.convert import to_feed_post, to_message, to_rating
from bots.bluesky.reading import Deliver, NewItems
from bots.bluesky.session import SessionFile
from bots.bluesky.sink import BlueskySink
from bots.common.adapter import ClientAdapter, read_token
from bots.common.caches import BoundedDict
from bots.common.connection import NotAllowed, Refused, TokenRefused, Unreachable
from bots.common.events import IgnoredEvent
from bots.common.json_client import TooLarge
from bots.common.positions import PositionStore
from core.errors import MessageDeleted
from core.observability.logs import get_logger
from core.ports import ConnectionStatus, Delivery, MessageHandler, Sink
from core.runtime.tasks import task_group
from core.settings import BlueskySettings
from core.types import Attachment, Message, Skip, SkipReason, skip

_log = get_logger(__name__)

UNREADABLE_MESSAGE = "bluesky.app_password cannot be read: {error}. Make one in the settings, Privacy and security"
HOME = "home"
# Who follows the bot has agreed to its comments, where the settings say so.
FOLLOWERS = "followers"
MAX_KNOWN_POSTS = 10_000
# So often a thread is asked for that its server cannot show now.
MAX_TRIES = 5
_QUESTION_REASONS = ("mention", "reply", "quote")
_RATING_REASONS = ("like", "repost")
Json = Mapping[str, Any]


class BlueskyAdapter(ClientAdapter[BlueskyClient]):
    """One account. Posts of `feeds` (`home`, `list/KEY`) are delivered, to be commented on."""

    name = "bluesky"
    title = "Bluesky"
    can_resolve_doubt = True
    read_only_calls = (
        "get_identity",
        "get_profiles",
        "get_notifications",
        "get_timeline",
        "get_list_feed",
        "get_thread",
        "find_post",
        "download",
        "close",
    )
    _intervals: BlueskyIntervals

    def __init__(
        self,
        settings: BlueskySettings,
        positions: PositionStore,
        feeds: Collection[str] = (),
        session_file: Path | None = None,
        intervals: BlueskyIntervals | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__(intervals or BlueskyIntervals(), read_only=read_only)
        self._settings = settings
        self._positions = positions
        self._feeds = feeds
        self._session_file = SessionFile(session_file)
        self._me = Identity()
        # By which feed a post came first.
        self._feed_by_post = BoundedDict[str, str](MAX_KNOWN_POSTS)
        self._tries = BoundedDict[str, int](MAX_KNOWN_POSTS)

    @property
    def bot_id(self) -> str:
        """The bot's lasting id, once it is open."""
        return self._me.did

    def spell_command(self, usage: str) -> str:
        """Return how a command is given: with a mention, without which nothing reaches the bot."""
        return f"`@{self._me.handle} /{usage}`"

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked password."""
        client = self._get_client()
        async with task_group() as tasks:
            notifications = NewItems(f"{self._me.did}:notifications", self._positions, client.get_notifications)
            handle = partial(self._handle_notification, receive)
            tasks.create_task(self._follow("notifications", notifications, handle, self.connection))
            for feed in self._feeds:
                kind, _, key = feed.partition("/")
                fetch = client.get_timeline if kind == HOME else partial(client.get_list_feed, key)
                posts = NewItems(f"{self._me.did}:{feed}", self._positions, fetch, is_feed=True)
                tasks.create_task(self._follow(kind, posts, partial(self._handle_post, receive, feed)))

    def _make_sink(self, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        is_comment = message.reply_options.max_bot_replies is not None
        return BlueskySink(
            self._get_client(),
            self._me,
            message,
            delivery,
            previous_reply_id=previous_reply_id,
            intervals=self._intervals,
            is_for_follower=is_comment and message.author_id not in self._settings.comment_below,
        )

    def refuse_comment(self, post: Message) -> Skip | None:
        """Return that the author of a post did not agree to comments, which the network's rule for bots wants."""
        agreed = self._settings.comment_below
        if not post.reference.get("uri") or post.author_id in agreed:
            return None
        if FOLLOWERS in agreed and post.reference.get("follows"):
            return None
        return skip(SkipReason.AUTHOR_NOT_AGREED)

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content of an attachment. Raises `PlatformError`."""
        return await self._get_client().download(str(attachment.reference["url"]), max_bytes)

    async def _connect(self) -> BlueskyClient:
        return await connect(self._settings, self._intervals, self._session_file)

    async def _set_up(self, client: BlueskyClient) -> None:
        self._me = await self._retry_until_ok(client.get_identity)
        _log.info("bluesky.open", bot=self._me.handle, did=self._me.did)

    def _hint(self, error: Exception) -> str:
        return "retrying; mentions wait on the server"

    async def _follow(
        self, name: str, items: NewItems, deliver: Deliver, connection: ConnectionStatus | None = None
    ) -> None:
        """Read a list for ever; the `connection` is noted where questions come this way."""
        retry_loop = self._make_retry_loop(f"reading_{name}", connection)
        while True:
            try:
                await items.deliver(deliver)
                retry_loop.mark_recovered()
                await asyncio.sleep(self._intervals.poll_s)
            except Exception as error:
                # Any error: an item that is not saved must be read again.
                if isinstance(error, TokenRefused):
                    await self._check_token(self._get_client().get_identity)
                await retry_loop.wait(error)

    async def _handle_notification(self, receive: MessageHandler, notification: Json) -> None:
        kind = str(notification.get("reason"))
        if kind in _QUESTION_REASONS:
            message = await self._convert_question(notification)
        elif kind in _RATING_REASONS:
            message = self._try_convert(lambda: to_rating(notification, self._me), kind)
        else:
            message = IgnoredEvent("a notification of another kind")
        await self._hand_on(message, receive, kind)

    async def _convert_question(self, notification: Json) -> Message | IgnoredEvent:
        """Convert a post that concerns the bot, with the thread above it."""
        uri = str(notification.get("uri"))
        client = self._get_client()
        try:
            try:
                thread = await client.get_thread(uri, above=MAX_ABOVE)
            except MessageDeleted:
                # What the server tells of, it may show a moment later.
                await asyncio.sleep(self._intervals.poll_s)
                thread = await client.get_thread(uri, above=MAX_ABOVE)
        except MessageDeleted:
            return IgnoredEvent("deleted before it was read")
        except TooLarge:
            # Without the thread nobody could tell how many answers there are in it.
            return IgnoredEvent("in a thread that is too large to be read", is_expected=False)
        except (Refused, NotAllowed) as error:
            return IgnoredEvent(f"in a thread that is not shown: {error}", is_expected=False)
        except Unreachable as error:
            # One thread that its server cannot show holds up nobody else for long.
            self._tries[uri] = self._tries.get(uri, 0) + 1
            if self._tries[uri] < MAX_TRIES:
                raise
            return IgnoredEvent(f"in a thread that could not be read: {error}", is_expected=False)
        answers_per_thread = self._settings.answers_per_thread
        return self._try_convert(lambda: to_message(thread, self._me, answers_per_thread), "mention")

    async def _handle_post(self, receive: MessageHandler, feed: str, item: Json) -> None:
        message = self._try_convert(lambda: self._to_new_post(item, feed), "post")
        await self._hand_on(message, receive, "post")

    def _to_new_post(self, item: Json, feed: str) -> Message | IgnoredEvent:
        message = to_feed_post(item, self._me, feed)
        if isinstance(message, IgnoredEvent):
            return message
        if self._feed_by_post.get(message.id, feed) != feed:
            return IgnoredEvent("a post of two feeds")
        self._feed_by_post[message.id] = feed
        return message


async def connect(
    settings: BlueskySettings, intervals: BlueskyIntervals, session_file: SessionFile | None = None
) -> BlueskyClient:
    """Read the password and make a client. Raises `PlatformError`."""
    password = await read_token(settings.app_password, UNREADABLE_MESSAGE, "bluesky.app_password", "app password")
    file = session_file or SessionFile(None)
    return BlueskyClient(settings.url, settings.handle, password, file, intervals)
