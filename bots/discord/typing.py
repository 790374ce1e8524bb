"""Who is writing in which channel: Discord tells when somebody begins, and again while they go on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from core.types import ConversationKey


class Typing:
    """People who are writing. `bot` is our own id, `lasts_s` how long one notice of Discord's counts."""

    def __init__(self, bot: str, lasts_s: float) -> None:
        self._bot = bot
        self._lasts_s = lasts_s
        self._until: dict[tuple[str, str], float] = {}

    def note(self, event: Mapping[str, Any]) -> None:
        """Take a notice that somebody is writing; those about bots do not count."""
        member = event.get("member")
        user = member.get("user") if isinstance(member, Mapping) else None
        is_bot = isinstance(user, Mapping) and bool(user.get("bot"))
        if is_bot or str(event.get("user_id") or self._bot) == self._bot:
            return
        now = time.monotonic()
        self._until = {who: until for who, until in self._until.items() if until > now}
        self._until[str(event.get("channel_id")), str(event.get("user_id"))] = now + self._lasts_s

    def sent(self, event: Mapping[str, Any]) -> None:
        """Take a message: whoever wrote it writes no longer."""
        author = event.get("author")
        if isinstance(author, Mapping):
            self._until.pop((str(event.get("channel_id")), str(author.get("id"))), None)

    def in_place(self, key: ConversationKey) -> bool:
        """Say whether somebody is writing in a channel or thread."""
        place, now = key.thread or key.chat, time.monotonic()
        return any(channel == place and until > now for (channel, _), until in self._until.items())
