"""Who administers the workspace, as Slack has it, and what a slash command's words mean."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.types import Message

if TYPE_CHECKING:
    from bots.slack.client import Client

# So long somebody who was made an administrator, or is none any more, may have to wait.
REMEMBERED_S = 30.0
PEOPLE = 1000


class Administrators:
    """The administrators and owners of a workspace, each answer of Slack's remembered for a moment."""

    def __init__(self, remembered_s: float = REMEMBERED_S) -> None:
        self._remembered_s = remembered_s
        self._known: dict[str, tuple[float, bool]] = {}

    async def include(self, client: Client, message: Message) -> bool:
        """Say whether the author is one of them. Raises a `PlatformError` when Slack cannot be asked."""
        user = message.author_id
        at, known = self._known.get(user, (-float("inf"), False))
        if time.monotonic() - at < self._remembered_s:
            return known
        found = await client.is_administrator(user)
        if len(self._known) >= PEOPLE:
            self._known.clear()
        self._known[user] = (time.monotonic(), found)
        return found
