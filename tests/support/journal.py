"""A message for journals, and all that one has of a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from core.storage.messages import Journal
from core.types import ConversationKey, Message, Turn

CHAT = ConversationKey("telegram", "-100", "7")
MESSAGE = Message("1", CHAT, "42", "Ann", "How?", datetime(2026, 1, 2, tzinfo=UTC), reference={"chat_id": -100})


async def read_history(journal: Journal, key: ConversationKey, limit: int) -> Sequence[Turn]:
    """Return the last turns of a conversation, as whoever sees everything reads them."""
    return (await journal.get_history(key, limit, visible_labels=None, reader=None)).turns
