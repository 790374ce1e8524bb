"""Who goes on with the bot in a thread without naming it: the words first, then who was answered there, and when.

A thread where the bot answered is no private chat: people thank, plan and talk with each other there as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from core.messaging.gate.human_activity import is_for_somebody_else, talking
from core.settings import Settings
from core.storage.chat_history import FOLLOWED, Given, Room, Said
from core.text.question_detection import ASKING, asking, nothing_to_answer, personal, reports, resolved
from core.types import Message

# In a message's reference: when a message of the bot's own began the thread, in seconds since 1970.
BEGUN = "begun"

LONGEST_ADDITION = 60
_ADDS = re.compile(
    r"\s*(?:(?:and|but|or|then)\b(?!\s+(?:i|we|he|she|they|it|that|thanks?|thx|thank|now|my)\b)(?!\s+\w+[’']\w+)"
    r"|(?:what|how) about\b|what if\b|(?:那|还有|但是|如果|然后)(?![我谢就好没他她]))",
    re.IGNORECASE,
)
_BARE = re.compile(
    r"\s*(?:why(?: not)?|how(?: so| come)?|where|when|which(?: one)?|and then|为什么|为啥|怎么)\s*[?？]+\s*",
    re.IGNORECASE,
)
_INVERTED = re.compile(
    r"(?:^|[.!?,:;\n]\s*|\b(?:so|and|but|also|then|ok) )"
    r"(?:(?:is|are|was|were|does|did|can|could|should|would|will|has|have) (?:it|this|that|these|those|there|the|my)"
    r"|(?:am|are|were|do|did|can|could|should|would|will|have) (?:i|we|they))\b",
    re.IGNORECASE,
)
_ACCEPTS = re.compile(
    r"\s*(?:(?:y|yes|yep|yeah|sure|ok(?:ay)?|please|pls|go ahead|do it)\b|是|对|好|可以|行|嗯)", re.IGNORECASE
)


async def follows_up(message: Message, room: Room, settings: Settings) -> bool:
    """Say whether a message goes on with this bot. Raises `StoreError` when the journal cannot be read."""
    return await follower(message, room, settings) == message.bot


async def follower(message: Message, room: Room, settings: Settings) -> str | None:
    """Return which bot of ours a message in a thread goes on with, None for nobody's. A bot may have the id "".

    That is the bot which answered its author there last, and where the thread is one conversation (`FOLLOWED`) for
    everybody else the bot which answered there last: to them a plain question is needed. It counts for
    `gate.follow_up_minutes`, and never below a comment of the bot's own accord. Raises `StoreError`.
    """
    seconds, followed = settings.gate.follow_up_minutes * 60, message.reference.get(FOLLOWED)
    asks, takes = goes_on(message.text), _offers(settings) and takes_up(message.text)
    threaded = message.key.thread and seconds and followed is not False
    if message.command or not threaded or not (asks or takes):
        return None
    said = await room.lately(message, seconds)
    if await is_for_somebody_else(message, room, said):
        return None
    given = await room.given(message, seconds)
    answers = [one for one in given if not _is_comment(one, message, settings)]
    own = next((one for one in answers if one.author_id == message.author_id), None)
    if own is not None:
        return own.bot if asks or own.offer else None
    plain = asking(message.text) >= ASKING and not nothing_to_answer(message.text)
    if not (followed and plain) or talking(message, _without_root(message, said)):
        return None
    begun = not given and _begun_lately(message, seconds)
    return answers[0].bot if answers else message.bot if begun else None


def goes_on(text: str) -> bool:
    """Say whether the words of somebody who was answered want more: a question, an addition to one, or an error."""
    if _BARE.fullmatch(text):
        return True
    if nothing_to_answer(text) or personal(text):
        return False
    sure = asking(text)
    if sure >= ASKING or (sure > 0 and _INVERTED.search(text)):
        return True
    if resolved(text):
        return False
    return bool(len(text) <= LONGEST_ADDITION and _ADDS.match(text)) or (sure > 0 and reports(text))


def takes_up(text: str) -> bool:
    """Say whether words may take up an offer to answer: a yes, or details, which are statements."""
    if resolved(text):
        return False
    return bool(_ACCEPTS.match(text)) or not nothing_to_answer(text)


def _offers(settings: Settings) -> bool:
    return settings.gate.grey != "silent" or settings.gate.repeated == "point"


def _is_comment(given: Given, message: Message, settings: Settings) -> bool:
    commented = f"{message.key.platform}:{message.key.chat}" in settings.auto_comment.chats
    return given.unasked and (given.post or (commented and given.opens))


def _begun_lately(message: Message, seconds: float) -> bool:
    begun = message.reference.get(BEGUN)
    return begun is not None and datetime.now(UTC).timestamp() - float(begun) < seconds


def _without_root(message: Message, said: Sequence[Said]) -> Sequence[Said]:
    """Take out what says no more than that something was written in the thread: a reply to its first message."""
    return [replace(one, reply_to="") if one.reply_to == message.key.thread else one for one in said]
