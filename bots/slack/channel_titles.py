"""What channels are called. No event of a message says it, so Slack is asked, and what it says kept for a while."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from bots.common.caches import TtlCache
from core.errors import PlatformError, PlatformUnavailable
from core.observability.logs import get_logger
from core.types import Message

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

_log = get_logger(__name__)

RENAME_EVENTS = ("channel_rename", "group_rename")
# Of several daemons, one alone gets the event that a channel was renamed.
TITLE_TTL_S = 3600.0
MAX_TITLES = 10_000
# For how long Slack is not asked where it was slow or away.
PAUSE_S = 60.0
# Slack waits three seconds for the acknowledgement of an event, and its thread may have to be read as well.
LOOKUP_TIMEOUT_S = 1.0


class ChannelTitles:
    """The titles of the channels of a workspace."""

    def __init__(self) -> None:
        self._titles = TtlCache[str](TITLE_TTL_S, MAX_TITLES)
        self._not_before = 0.0

    async def with_title(self, client: SlackClient, message: Message) -> Message:
        """Return a message of a channel with what that is called; unchanged where Slack does not say it in time."""
        if message.private:
            return message
        if time.monotonic() < self._not_before:
            return message
        channel = message.key.chat
        try:
            title = await self._titles.get(channel, lambda: _look_up(client, channel))
        except PlatformUnavailable as error:
            # Slack may say it later; until then no message waits for it.
            self._not_before = time.monotonic() + PAUSE_S
            _log.info("slack.channel_not_named", channel=channel, error=str(error), retry_s=PAUSE_S)
            return message
        return replace(message, chat_title=title)

    def forget(self, channel: str) -> None:
        """Look a channel up again: it was renamed."""
        self._titles.forget(channel)


async def _look_up(client: SlackClient, channel: str) -> str:
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT_S):
            return await client.get_channel_title(channel)
    except TimeoutError as error:
        raise PlatformUnavailable("it took too long") from error
    except PlatformUnavailable:
        raise
    except PlatformError as error:
        # The app has no scope for it: every try would fail.
        _log.info("slack.channel_not_named", channel=channel, error=str(error))
        return ""
