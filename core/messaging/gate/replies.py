"""What the gate says by itself: offers, a question for details, duplicates, and messages without words."""

from __future__ import annotations

import re

from core.messaging.gate.attachments import describe, get_main_kind, unsupported_notice
from core.storage.chat_history import ChatHistory, EarlierAnswer
from core.text.catalogue import messages_for
from core.text.formatting import format_duration
from core.text.tokens import detect_language
from core.types import Message, Skip, SkipReason, skip

MAX_EXCERPT_CHARS = 240
_CITATION_MARKS = re.compile(r"\s*\[\d+(?:,\s*\d+)*\]")


def offer_text(question: str, title: str) -> str:
    """Return an offer to answer, naming what was found."""
    texts, topic = messages_for(detect_language(question)), _plain_title(title)
    return texts.offer.format(topic=texts.offer_topic.format(topic=topic) if topic else "")


def clarifying_question(question: str, title: str) -> str:
    """Return a question for details, naming what was found."""
    texts = messages_for(detect_language(question))
    return texts.clarifying_question.format(topic=_plain_title(title) or texts.unnamed_topic)


def duplicate_notice(earlier_answer: EarlierAnswer, question: str) -> str:
    """Return where the same was answered before, and how that answer began."""
    text = " ".join(_CITATION_MARKS.sub("", earlier_answer.reply).split())
    excerpt = text if len(text) <= MAX_EXCERPT_CHARS else f"{text[:MAX_EXCERPT_CHARS].rsplit(' ', 1)[0]} …"
    texts = messages_for(detect_language(question))
    elapsed = format_duration(max(60.0, earlier_answer.age_s), texts)
    return texts.answered_before.format(elapsed=elapsed, excerpt=excerpt)


def _plain_title(title: str) -> str:
    """Return a passage's title as plain words: it comes from outside, and stands in Markdown here."""
    plain_title = re.sub(r"[^\w\s.,:/+()'’-]", " ", title)
    return " ".join(plain_title.split())[:80]


# For so long nobody is told again that something cannot be read.
NOTICE_COOLDOWN_S = 3600.0


async def decide_attachment_only(
    message: Message, history: ChatHistory, *, has_vision: bool
) -> tuple[Skip | None, str]:
    """Return why to be silent about what is attached, or what to say about it; neither where it is a question.

    `has_vision` says whether a model looks at pictures. Raises `StoreError` when the journal cannot be read.
    """
    kind, description = get_main_kind(message), describe(message)
    if not message.addressed:
        return skip(SkipReason.ATTACHMENT_ONLY, attachment=description), ""
    if kind == "picture" and (has_vision or message.quoted):
        return None, ""
    # In a group that is a gesture.
    if kind == "sticker" and not message.private:
        return skip(SkipReason.STICKER, attachment=description), ""
    text = unsupported_notice(message)
    if await history.was_told(message, text, NOTICE_COOLDOWN_S):
        return skip(SkipReason.NOTICE_GIVEN, attachment=description), ""
    return None, text
