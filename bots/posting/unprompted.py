"""A message of ours that replies to nothing: what each platform's sink finds in the reference of such a post."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def reference_in(platform: str, chat: str) -> Mapping[str, Any]:
    """Return the reference with which the platform's sink posts a new message into a chat.

    Over HTTP the callback then names no event.
    """
    match platform:
        case "telegram":
            return {"chat_id": int(chat), "message_id": 0, "thread_id": None}
        case "discord":
            return {"channel": chat, "message": ""}
        case "slack":
            return {"channel": chat, "ts": "", "thread_ts": None}
        case _:
            return {"event": ""}
