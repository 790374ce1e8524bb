"""Classifies a message by rules: is it a question, for whom, or nothing to answer? English and Chinese.

Most messages of a group are decided here, in microseconds and without a model call.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from core.language.courtesies import find_courtesy
from core.language.lexicon import get_pattern
from core.language.prose import CODE, CODE_SPAN, FENCED_CODE, LINK
from core.language.tokens import CJK_CHARACTER, count_cjk, simplify
from core.types import SkipReason

MAX_CHARS = 4000

_WORD = re.compile(r"[^\W\d_][\w'’.-]*")
_COMMAND = re.compile(r"^\s*[/!.][A-Za-z]\w*(?:@\w+)?(?:\s|$)")
# No mentions: "@angular/core" (a package), "the @property decorator" (code), and e-mail addresses.
_MENTION = re.compile(r"(?<![\w.`/@])(?<!the )@(?P<name>\w[\w.-]*+)(?!/)(?!\s*(?:decorator|annotation|装饰器|注解))")
_GROUP_MENTIONS = frozenset(
    ("all", "everyone", "everybody", "here", "channel", "group", "team", "所有人", "全体成员", "大家")
)

_RESOLUTION = re.compile(
    r"\b(?:never ?mind|nvm|(?:solved|fixed|figured|found) (?:it|that|out|the)"
    r"|(?:it|that)(?:'s| is) (?:working|solved|fixed)|it works|works now|problem solved)\b"
    r"|解决了|搞定了|找到了|不用了|没事了",
    re.IGNORECASE,
)

# Where a clause begins with one of these, it asks; an answer hardly ever does (docs/decisions.md#the-gate).
_VERB = r"(?:do(?:es)?|did|is|are|can|could|should|has|have|would|will)"
_SUBJECT = r"(?:it|this|that|these|those|there|the|my|i|we|you|they|any(?:one|body)|some(?:one|body))"
_QUESTION_OPENING = re.compile(
    r"(?:^|[.!?,:;\n][^\S\n]*|\b(?:so|and|but|also|then|hi|hello|hey|folks|all|ok)[ ,]+)"
    rf"(?:how|what|why|where|who|{_VERB} {_SUBJECT}|any(?:one|body))\b"
    r"|请问|请教|怎么(?!样[了啊]?$)|怎样|如何|为[什啥何]|[能是可]否|能不能|可不可以|是不是|有没有|什么|啥|哪|多少|几[个种次]"
    r"|[吗么呢]\s*[?？]?$",
    re.IGNORECASE | re.MULTILINE,
)
_QUESTION_MARK = re.compile(r"[?？](?![\w=&/])")
# Words that decided about a message of the groups that were measured, and the plainest (docs/decisions.md#the-gate).
_ERROR_REPORT = re.compile(
    r"\b(?:error|crash(?:e[sd]|ing)?|fail(?:s|ed|ing|ure)?|refused|broken|hangs?|can'?t|cannot"
    r"|(?:does ?n[o']?t|is ?n[o']?t|not|won'?t|stopped|never) (?:work|start|run|load|connect|respond"
    r"|find|show|install|save|pick)\w*)\b"
    r"|报错|失败|打不开|找不到",
    re.IGNORECASE,
)
# People are asked what they did, think or plan.
_PERSONAL = re.compile(
    r"\b(?:are|were|have|did|would) (?:you|u)\b|你(?:们)?(?:在吗|好吗|觉得|认为|今天|明天|晚上|周末|有空|去|那边)",
    re.IGNORECASE,
)


def unanswerable_reason(text: str) -> SkipReason | None:
    """Return why a message needs no answer from anybody (a command, only code, a courtesy), or None."""
    normalized = _normalize(text)
    if _COMMAND.match(normalized):
        return SkipReason.COMMAND_FOR_OTHER_BOT
    prose = _extract_prose(normalized)
    if not prose.strip():
        return SkipReason.CODE_ONLY if normalized.strip() else SkipReason.NO_WORDS
    # Chinese has no space before a Latin word.
    cjk_count = count_cjk(prose)
    word_count = len(_WORD.findall(CJK_CHARACTER.sub(" ", prose)))
    remainder = _get_courtesy_words().sub("", prose)
    if find_courtesy(text) or not (_WORD.search(remainder) or CJK_CHARACTER.search(remainder)):
        return SkipReason.COURTESY
    return SkipReason.TOO_SHORT if word_count + cjk_count / 2 < 2 else None


@cache
def _get_courtesy_words() -> re.Pattern[str]:
    english = get_pattern("en", "courtesy_words")
    return re.compile(rf"\b(?:{english})\b|{get_pattern('zh', 'courtesy_words')}", re.IGNORECASE)


def mentions_person(text: str) -> bool:
    """Return whether a text mentions a person. The adapter has removed mentions of the bot."""
    text_without_code = CODE.sub(" ", _normalize(text))
    return any(match["name"].lower() not in _GROUP_MENTIONS for match in _MENTION.finditer(text_without_code))


def is_question(text: str) -> bool:
    """Return whether a message asks for something: it has a question mark, or a clause that begins like a question."""
    prose = _extract_prose(_normalize(text))
    return bool(_QUESTION_MARK.search(prose) or _QUESTION_OPENING.search(prose))


def continues_question(text: str) -> bool:
    """Return whether a message after an answer asks for more, however short ("why?"), or reports an error."""
    if unanswerable_reason(text) not in (None, SkipReason.TOO_SHORT) or is_personal(text):
        return False
    return is_question(text) or (is_error_report(text) and not is_resolution(text))


def ends_with_question_mark(text: str) -> bool:
    """Return whether a text ends like a question."""
    return text.rstrip().endswith(("?", "？"))


def is_error_report(text: str) -> bool:
    """Return whether a message reports an error."""
    return bool(_ERROR_REPORT.search(_extract_prose(_normalize(text))))


def is_personal(text: str) -> bool:
    """Return whether a message asks people about themselves, which no source answers.

    >>> is_personal("Are you coming to lunch?"), is_personal("How do I install it?")
    (True, False)
    """
    return bool(_PERSONAL.search(_extract_prose(_normalize(text))))


def is_resolution(text: str) -> bool:
    """Return whether an asker withdraws a question or says that it is solved."""
    return bool(_RESOLUTION.search(_normalize(text)))


def _normalize(text: str) -> str:
    return simplify(unicodedata.normalize("NFKC", text[:MAX_CHARS])).replace("’", "'")


def _extract_prose(text: str) -> str:
    """Return a message without its fenced code and links."""
    return LINK.sub(" ", CODE_SPAN.sub(" it ", FENCED_CODE.sub(" ", text)))
