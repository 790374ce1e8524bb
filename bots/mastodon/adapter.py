"""The Mastodon adapter: streams that say what is new, and notifications that are read in order, each once."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bots.common.adapter import ClientAdapter, read_token
from bots.common.caches import BoundedDict
from bots.common.connection import TokenRefused
from bots.common.events import IgnoredEvent
from bots.common.json_client import TooLarge
from bots.common.positions import PositionStore
from bots.mastodon.client import PAGE_SIZE, Identity, MastodonClient
from bots.mastodon.connection import MastodonIntervals
from bots.mastodon.convert import mentions_bot, to_mention, to_message, to_post, to_rating, with_edit
from bots.mastodon.sink import MastodonSink
from core.errors import MessageDeleted, PlatformError
from core.observability.logs import get_logger
from core.ports import ConnectionStatus, Delivery, MessageHandler, Sink
from core.runtime.tasks import task_group
from core.settings import MastodonSettings
from core.types import Attachment, Message

_log = get_logger(__name__)

UNREADABLE_MESSAGE = "mastodon.token cannot be read: {error}. Make one in the account's preferences, Development"
HOME = "home"
# Posts that came in one timeline may come in another one.
MAX_KNOWN_POSTS = 10_000
Json = Mapping[str, Any]


class MastodonAdapter(ClientAdapter[MastodonClient]):
    """One account. Posts of `timelines` (`home`, `list/ID`, `tag/NAME`) are delivered, to be commented on.

    A stream loses what comes while it is down. So it only announces: notifications are read after the last one, the
    oldest first, whenever it is opened and whenever it says that there are new ones.
    """

    name = "mastodon"
    title = "Mastodon"
    can_resolve_doubt = True
    read_only_calls = (
        "get_identity",
        "get_notifications",
        "get_status",
        "get_context",
        "get_list_title",
        "stream",
        "download",
        "close",
    )
    _intervals: MastodonIntervals

    def __init__(
        self,
        settings: MastodonSettings,
        positions: PositionStore,
        timelines: Collection[str] = (),
        intervals: MastodonIntervals | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        super().__init__(intervals or MastodonIntervals(), read_only=read_only)
        self._settings = settings
        self._positions = positions
        self._timelines = timelines
        self._me = Identity()
        self._known_posts = BoundedDict[str, None](MAX_KNOWN_POSTS)
        self._timeline_titles = dict[str, str]()
        self._last_id: int | None = None
        self._read_at = 0.0

    @property
    def bot_id(self) -> str:
        """The bot's own id, once it is open."""
        return self._me.id

    @property
    def author_ids(self) -> frozenset[str]:
        """The bot's handle, once it is open: its number means another account on another server."""
        return frozenset((self._me.to_handle(self._me.username),) if self._me.id else ())

    def spell_command(self, usage: str) -> str:
        """Return how a command is given: with a mention, without which nothing reaches the bot."""
        return f"`@{self._me.username} /{usage}`"

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        self._last_id = await self._positions.load(self._position_name)
        async with task_group() as tasks:
            tasks.create_task(self._follow("user", {}, HOME, receive, self.connection))
            for timeline in self._timelines:
                kind, _, value = timeline.partition("/")
                if kind != HOME:
                    name = "hashtag" if kind == "tag" else kind
                    tasks.create_task(self._follow(name, {kind: value}, timeline, receive))

    def _make_sink(self, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        return MastodonSink(
            self._get_client(),
            self._me,
            message,
            delivery,
            previous_reply_id=previous_reply_id,
            intervals=self._intervals,
        )

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content of an attachment. Raises `PlatformError`."""
        return await self._get_client().download(str(attachment.reference["url"]), max_bytes)

    async def _connect(self) -> MastodonClient:
        return await connect(self._settings, self._intervals)

    async def _set_up(self, client: MastodonClient) -> None:
        self._me = await self._retry_until_ok(client.get_identity)
        _log.info("mastodon.open", bot=self._me.to_handle(self._me.username), max_chars=self._me.max_chars)

    def _hint(self, error: Exception) -> str:
        return "retrying; mentions wait on the server"

    @property
    def _position_name(self) -> str:
        return f"{self._me.to_handle(self._me.username)}:notifications"

    async def _follow(
        self,
        stream: str,
        params: Mapping[str, str],
        timeline: str,
        receive: MessageHandler,
        connection: ConnectionStatus | None = None,
    ) -> None:
        """Follow a stream for ever: that of the account, whose `connection` is noted, or that of a timeline."""
        client = self._get_client()
        retry_loop = self._make_retry_loop(f"stream_{stream}", connection)
        while True:
            try:
                if connection:
                    # A server whose streams are down has notifications all the same.
                    await self._read_notifications(receive)
                self._timeline_titles[timeline] = await self._get_title(timeline)
                async with client.stream(stream, params) as events:
                    if connection:
                        await self._read_notifications(receive)
                    retry_loop.mark_recovered()
                    async for kind, data in events:
                        await self._handle_event(kind, data, timeline, receive)
            except Exception as error:
                # Any error: a notification that is not saved must be read again.
                if isinstance(error, TokenRefused):
                    await self._check_token(client.get_identity)
                await retry_loop.wait(error)

    async def _get_title(self, timeline: str) -> str:
        """Return what a timeline is called. A list may have got another name since the last time."""
        kind, _, value = timeline.partition("/")
        if kind == "tag":
            return f"#{value}"
        if kind == HOME:
            return f"{HOME} of {to_mention(self._me)}"
        try:
            return await self._get_client().get_list_title(value)
        except PlatformError as error:
            _log.info("mastodon.list_not_named", list=value, error=str(error))
            return self._timeline_titles.get(timeline, "")

    async def _handle_event(self, kind: str, data: str, timeline: str, receive: MessageHandler) -> None:
        if timeline == HOME and (kind == "notification" or time.monotonic() - self._read_at > self._intervals.read_s):
            await self._read_notifications(receive)
        if kind == "update":
            message = self._try_convert(lambda: self._to_new_post(json.loads(data), timeline), kind)
            await self._hand_on(message, receive, kind)
        elif kind == "status.update" and timeline == HOME:
            await self._hand_on(with_edit(await self._convert_mention(data, kind)), receive, kind)

    async def _read_notifications(self, receive: MessageHandler) -> None:
        """Deliver what came after the last notification, the oldest first. The first time, only note the newest one.

        Where people wrote very long ones, pages get shorter; one that is too large by itself is skipped.
        """
        self._read_at = time.monotonic()
        is_first_time = self._last_id is None
        page_size = 1 if is_first_time else PAGE_SIZE
        page: Sequence[Json] | None = None
        while page is None or (page and not is_first_time):
            try:
                page = await self._get_client().get_notifications(self._last_id, page_size)
            except TooLarge as error:
                if page_size == 1:
                    await self._skip_notification(error, receive)
                page_size = max(page_size // 2, 1)
                continue
            for notification in sorted(page, key=_get_number):
                if not is_first_time:
                    await self._handle_notification(notification, receive)
                await self._mark_read(_get_number(notification))
        if self._last_id is None:
            await self._mark_read(0)

    async def _skip_notification(self, error: TooLarge, receive: MessageHandler) -> None:
        """Go on behind a notification that is too large. Raises the error if the server does not say which it is."""
        if not error.newest_id:
            raise error
        await self._hand_on(IgnoredEvent("too large to be read", is_expected=False), receive, "notification")
        await self._mark_read(_get_number({"id": error.newest_id}))

    async def _mark_read(self, notification_id: int) -> None:
        await self._positions.save(self._position_name, notification_id)
        self._last_id = notification_id

    async def _handle_notification(self, notification: Json, receive: MessageHandler) -> None:
        kind = str(notification.get("type"))
        if kind == "mention":
            await self._hand_on(await self._convert_mention(notification.get("status"), kind), receive, kind)
        else:
            await self._hand_on(self._try_convert(lambda: to_rating(notification, self._me), kind), receive, kind)

    async def _convert_mention(self, status: Any, kind: str) -> Message | IgnoredEvent:
        """Convert a status, or its JSON, with the thread above it."""
        try:
            status = json.loads(status) if isinstance(status, str) else status
            if not mentions_bot(status, self._me):
                return IgnoredEvent("a status that does not mention the bot")
            above = await self._get_thread(status)
        except TooLarge:
            # Without the thread nobody could tell how many answers there are in it.
            return IgnoredEvent("in a thread that is too large to be read", is_expected=False)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _log.warning("mastodon.status_malformed", error=repr(error)[:300])
            return IgnoredEvent("malformed", is_expected=False)
        return self._try_convert(lambda: to_message(status, above, self._me, self._settings.answers_per_thread), kind)

    async def _get_thread(self, status: Json) -> list[Json]:
        """Return the statuses above a reply, the first one at their head."""
        if not status.get("in_reply_to_id"):
            return []
        try:
            context = await self._get_client().get_context(str(status["id"]))
        except MessageDeleted:
            return []
        return list(context.get("ancestors") or ())

    def _to_new_post(self, status: Json, timeline: str) -> Message | IgnoredEvent:
        message = to_post(status, self._me, timeline)
        if isinstance(message, IgnoredEvent):
            return message
        if timeline not in self._timelines:
            return IgnoredEvent("a post of a timeline that gets no comments")
        if message.id in self._known_posts:
            return IgnoredEvent("a post of two timelines")
        self._known_posts[message.id] = None
        return replace(message, chat_title=self._timeline_titles.get(timeline, ""))


def _get_number(notification: Json) -> int:
    """Return the id of a notification, which is how far was read. Raises `PlatformError`."""
    number = str(notification.get("id"))
    if not number.isascii() or not number.isdecimal():
        raise PlatformError("this server's notifications have no numbers as ids, so nobody can say how far was read")
    return int(number)


async def connect(settings: MastodonSettings, intervals: MastodonIntervals) -> MastodonClient:
    """Read the token and make a client. Raises `PlatformError`."""
    token = await read_token(settings.token, UNREADABLE_MESSAGE, "mastodon.token", "access token")
    return MastodonClient(settings.url, token, intervals)
