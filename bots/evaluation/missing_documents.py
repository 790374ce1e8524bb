"""Names the documents of a data set that are not in the knowledge, with names that may have been meant."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from difflib import get_close_matches

MAX_NAMES = 10
# Comparing two names takes a tenth of a millisecond, and the knowledge may have hundreds of thousands.
MAX_COMPARED_NAMES = 2
MAX_CANDIDATES = 2000


def describe_missing(names: Sequence[str], document_names: Collection[str]) -> str:
    """Return how a sentence about them ends: the first names of no document, the first two with a similar one."""
    distinct_names = list(dict.fromkeys(names))
    first_names = distinct_names[:MAX_NAMES]
    similar_names = [find_similar_name(name, document_names) for name in first_names[:MAX_COMPARED_NAMES]]
    described_names = [
        f"{name} (there is {similar_name})" if similar_name else name
        for name, similar_name in zip(first_names, similar_names, strict=False)
    ]
    described_names += first_names[MAX_COMPARED_NAMES:]
    return (", such as " if len(distinct_names) > MAX_NAMES else ". Not there: ") + ", ".join(described_names)


def find_similar_name(name: str, document_names: Collection[str]) -> str:
    """Return the document that a name seems to mean, or "".

    That is one whose path ends as the name does, or the most similar of those that begin and end like it.
    """
    longer_names = [other_name for other_name in document_names if other_name.endswith(f"/{name}")]
    shorter_names = [other_name for other_name in document_names if name.endswith(f"/{other_name}")]
    if same_ends := longer_names or shorter_names:
        return min(same_ends, key=lambda other_name: (abs(len(other_name) - len(name)), other_name))

    def count_shared(other_name: str) -> int:
        return _count_equal(name, other_name) + _count_equal(name[::-1], other_name[::-1])

    candidates = heapq.nlargest(MAX_CANDIDATES, sorted(document_names), key=count_shared)
    return next(iter(get_close_matches(name, candidates, 1)), "")


def _count_equal(first: str, second: str) -> int:
    """Return with how many equal characters two texts begin."""
    equal_count = 0
    for character, other_character in zip(first, second, strict=False):
        if character != other_character:
            break
        equal_count += 1
    return equal_count
