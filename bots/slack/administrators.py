"""Who administers the workspace, as Slack has it, and what a slash command's words mean."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.types import Message

if TYPE_CHECKING:
    from bots.slack.client import SlackClient

# So long somebody who was made an administrator, or is none any more, may have to wait.
CACHE_TTL_S = 30.0
MAX_USERS = 1000


class AdministratorCache:
    """The administrators and owners of a workspace, each answer of Slack's remembered for a moment."""

    def __init__(self, ttl_s: float = CACHE_TTL_S) -> None:
        self._ttl_s = ttl_s
        self._cache: dict[str, tuple[float, bool]] = {}

    async def is_admin(self, client: SlackClient, message: Message) -> bool:
        """Say whether the author is one of them. Raises a `PlatformError` when Slack cannot be asked."""
        user_id = message.author_id
        fetched_at, is_cached_admin = self._cache.get(user_id, (-float("inf"), False))
        if time.monotonic() - fetched_at < self._ttl_s:
            return is_cached_admin
        is_admin = await client.is_admin(user_id)
        if len(self._cache) >= MAX_USERS:
            self._cache.clear()
        self._cache[user_id] = (time.monotonic(), is_admin)
        return is_admin
