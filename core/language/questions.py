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
QUESTION_THRESHOLD = 0.5

_CODE_LINE = re.compile(
    r"^\s*(?:>>>|\$ |# ?include\b|import [\w.]+(?: as \w+)?\s*$|from [\w.]+ import [\w*, ]+$|(?:async )?def \w+\("
    r"|class \w+[(:{]|@\w+[.(]|[\w.\[\]\"']+ ?(?:=|\+=|:=) ?\S|(?:const|let|var) \w+ ?=|(?:public|private"
    r"|static) [^?]*\("
    r"|</?\w[^>]*+>\s*$|[})\]]+[;,]?\s*$).*$|^.*[;{}]\s*$"
)
_WORD = re.compile(r"[^\W\d_][\w'’.-]*")
_COMMAND = re.compile(r"^\s*[/!.][A-Za-z]\w*(?:@\w+)?(?:\s|$)")
# No mentions: "@angular/core" (a package), "the @property decorator" (code), and e-mail addresses.
_MENTION = re.compile(r"(?<![\w.`/@])(?<!the )@(?P<name>\w[\w.-]*+)(?!/)(?!\s*(?:decorator|annotation|装饰器|注解))")
_GROUP_MENTIONS = frozenset(
    ("all", "everyone", "everybody", "here", "channel", "group", "team", "所有人", "全体成员", "大家")
)

_RESOLUTION = re.compile(
    r"\b(?:never ?mind|nvm|(?:i |i've |have )?(?:just )?(?:solved|fixed|figured|found) (?:it|that|out|the)|"
    r"(?:it|that)(?:'s| is)? (?:works?|working|solved|fixed)(?: now)?|works now|problem solved)\b"
    r"|解决了|搞定了|找到了|好了不用|不用了|没事了|可以了|自己弄好",
    re.IGNORECASE,
)

_INTERROGATIVE = (
    r"(?:how(?: do| does| can| could| should| to| is| are| did| would| come| many| much| long)?|what(?:'s|’s)?"
    r"|why(?:'s)?"
    r"|where(?:'s)?|when|which|who|whose|is there|are there|is it|is this|are these|does|do|did|can|could|should"
    r"|would|will"
    r"|has|have|is|are|was|were|am i|any)"
)
_QUESTION_OPENING = re.compile(
    rf"(?:^|[.!?,:;\n][^\S\n]*|\b(?:so|and|but|also|then|hi|hello|hey|folks|all|ok)[ ,]+){_INTERROGATIVE}\b", re.I
)
_HELP_REQUEST = re.compile(
    r"\b(?:(?:does|do|did|has|have) (?:any(?:one|body)|some(?:one|body)|you guys) (?:here )?(?:know|have|tried?"
    r"|seen|experience|use|ha[ds])"
    r"|any(?:one|body) (?:here )?(?:know|knows|familiar|able|tried|using|seen|got|has|had|else (?:get|see|hav)\w*)"
    r"|how (?:do|can|could|should|would|does) (?:i|we|one|you)|how to|is there (?:a |an |any )?(?:way|option"
    r"|setting|command|flag|docs?)"
    r"|what(?:'s| is| are| does| do)\b.{1,60}\b(?:mean|difference|default|best way|right way|purpose|limit)"
    r"|is it possible|can (?:i|we)\b|could (?:some|any)(?:one|body)|can (?:some|any)(?:one|body)|any (?:idea|ideas"
    r"|hints?|clue|pointers|docs)"
    r"|i(?:'m| am)? (?:was )?(?:wondering|trying to (?:find out|figure out|understand)|not sure (?:how|why|what|if"
    r"|whether|where|which))"
    r"|(?:i|we) (?:don'?t|do not|can'?t|cannot|could not|couldn'?t) (?:understand|figure out|find|get|see how"
    r"|know (?:how|why|what|where|which|if))"
    r"|(?:please|pls) (?:help|explain|advise)|need (?:some )?help|help (?:me )?with|looking for (?:a way|docs"
    r"|an? (?:option|example|setting)))\b"
    r"|请问|求助|求教|请教|有(?:没有)?人(?:知道|会|用过|遇到)|谁(?:知道|会|用过|遇到)|有没有(?:办法|方法|什么|人"
    r"|例子|文档)|怎么(?!样[了啊]?$)|怎样|如何|为什么|为啥|为何"
    r"|能不能|可不可以|是不是|是否|能否|可否|有什么(?:办法|方法|区别|好的|推荐)|什么(?:是|意思|区别|原因|时候|情况)"
    r"|是什么|哪(?:里|个|些|儿|种)|多少|几(?:个|种|次)|支持.{0,20}(?:吗|么|不)|吗\s*[?？]?$|[么呢]\s*[?？]",
    re.IGNORECASE | re.MULTILINE,
)
_QUESTION_START = re.compile(
    r"\s*(?:(?:hi|hello|hey|so|and|also|btw)[ ,!]++(?:all|there|everyone|folks|guys)?[ ,!]*+)?"
    r"(?:how (?:many|much|long|often|big|do|does|can|to|is|are|should)|what (?:is|are|does|do|happens)"
    r"|why (?:do|does|is|are|can|won)|where (?:is|are|do|does|can)|which \w+ (?:is|are|do|does|should|can))\b",
    re.IGNORECASE,
)
_QUESTION_MARK = re.compile(r"[?？](?![\w=&/])")
_ERROR_REPORT = re.compile(
    r"\b(?:error|exception|traceback|stack ?trace|segfault|crash(?:e[sd]|ing)?|fail(?:s|ed|ing|ure)?|refused|denied"
    r"|time(?:s|d)? ?out"
    r"|(?:does ?n[o']?t|doesn’t|is ?n[o']?t|isn’t|not|won'?t|stopped|never) (?:work|start|run|load|connect|respond"
    r"|find|show|install|save|pick)\w*"
    r"|stuck|hangs?|broken|unable to|can(?:'|’)?t|cannot|keeps? (?:getting|crashing|failing|saying))\b"
    r"|报错|出错|错误|异常|失败|崩溃|卡住|没有?反应|不(?:行|工作|生效|能用|起作用)|无法|打不开|装不上|连不上"
    r"|跑不起来|启动不了|找不到",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"\b(?:i|i'm|i’m|i've|my|me|we|our|us|it|when|after)\b|我|我们|一直|总是|之后|的时候", re.IGNORECASE
)
_SMALL_TALK = re.compile(
    r"\b(?:how are (?:you|things|we)|what'?s up|how'?s (?:it going|life|everyone)|who(?:'s| is| are| wants| else)|"
    r"(?:are|were|will|have|did|do|would|can|could) (?:you|u|y'all)\b(?! (?:\w+ )?(?:know|explain|tell (?:me"
    r"|us) how|help|configure|set|use|have an example))"
    r"|(?:shall|should|can|could|will|are|did|do) we (?:meet|move|merge|ship|call|talk|go|have (?:a |the )?(?:call"
    r"|meeting|lunch)|reschedule|skip|start the|all)"
    r"|lunch|dinner|coffee|beer|pizza|weekend|holiday|vacation|birthday|meeting|stand-?up|call tomorrow|calendar"
    r"|hotel|flight|ticket to|football"
    r"|tonight|tomorrow morning|what time|your (?:pr|branch|review|opinion|team|company|boss|slides)|review my"
    r"|approve|merge my|pull request\?|did you|have you seen"
    r"|see you|what do you (?:guys )?think|thoughts\?|opinions?\?|isn'?t it\?|right\?|don'?t you think|guess what"
    r"|you know what|anyone (?:up for|going|coming|free|around|hungry|want|in)"
    r"|hiring|salary|movie|song|recipe|weather)\b"
    r"|你(?:们)?(?:在吗|好吗|觉得|认为|今天|明天|晚上|周末|什么时候(?:来|有空|方便)|有空|去|来不来|那边)|怎么样了"
    r"|谁(?:要|去|来|有空|想|负责|在)|吃(?:饭|什么|了吗)|午饭|晚饭|咖啡|周末|放假|开会|会议|几点|天气|电影|足球|比赛"
    r"|帮我(?:审|合并|带|看下PR)|是吧[?？]|对吧[?？]|不是吗",
    re.IGNORECASE,
)
MAX_ADDITION_CHARS = 60
_ADDITION = re.compile(
    r"\s*(?:(?:and|but|or|then)\b(?!\s+(?:i|we|he|she|they|it|that|thanks?|thx|thank|now|my)\b)(?!\s+\w+[’']\w+)"
    r"|(?:what|how) about\b|what if\b|(?:那|还有|但是|如果|然后)(?![我谢就好没他她]))",
    re.IGNORECASE,
)
_BARE_QUESTION = re.compile(
    r"\s*(?:why(?: not)?|how(?: so| come)?|where|when|which(?: one)?|and then|为什么|为啥|怎么)\s*[?？]+\s*",
    re.IGNORECASE,
)
_INVERTED_QUESTION = re.compile(
    r"(?:^|[.!?,:;\n][^\S\n]*|\b(?:so|and|but|also|then|ok) )"
    r"(?:(?:is|are|was|were|does|did|can|could|should|would|will|has|have) (?:it|this|that|these|those|there|the|my)"
    r"|(?:am|are|were|do|did|can|could|should|would|will|have) (?:i|we|they))\b",
    re.IGNORECASE,
)
# Openings that make a statement a question.
_QUESTION_WORDS = re.compile(
    r"^(?:(?:what|which|who|where|when|why|how)(?:'s|'re)?(?: (?:much|many|long|often|far))?"
    r"(?: (?:is|are|was|were|do|does|did|can|could|should|would|will|to|exactly))?"
    r"|is|are|was|were|do|does|did|can|could|should|would|will|has|have)\b"
    r"(?: (?:i|we|you|one|there|it possible to)\b(?: (?:best|need to|have to|want to)\b)?)?\s*"
    r"|(?:请问|如何|怎么样?|怎样|什么是|为什么|为何|是否可以|能否|能不能)",
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


def question_score(text: str) -> float:
    """Return how clearly a message asks for something: 0 for a statement, 1 for a plain request for help.

    An error report counts as well, more if somebody reports it as their own.
    """
    prose = _extract_prose(_normalize(text))
    has_mark = bool(_QUESTION_MARK.search(prose))
    is_request = bool(_HELP_REQUEST.search(prose))
    has_opening = bool(_QUESTION_OPENING.search(prose))
    has_error = bool(_ERROR_REPORT.search(prose))
    if is_request and (has_mark or has_error):
        return 1.0
    if is_request or _QUESTION_START.match(prose):
        return 0.9 if has_mark else 0.8
    if has_mark:
        return 0.9 if has_opening or has_error else 0.6
    if has_error and _FIRST_PERSON.search(prose):
        return 0.6
    return 0.3 if has_opening or has_error else 0.0


def continues_question(text: str) -> bool:
    """Return whether a message after an answer asks for more: a question, an addition to one, or an error."""
    if _BARE_QUESTION.fullmatch(text):
        return True
    if unanswerable_reason(text) or is_small_talk(text):
        return False
    score = question_score(text)
    if score >= QUESTION_THRESHOLD or (score > 0 and _INVERTED_QUESTION.search(text)):
        return True
    if is_resolution(text):
        return False
    return bool(len(text) <= MAX_ADDITION_CHARS and _ADDITION.match(text)) or (score > 0 and is_error_report(text))


def strip_question_words(text: str) -> str:
    """Return a question as a statement: without question words and question marks."""
    return _QUESTION_WORDS.sub("", text, count=1).strip().rstrip("?？ 吗呢")


def ends_with_question_mark(text: str) -> bool:
    """Return whether a text ends like a question."""
    return text.rstrip().endswith(("?", "？"))


def is_error_report(text: str) -> bool:
    """Return whether a message reports an error."""
    return bool(_ERROR_REPORT.search(_extract_prose(_normalize(text))))


def is_small_talk(text: str) -> bool:
    """Return whether a message is about people, their plans or opinions, which no source answers.

    >>> is_small_talk("How are you today?")
    True
    >>> is_small_talk("How do I install it?")
    False
    """
    return bool(_SMALL_TALK.search(_extract_prose(_normalize(text))))


def is_resolution(text: str) -> bool:
    """Return whether an asker withdraws a question or says that it is solved."""
    return bool(_RESOLUTION.search(_normalize(text)))


def _normalize(text: str) -> str:
    return simplify(unicodedata.normalize("NFKC", text[:MAX_CHARS])).replace("’", "'")


def _extract_prose(text: str) -> str:
    """Return a message without its code, output and links."""
    prose = LINK.sub(" ", CODE_SPAN.sub(" it ", FENCED_CODE.sub(" ", text)))
    return "\n".join(line for line in prose.split("\n") if not _CODE_LINE.match(line))
