"""Typing errors in a question: a word that no passage has is read as a word of the passages that is one letter off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.errors import KimasError
from core.language.spelling import (
    MAX_SUSPECTS,
    find_suspects,
    is_english,
    iter_near_words,
    may_be_english,
    prepare_english_words,
    replace_words,
)
from core.language.tokens import lexical_tokens
from core.observability.logs import get_logger
from core.ports import Library
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error

_log = get_logger(__name__)

STAGE = "spelling"
# So many passages have a word that no dictionary has, if it is one.
MIN_PASSAGES = 2


async def correct_spelling(query: str, library: Library, budget: Budget) -> str:
    """Return a query with the words of the passages in place of those that were mistyped.

    The query itself where every word is known or its language is not English, and where the store cannot count words,
    is too slow or fails.
    """
    suspects = find_suspects(query)
    if not suspects:
        return query
    corrections = await budget.run_stage(STAGE, capture_error(_find_corrections(query, suspects, library)), dict)
    if isinstance(corrections, KimasError):
        _log.warning("question.spelling_unknown", error=str(corrections))
        budget.degrade(STAGE, "failed")
        return query
    if not corrections:
        return query
    _log.info("question.spelling_corrected", words=len(corrections))
    return replace_words(query, corrections)


async def _find_corrections(query: str, suspects: Sequence[str], library: Library) -> Mapping[str, str]:
    weights = await library.term_weights(" ".join(suspects))
    if not weights:
        return {}
    # A word whose every form is unknown: of a known one, passages have at least a part.
    unknown = [word for word in suspects if not any(weights.get(token, 1.0) for token in lexical_tokens(word).split())]
    if not unknown:
        return {}
    await prepare_english_words()
    mistyped = [word for word in unknown if not is_english(word)]
    # The dictionary knows English alone: a word of another language would be taken for a typing error.
    if not 0 < len(mistyped) <= MAX_SUSPECTS or not may_be_english(query):
        return {}
    near_words = {word: list(iter_near_words(word)) for word in mistyped}
    counts = await library.count_words([near for words in near_words.values() for near in words])
    corrections = {word: _choose(near, counts) for word, near in near_words.items()}
    return {word: near for word, near in corrections.items() if near}


def _choose(near_words: Sequence[str], counts: Mapping[str, int]) -> str:
    """Return the most frequent of the near words; "" where none is in use.

    What is no English word and stands in one passage alone may be a typing error itself.
    """
    known = [near for near in near_words if near in counts]
    used = [near for near in known if counts[near] >= MIN_PASSAGES or is_english(near)]
    return max(used, key=lambda near: counts[near], default="")
