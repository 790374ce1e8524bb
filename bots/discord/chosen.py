"""The entry in the menu of a message, by which people teach the bot what it says: as `/learn` in reply to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bots.discord.convert import Identity, Ignored, place_of, to_command, to_message
from bots.discord.menu import ON_MESSAGES
from core.feedback.pointing import BEFORE, LEARN_FROM_THIS
from core.types import Message

FORWARDED = 1


def is_chosen(event: Mapping[str, Any]) -> bool:
    """Say whether an interaction comes from the menu of a message."""
    data = event.get("data")
    return isinstance(data, Mapping) and data.get("type") == ON_MESSAGES


def to_lesson(event: Mapping[str, Any], me: Identity) -> Message | Ignored:
    """Convert the choice of a message, or say why it is none of ours; `reference` as that of a slash command.

    What the message says comes with it, so that it need not have been seen before. Raises `KeyError` and the like for a
    malformed event.
    """
    data = event["data"]
    if data["name"] != LEARN_FROM_THIS:
        return Ignored("an entry in the menu of a message that is not ours", expected=False)
    command = to_command({**event, "data": {"name": "learn", "type": 1}}, me)
    if isinstance(command, Ignored):
        return command
    chosen = data["resolved"]["messages"][data["target_id"]]
    place = place_of({"guild_id": event.get("guild_id"), **event["channel"]})
    # The bot's own answers are in the journal, as they were before they were made to fit a message.
    said = to_message(chosen, me, place, counted=True)
    return replace(
        command,
        reply_to=str(data["target_id"]),
        quoted="" if isinstance(said, Ignored) else said.text,
        reference={**command.reference, BEFORE: _replied_to(chosen)},
    )


def _replied_to(chosen: Mapping[str, Any]) -> str:
    replied = chosen.get("message_reference") or {}
    return "" if replied.get("type") == FORWARDED else str(replied.get("message_id") or "")
