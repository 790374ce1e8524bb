"""Follow-ups, in English and Chinese: which questions depend on the conversation, and what completes them.

Rules only: they take microseconds and work without a model. A question depends on the conversation when something in it
points there (a pronoun without a noun before it, an opening such as "what about", 呢 at the end), or when it names
nothing of its own ("Is there a limit?", 怎么关闭？). A question that names its own subject is left as it is. The rules
are written in simplified Chinese, and read traditional as simplified.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from core.language.keywords import content_words, extract_noun_phrases, strip_fillers
from core.language.lexicon import get_words
from core.language.prose import FENCED_CODE
from core.language.tokens import CJK_CHARACTERS, HAN, count_cjk, simplify, split_simplified, stem
from core.types import Turn

MAX_CARRIED_TERMS = 8
MIN_CARRIED_WORDS = 2
MAX_QUESTION_CHARS = 400
MAX_CONTINUATION_WORDS = 8
# How many names an answer adds to a follow-up, and how far it is read for them.
MAX_ANSWER_NAMES = 2
MAX_ANSWER_CHARS = 1000

_NAME_AS_CODE = re.compile(r"(?<!`)`([A-Za-z][\w.-]{2,60})`(?!`)")
_GENERIC_STEMS = frozenset(map(stem, get_words("en", "generic_words")))
_AUXILIARY = (
    r"(?:do|does|did|is|are|was|were|am|can|could|will|would|should|shall|must|may|might|has|have|had|ca|wo|don|doesn"
    r"|didn|isn|aren|wasn|weren)"
)
_OPENING = re.compile(
    r"^\W*(?:(?:and|but|or|so|then|also|well|ok(?:ay)?|now|hm+|oh|yes|no|right|sure|thanks)\b[\s,.!]*)+", re.I
)
_SWAP = re.compile(
    r"^\W*(?:what|how) (?:about|if)\b|^\W*(?:why|how|when|where|which|who|really)\W*$"
    r"|^\W*(?:the )?same (?:for|with|in|on)\b|^\W*(?:why|how) (?:not|so|come)\b(?!\s+\w+\s+\w+\s+\w+)"
    r"|\b(?:too|as well|either)\W*$|\bthe same (?:work|apply|true|go)",
    re.I,
)
_MORE = re.compile(
    r"\bmore (?:detail|about (?:it|that|this|them)|info)|\b(?:elaborate|go on|another|former|latter)\b"
    r"|\b(?:what|who|anything|something|somewhere) else|(?<!each )\bother\b(?! than| hand)"
    r"|\bones\b(?! that| who| which)|\b(?:which|\w+est|first|second|third|last) one\b|\bthe others?\b(?!\s+\w)"
    r"|\bbetween (?:the |these |those )?(?:two|three|both)\b(?!\s+\w)"
    r"|\b(?:which|what|how many|some|any|all|most|none|either|both) of (?:them|these|those|which)",
    re.I,
)
# "The difference between argument and option": two things are named, however common their words are.
_COMPARISON = re.compile(
    r"\bbetween\s+(?:an?\s+|the\s+)?(?P<left>[\w.\-]{1,40})\s+(?:\w{1,40}\s+)?(?:and|&)"
    r"\s+(?:an?\s+|the\s+)?(?P<right>[\w.\-]{1,40})"
    r"|(?<![\w.\-])(?P<first>[\w.\-]{1,40})\s+(?:vs\.?|versus)\s+(?P<second>[\w.\-]{1,40})",
    re.I,
)
_NO_NAMES = frozenset(("it", "this", "that", "these", "those", "them", "they", "one", "former", "first", "the"))
_QUESTION_WORD = re.compile(r"^(?:what|which|who|whose|when|where|why|how)\b", re.I)
_GAP = re.compile(
    r"\bthe (?:main|key|most \w+|best|worst|first|\w{3,}est)\b(?!.*\b(?:of|in|for|with)\b)|^(?:is|are) there\b", re.I
)
_FRAGMENT_START = re.compile(
    r"^(?:on|in|with|for|at|to|from|without|under|during|by|about|only|even|the|just|which|what|how|whose)\b", re.I
)
# "And straight into a bucket on S3?": continues the clause before it.
_CONTINUATION = re.compile(
    r"^\W*(?:and|but|or)\b[\s,]*(?:\w+\s+)?"
    r"(?:on|in|into|onto|with|for|at|to|from|without|under|during|by|about|over|via|through|inside|outside)\b"
    r"(?!.*\b(?:what|which|who|whose|when|where|why|how)\b)",
    re.I,
)
# "This project" is where the question is asked.
_PLACES = (
    r"(?:project|bot|group|chat|channel|repo\w*|site|website|server|company|app|application|library|framework|tool"
    r"|program|package|software|product|year|week|month|weekend|morning|afternoon|evening|season|city|town|country"
    r"|class|course|house|building)\b"
)
_BEFORE_THAT = (
    r"(?:do|does|did|is|was|are|of|for|with|about|like|to|by|than|in|on|from|after|before|doing|can|will|why|how|and)"
)
_AFTER_THAT = r"(?:on|off|up|down|out|back|way|one|error|case|happen|too|work|mean)\b"
_PRONOUN = re.compile(
    r"\b(?P<bound>its|his|her|their|theirs)\b|\b(?P<free>it|they|them|he|she|him|these|those(?! who| that| which))\b"
    rf"|\b(?P<this>this)\b(?!\s+(?:\w+\s+)?{_PLACES})"
    rf"|(?:^\W*|\b{_BEFORE_THAT}\s+)(?P<that>that)\b(?!\s+(?:i|we|you|they|he|she|it)\b)"
    rf"|\b(?P<last>that|there)\b(?=\s+{_AFTER_THAT}|\s*[?.!,]|\s*$)|\b(?:in|into|from|inside)\s+(?P<inside>there)\b"
    r"|\b(?:write|make|build|create|use|have|get|need|add|define|find|pick|choose|delete|remove)\s+(?P<one>one)"
    r"(?:\s+(?:myself|ourselves|instead))?\W*$",
    re.I,
)
# "Is it possible to ...", "How long does it take to ...": this pronoun refers to what follows.
_EXPLETIVE = re.compile(
    r"^(?:it|this|that)\s+(?:(?:be|is|was|seems?|possible|necessary|safe|ok(?:ay)?|better|best|worth|advisable|allowed"
    r"|legal|common|normal|hard|difficult|easy|useful|required|recommended|mandatory|important|make sense|matter|costs?"
    r"|takes?|true)\s+)+(?:(?!\w+ed\b)\w+\s+){0,4}?(?:to|that|if|whether|when|for)\s+\w"
    r"|^it\s+(?:rains?|snows?|looks like|turns out)\b",
    re.I,
)
_CLAUSE_END = re.compile(
    r"[,;:.?!]\s|[\n`]|\b(?:if|when|while|after|before|because|and|but|or|which|once|until|unless|then|so|that|than)\b",
    re.I,
)
_SUBJECTIVE = re.compile(
    rf"\b(?:{_AUXILIARY}|to|let)\s+(?:i|we|you|us|one|people)\s+(?:\w+ly\s+)?(\w+)|\bhow to (\w+)", re.I
)
# "The signing key" is a term, though neither "sign" nor "key" is.
_COMPOUND = re.compile(r"\b(?:the|an?|my|our|your)\s+(\w+ing)\s+(\w+)", re.I)

# Single characters are parts of words as well (向 of 向量): they separate only where they are hardly ever one.
_ZH_PARTICLE = re.compile(
    r"[的了吗呢吧和与跟及是在把被嘛么]|(?<![重主需摘])要(?![点求素件])|(?<![智功性技职才可只])能(?![力源量耗])"
)
_ZH_EDGES = "到能会要想请用从给将该也还都就才再又只很太更最那这我你他它没不有可以去来为个"

# 安装包, 联系人: with one of these characters after it, a verb begins a noun. The words share one
# look-ahead: with one each, the pattern takes 35 ms to compile.
_ZH_NOUN_ENDINGS = "人器员者机码表单证费卡号率组页板库包权键项名量线站点"
_ZH_PREDICATES = get_words("zh", "predicates")
_ZH_OPENING = re.compile(
    r"^(?:那么?|然后|另外|所以|但是?|不过|好的?|嗯+|哦+|请问|而且|还有|对了|谢谢|明白了?|懂了)(?![个些样种里边他])"
    r"[，, 。！!]*"
)
_ZH_QUESTION_WORD = re.compile(r"怎|如何|什么|哪|谁|多少|多久|多大|几|吗|是否|能否|没有|是不是|能不能|为何")
_ZH_SWAP = re.compile(
    r"也.{0,8}[吗么嘛]\W*$|一样[吗么？?]"
    r"|^\W*(?:如果|要是|假如|万一|换成|改成|改用|换).*(?:呢|怎么办|可以吗|行吗|行不行)\W*$"
    r"|^\W*那.*怎么办\W*$"
)
_ZH_POINTER = re.compile(
    r"(?:它们?|他们|她们?|(?<!其)他(?!人)|前者|后者|两者|上述|上面|刚才|刚刚说|之前说"
    r"|这(?:[个些样种里边么俩几两一本首部位家只条张次件台场款类章段道句批份篇项步])(?!项目|机器人|群|仓库|框架|软件|网站|公司|库)"
    r"|那(?:[个些样种里边几两一本首部位家只条张件台场款类章段篇项])"
    r"|这(?=是|要|会|能|有|怎|对|可|该|和|跟)|为什么这|其他|其它|别的|另外一|另一个|第[一二三四]个|哪一?[个种]|哪些)"
)

# 王莽这个人: the name is right before it.
_ZH_APPOSITION = re.compile(rf"^(?!.*(?:怎|如何|什么|能|可以|[要把给对用])).*[{HAN}\w]{{2}}$")
_ZH_SELECTORS = ("哪", "其他", "其它")
_ZH_COMPARISON = re.compile(
    rf"(?P<left>[{HAN}]{{2,8}}?|(?<![\w.\-])[\w.\-]{{1,40}})\s?[和与跟]\s?(?P<right>[{HAN}]{{2,8}}?|[\w.\-]{{1,40}})\s?"
    r"(?:之间)?(?:的|有什么|有何|有啥|有)\s?(?:区别|差别|不同|差异)"
)
_ZH_CLAUSE_END = re.compile(r"[，,；;。？?！!：:\n]|之后|以后|的时候|时候|后(?!面|者|端|台|缀)|时(?!间|候|区|长|延)")
_ZH_VERB_FIRST = re.compile(
    r"^\W*(?:需?要|支持|可以|能|会|有|可否|是否|必须|允许|包含|包括|适用|收费|免费|是不是|支不支持|可不可以|需不需要"
    r"|最多|最少|多久|还)"
)
_LATIN_WORD = re.compile(rf"(?:(?![{CJK_CHARACTERS}])[\w])(?:(?![{CJK_CHARACTERS}])[\w.\-+#])*")
_HAN_RUN = re.compile(f"[{HAN}]+")


def _any_of(words: Collection[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


_ZH_FUNCTION = re.compile(_any_of(get_words("zh", "function_words")))
_ZH_EMPTY = re.compile(
    f"(?:{_any_of(get_words('zh', 'generic_words'))})(?![{_ZH_NOUN_ENDINGS}])|{_ZH_FUNCTION.pattern}"
)


def depends_on_history(text: str) -> bool:
    """Return whether a question is probably incomplete without the conversation.

    >>> depends_on_history("Does it need a database?"), depends_on_history("How do I read a password?")
    (True, False)
    >>> depends_on_history("那它怎么用？"), depends_on_history("怎么读取密码？")
    (True, False)
    """
    cleaned_text = _clean(text)
    if _is_chinese(cleaned_text):
        return _depends_in_chinese(cleaned_text)
    return _depends_in_english(cleaned_text, text[:MAX_QUESTION_CHARS])


def names_own_subject(text: str) -> bool:
    """Return whether a question certainly needs no conversation: it points nowhere and names at least two things."""
    cleaned_text = _clean(text)
    if depends_on_history(text):
        return False
    return (
        _count_chinese_subjects(cleaned_text) >= 2
        if _is_chinese(cleaned_text)
        else len(_subject_words(cleaned_text)) >= 2
    )


def expand_with_history(question: str, history: Sequence[Turn], author_id: str = "") -> str:
    """Complete a question with the subject of the asker's last question; unchanged when it names its own.

    Of the last answer only the names count that it gives first, as code: they are often the very thing that the asker
    had no name for. Its words add nothing: they are about much besides the subject.
    """
    turns = get_author_turns(history, author_id)
    user_texts = [turn.text for turn in turns if turn.role == "user"]
    if not user_texts or not depends_on_history(question):
        return question
    question_lower = simplify(question).lower()
    candidates = dict.fromkeys((*_carried_terms(question, user_texts), *_answer_names(question, turns[-1])))
    terms = [_as_written(term, user_texts) for term in candidates if term.lower() not in question_lower]
    return " ".join((question, *terms[:MAX_CARRIED_TERMS]))


def distinctive_words(text: str) -> list[str]:
    """Return the content words without the question words and particles of Chinese, which many questions share."""
    return content_words(strip_chinese_function_words(text))


def strip_chinese_function_words(text: str) -> str:
    """Return a text without the question words and particles of Chinese; other languages are left as they are."""
    return " ".join(split_simplified(_ZH_FUNCTION, text)) if _is_chinese(text) else text


def get_author_turns(history: Sequence[Turn], author_id: str) -> list[Turn]:
    """Return the turns of one asker: their messages and the answers to them."""
    if not author_id:
        return list(history)
    turns: list[Turn] = []
    is_own = False
    for turn in history:
        if turn.role == "user":
            is_own = turn.author_id in ("", author_id)
        if is_own:
            turns.append(turn)
    return turns


def _clean(text: str) -> str:
    return simplify(" ".join(strip_fillers(text[:MAX_QUESTION_CHARS]).replace("’", "'").split()))


def _as_written(term: str, texts: Sequence[str]) -> str:
    """Return a term with the characters of the newest text that has it: in traditional Chinese, others than ours."""
    for text in () if term.isascii() else reversed(texts):
        start = simplify(text).find(term)
        if start >= 0:
            return text[start : start + len(term)]
    return term


def _is_chinese(text: str) -> bool:
    return bool(_HAN_RUN.search(text)) and 4 * count_cjk(text) >= len(content_words(text))


def _depends_in_english(text: str, full_text: str) -> bool:
    rest = _OPENING.sub("", text) or text
    if _SWAP.search(rest) or _MORE.search(rest) or any(_find_open_pronouns(rest)):
        return True
    if _compares(_COMPARISON, rest):
        return False
    subject_words = _subject_words(rest)
    # "What are the main themes?", "Is there a fee?": something of something that is not named.
    has_gap = bool(_GAP.search(rest)) and len(subject_words) < 2
    if not subject_words or has_gap:
        return True
    has_verb = re.search(rf"\b{_AUXILIARY}\b", full_text, re.I) is not None
    # "And for visitors?", "on Windows?", "Which port?": none is a complete clause.
    word_count = len(rest.split())
    if not has_verb and word_count <= MAX_CONTINUATION_WORDS and _CONTINUATION.match(text):
        return True
    is_fragment = not has_verb and word_count <= (3 if _QUESTION_WORD.match(rest) else 5)
    return is_fragment and (rest != text or bool(_FRAGMENT_START.match(rest)) or len(subject_words) < 2)


def _compares(pattern: re.Pattern[str], text: str) -> bool:
    """Return whether a question names two things and asks how they differ."""
    match = pattern.search(text)
    return match is not None and all(name.lower() not in _NO_NAMES for name in match.groups() if name)


def _find_open_pronouns(text: str) -> Iterator[re.Match[str]]:
    """Yield the pronouns that refer to nothing in the text itself."""
    for match in _PRONOUN.finditer(text):
        position = next(match.start(name) for name in match.groupdict() if match[name])
        if _EXPLETIVE.match(text[position:]):
            continue
        text_before = text[:position]
        ends = [] if match["bound"] else [end.start() for end in _CLAUSE_END.finditer(text_before)]
        antecedent_text = text_before if match["bound"] else text_before[: ends[-1]] if ends else ""
        if not _subject_words(antecedent_text):
            yield match


def _subject_words(text: str) -> list[str]:
    """Return the words that name the topic of an English question. Verbs after "how do I" count only without others."""
    compounds = [pair for pair in _COMPOUND.findall(text.lower()) if stem(pair[0]) != pair[0]]
    compound_words = {word for pair in compounds for word in pair}
    words = [word for word in content_words(text) if word in compound_words or stem(word) not in _GENERIC_STEMS]
    verbs = {verb.lower() for match in _SUBJECTIVE.finditer(text) for verb in match.groups() if verb}
    return [word for word in words if word not in verbs]


def _depends_in_chinese(text: str) -> bool:
    has_opening = _ZH_OPENING.match(text) is not None
    rest = _ZH_OPENING.sub("", text) or text
    if _ZH_SWAP.search(text) or (re.search(r"呢\W*$", rest) and not _ZH_QUESTION_WORD.search(rest)):
        return True
    if _has_open_pointer(rest):
        return True
    if _compares(_ZH_COMPARISON, rest):
        return False
    count = _count_chinese_subjects(rest)
    if count == 0:
        return True
    # The subject is left out: 支持 Windows 吗？ 需要本人去吗？
    is_short = count <= 1 and bool(_ZH_VERB_FIRST.match(rest))
    return is_short or (has_opening and count <= 1 and not _ZH_QUESTION_WORD.search(rest))


def _has_open_pointer(text: str) -> bool:
    for match in _ZH_POINTER.finditer(text):
        text_before = text[: match.start()]
        if match[0].startswith(_ZH_SELECTORS):
            # 支持哪些 Python 版本 names what is selected; 哪个更快 does not.
            if _count_chinese_subjects(text) == 0:
                return True
            continue
        if (
            _ZH_APPOSITION.search(text_before)
            and not match[0].startswith("它")
            and text[match.end() : match.end() + 1].strip()
        ):
            continue
        ends = [end.start() for end in _ZH_CLAUSE_END.finditer(text_before)]
        if not ends or not _count_chinese_subjects(text_before[: ends[-1]]):
            return True
    return False


def _count_chinese_subjects(text: str) -> float:
    """Return how many things a Chinese question names: a Latin word is one, and so are two characters."""
    terms = _split_chinese(_ZH_EMPTY.sub(" ", text))
    return sum(len(term) / 2 if _HAN_RUN.match(term) else 1 for term in terms if len(term) > 1 and not term.isdigit())


def _split_chinese(text: str) -> list[str]:
    """Return the Latin words and the runs of Chinese characters between particles."""
    runs = re.findall(rf"[{HAN}]+|{_LATIN_WORD.pattern}", _ZH_PARTICLE.sub(" ", text))
    return [run for run in (run.strip(_ZH_EDGES) for run in runs) if run]


def _carried_terms(question: str, user_texts: Sequence[str]) -> list[str]:
    """Return what a follow-up leaves out: the subject of the last question, which may be a follow-up itself.

    A last question that names hardly anything ("What do children pay?") goes on about the one before it. Historical
    query expansion (Lin et al. 2020) adds all earlier subjects; in a chat, these are of other conversations as well.
    """
    *earlier_texts, last_text = user_texts
    terms = _subject_terms(last_text, with_predicate=_is_swap(question) or _points_at_statement(question))
    names_little = len(content_words(" ".join(terms))) < MIN_CARRIED_WORDS
    if earlier_texts and (names_little or depends_on_history(last_text)):
        inherited_terms = _carried_terms(last_text, earlier_texts)
        terms = [*terms, *(term for term in inherited_terms if term not in terms)]
    return terms


def _answer_names(question: str, turn: Turn) -> list[str]:
    """Return the names that the last answer gives first; none where the question names another subject instead."""
    if turn.role != "assistant" or _is_swap(question):
        return []
    prose = FENCED_CODE.sub(" ", turn.text[:MAX_ANSWER_CHARS])
    return list(dict.fromkeys(_NAME_AS_CODE.findall(prose)))[:MAX_ANSWER_NAMES]


def _is_swap(question: str) -> bool:
    """Return whether a follow-up names another subject and leaves out the rest: "What about X?", X 呢？"""
    text = _clean(question)
    if _is_chinese(text):
        return bool(_ZH_SWAP.search(text) or (re.search(r"呢\W*$", text) and not _ZH_QUESTION_WORD.search(text)))
    rest = _OPENING.sub("", text) or text
    if any(_find_open_pronouns(rest)):
        # "What about its port?" asks something else about the same subject.
        return False
    return bool(_SWAP.search(rest)) or not re.search(rf"\b{_AUXILIARY}\b", rest, re.I)


def _points_at_statement(question: str) -> bool:
    """Return whether a follow-up refers to all that the last question says ("that"), not to a thing in it ("it")."""
    return any(match["this"] or match["that"] or match["last"] for match in _find_open_pronouns(_clean(question)))


def _subject_terms(text: str, *, with_predicate: bool) -> list[str]:
    """Return the words and phrases that a question is about, in order; `with_predicate` adds what is asked about it."""
    text = _clean(text)
    if _is_chinese(text):
        return _chinese_terms(text, with_predicate=with_predicate)
    words = [word for phrase in extract_noun_phrases(text) for word in phrase.split()]
    subject_words = [word for word in words if stem(word.lower()) not in _GENERIC_STEMS]
    return list(dict.fromkeys(words if with_predicate or not subject_words else subject_words))


def _chinese_terms(text: str, *, with_predicate: bool) -> list[str]:
    def blank(match: re.Match[str]) -> str:
        return f" {match[0]} " if with_predicate and match[0] in _ZH_PREDICATES else " "

    terms = _split_chinese(_ZH_EMPTY.sub(blank, text))
    terms = [term for term in terms if len(term) > 1 or with_predicate]
    return list(dict.fromkeys(terms or [term for term in _split_chinese(_ZH_FUNCTION.sub(" ", text)) if len(term) > 1]))
