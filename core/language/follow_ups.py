"""Follow-ups, in English and Chinese: which questions depend on the conversation, and what completes them.

Rules only: they take microseconds and work without a model. A question depends on the conversation when something in it
points there (a pronoun without a noun before it, an opening such as "what about", 呢 at the end), or when it names
nothing of its own ("Is there a limit?", 怎么关闭？). A question that names its own subject is left as it is. The rules
are written in simplified Chinese, and read traditional as simplified.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from core.language.keywords import content_words, extract_noun_phrases, strip_fillers
from core.language.lexicon import get_words
from core.language.tokens import CJK_CHARACTERS, HAN, count_cjk, simplify, split_simplified, stem
from core.types import Turn

MAX_CARRIED_TERMS = 8
MIN_CARRIED_WORDS = 2
MAX_QUESTION_CHARS = 400

_GENERIC_STEMS = frozenset(map(stem, get_words("en", "generic_words")))
# "And in Docker?", "the same for Windows?", "Which one is faster?"
_CONTINUATION = re.compile(
    r"^\W*(?:and|but|or)\b|^\W*(?:what|how) (?:about|if)\b|\b(?:too|as well|either)\W*$"
    r"|\bthe same (?:for|with|work|apply|go)|(?<!each )\bother\b(?! than| hand)|\bones\b(?! that| who| which)"
    r"|\b(?:which|\w+est|first|second|third|last) one\b",
    re.I,
)
_PRONOUN = re.compile(
    r"\b(?P<bound>its|his|her|their|theirs)\b|\b(?P<free>it(?! possible)|they|them|he|she|him|this|these|those)\b"
    r"|\b(?P<that>that|there)\b(?=\W*$)|\b(?:do|does|did|is|was|can|will)\s+(?P<subject>that)\b",
    re.I,
)
_CLAUSE_END = re.compile(r"[,;:.?!]\s|[\n`]|\b(?:if|when|and|but|or|which|then|so|that|than)\b", re.I)

# "The signing key" is a term, though neither "sign" nor "key" is: asked once more, it may be answered from the cache.
_COMPOUND = re.compile(r"\b(?:the|an?|my|our|your)\s+(\w+ing)\s+(\w+)", re.I)

_ZH_PARTICLE = re.compile(r"[的了吗呢吧和与跟及是在把被嘛么要能]")
_ZH_EDGES = "到能会要想请用从给将该也还都就才再又只很太更最那这我你他它没不有可以去来为个"

_ZH_CONTINUATION = re.compile(r"也.{0,8}[吗么嘛]\W*$|^(?!.*(?:怎|如何|什么|哪|谁|几|多|为何)).*呢\W*$")
_ZH_POINTER = re.compile(r"它们?|他们|她们?|(?<!其)他(?!人)|前者|后者|两者|上述|上面|[这那](?![么里])")
_ZH_CLAUSE_END = re.compile(r"[，,；;。？?！!：:\n]|后|时")
_LATIN_WORD = re.compile(rf"(?:(?![{CJK_CHARACTERS}])[\w])(?:(?![{CJK_CHARACTERS}])[\w.\-+#])*")
_HAN_RUN = re.compile(f"[{HAN}]+")


def _any_of(words: Collection[str]) -> str:
    """Return a pattern for any of the words, the longest first."""
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


_ZH_FUNCTION = re.compile(_any_of(get_words("zh", "function_words")))
_ZH_EMPTY = re.compile(_any_of(get_words("zh", "function_words", "generic_words")))


def depends_on_history(text: str) -> bool:
    """Return whether a question is probably incomplete without the conversation.

    >>> depends_on_history("Does it need a database?"), depends_on_history("How do I read a password?")
    (True, False)
    >>> depends_on_history("那它怎么用？"), depends_on_history("怎么读取密码？")
    (True, False)
    """
    text = _clean(text)
    if _is_chinese(text):
        return _depends_in_chinese(text)
    return bool(_CONTINUATION.search(text)) or _has_open_pronoun(text) or not _count_subjects(text)


def names_own_subject(text: str) -> bool:
    """Return whether a question certainly needs no conversation: it points nowhere and names at least two things."""
    return not depends_on_history(text) and _count_subjects(_clean(text)) >= 2


def expand_with_history(question: str, history: Sequence[Turn]) -> str:
    """Complete a question with the subject of the last question before it; unchanged when it names its own.

    The answers add nothing: they are about much besides the subject.
    """
    user_texts = [turn.text for turn in history if turn.role == "user"]
    if not user_texts or not depends_on_history(question):
        return question
    question_lower = simplify(question).lower()
    terms = [term for term in _carried_terms(user_texts) if term.lower() not in question_lower]
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
    return simplify(" ".join(strip_fillers(text[:MAX_QUESTION_CHARS]).replace("’", "'").replace("'s ", " ").split()))


def _is_chinese(text: str) -> bool:
    return bool(_HAN_RUN.search(text)) and 4 * count_cjk(text) >= len(content_words(text))


def _has_open_pronoun(text: str) -> bool:
    """Return whether a pronoun refers to nothing in the text itself: to no noun of a clause before its own."""
    for match in _PRONOUN.finditer(text):
        text_before = text[: next(match.start(name) for name in match.groupdict() if match[name])]
        if not match["bound"]:
            ends = [end.start() for end in _CLAUSE_END.finditer(text_before)]
            text_before = text_before[: ends[-1]] if ends else ""
        if not _count_subjects(text_before):
            return True
    return False


def _depends_in_chinese(text: str) -> bool:
    return bool(_ZH_CONTINUATION.search(text)) or _has_open_pointer(text) or not _count_subjects(text)


def _has_open_pointer(text: str) -> bool:
    for match in _ZH_POINTER.finditer(text):
        text_before = text[: match.start()]
        ends = [end.start() for end in _ZH_CLAUSE_END.finditer(text_before)]
        if not ends or not _count_subjects(text_before[: ends[-1]]):
            return True
    return False


def _count_subjects(text: str) -> float:
    """Return how many things a question names: in Chinese a Latin word is one, and so are two characters."""
    if not _HAN_RUN.search(text):
        compound_words = {word for pair in _COMPOUND.findall(text.lower()) for word in pair}
        return sum(word in compound_words or stem(word) not in _GENERIC_STEMS for word in content_words(text))
    terms = _split_chinese(_ZH_EMPTY.sub(" ", text))
    return sum(len(term) / 2 if _HAN_RUN.match(term) else 1 for term in terms if len(term) > 1 and not term.isdigit())


def _split_chinese(text: str) -> list[str]:
    """Return the Latin words and the runs of Chinese characters between particles."""
    runs = re.findall(rf"[{HAN}]+|{_LATIN_WORD.pattern}", _ZH_PARTICLE.sub(" ", text))
    return [run for run in (run.strip(_ZH_EDGES) for run in runs) if run]


def _carried_terms(user_texts: Sequence[str]) -> list[str]:
    """Return what a follow-up leaves out: the subject of the last question, which may be a follow-up itself.

    A last question that names hardly anything ("What do children pay?") goes on about the one before it. Historical
    query expansion (Lin et al. 2020) adds all earlier subjects; in a chat, these are of other conversations as well.
    """
    *earlier_texts, last_text = user_texts
    terms = _subject_terms(last_text)
    names_little = len(content_words(" ".join(terms))) < MIN_CARRIED_WORDS
    if earlier_texts and (names_little or depends_on_history(last_text)):
        terms = list(dict.fromkeys((*terms, *_carried_terms(earlier_texts))))
    return terms


def _subject_terms(text: str) -> list[str]:
    """Return the words and phrases that a question is about, in order."""
    text = _clean(text)
    if _is_chinese(text):
        terms = [term for term in _split_chinese(_ZH_FUNCTION.sub(" ", text)) if len(term) > 1]
    else:
        words = [word for phrase in extract_noun_phrases(text) for word in phrase.split()]
        terms = [word for word in words if stem(word.lower()) not in _GENERIC_STEMS] or words
    return list(dict.fromkeys(terms))
