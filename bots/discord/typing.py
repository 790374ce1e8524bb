"""Who is typing in which channel: Discord reports it when somebody begins, and again while they continue."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from core.types import ConversationKey


class TypingTracker:
    """People who are typing. A notice of Discord's counts for `ttl_s` seconds; those about `bot_id` are ignored."""

    def __init__(self, bot_id: str, ttl_s: float) -> None:
        self._bot_id = bot_id
        self._ttl_s = ttl_s
        self._expiry_times: dict[tuple[str, str], float] = {}

    def on_typing(self, event: Mapping[str, Any]) -> None:
        """Handle a notice that somebody is typing; those about bots do not count."""
        member = event.get("member")
        user = member.get("user") if isinstance(member, Mapping) else None
        is_bot = isinstance(user, Mapping) and bool(user.get("bot"))
        if is_bot or str(event.get("user_id") or self._bot_id) == self._bot_id:
            return
        now = time.monotonic()
        self._expiry_times = {key: expires_at for key, expires_at in self._expiry_times.items() if expires_at > now}
        self._expiry_times[str(event.get("channel_id")), str(event.get("user_id"))] = now + self._ttl_s

    def on_message(self, event: Mapping[str, Any]) -> None:
        """Handle a message: its author no longer types."""
        author = event.get("author")
        if isinstance(author, Mapping):
            self._expiry_times.pop((str(event.get("channel_id")), str(author.get("id"))), None)

    def is_typing(self, key: ConversationKey) -> bool:
        """Return whether somebody is typing in a channel or thread."""
        channel_id, now = key.thread or key.chat, time.monotonic()
        return any(
            channel == channel_id and expires_at > now for (channel, _), expires_at in self._expiry_times.items()
        )
