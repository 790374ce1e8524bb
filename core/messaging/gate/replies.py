"""Messages without words: a picture that can be looked at is a question, all else is told plainly, once, or nothing."""

from __future__ import annotations

import re

from core.messaging.gate.attachments import describe, get_main_kind, unsupported_notice
from core.storage.chat_history import ChatHistory, EarlierAnswer
from core.text.language import detect_language
from core.types import Message, Skip, SkipReason, skip

MAX_EXCERPT_CHARS = 240
_CITATION_MARKS = re.compile(r"\s*\[\d+(?:,\s*\d+)*\]")


def offer_text(question: str, title: str) -> str:
    """Return an offer to answer, naming what was found."""
    topic = _plain_title(title)
    if detect_language(question) == "zh":
        return f"我可能知道一些相关内容{f'（{topic}）' if topic else ''}。回复这条消息或者提及我，我就来回答。"
    return (
        f"I may know something about this{f' ({topic})' if topic else ''}. Reply to this message or mention me, "
        "and I will answer."
    )


def clarifying_question(question: str, title: str) -> str:
    """Return a question for details, naming what was found."""
    topic = _plain_title(title)
    if detect_language(question) == "zh":
        subject = topic or "我所了解的内容"
        return f"你问的是{subject}吗？请回复这条消息，补充一些细节（版本、报错信息、想做什么），我来回答。"
    return (
        f"Is this about {topic or 'something that I know'}? Reply with a few details (the version, the error message, "
        "what you want to do), and I will answer."
    )


def duplicate_notice(earlier_answer: EarlierAnswer, question: str) -> str:
    """Return where the same was answered before, and how that answer began."""
    minutes = max(1, round(earlier_answer.age_s / 60))
    text = " ".join(_CITATION_MARKS.sub("", earlier_answer.reply).split())
    excerpt = text if len(text) <= MAX_EXCERPT_CHARS else f"{text[:MAX_EXCERPT_CHARS].rsplit(' ', 1)[0]} …"
    if detect_language(question) == "zh":
        return (
            f"这个问题在本群里已经回答过了（{minutes} 分钟前）：\n\n> "
            f"{excerpt}\n\n回复这条消息或者提及我，可以再问一次。"
        )
    elapsed = f"{minutes} min" if minutes < 90 else f"{round(minutes / 60)} h"
    return f"This was answered here {elapsed} ago:\n\n> {excerpt}\n\nReply to this message or mention me to hear more."


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

    `sees` tells whether a model looks at pictures. Raises `StoreError` when the journal cannot be read.
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
