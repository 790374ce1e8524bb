"""Whose words a forward brings: Discord does not say it, but what was forwarded is still where it was written."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bots.common.caches import BoundedDict
from bots.common.connection import NotAllowed
from bots.discord.visible_text import get_snapshots
from core.errors import PlatformError, PlatformUnavailable
from core.observability.logs import get_logger
from core.types import Message

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

_log = get_logger(__name__)

Json = Mapping[str, Any]
MAX_KNOWN_CHANNELS = 2000
# Discord counts the requests that it refuses: of a channel that the bot may not read, the next one waits so long.
REFUSED_S = 600.0
# How many messages are read to find what was forwarded again and again.
MAX_FORWARDS = 5


class ForwardReader:
    """Finds who wrote what is forwarded, as far as the bot may read it."""

    def __init__(self, client: DiscordClient) -> None:
        self._client = client
        self._refused_at = BoundedDict[str, float](MAX_KNOWN_CHANNELS)

    async def with_origins(self, message: Message, *events: object) -> Message:
        """Return a message that names those whose words these messages of Discord's forward, not who forwarded them.

        Raises `PlatformUnavailable`.
        """
        authors = dict.fromkeys(message.quoted_authors)
        for event in events:
            if isinstance(event, Mapping) and (origin := await self._find_origin(event)):
                authors.pop(_get_author(event), None)
                authors[origin] = None
        return replace(message, quoted_authors=tuple(authors))

    async def _find_origin(self, event: Json) -> str:
        """Return who wrote what a message forwards, also by way of other forwards of it; "" where nobody can tell."""
        for _ in range(MAX_FORWARDS):
            original = await self._read_original(event)
            if original is None or not get_snapshots(original):
                return "" if original is None else _get_author(original)
            event = original
        return ""

    async def _read_original(self, event: Json) -> Json | None:
        reference = event.get("message_reference")
        if not isinstance(reference, Mapping) or not get_snapshots(event):
            return None
        channel, message_id = (str(reference.get(name) or "") for name in ("channel_id", "message_id"))
        if time.monotonic() - self._refused_at.get(channel, -REFUSED_S) < REFUSED_S:
            return None
        try:
            return await self._client.get_message(channel, message_id)
        except PlatformUnavailable:
            raise
        except PlatformError as error:
            if isinstance(error, NotAllowed):
                self._refused_at[channel] = time.monotonic()
            _log.debug("discord.forward_not_read", channel=channel, error=str(error))
            return None


def _get_author(event: Json) -> str:
    author = event.get("author")
    return str(author.get("id") or "") if isinstance(author, Mapping) else ""
