"""The shortcut in the menu of a message, by which people teach the bot what it says: as `/learn` in reply to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from bots.slack.convert import Identity, Ignored, plain
from core.feedback.pointing import BEFORE, SHORTCUT
from core.types import ConversationKey, Message

CHOSEN = "message_action"


def to_lesson(payload: Mapping[str, Any], me: Identity) -> Message | Ignored:
    """Convert the choice of a message, or say why it is none of ours; `reference` as that of a slash command.

    What the message says comes with it, so that it need not have been seen before. Raises `KeyError` and the like for a
    malformed payload.
    """
    if payload["callback_id"] != SHORTCUT:
        return Ignored("a shortcut that is not ours", expected=False)
    user, chosen, channel = payload["user"], payload["message"], str(payload["channel"]["id"])
    author_id, ts = str(user["id"]), str(payload["message_ts"])
    thread = str(chosen.get("thread_ts") or ts)
    # The bot's own answers are in the journal, as they were before they were made to fit a message.
    own = chosen.get("user") == me.user_id
    return Message(
        id=str(payload["trigger_id"]),
        key=ConversationKey("slack", channel, f"command:{author_id}"),
        author_id=author_id,
        author=str(user.get("name") or user.get("username") or author_id),
        text="",
        sent_at=datetime.now(UTC),
        private=channel.startswith("D"),
        addressed=True,
        command="learn",
        reply_to=ts,
        quoted="" if own else plain(str(chosen.get("text") or ""), me),
        bot=me.user_id,
        reference={
            "channel": channel,
            "user": author_id,
            "response_url": str(payload["response_url"]),
            BEFORE: "" if thread == ts else thread,
        },
    )
