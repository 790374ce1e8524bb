"""What a citation stands behind: the words before its mark."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from core.grounding.evidence import handle
from core.text.keywords import content_words
from core.types import Citation, Passage

# [p1] [p1, p3] [p1-p3] [p1 and p2] [p1 p2] 【p1】 [^p1] [P1] [passage 1]. An address behind a mark is the model's own:
# dropped.
# Blanks are never given back: what is no mark in the end must not be tried in every way that it could have been one.
_AND = r"(?:\s*+(?:[,;、，/&]|and|or|和|[-–—])(?:\s*+(?:and|or)\b)?\s*+|\s++(?=p))"
_MARK = re.compile(
    rf"\s?(?:\[\^?|[【［])\s*((?:passages?\s*p?|p)\s?\d{{1,3}}(?:{_AND}(?:passages?\s*+)?p?\s?\d{{1,3}})*)\s*[,;.]?\s*[\]】］]"
    r"(?:\([^()\s]*\))?",
    re.IGNORECASE,
)
# From models that drop the letter everywhere: [1] where it is no index, list or link.
_BARE = re.compile(r"(?<![\w\])=(,:])(?<![=(,:] )\s?\[(\d{1,2}(?:\s*,\s*\d{1,2})*)\](?![(\[:])")
_CODE = re.compile(r"(```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`)", re.DOTALL)
_UNFINISHED = re.compile(r"\s?[\[【［][\^pP\d\s,;、，/&]{0,40}\Z")
_OPENING = "[【［"
_NUMBER = re.compile(r"([-–—]?)\s*p?\s?(\d{1,3})", re.IGNORECASE)
# Code, headings and table rows are no sentences.
_NO_PROSE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|^[ \t]*(?:#{1,6}\s|\|)[^\n]*$", re.DOTALL | re.MULTILINE)
# Inline code is one piece, and a full stop inside a name or number ends nothing.
_SENTENCE = re.compile(r"(?:`[^`\n]*`|[.!?](?=\w)|[^.!?。！？\n])+(?:[.!?。！？]+[\"'”’)*_]*)?")


@dataclass(frozen=True, slots=True)
class Cited:
    """A reply whose marks are numbers. `dropped` counts the ids that named no passage or one that was refused."""

    text: str
    citations: tuple[Citation, ...]
    dropped: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a text cites, the blank before it included, and the positions (from 0) of the passages it names."""

    start: int
    end: int
    positions: tuple[int, ...]


def settled(text: str) -> str:
    """Return a streamed text without a mark at its end that may still be incomplete."""
    return _UNFINISHED.sub("", text)


def marks(text: str, *, bare: bool = True) -> list[Mark]:
    """Return the marks of a text in order; code has none. Bare numbers count where nothing names a passage's id."""
    found = _in_prose(_MARK, text)
    if bare and not found:
        found = _in_prose(_BARE, text)
    return [Mark(match.start(), match.end(), tuple(_positions(match[1]))) for match in found]


def resolve(
    text: str, passages: Sequence[Passage], refused: Collection[tuple[int, int]] = (), *, bare: bool = True
) -> Cited:
    """Replace passage ids by numbers in order of first mention. Code is left alone.

    Two passages of one document at one link share a number. `refused` holds what is left out: the place of a mark in
    `marks(text)` and a position that it names. `bare` as for `marks`.
    """
    numbers: dict[str, Citation] = {}
    pieces: list[str] = []
    dropped = end = 0
    for place, mark in enumerate(marks(text, bare=bare)):
        shown: dict[str, None] = {}
        for position in mark.positions:
            if not 0 <= position < len(passages) or (place, position) in refused:
                dropped += 1
                continue
            shown[f"[{_number(passages[position], numbers).n}]"] = None
        space = text[mark.start] if text[mark.start].isspace() and shown else ""
        pieces += [text[end : mark.start], space, *shown]
        end = mark.end
    return Cited("".join([*pieces, text[end:]]), tuple(numbers.values()), dropped)


def without_marks(text: str) -> str:
    """Return a quoted text in which nothing reads as one of our marks: its own [2] becomes (2)."""
    parts = _CODE.split(text)
    for form in (_MARK, _BARE):
        parts[::2] = [form.sub(lambda match: f"{match[0][0].strip(_OPENING)}({match[1]})", part) for part in parts[::2]]
    return "".join(parts)


def _in_prose(form: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return what matches outside code."""
    found: list[re.Match[str]] = []
    start = 0
    for code in [*(match.span() for match in _CODE.finditer(text)), (len(text), len(text))]:
        found += form.finditer(text, start, code[0])
        start = code[1]
    return found


def _positions(ids: str) -> list[int]:
    """Return the positions, from 0, that "p1, p3" or "p1-p3" names."""
    found: list[int] = []
    for dash, digits in _NUMBER.findall(ids):
        number = int(digits) - 1
        found += range(found[-1] + 1, number + 1) if dash and found and 0 < number - found[-1] < 20 else [number]
    return found


def _number(passage: Passage, numbers: dict[str, Citation]) -> Citation:
    place = passage.url or passage.id
    if place not in numbers:
        numbers[place] = Citation(
            len(numbers) + 1, passage.id, passage.source, passage.title, passage.path, passage.url
        )
    return numbers[place]


def sentences(text: str) -> list[str]:
    """Return the sentences of a text as they stand there; code blocks, headings and table rows are none."""
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return where `sentences(text)` begin and end."""
    hidden = _NO_PROSE.sub(lambda match: "\n" * len(match[0]), text)
    spans: list[tuple[int, int]] = []
    for match in _SENTENCE.finditer(hidden):
        body = match[0].strip()
        if content_words(body):
            start = match.start() + match[0].index(body)
            spans.append((start, start + len(body)))
    return spans


def mark_sentences(text: str, support: Mapping[int, Sequence[int]]) -> str:
    """Put marks behind sentences. `support` maps a place in `sentences(text)` to positions of passages, both from 0."""
    spans = sentence_spans(text)
    # From the last to the first, so that the places before stay right.
    for place in sorted(support, reverse=True):
        if not support[place]:
            continue
        start, end = spans[place]
        closing = re.search(r"[.!?。！？]+[\"'”’)*_]*\Z", text[start:end])
        at = start + closing.start() if closing else end
        mark = "[" + ", ".join(handle(position) for position in support[place]) + "]"
        text = f"{text[:at]} {mark}{text[at:]}"
    return text


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
