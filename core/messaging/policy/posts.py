"""What is decided by looking at a post alone: is it one, is it about the topic, is it night. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, time

from core.settings import AutoCommentSettings
from core.types import Message, Skip, SkipReason, skip


def is_post(message: Message) -> bool:
    """Say whether a message is a post: its adapter says so, or it opens a thread of its own."""
    if message.is_post is not None:
        return message.is_post
    opens_thread = message.key.thread == message.id and not message.reply_to
    return opens_thread and not message.private and not message.is_by_bot


def reject_reason(post: Message, settings: AutoCommentSettings, now: datetime) -> Skip | None:
    """Return what speaks against a comment by the rules alone, or None. `now` is the local time."""
    if not post.text.strip():
        return skip(SkipReason.EMPTY_POST)
    if in_quiet_hours(settings.quiet_hours, now.time()):
        return skip(SkipReason.QUIET_HOURS, hours=settings.quiet_hours)
    if settings.include and not find_word(post.text, settings.include):
        return skip(SkipReason.TOPIC_NOT_INCLUDED)
    word = find_word(post.text, settings.exclude)
    return skip(SkipReason.TOPIC_EXCLUDED, word=word) if word else None


def find_word(text: str, words: Sequence[str]) -> str:
    """Return the first of the words or phrases that a text holds, or nothing. Case does not count.

    A word in Latin letters must stand by itself; scripts that write no spaces are searched for as they are.
    """
    folded = text.casefold()
    for word in words:
        pattern = re.escape(word.casefold().strip())
        bounded_pattern = rf"(?<![^\W_]){pattern}(?![^\W_])" if word.isascii() else pattern
        if pattern and re.search(bounded_pattern, folded, re.ASCII if word.isascii() else 0):
            return word
    return ""


def in_quiet_hours(hours: str, now: time) -> bool:
    """Say whether a time of day lies within quiet hours such as 22:00-07:00; their end belongs to the day."""
    if not hours:
        return False
    start, end = (time.fromisoformat(part) for part in hours.split("-"))
    return start <= now < end if start <= end else now >= start or now < end
