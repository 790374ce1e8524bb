"""Messages without words: a picture that can be looked at is a question, all else is told plainly, once, or nothing."""

from __future__ import annotations

import re

from core.messaging.gate.attachments import cannot, kind_of, named
from core.storage.chat_history import Answered, Room
from core.text.language import language_of
from core.types import Message

SHORT = 240
_MARKS = re.compile(r"\s*\[\d+(?:,\s*\d+)*\]")


def suggestion(question: str, title: str) -> str:
    """Return an offer to answer, naming what was found."""
    about = _named(title)
    if language_of(question) == "zh":
        return f"我可能知道一些相关内容{f'（{about}）' if about else ''}。回复这条消息或者提及我，我就来回答。"
    return (
        f"I may know something about this{f' ({about})' if about else ''}. Reply to this message or mention me, "
        "and I will answer."
    )


def clarification(question: str, title: str) -> str:
    """Return a question for details, naming what was found."""
    about = _named(title)
    if language_of(question) == "zh":
        known = about or "我所了解的内容"
        return f"你问的是{known}吗？请回复这条消息，补充一些细节（版本、报错信息、想做什么），我来回答。"
    return (
        f"Is this about {about or 'something that I know'}? Reply with a few details (the version, the error message, "
        "what you want to do), and I will answer."
    )


def pointer(earlier: Answered, question: str) -> str:
    """Return where the same was answered before, and how that answer began."""
    minutes = max(1, round(earlier.age_s / 60))
    words = " ".join(_MARKS.sub("", earlier.reply).split())
    brief = words if len(words) <= SHORT else f"{words[:SHORT].rsplit(' ', 1)[0]} …"
    if language_of(question) == "zh":
        return (
            f"这个问题在本群里已经回答过了（{minutes} 分钟前）：\n\n> {brief}\n\n回复这条消息或者提及我，可以再问一次。"
        )
    ago = f"{minutes} min" if minutes < 90 else f"{round(minutes / 60)} h"
    return f"This was answered here {ago} ago:\n\n> {brief}\n\nReply to this message or mention me to hear more."


def _named(title: str) -> str:
    """Return a passage's title as plain words: it comes from outside, and stands in Markdown here."""
    bare = re.sub(r"[^\w\s.,:/+()'’-]", " ", title)
    return " ".join(bare.split())[:80]


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
