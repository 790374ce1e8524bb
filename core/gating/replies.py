"""What the bot says unasked in place of an answer, in the asker's language."""

from __future__ import annotations

import re

from core.gating.room import Answered
from core.language import language_of

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
