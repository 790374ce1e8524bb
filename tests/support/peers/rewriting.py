"""What a capable model replies to KIMAs when it is asked to complete a question: as little as the prompt asks for.

`core/llm/prompts/rewrite.md` has the forms: `SAME`, the key words that are missing, or the whole query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from core.language.keywords import content_words

REWRITE_MARK = "You rewrite the last question"
ARTICLES = frozenset(("a", "an", "the"))
# Words of a question that may stay beside what they point to.
POINTERS = frozenset(
    ("it", "its", "this", "that", "these", "those", "they", "them", "their", "there", "one", "and", "so", "then")
)
_EDGES = re.compile(r"^\W+|\W+$")


def to_rewrite_reply(question: str, completed: str) -> str:
    """Return the shortest form that says what the completed question says.

    >>> to_rewrite_reply("What is the default?", "What is the default of the cache of answers?")
    '+ cache of answers'
    >>> to_rewrite_reply("Can I turn it off?", "Can I turn off earlier answers given again?")
    '+ earlier answers given again'
    >>> to_rewrite_reply("Does it work on Slack?", "Does the cache work on Slack?")
    '+ cache'
    >>> to_rewrite_reply("Which license is it?", "which license is it")
    'SAME'
    >>> to_rewrite_reply("And who may do that?", "Who may change the cache?")
    'Who may change the cache?'
    """
    words = question.split()
    completed_words = completed.split()
    matcher = SequenceMatcher(
        None, [_to_plain_word(word) for word in words], [_to_plain_word(word) for word in completed_words]
    )
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    added = [word for _, _, _, start, end in changes for word in completed_words[start:end]]
    lost_words = [_to_plain_word(word) for _, start, end, _, _ in changes for word in words[start:end]]
    if not changes:
        return "SAME"
    missing_words = _to_key_words(added)
    is_shorter = 0 < len(missing_words) < len(completed_words)
    return f"+ {' '.join(missing_words).rstrip('?.!,')}" if is_shorter and not set(lost_words) - POINTERS else completed


def _to_key_words(words: Sequence[str]) -> list[str]:
    """Return words without articles, and without others in front that say nothing: at the end they end a name."""
    key_words = [word for word in words if _to_plain_word(word) not in ARTICLES]
    while key_words and not content_words(key_words[0]):
        key_words.pop(0)
    return key_words


def _to_plain_word(word: str) -> str:
    return _EDGES.sub("", word).lower()
