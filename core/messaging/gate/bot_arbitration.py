"""Which of several bots of ours in one chat speaks: whoever was meant, and else the one that had the message first."""

from __future__ import annotations

from core.messaging.gate.follow_up import follower
from core.settings import Settings
from core.storage.chat_history import Room
from core.types import Message


async def left_to_another(message: Message, room: Room, settings: Settings) -> str:
    """Return why this message is left to another bot of ours in its chat, or nothing.

    Raises `StoreError` when the journal cannot be read.
    """
    if message.private or len(settings.bots_on(message.key.platform)) < 2:
        return ""
    goes_with = None if message.addressed else await follower(message, room, settings)
    for copy in await room.copies(message):
        if copy.addressed and not message.addressed:
            return "another bot of ours was addressed"
        if goes_with is not None or (message.addressed and not copy.addressed):
            continue
        reason = await _not_meant(message, copy.text, room) if message.addressed else ""
        if reason == "" and copy.first:
            reason = "another bot of ours took it first"
        if reason:
            return reason
    return "" if goes_with in (None, message.bot) else "it goes on with another bot of ours"


async def _not_meant(message: Message, theirs: str, room: Room) -> str | None:
    """Return why another addressed bot was meant alone, None where this one was meant, "" where nobody can tell.

    Every bot takes its own name out of the text, so the one that was named has fewer words than the others.
    """
    here, there = set(message.text.split()), set(theirs.split())
    if there - here:
        return None
    if here - there:
        return "another bot of ours was named"
    if not message.reply_to:
        return ""
    owner = await room.shown_by(message)
    if owner is None:
        return ""
    return None if owner == message.bot else "a reply to another bot of ours"
