"""Who is writing right now, where a platform tells: the bot that nobody asked lets people finish what they begin."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from core.ports import Adapter
from core.storage.chat_history import Room, Said, place_of
from core.text.question_detection import ASKING, asking, for_somebody_else, nothing_to_answer, resolved
from core.types import ConversationKey, Message

# For so long somebody who got a human's reply counts as being in a conversation with that human.
DIALOGUE_S = 180.0
_GREETING = r"\s*(?:(?:hi|hey|hello|ok|so|and|but|你好|嗨)[ ,，]+)?"


async def is_for_somebody_else(message: Message, room: Room, said: Sequence[Said] = ()) -> str:
    """Return why a message is for somebody else than the bot and the group, or nothing.

    `said` is what was said in the chat lately: whoever is called by their name at the beginning is one of those who
    wrote it. Raises `StoreError` when the journal cannot be read.
    """
    if for_somebody_else(message.text):
        return "somebody else is mentioned"
    if calls(message.text, (one.author for one in said if one.author_id != message.author_id)):
        return "somebody else is called by name"
    # On Slack a message in a thread replies to the thread's first message, whose author is not meant by that.
    if message.reply_to and message.reply_to != message.key.thread:
        author = await room.author_of(message)
        if author != message.author_id:
            return "a reply to somebody else"
    return ""


def calls(text: str, names: Iterable[str]) -> bool:
    """Say whether a text begins by calling one of these people, by the whole name or its first word."""
    full = {name.strip() for name in names}
    known = {one for name in full for one in (name, name.partition(" ")[0]) if len(one) > 1}
    return any(re.match(rf"{_GREETING}{re.escape(name)}\s*[,:，：]", text, re.IGNORECASE) for name in known)


def talking(message: Message, said: Sequence[Said]) -> str:
    """Return a reason when a human has just replied to the author: they are in a conversation."""
    mine = {one.id for one in said if one.author_id == message.author_id}
    for one in said:
        recent = one.age_s < DIALOGUE_S and one.place == place_of(message)
        if recent and one.author_id != message.author_id and (one.reply_to in mine or _names(one, message)):
            return "a human is talking with the asker"
    return ""


def answered_meanwhile(message: Message, said: Sequence[Said]) -> str:
    """Return a reason when, since the question, a human replied or the asker took it back."""
    for one in said:
        if not one.later or one.place not in (place_of(message), message.id):
            continue
        if one.author_id == message.author_id:
            # "Does it work on Windows?" is a further question.
            if resolved(one.text) and asking(one.text) < ASKING:
                return "the asker took the question back"
        elif one.reply_to == message.id or _names(one, message) or _may_be_an_answer(one):
            return "a human replied"
    return ""


def _may_be_an_answer(said: Said) -> bool:
    return not said.reply_to and not nothing_to_answer(said.text) and asking(said.text) < ASKING


def _names(said: Said, message: Message) -> bool:
    name = message.author.strip().lower()
    return len(name) > 1 and f"@{name}" in said.text.lower()


LOOK_S = 0.25


@runtime_checkable
class KnowsTyping(Protocol):
    """An adapter whose platform tells who is writing."""

    def is_typing(self, key: ConversationKey) -> bool:
        """Say whether somebody, not a bot, is writing there right now, as far as is known."""
        ...


async def let_them_finish(
    adapter: Adapter, message: Message, most_s: float, pause: Callable[[float], Awaitable[bool]]
) -> bool:
    """Wait while somebody writes where the message stands, its author too, at most `most_s` seconds.

    `pause` waits for some seconds and returns False when there is no time for that; then False is returned.
    """
    until = time.monotonic() + most_s
    while isinstance(adapter, KnowsTyping) and adapter.is_typing(message.key) and time.monotonic() < until:
        if not await pause(LOOK_S):
            return False
    return True
