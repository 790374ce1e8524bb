"""What the layout of a passage says: a cell by row and column, a unit beside a setting, a question answered with no.

Each function compares one claim with it, and is silent unless the passage is clear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from core.language.facts import CHINESE_UNITS, UNITS, count_negations, extract_stems, has_quantity
from core.language.prose import CODE_SPAN, SENTENCE_END
from core.markup.statements import read_tables

_ALTERNATIVES = re.compile(r"[/,、]|\sor\s")
_PARENTHESES = re.compile(r"\([^()\n]{0,80}\)")
_DIGIT = re.compile(r"\d")
_UNITS = {**UNITS, **CHINESE_UNITS}
# A single letter is hardly ever a unit without a number before it.
_UNIT = "|".join(unit for unit in _UNITS if len(unit) > 1 or not unit.isascii())
_STATED_UNIT = re.compile(
    r"(?:\b(?:in|number of|units?(?: (?:is|are|of|in))?\W?)\s*|单位(?:是|为|：|:)?\s*)"
    rf"({_UNIT})s?(?![A-Za-z])",
    re.IGNORECASE,
)
_YES_NO_QUESTION = re.compile(
    r"#{1,6}\s+((?:(?:can|could|do|does|is|are|will|would|should|may|must|has|have)\b[^\n]{0,200}\?"
    r"|[^\n]{0,100}(?:吗|是否|能否|可否)[^\n]{0,100}))\s*",
    re.IGNORECASE,
)
_NO = re.compile(r"[*_]*(?:no\b|not (?:for now|yet|currently|at the moment)\b|不|否|没有|暂不)", re.IGNORECASE)
_PROHIBITION = re.compile(
    r"\b(?:do not|don['’]t|must not|mustn['’]t|should not|shouldn['’]t|never|cannot)\b"
    r"|请勿|切勿|不要|不得|不能|不可|禁止",
    re.IGNORECASE,
)
_PERMISSION = re.compile(r"\b(?:can|may|could|allows? you to)\b|可以|能够|可加", re.IGNORECASE)
# A claim with a bound says less than the cell.
_BOUND = re.compile(
    r"\b(?:than|under|over|below|above|within|between|up to|at (?:most|least))\b"
    r"|不到|不足|超过|以上|以下|以内|至少|最多|之间",
    re.IGNORECASE,
)
# The part of a question's words that a claim must have to be about the same.
MIN_QUESTION_SHARE = 0.8


def contradicts_layout(claim: str, text: str) -> bool:
    """Return whether a claim contradicts a cell, a unit, a prohibition, or the answer to a question of a text.

    >>> contradicts_layout("You can use tokens for TLS.", "## Can I use tokens for TLS?\\nNo, use keys.")
    True
    """
    return (
        gives_other_cell(claim, text)
        or gives_other_unit(claim, text)
        or allows_what_is_forbidden(claim, text)
        or affirms_what_is_denied(claim, text)
    )


def gives_other_cell(claim: str, text: str) -> bool:
    """Return whether a claim names one row and one column of a table, and a value of another cell.

    >>> table = "| Size | 7B | 14B |\\n|---|---|---|\\n| Full | 60GB | 120GB |\\n| Fast / Small | 16GB | 32GB |"
    >>> gives_other_cell("Small takes 32GB at 7B.", table), gives_other_cell("Small takes 16GB at 7B.", table)
    (True, False)
    """
    if not _DIGIT.search(claim) or _BOUND.search(claim):
        return False
    return any(_gives_other_cell(claim, table.header, table.rows) for table in read_tables(text))


def _gives_other_cell(claim: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    columns = [index for index, name in enumerate(header) if index and _has_token(claim, name)]
    matched_rows = [row for row in rows if any(_has_token(claim, name) for name in _split_names(row[0]))]
    if len(columns) != 1 or len(matched_rows) != 1 or len(matched_rows[0]) <= columns[0]:
        return False
    cell = matched_rows[0][columns[0]]
    other_values = {value for row in rows for value in row[1:] if _DIGIT.search(value)} - {cell}
    is_value_given = any(_has_token(claim, value) for value in other_values)
    return bool(_DIGIT.search(cell)) and not _has_token(claim, cell) and is_value_given


def gives_other_unit(claim: str, text: str) -> bool:
    """Return whether a claim gives a setting another unit than the line that has it.

    >>> gives_other_unit("`ttl` is the number of hours.", "ttl: 3  # unit is day"), gives_other_unit("`a`: in s", "a")
    (True, False)
    """
    names = CODE_SPAN.findall(claim)
    claimed_units = _find_units(claim)
    if len(names) != 1 or len(claimed_units) != 1:
        return False
    units_by_line = [_find_units(line) for line in text.split("\n") if _has_token(line, names[0])]
    stated_units = [units for units in units_by_line if units]
    return bool(stated_units) and all(
        len(units) == 1 and not any(has_quantity(unit, claimed_units) for unit in units) for units in stated_units
    )


def allows_what_is_forbidden(claim: str, text: str) -> bool:
    """Return whether a claim permits what every sentence about the same name forbids.

    >>> allows_what_is_forbidden("You can add `fast` to merges.", "Do not use `fast` for merges. Merge first.")
    True
    """
    names = CODE_SPAN.findall(claim)
    if len(names) != 1 or not _PERMISSION.search(claim) or count_negations(claim):
        return False
    sentences = [part for part in SENTENCE_END.split(text) if _has_token(part, names[0])]
    return bool(sentences) and all(_PROHIBITION.search(part) for part in sentences)


def affirms_what_is_denied(claim: str, text: str) -> bool:
    """Return whether a claim affirms a question that a text asks in a heading, and answers with no."""
    if count_negations(claim):
        return False
    claim_stems = set(extract_stems(claim))
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    for line, answer in pairwise(lines):
        if (question := _YES_NO_QUESTION.fullmatch(line)) and _NO.match(answer) and not count_negations(question[1]):
            stems = set(extract_stems(question[1]))
            if len(stems) > 1 and len(stems & claim_stems) >= MIN_QUESTION_SHARE * len(stems):
                return True
    return False


def _find_units(text: str) -> set[float]:
    return {_UNITS[unit.lower()] for unit in _STATED_UNIT.findall(text)}


def _split_names(label: str) -> list[str]:
    return [name.strip("` ") for name in _ALTERNATIVES.split(_PARENTHESES.sub("", label)) if len(name.strip("` ")) > 1]


def _has_token(text: str, token: str) -> bool:
    """Return whether a text has a name or value as a whole."""
    if len(token) < 2 and not token.isdigit():
        return False
    return bool(re.search(rf"(?<![\w.-]){re.escape(token)}(?![\w-]|\.\w)", text, re.IGNORECASE | re.ASCII))
