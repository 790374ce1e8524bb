"""Tells an answer that says that nothing was found from one that answers."""

from __future__ import annotations

import re

from core.text.tokens import simplify
from core.types import Reply

# Sentences that may follow: an offer, a hint where to look.
MAX_CHARS = 400
_SENTENCE_END = r"[.。!?？\n]"
_SOURCES = r"(?:documentation|docs|documents?|sources?|passages?|evidence|information|materials?|knowledge)"
_VERBS = r"(?:contain|mention|cover|say|describe|include|answer|address|provide|specify|state|explain)"
_CHINESE_SOURCES = "(?:(?:这份|官方|现有)文件|文档|资料(?!目录|夹)|段落|来源|知识库)"
# What was found or said; an error that says so is quoted or reported: 提示未找到文件.
_CHINESE_NOTHING_FOUND = (
    rf"{_CHINESE_SOURCES}[^。\n]{{0,20}}(?:没有|未|不包含|不涉及|不足以|暂无|没(?:提|说|写|讲|找|查))"
    rf"|(?:{_CHINESE_SOURCES}|信息|内容)[^。\n]{{0,20}}无法(?:直接|准确|确切|完整){{0,2}}(?:回答|解答|确定|判断|得知|确认|给出)"
    r"|(?:^|[，,：:]|我|并|暂时|目前)(?:没有?|未能?|无法)(?:在[^。，\n]{1,20}[中里])?(?:找|查|检索|搜索?|查询)到"
    r"|(?:找|查|搜)不到相关|(?:没有|暂无|缺少)相关的?(?:信息|内容|资料|说明|文档|介绍)"
    r"|^(?:很?抱歉|对不起|不好意思|很?遗憾)[^。\n]{0,20}(?:不知道|不清楚"
    r"|(?:无法|不能|没法)(?:直接|准确|确切|完整){0,2}(?:回答|解答|确定|判断|给出))"
)
# The sentence is about a case: 如果资料目录没有写权限.
_CHINESE_CONDITION = re.compile("^(?:如果|若|假如|一旦|当(?!前))|(?:时候?|的话)，")
_NOTHING_FOUND = re.compile(
    rf"\b{_SOURCES}\b[^.\n]{{0,60}}?(?: do| does| did)?(?: not|n['’]t) (?:\w+ )?{_VERBS}"
    rf"|\b{_SOURCES} (?:\w+ ){{0,3}}?(?:contains?|has|have|says?|mentions?) (?:nothing|no )"
    rf"|\bI (?:found nothing|(?:could not|couldn['’]t|did not|didn['’]t|cannot|can['’]t) find)\b"
    rf"|\b(?:there is|found) (?:nothing|no (?:\w+ ){{0,2}}?{_SOURCES})\b"
    rf"|{_CHINESE_NOTHING_FOUND}",
    re.IGNORECASE,
)


def says_nothing_was_found(text: str) -> bool:
    """Say whether a short text says of the whole question that the sources do not answer it.

    A longer text that says so of a part is an answer.

    >>> says_nothing_was_found("The documentation does not mention it."), says_nothing_was_found("文档中没有提到它。")
    (True, True)
    """
    if len(text) > MAX_CHARS:
        return False
    sentence = simplify(re.split(_SENTENCE_END, text.strip(), maxsplit=1)[0])
    return bool(_NOTHING_FOUND.search(sentence)) and not _CHINESE_CONDITION.search(sentence)


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
