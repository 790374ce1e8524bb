"""What a capable model replies to KIMAs when it is asked to complete a question: as little as the prompt asks for.

`core/llm/prompts/rewrite.md` has the forms: `SAME`, the words that are missing, or the whole query.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

REWRITE_MARK = "You rewrite the last question"
# Words of a question that may stay beside what they point to.
POINTERS = frozenset(
    ("it", "its", "this", "that", "these", "those", "they", "them", "their", "there", "one", "and", "so", "then")
)
_EDGES = re.compile(r"^\W+|\W+$")


def to_rewrite_reply(question: str, completed: str) -> str:
    """Return the shortest form that says what the completed question says.

    >>> to_rewrite_reply("What is the default?", "What is the default of the cache?")
    '+ of the cache'
    >>> to_rewrite_reply("Does it work on Slack?", "Does the cache work on Slack?")
    '+ the cache'
    >>> to_rewrite_reply("Which license is it?", "which license is it")
    'SAME'
    >>> to_rewrite_reply("And who may do that?", "Who may change the cache?")
    'Who may change the cache?'
    """
    words, completed_words = question.split(), completed.split()
    matcher = SequenceMatcher(None, [_plain(word) for word in words], [_plain(word) for word in completed_words])
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    added = [" ".join(completed_words[start:end]) for _, _, _, start, end in changes if end > start]
    lost = [_plain(word) for _, start, end, _, _ in changes for word in words[start:end]]
    if not changes:
        return "SAME"
    missing = " ".join(added).rstrip("?.!,")
    is_shorter = missing and len(missing.split()) < len(completed_words)
    return f"+ {missing}" if is_shorter and not set(lost) - POINTERS else completed


def _plain(word: str) -> str:
    return _EDGES.sub("", word).lower()
