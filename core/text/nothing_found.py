"""Tells an answer that says that nothing was found from one that answers."""

from __future__ import annotations

import re

from core.types import Reply

# Sentences that may follow: an offer, a hint where to look.
MAX_CHARS = 400
_SENTENCE_END = r"[.。!?？\n]"
_SOURCES = r"(?:documentation|docs|documents?|sources?|passages?|evidence|information|materials?|knowledge)"
_VERBS = r"(?:contain|mention|cover|say|describe|include|answer|address|provide|specify|state|explain)"
_NOTHING_FOUND = re.compile(
    rf"\b{_SOURCES}\b[^.\n]{{0,60}}?(?: do| does| did)?(?: not|n['’]t) (?:\w+ )?{_VERBS}"
    rf"|\b{_SOURCES} (?:\w+ ){{0,3}}?(?:contains?|has|have|says?|mentions?) (?:nothing|no )"
    rf"|\bI (?:found nothing|(?:could not|couldn['’]t|did not|didn['’]t|cannot|can['’]t) find)\b"
    rf"|\b(?:there is|found) (?:nothing|no (?:\w+ ){{0,2}}?{_SOURCES})\b"
    r"|(?:文档|资料|段落|来源)[^。\n]{0,20}(?:没有|未|并未)|没有找到|未找到|找不到相关|没有相关(?:的)?(?:信息|内容|资料)",
    re.IGNORECASE,
)


def says_nothing_was_found(text: str) -> bool:
    """Say whether a short text says of the whole question that the sources do not answer it.

    A longer text that says so of a part is an answer.

    >>> says_nothing_was_found("The documentation does not mention it."), says_nothing_was_found("文档中没有提到它。")
    (True, True)
    """
    return len(text) <= MAX_CHARS and bool(_NOTHING_FOUND.search(re.split(_SENTENCE_END, text.strip(), maxsplit=1)[0]))


def may_say_nothing_was_found(beginning: str) -> bool:
    """Say whether a text may still become one that says that nothing was found, when only its beginning is known.

    >>> may_say_nothing_was_found("The documentation"), may_say_nothing_was_found("Run `pip install`. Then")
    (True, False)
    """
    has_sentence = len(re.split(_SENTENCE_END, beginning.strip(), maxsplit=1)) > 1
    return len(beginning) <= MAX_CHARS and (not has_sentence or says_nothing_was_found(beginning))


def get_detail(reply: Reply) -> str:
    """Return what is special about an answer, for reports: what it lacks, or how it was made; "" for nothing."""
    is_said = bool(reply.nearest_pages) or says_nothing_was_found(reply.text)
    if not reply.citations and reply.trace.query and is_said:
        return "nothing_found"
    return reply.shortfall or ("cached" if reply.trace.cached else "extractive" if reply.is_extractive else "")
