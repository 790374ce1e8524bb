"""Which of several bots of ours in one chat speaks: whoever was meant, and else the one that had the message first."""

from __future__ import annotations

from core.messaging.gate.follow_up import follow_up_bot
from core.settings import Settings
from core.storage.chat_history import ChatHistory
from core.types import Message, SkipReason


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
        is_addressed, reason = None, None
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
    """Say whether this one of two addressed bots was meant, None where nobody can tell; and why it was not.

    Every bot takes its own name out of the text, so the one that was named has fewer words than the others.
    """
    own_words, other_words = set(message.text.split()), set(other_text.split())
    if other_words - own_words:
        return True, None
    if own_words - other_words:
        return False, SkipReason.OTHER_BOT_NAMED
    posting_bot = await history.get_posting_bot(message) if message.reply_to else None
    if posting_bot is None:
        return None, None
    return (True, None) if posting_bot == message.bot else (False, SkipReason.REPLY_TO_OTHER_BOT)
