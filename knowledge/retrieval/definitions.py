"""Identifiers in a question, and the passages that define them."""

from __future__ import annotations

import re
from collections.abc import Collection

from core.evidence.ranking import NON_CODE_KINDS
from core.language.tokens import query_tokens
from core.types import Passage

# A word that only code writes: with an underscore, a capital inside, or parentheses behind; also in backticks.
_IDENTIFIER = re.compile(
    r"`([^`\n]{1,200})`|\b(\w*_\w+|[A-Za-z]\w*?[a-z\d][A-Z]\w*|[A-Z]{2,}[a-z]\w*)|\b(\w+)(?=\(\))", re.ASCII
)
_NAME = re.compile(r"[A-Za-z_]\w{2,}", re.ASCII)


def find_identifiers(query: str) -> frozenset[str]:
    """Return the identifiers of a question, also each name of a dotted one.

    >>> sorted(find_identifiers("Why does `study.tell` ignore MedianPruner and n_jobs?"))
    ['MedianPruner', 'n_jobs', 'study', 'tell']
    """
    groups = (match[1] or match[2] or match[3] for match in _IDENTIFIER.finditer(query))
    return frozenset(name for group in groups for name in _NAME.findall(group) if query_tokens(name))


def is_definition(passage: Passage, identifiers: Collection[str]) -> bool:
    """Return whether a passage of code defines one of these: its title ends in the name of a class or function."""
    if passage.kind in NON_CODE_KINDS:
        return False
    return any(name in identifiers for name in _NAME.findall(passage.title.rpartition(" > ")[2]))
