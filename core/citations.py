"""Citations: passage ids in a model's reply become numbered links; what the model did not cite is looked back for.

The model names ids; code makes the links (KIMAs 3.4). An id that was never retrieved is dropped and counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.evidence import handle
from core.rewrite import content_words
from core.types import Citation, Passage

# [p1] [p1, p3] [p1-p3] [p1 and p2] 【p1】 [^p1] [P1] [passage 1]. An address behind a mark is the model's own: dropped.
_AND = r"\s*(?:[,;、，&]|and|和|[-–—])\s*"
_MARK = re.compile(
    rf"\s?(?:\[\^?|【)\s*((?:passages?\s*p?|p)\s?\d{{1,3}}(?:{_AND}(?:passages?\s*)?p?\s?\d{{1,3}})*)\s*(?:\]|】)"
    r"(?:\([^()\s]*\))?",
    re.IGNORECASE,
)
# From models that drop the letter everywhere: [1] where it is no index, list or link.
_BARE = re.compile(r"(?<![\w\])=(,:])(?<![=(,:] )\s?\[(\d{1,2}(?:\s*,\s*\d{1,2})*)\](?![(\[:])")
_CODE = re.compile(r"(```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`)", re.DOTALL)
_UNFINISHED = re.compile(r"\s?(?:\[|【)[\^pP\d\s,;、，]{0,40}\Z")
_OPENING = "[【"
_NUMBER = re.compile(r"([-–—]?)\s*p?\s?(\d{1,3})", re.IGNORECASE)
# Code, headings and table rows are no sentences.
_NO_PROSE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|^[ \t]*(?:#{1,6}\s|\|)[^\n]*$", re.DOTALL | re.MULTILINE)
# Inline code is one piece, and a full stop inside a name or number ends nothing.
_SENTENCE = re.compile(r"(?:`[^`\n]*`|[.!?](?=\w)|[^.!?。！？\n])+(?:[.!?。！？]+[\"'”’)*_]*)?")
_SUPPORT = 0.5


@dataclass(frozen=True, slots=True)
class Cited:
    """A reply whose marks are numbers. `dropped` counts the ids that named no passage."""

    text: str
    citations: tuple[Citation, ...]
    dropped: int


def settled(text: str) -> str:
    """Return a streamed text without a mark at its end that may still be incomplete."""
    return _UNFINISHED.sub("", text)


def resolve(text: str, passages: Sequence[Passage]) -> Cited:
    """Replace passage ids by numbers in order of first mention. Code is left alone.

    Two passages of one document at one link share a number.
    """
    numbers: dict[str, Citation] = {}
    dropped = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal dropped
        marks: list[str] = []
        for position in _positions(match[1]):
            if not 0 <= position < len(passages):
                dropped += 1
                continue
            mark = f"[{_number(passages[position], numbers).n}]"
            if mark not in marks:
                marks.append(mark)
        space = match[0][0] if match[0][0].isspace() and marks else ""
        return space + "".join(marks)

    parts = _CODE.split(text)
    form = _MARK if any(map(_MARK.search, parts[::2])) else _BARE
    parts[::2] = [form.sub(replace, part) for part in parts[::2]]
    return Cited("".join(parts), tuple(numbers.values()), dropped)


def without_marks(text: str) -> str:
    """Return a quoted text in which nothing reads as one of our marks: its own [2] becomes (2)."""
    parts = _CODE.split(text)
    for form in (_MARK, _BARE):
        parts[::2] = [form.sub(lambda match: f"{match[0][0].strip(_OPENING)}({match[1]})", part) for part in parts[::2]]
    return "".join(parts)


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
    return [text[start:end] for start, end in _sentence_spans(text)]


def _sentence_spans(text: str) -> list[tuple[int, int]]:
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
    spans = _sentence_spans(text)
    # From the last to the first, so that the places before stay right.
    for place in sorted(support, reverse=True):
        if not support[place]:
            continue
        start, end = spans[place]
        closing = re.search(r"[.!?。！？]+[\"'”’)*_]*\Z", text[start:end])
        at = start + closing.start() if closing else end
        marks = "[" + ", ".join(handle(position) for position in support[place]) + "]"
        text = f"{text[:at]} {marks}{text[at:]}"
    return text


def overlap_support(text: str, passages: Sequence[Passage]) -> dict[int, list[int]]:
    """Find the passage behind each sentence by shared words: the look-back without a model.

    A passage supports a sentence when it holds at least half of the sentence's words of content, weighed by how rare
    they are among the passages.
    """
    vocabularies = [set(content_words(f"{passage.title} {passage.text}")) for passage in passages]
    support: dict[int, list[int]] = {}
    for place, sentence in enumerate(sentences(text)):
        weights = {
            word: 1 / (1 + sum(word in vocabulary for vocabulary in vocabularies)) for word in content_words(sentence)
        }
        shares = [
            sum(weight for word, weight in weights.items() if word in vocabulary) / sum(weights.values())
            for vocabulary in vocabularies
        ]
        best = max(range(len(shares)), key=shares.__getitem__, default=-1)
        if best >= 0 and shares[best] >= _SUPPORT:
            support[place] = [best]
    return support
