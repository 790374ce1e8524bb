"""What a citation stands behind: the words before its mark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.citations import Mark, marks, sentence_spans

_WORD = re.compile(r"\w")
_BLOCK = re.compile(r"\n\s*\n|\n\s*(?:[-*+•]|\d+[.)])\s|```|~~~")


@dataclass(frozen=True, slots=True)
class Claim:
    """What one mark stands behind. `place` is the mark's in `marks(text)`, `positions` are those it names.

    `said` holds the words since the mark before it; two texts where it stands between sentences and may mean either.
    `context` holds the whole sentence, and that with the sentences before it that no mark separates.
    """

    place: int
    positions: tuple[int, ...]
    said: tuple[str, ...]
    context: tuple[str, ...]


def claims(text: str, *, bare: bool = True) -> list[Claim]:
    """Return the claims behind the marks of a text. Behind code, or far from any sentence, one claims nothing."""
    found = marks(text, bare=bare)
    pieces, end = [], 0
    for mark in found:
        pieces += [text[end : mark.start], " " * (mark.end - mark.start)]
        end = mark.end
    blank = "".join([*pieces, text[end:]])
    spans = sentence_spans(blank)
    claimed = [_claim(place, found, blank, spans) for place in range(len(found))]
    return [claim for claim in claimed if any(claim.said)]


def _claim(place: int, found: Sequence[Mark], blank: str, spans: Sequence[tuple[int, int]]) -> Claim:
    mark = found[place]
    line_start, line_end = blank.rfind("\n", 0, mark.start) + 1, blank.find("\n", mark.end)
    line = blank[line_start : line_end if line_end >= 0 else len(blank)]
    if line.lstrip().startswith(("|", "#")):
        return Claim(place, mark.positions, (_joined(line.replace("|", " ")),), ())
    before = [span for span in spans if span[0] <= mark.start and not _BLOCK.search(blank, span[1], mark.start)]
    after = [span for span in spans if mark.end <= span[0] < line_start + len(line)]
    if not before:
        return Claim(place, mark.positions, tuple(_joined(blank[slice(*span)]) for span in after[:1]), ())
    start, end = before[-1]
    # Marks in a row stand behind the same words.
    separating = [one.end for one in found[:place] if _WORD.search(blank, one.end, mark.start)]
    clause, sentence = blank[max([start, *separating]) : min(end, mark.start)], blank[start:end]
    if not _WORD.search(clause):
        clause = sentence
    opening = max((block.end() for block in _BLOCK.finditer(blank, 0, start)), default=0)
    stretch = blank[max([opening, *(one for one in separating if one <= start)]) : end]
    between = mark.start >= end and bool(after)
    said = (clause, blank[slice(*after[0])]) if between else (clause,)
    return Claim(place, mark.positions, tuple(map(_joined, said)), (_joined(sentence), _joined(stretch)))


def _joined(text: str) -> str:
    return " ".join(text.split())
