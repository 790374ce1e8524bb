"""What channels are called, and whether other organizations share them. No event of a message says the former, no
command the latter, so Slack is asked, and what it says kept for a while."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bots.common.caches import TtlCache
from core.errors import PlatformError, PlatformUnavailable
from core.observability.logs import get_logger
from core.types import Message

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

_log = get_logger(__name__)

MOVE_EVENT = "channel_id_changed"
RENAME_EVENTS = ("channel_rename", "group_rename")
# Of several daemons, one alone gets the event that a channel was renamed. One that is shared now says so with its next
# message, to whoever gets that.
INFO_TTL_S = 600.0
# What is posted later than its question, or to none, has no such message.
GUESTS_TTL_S = 60.0
MAX_CHANNELS = 10_000
# For how long Slack is not asked where it was slow or away.
PAUSE_S = 60.0
# Slack waits three seconds for the acknowledgement of an event, and its thread may have to be read as well.
LOOKUP_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """What Slack says of a channel. `is_shared`: with another organization; None: it does not say."""

    title: str
    is_shared: bool | None


class ChannelDirectory:
    """The channels of a workspace."""

    def __init__(self) -> None:
        self._channels = TtlCache[ChannelInfo](INFO_TTL_S, MAX_CHANNELS)
        self._read_now = TtlCache[ChannelInfo](GUESTS_TTL_S, MAX_CHANNELS)
        # What the last event of a channel said, which may be newer.
        self._shared: dict[str, bool] = {}
        self._not_before = 0.0

    def note_event(self, channel: str, is_shared: object) -> None:
        """Record what an event says of its channel."""
        if channel and isinstance(is_shared, bool):
            self._shared.pop(channel, None)
            self._shared[channel] = is_shared
            if len(self._shared) > MAX_CHANNELS:
                del self._shared[next(iter(self._shared))]

    async def describe(self, client: SlackClient, message: Message) -> Message:
        """Return a message with what its channel is called, and whether guests read it.

        Where Slack does not say the latter in time, nor an event before, they may.
        """
        channel = message.key.chat
        if message.private:
            return replace(message, has_guests=self._shared.get(channel, False))
        info = await self._find(client, channel)
        is_shared = self._shared.get(channel, info.is_shared)
        title = info.title or message.chat_title
        return replace(message, chat_title=title, has_guests=is_shared is not False)

    async def has_guests(self, client: SlackClient, channel: str) -> bool:
        """Return whether guests read a channel now. Raises `PlatformUnavailable` where nothing says so."""
        noted = self._shared.get(channel)
        if noted or channel.startswith("D"):
            return noted is True
        try:
            info = await self._read_now.get(channel, lambda: _look_up(client, channel))
        except PlatformUnavailable:
            if noted is None:
                raise
            return noted
        return (noted if info.is_shared is None else info.is_shared) is not False

    async def _find(self, client: SlackClient, channel: str) -> ChannelInfo:
        """Return what Slack says of a channel, or said of late."""
        if time.monotonic() < self._not_before:
            return ChannelInfo("", is_shared=None)
        try:
            return await self._channels.get(channel, lambda: _look_up(client, channel))
        except PlatformUnavailable as error:
            # Slack may say it later; until then no message waits for it.
            self._not_before = time.monotonic() + PAUSE_S
            _log.info("slack.channel_unknown", channel=channel, error=str(error), retry_s=PAUSE_S)
            return ChannelInfo("", is_shared=None)

    def forget(self, channel: str) -> None:
        """Look a channel up again: it was renamed."""
        self._channels.forget(channel)


async def _look_up(client: SlackClient, channel: str) -> ChannelInfo:
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT_S):
            return await client.get_channel(channel)
    except TimeoutError as error:
        raise PlatformUnavailable("it took too long") from error
    except PlatformUnavailable:
        raise
    except PlatformError as error:
        # The app has no scope for it: every try would fail.
        _log.info("slack.channel_unknown", channel=channel, error=str(error))
        return ChannelInfo("", is_shared=None)
