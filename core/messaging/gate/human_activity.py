"""The activity of people in the chat: whom they address, whether they answered already, and whether they are typing."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from core.language.questions import is_question, is_resolution, mentions_person, unanswerable_reason
from core.ports import Adapter
from core.storage.chat_history import ChatHistory, HistoryMessage, get_thread
from core.types import Message, SkipReason

# After a human's reply, its addressee counts as being in a conversation with that human for this time.
DIALOGUE_WINDOW_S = 180.0
_GREETING = r"\s*(?:(?:hi|hey|hello|ok|so|and|but|你好|嗨)[ ,，]+)?"

POLL_INTERVAL_S = 0.25


async def other_addressee_reason(
    message: Message, history: ChatHistory, recent_messages: Sequence[HistoryMessage] = ()
) -> SkipReason | None:
    """Return why a message is for one other person, not for the bot or the group, or None.

    `recent_messages` are those of the chat: whoever is called by their name at the beginning is one of those who
    wrote it. Raises `StoreError` when the journal cannot be read.
    """
    if mentions_person(message.text):
        return SkipReason.PERSON_MENTIONED
    if addresses_by_name(
        message.text, (other.author for other in recent_messages if other.author_id != message.author_id)
    ):
        return SkipReason.PERSON_NAMED
    # On Slack a message in a thread replies to the thread's first message, whose author is not meant by that.
    if message.reply_to and message.reply_to != message.key.thread:
        author = await history.get_replied_author(message)
        if author != message.author_id:
            return SkipReason.REPLY_TO_PERSON
    return None


def addresses_by_name(text: str, names: Iterable[str]) -> bool:
    """Return whether a text begins by calling one of these people, by the whole name or its first word."""
    full_names = {name.strip() for name in names}
    known_names = {variant for name in full_names for variant in (name, name.partition(" ")[0]) if len(variant) > 1}
    return any(re.match(rf"{_GREETING}{re.escape(name)}\s*[,:，：]", text, re.IGNORECASE) for name in known_names)


def dialogue_reason(message: Message, recent_messages: Sequence[HistoryMessage]) -> SkipReason | None:
    """Return a reason when a human has just replied to the author: they are in a conversation."""
    own_ids = {other.id for other in recent_messages if other.author_id == message.author_id}
    for other in recent_messages:
        is_recent = other.age_s < DIALOGUE_WINDOW_S and other.thread == get_thread(message)
        if (
            is_recent
            and other.author_id != message.author_id
            and (other.reply_to in own_ids or _mentions(other, message))
        ):
            return SkipReason.HUMAN_DIALOGUE
    return None


def answered_meanwhile_reason(
    message: Message, recent_messages: Sequence[HistoryMessage], *, is_certain: bool = False
) -> SkipReason | None:
    """Return a reason when, since the question, a human replied or the asker took it back.

    With `is_certain`, only who replies to the asker or mentions them does; else also who seems to.
    """
    for other in recent_messages:
        if not other.is_later or other.thread not in (get_thread(message), message.id):
            continue
        if other.author_id == message.author_id:
            # "Does it work on Windows?" is a further question.
            if is_resolution(other.text) and not is_question(other.text):
                return SkipReason.TAKEN_BACK
        elif other.reply_to == message.id or _mentions(other, message) or (not is_certain and _may_be_answer(other)):
            return SkipReason.HUMAN_REPLIED
    return None


def _may_be_answer(other: HistoryMessage) -> bool:
    return not other.reply_to and not unanswerable_reason(other.text) and not is_question(other.text)


def _mentions(other: HistoryMessage, message: Message) -> bool:
    name = message.author.strip().lower()
    return len(name) > 1 and f"@{name}" in other.text.lower()


async def wait_while_typing(
    adapter: Adapter, message: Message, max_wait_s: float, wait: Callable[[float], Awaitable[bool]]
) -> bool:
    """Wait while anybody types in the message's place, its author too, at most `max_wait_s` seconds.

    `wait` waits for some seconds and returns False when there is no time for that; then False is returned.
    """
    deadline = time.monotonic() + max_wait_s
    while adapter.is_typing(message.key) and time.monotonic() < deadline:
        if not await wait(POLL_INTERVAL_S):
            return False
    return True
