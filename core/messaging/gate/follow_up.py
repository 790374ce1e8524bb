"""Which bot a message is for: a follow-up in a thread that names nobody, and a message that several bots received.

A follow-up is judged by its words first, then by who got an answer in the thread, and when.

A thread where the bot answered is no private chat: people thank, plan and talk with each other there as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from core.language.questions import continues_question, is_question, is_resolution, unanswerable_reason
from core.messaging.gate.human_activity import dialogue_reason, other_addressee_reason
from core.messaging.gate.replies import find_voice
from core.settings import Settings
from core.storage.chat_history import BotAnswer, ChatHistory, HistoryMessage, get_thread
from core.types import Message, SkipReason

_ACCEPTANCE = re.compile(
    r"\s*(?:(?:y|yes|yep|yeah|sure|ok(?:ay)?|please|pls|go ahead|do it)\b|是|对|好|可以|行|嗯)", re.IGNORECASE
)


async def is_follow_up(message: Message, history: ChatHistory, settings: Settings) -> bool:
    """Return whether a message continues with this bot. Raises `StoreError` when the journal cannot be read."""
    return await follow_up_bot(message, history, settings) == message.bot


async def follow_up_bot(message: Message, history: ChatHistory, settings: Settings) -> str | None:
    """Return the bot of ours that a message in a thread continues with, or None. A bot may have the id "".

    That is the bot which answered its author there last, and in a shared thread for everybody else the bot which
    answered there last: to them a plain question is needed. It counts for
    `gate.follow_up_minutes`, and never below a comment of the bot's own accord. Raises `StoreError`.
    """
    window_s = settings.gate.follow_up_minutes * 60
    is_shared_thread = message.thread_state.is_shared
    is_continuation = continues_question(message.text)
    is_acceptance = _makes_offers(settings) and accepts_offer(message.text)
    can_follow_up = message.key.thread and window_s and is_shared_thread is not False
    if message.command or not can_follow_up or not (is_continuation or is_acceptance):
        return None
    recent_messages = await history.get_recent_messages(message, window_s)
    if await other_addressee_reason(message, history, recent_messages):
        return None
    bot_answers = await history.get_bot_answers(message, window_s)
    answers = [answer for answer in bot_answers if not _is_comment(answer, message, settings)]
    own_answer = next((answer for answer in answers if answer.author_id == message.author_id), None)
    if own_answer is not None:
        return own_answer.bot if is_continuation or own_answer.is_offer else None
    is_plain_question = is_question(message.text) and not unanswerable_reason(message.text)
    if not (is_shared_thread and is_plain_question) or dialogue_reason(
        message, _without_root(message, recent_messages)
    ):
        return None
    is_fresh_thread = not bot_answers and _started_recently(message, window_s)
    return answers[0].bot if answers else message.bot if is_fresh_thread else None


async def is_spoken_follow_up(message: Message, history: ChatHistory, settings: Settings) -> bool:
    """Return whether a voice message that addresses nobody is for this bot. Raises `StoreError`.

    What it says is not known, and is not asked for to find out. So it counts in a thread where the bot answered last,
    and its author, and where nobody else has written within `gate.follow_up_minutes`.
    """
    window_s = settings.gate.follow_up_minutes * 60
    is_open = message.key.thread and window_s and message.thread_state.is_shared is not False
    if message.addressed or message.is_by_bot or not is_open or find_voice(message) is None:
        return False
    recent_messages = await history.get_recent_messages(message, window_s)
    thread = get_thread(message)
    if any(other.thread == thread and other.author_id != message.author_id for other in recent_messages):
        return False
    if await other_addressee_reason(message, history, recent_messages):
        return False
    bot_answers = await history.get_bot_answers(message, window_s)
    last_answer = next((answer for answer in bot_answers if not _is_comment(answer, message, settings)), None)
    return last_answer is not None and (last_answer.bot, last_answer.author_id) == (message.bot, message.author_id)


def accepts_offer(text: str) -> bool:
    """Return whether words may take up an offer to answer: a yes, or details, which are statements."""
    if is_resolution(text):
        return False
    return bool(_ACCEPTANCE.match(text)) or not unanswerable_reason(text)


def _makes_offers(settings: Settings) -> bool:
    return settings.gate.grey != "silent" or settings.gate.repeated == "point"


def _is_comment(answer: BotAnswer, message: Message, settings: Settings) -> bool:
    is_commented_chat = f"{message.key.platform}:{message.key.chat}" in settings.auto_comment.chats
    return answer.is_unprompted and (answer.is_for_post or (is_commented_chat and answer.opens_thread))


def _started_recently(message: Message, window_s: float) -> bool:
    started_at = message.thread_state.started_at
    return started_at is not None and datetime.now(UTC).timestamp() - started_at < window_s


def _without_root(message: Message, history: Sequence[HistoryMessage]) -> Sequence[HistoryMessage]:
    """Take out what says no more than that something was written in the thread: a reply to its first message."""
    return [replace(other, reply_to="") if other.reply_to == message.key.thread else other for other in history]


async def other_bot_reason(message: Message, history: ChatHistory, settings: Settings) -> SkipReason | None:
    """Return why this message is left to another bot of ours in its chat, or None.

    Raises `StoreError` when the journal cannot be read.
    """
    if message.private or len(settings.get_bots(message.key.platform)) < 2:
        return None
    follow_up_bot_id = None if message.addressed else await follow_up_bot(message, history, settings)
    for duplicate in await history.get_duplicates(message):
        if duplicate.is_addressed and not message.addressed:
            return SkipReason.OTHER_BOT_ADDRESSED
        if follow_up_bot_id is not None or (message.addressed and not duplicate.is_addressed):
            continue
        is_addressed = None
        reason = None
        if message.addressed:
            is_addressed, reason = await _compare_addressing(message, duplicate.text, history)
        if is_addressed is None and duplicate.is_first:
            reason = SkipReason.OTHER_BOT_FIRST
        if reason:
            return reason
    return None if follow_up_bot_id in (None, message.bot) else SkipReason.CONTINUES_WITH_OTHER_BOT


async def _compare_addressing(
    message: Message, other_text: str, history: ChatHistory
) -> tuple[bool | None, SkipReason | None]:
    """Return whether this one of two addressed bots was meant, None where nobody can tell; and why it was not.

    Every bot takes its own name out of the text, so the one that was named has fewer words than the others.
    """
    own_words = set(message.text.split())
    other_words = set(other_text.split())
    if other_words - own_words:
        return True, None
    if own_words - other_words:
        return False, SkipReason.OTHER_BOT_NAMED
    posting_bot = await history.get_posting_bot(message) if message.reply_to else None
    if posting_bot is None:
        return None, None
    return (True, None) if posting_bot == message.bot else (False, SkipReason.REPLY_TO_OTHER_BOT)
