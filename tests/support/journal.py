"""A message for journals."""

from __future__ import annotations

from datetime import UTC, datetime

from core.types import ConversationKey, Message

CHAT = ConversationKey("telegram", "-100", "7")
MESSAGE = Message("1", CHAT, "42", "Ann", "How?", datetime(2026, 1, 2, tzinfo=UTC), reference={"chat_id": -100})
