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

# [p1] [p1, p3] [p1][p2] 【p1】 [^p1] [P1]; and, from models that drop the letter, [1] where it is not an index.
_MARK = re.compile(
    r"\s?(?:\[\^?|【)\s*((?:passage\s*)?p\s?\d{1,3}(?:\s*[,;、，]\s*p?\s?\d{1,3})*)\s*(?:\]|】)"
    r"|(?<![\w\])])\s?\[(\d{1,2}(?:\s*,\s*\d{1,2})*)\](?![(\[:])",
    re.IGNORECASE,
)
_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_UNFINISHED = re.compile(r"\s?(?:\[|【)[\^pP\d\s,;、，]{0,40}\Z")
_NUMBER = re.compile(r"\d{1,3}")
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
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
        for digits in _NUMBER.findall(match[1] or match[2]):
            position = int(digits) - 1
            if not 0 <= position < len(passages):
                dropped += 1
                continue
            mark = f"[{_number(passages[position], numbers).n}]"
            if mark not in marks:
                marks.append(mark)
        space = match[0][0] if match[0][0].isspace() and marks else ""
        return space + "".join(marks)

    parts = _CODE.split(text)
    parts[::2] = [_MARK.sub(replace, part) for part in parts[::2]]
    return Cited("".join(parts), tuple(numbers.values()), dropped)


def _number(passage: Passage, numbers: dict[str, Citation]) -> Citation:
    place = passage.url or passage.id
    if place not in numbers:
        numbers[place] = Citation(
            len(numbers) + 1, passage.id, passage.source, passage.title, passage.path, passage.url
        )
    return numbers[place]


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, outside code blocks, as they stand there."""
    found = (sentence.strip() for part in _FENCED.split(text) for sentence in _SENTENCE.findall(part))
    return [sentence for sentence in found if content_words(sentence)]


def mark_sentences(text: str, support: Mapping[str, Sequence[int]]) -> str:
    """Put marks behind sentences. `support` maps a sentence of `sentences(text)` to positions of passages, from 0."""
    for sentence, positions in support.items():
        if not positions or sentence not in text:
            continue
        marks = "[" + ", ".join(handle(position) for position in positions) + "]"
        end = re.search(r"[.!?。！？]+[\"'”’)*_]*\Z", sentence)
        before = sentence[: end.start()] if end else sentence
        text = text.replace(sentence, f"{before} {marks}{end[0] if end else ''}", 1)
    return text


def overlap_support(text: str, passages: Sequence[Passage]) -> dict[str, list[int]]:
    """Find the passage behind each sentence by shared words: the look-back without a model.

    A passage supports a sentence when it holds at least half of the sentence's words of content, weighed by how rare
    they are among the passages.
    """
    vocabularies = [set(content_words(f"{passage.title} {passage.text}")) for passage in passages]
    support: dict[str, list[int]] = {}
    for sentence in sentences(text):
        weights = {
            word: 1 / (1 + sum(word in vocabulary for vocabulary in vocabularies)) for word in content_words(sentence)
        }
        shares = [
            sum(weight for word, weight in weights.items() if word in vocabulary) / sum(weights.values())
            for vocabulary in vocabularies
        ]
        best = max(range(len(shares)), key=shares.__getitem__, default=-1)
        if best >= 0 and shares[best] >= _SUPPORT:
            support[sentence] = [best]
    return support
