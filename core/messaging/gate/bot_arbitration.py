"""Which of several bots of ours in one chat speaks: whoever was meant, and else the one that had the message first."""

from __future__ import annotations

from core.messaging.gate.follow_up import follow_up_bot
from core.settings import Settings
from core.storage.chat_history import ChatHistory
from core.types import Message


async def other_bot_reason(message: Message, history: ChatHistory, settings: Settings) -> str:
    """Return why this message is left to another bot of ours in its chat, or nothing.

    Raises `StoreError` when the journal cannot be read.
    """
    if message.private or len(settings.get_bots(message.key.platform)) < 2:
        return ""
    follow_up_bot_id = None if message.addressed else await follow_up_bot(message, history, settings)
    for duplicate in await history.get_duplicates(message):
        if duplicate.is_addressed and not message.addressed:
            return "another bot of ours was addressed"
        if follow_up_bot_id is not None or (message.addressed and not duplicate.is_addressed):
            continue
        reason = await _not_addressed_reason(message, duplicate.text, history) if message.addressed else ""
        if reason == "" and duplicate.is_first:
            reason = "another bot of ours took it first"
        if reason:
            return reason
    return "" if follow_up_bot_id in (None, message.bot) else "it goes on with another bot of ours"


async def _not_addressed_reason(message: Message, other_text: str, history: ChatHistory) -> str | None:
    """Return why another addressed bot was meant alone, None where this one was meant, "" where nobody can tell.

    Every bot takes its own name out of the text, so the one that was named has fewer words than the others.
    """
    own_words, other_words = set(message.text.split()), set(other_text.split())
    if other_words - own_words:
        return None
    if own_words - other_words:
        return "another bot of ours was named"
    if not message.reply_to:
        return ""
    posting_bot = await history.get_posting_bot(message)
    if posting_bot is None:
        return ""
    return None if posting_bot == message.bot else "a reply to another bot of ours"
