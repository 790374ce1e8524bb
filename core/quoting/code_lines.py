"""Cuts long code: the lines that a question is about, below those that they are part of, by their indentation."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.quoting.subject import Subject, tokenize

MAX_PARENTS = 4
ELLIPSIS = "…"

_COMMENTS = ("#", "//", "*", "/*", ";")
# The name of a section in TOML and INI: what is below it has no indentation.
_SECTION = re.compile(r"\[{1,2}[^\[\]\n]{1,80}\]")


def cut_code(code: str, subject: Subject, max_lines: int) -> str:
    """Return code of at most `max_lines` lines whole; of longer code, half as many lines with most of the subject.

    They begin with the comment above the first of them, and stand below the lines that they are part of.
    """
    lines = code.expandtabs(4).rstrip().split("\n")
    if len(lines) <= max_lines:
        return "\n".join(lines)
    count = max_lines // 2
    start = _find_start(lines, subject, count)
    end = start + count
    parents = _find_parents(lines, start)[-MAX_PARENTS:]
    return "\n".join([*parents, *lines[start:end], *([ELLIPSIS] if end < len(lines) else [])])


def _find_start(lines: Sequence[str], subject: Subject, count: int) -> int:
    """Return the first line about the subject of the `count` lines that have the most of it, or of its comment."""
    tokens = [tokenize(line) for line in lines]
    coverages = [
        subject.get_coverage(frozenset().union(*tokens[start : start + count]))
        for start in range(len(lines) - count + 1)
    ]
    first = coverages.index(max(coverages))
    start = next((number for number in range(first, first + count) if subject.get_coverage(tokens[number])), 0)
    while start > 0 and start > first - count and lines[start - 1].lstrip().startswith(_COMMENTS):
        start -= 1
    return start


def _find_parents(lines: Sequence[str], start: int) -> list[str]:
    """Return the lines above that have less indentation, outermost first, or the name of the section."""
    parents: list[str] = []
    indent = _get_indent(lines[start])
    for line in reversed(lines[:start]):
        if line.strip() and (_get_indent(line) < indent or (not parents and _SECTION.match(line))):
            indent = _get_indent(line)
            parents.insert(0, line)
    return parents


def _get_indent(line: str) -> int:
    return len(line) - len(line.lstrip())
