"""Decides whether two questions ask the same, and whether an answer stays valid.

Vectors alone cannot decide: "from Redis to Postgres" and "from Postgres to Redis" have a cosine of 0.99, versions 1.2
and 1.3 one of 0.97. So the words must agree as well: the same things in the same order, the same numbers, identifiers,
negations and question words. Only the phrasing may differ.
"""

from __future__ import annotations

import re
import unicodedata

from core.language.follow_ups import names_own_subject
from core.language.keywords import content_words
from core.language.lexicon import get_words
from core.language.tokens import CJK_CHARACTER, stem
from core.types import Question

MAX_QUESTION_CHARS = 600

# Now or today: the answer changes.
_TIME_REFERENCE = re.compile(
    r"\b(now|nowadays|today|tonight|tomorrow|yesterday|current|currently|latest|newest|recent|recently|lately|ago|yet"
    r"|still|upcoming|at (?:the|this) (?:moment|time)|so far"
    r"|(?:this|last|next|past) (?:\w+ )?"
    r"(?:second|minute|hour|day|week|weekend|month|quarter|year|morning|evening|night|time)s?"
    r"|(?:what|which)(?: is|'s|’s)?(?: the)? (?:time|date|day|year|month|week)"
    r"|heute|jetzt|gestern|morgen|aktuell\w*|derzeit|aujourd'hui|maintenant|hier|demain|hoy|ahora|ayer|mañana)\b"
    r"|现在|目前|今天|今日|昨天|明天|刚刚|最新|最近|当前|此刻|本周|本月|今年|去年|几点|星期几|今は|今日|昨日|明日|지금|오늘",
    re.IGNORECASE,
)
# In a conversation these refer to it as well: to the asker, and to earlier messages.
_CONVERSATION_REFERENCE = re.compile(
    r"\b(my|mine|our|ours|we|us|i'm|i’m|i am|i have|i've|i’ve|above|earlier|before|previous\w*|sa(?:y|ys|id)|mention\w*"
    r"|wrote|told|again|another|more|other|both|such)\b|我|我们|刚|之前|以上|又|再|还",
    re.IGNORECASE,
)
_EDGE_PUNCTUATION = " \t\r\n?!.,;:…。？！，；：、"
# The search for a capital after the first letter is anchored: a word may be as long as a whole message.
_IDENTIFIER_LIKE = re.compile(r"[\d_+#@$%=*/\\<>|~^{}()\[\]]|\w[.:]+\w|^-|^\W*+\w.*[A-Z]", re.DOTALL)

_QUESTION_WORDS = frozenset(("what", "which", "who", "whose", "whom", "when", "where", "why", "how"))
# May, must and should, is, was and will make different questions about the same things.
_MODALITIES = ("must_words", "should_words", "past_words", "will_words")
_AMOUNT = re.compile(r"\bhow (many|much|long|often|big|large|fast|old|far|soon)\b")


def is_self_contained(question: Question) -> bool:
    """Return whether an answer depends only on the knowledge, not on the conversation or the time."""
    if _TIME_REFERENCE.search(question.text) or not normalize(question.text):
        return False
    # In a group with names, a turn without an author is the message that this one replies to.
    if question.author_id and any(turn.role == "user" and not turn.author_id for turn in question.history):
        return False
    # When in doubt, the conversation counts: a cached answer has none.
    return not question.history or (
        names_own_subject(question.text) and not _CONVERSATION_REFERENCE.search(question.text)
    )


def normalize(text: str) -> str:
    """Return a question without irrelevant differences: white space, closing punctuation, capitals without meaning.

    >>> normalize("  How do I install it??  ")
    'how do i install it'
    """
    words = unicodedata.normalize("NFC", text).split()
    folded_words = (word if _IDENTIFIER_LIKE.search(word) else word.casefold() for word in words)
    return " ".join(folded_words).strip(_EDGE_PUNCTUATION)


def canonical_form(text: str) -> str:
    """Return a canonical form that questions of the same meaning share; "" if it is unclear."""
    if len(text) > MAX_QUESTION_CHARS:
        return ""
    text = unicodedata.normalize("NFC", text).replace("’", "'")
    text = re.sub(r"\bcan't\b", "can not", re.sub(r"n't\b", " not", text), flags=re.IGNORECASE)
    things = _find_things(text)
    return "\n".join((" ".join(_get_question_features(text.lower())), " ".join(things))) if things else ""


def _get_question_features(text: str) -> list[str]:
    """Return the sorted question words and modal verbs: how and why, must and may are different questions."""
    words = re.findall(r"[a-z]+", text)
    question_words = {"what" if word == "which" else word for word in words if word in _QUESTION_WORDS}
    # "How is it done" and "how should it be done" are the same question.
    modality = [
        name for name in _MODALITIES if "how" not in question_words and not get_words("en", name).isdisjoint(words)
    ]
    return sorted({*question_words, *modality, *(f"how {amount}" for amount in _AMOUNT.findall(text))})


def _find_things(text: str) -> list[str]:
    """Return the words that a question is about, in their order: a name as it is written, the stem of others."""
    things = list[str]()
    for raw_word in text.split():
        word = re.sub(r"'s$", "", raw_word.strip("`\"'“”" + _EDGE_PUNCTUATION).removesuffix("()"))
        lower_word = word.lower()
        if lower_word in get_words("en", "negations"):
            things.append("not")
        elif lower_word in get_words("en", "meaningful_stop_words"):
            things.append(lower_word)
        elif CJK_CHARACTER.search(word) or _IDENTIFIER_LIKE.search(word):
            things.append(word)
        elif lower_word not in _QUESTION_WORDS | get_words("en", "padding_words"):
            things += map(stem, content_words(lower_word.replace("-", " ")))
    return things
