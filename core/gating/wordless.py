"""Messages without words: a picture that can be looked at is a question, all else is told plainly, once, or nothing."""

from __future__ import annotations

from core.attached import cannot, kind_of, named
from core.gating.room import Room
from core.types import Message

# For so long nobody is told again that something cannot be read.
TOLD_S = 3600.0


async def instead(message: Message, room: Room, *, sees: bool) -> tuple[str, str]:
    """Return why to be silent about what is attached, or what to say about it; neither where it is a question.

    `sees` tells whether a model looks at pictures. Raises `StoreError` when the journal cannot be read.
    """
    kind, what = kind_of(message), named(message)
    if not message.addressed:
        return f"{what} without words, and the bot was not addressed", ""
    if kind == "picture" and (sees or message.quoted):
        return "", ""
    # In a group that is a gesture.
    if kind == "sticker" and not message.private:
        return what, ""
    text = cannot(message)
    if await room.told(message, text, TOLD_S):
        return f"{what}, and its author was told lately that it cannot be read", ""
    return "", text
