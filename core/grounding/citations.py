"""What a citation stands behind: the words before its mark."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from core.grounding.evidence import passage_ref
from core.text.keywords import content_words
from core.types import Citation, Passage

# [p1] [p1, p3] [p1-p3] [p1 and p2] [p1 p2] 【p1】 [^p1] [P1] [passage 1]. An address behind a mark is the model's own:
# dropped.
# Blanks are never given back: what is no mark in the end must not be tried in every way that it could have been one.
_MARKER_SEPARATOR = r"(?:\s*+(?:[,;、，/&]|and|or|和|[-–—])(?:\s*+(?:and|or)\b)?\s*+|\s++(?=p))"
_MARKER = re.compile(
    rf"\s?(?:\[\^?|[【［])\s*((?:passages?\s*p?|p)\s?\d{{1,3}}(?:{_MARKER_SEPARATOR}(?:passages?\s*+)?p?\s?\d{{1,3}})*)\s*[,;.]?\s*[\]】］]"
    r"(?:\([^()\s]*\))?",
    re.IGNORECASE,
)
# From models that drop the letter everywhere: [1] where it is no index, list or link.
_BARE_MARKER = re.compile(r"(?<![\w\])=(,:])(?<![=(,:] )\s?\[(\d{1,2}(?:\s*,\s*\d{1,2})*)\](?![(\[:])")
_CODE = re.compile(r"(```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`)", re.DOTALL)
_PARTIAL_MARKER = re.compile(r"\s?[\[【［][\^pP\d\s,;、，/&]{0,40}\Z")
_OPENING_BRACKETS = "[【［"
_NUMBER = re.compile(r"([-–—]?)\s*p?\s?(\d{1,3})", re.IGNORECASE)
# Code, headings and table rows are no sentences.
_NON_PROSE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|^[ \t]*(?:#{1,6}\s|\|)[^\n]*$", re.DOTALL | re.MULTILINE)
# Inline code is one piece, and a full stop inside a name or number ends nothing.
_SENTENCE = re.compile(r"(?:`[^`\n]*`|[.!?](?=\w)|[^.!?。！？\n])+(?:[.!?。！？]+[\"'”’)*_]*)?")


@dataclass(frozen=True, slots=True)
class ResolvedCitations:
    """A reply whose marks are numbers. `dropped` counts the ids that named no passage or one that was refused."""

    text: str
    citations: tuple[Citation, ...]
    dropped_count: int


@dataclass(frozen=True, slots=True)
class CitationMarker:
    """Where a text cites, the blank before it included, and the positions (from 0) of the passages it names."""

    start: int
    end: int
    positions: tuple[int, ...]


def trim_partial_marker(text: str) -> str:
    """Return a streamed text without a mark at its end that may still be incomplete."""
    return _PARTIAL_MARKER.sub("", text)


def find_markers(text: str, *, allow_bare: bool = True) -> list[CitationMarker]:
    """Return the marks of a text in order; code has none. Bare numbers count where nothing names a passage's id."""
    matches = _find_in_prose(_MARKER, text)
    if allow_bare and not matches:
        matches = _find_in_prose(_BARE_MARKER, text)
    return [CitationMarker(match.start(), match.end(), tuple(_parse_positions(match[1]))) for match in matches]


def resolve_markers(
    text: str, passages: Sequence[Passage], rejections: Collection[tuple[int, int]] = (), *, allow_bare: bool = True
) -> ResolvedCitations:
    """Replace passage ids by numbers in order of first mention. Code is left alone.

    Two passages of one document at one link share a number. `refused` holds what is left out: the place of a mark in
    `marks(text)` and a position that it names. `bare` as for `marks`.
    """
    citations_by_link: dict[str, Citation] = {}
    segments: list[str] = []
    dropped_count = end = 0
    for index, marker in enumerate(find_markers(text, allow_bare=allow_bare)):
        labels: dict[str, None] = {}
        for position in marker.positions:
            if not 0 <= position < len(passages) or (index, position) in rejections:
                dropped_count += 1
                continue
            labels[f"[{_get_citation(passages[position], citations_by_link).n}]"] = None
        space = text[marker.start] if text[marker.start].isspace() and labels else ""
        segments += [text[end : marker.start], space, *labels]
        end = marker.end
    return ResolvedCitations("".join([*segments, text[end:]]), tuple(citations_by_link.values()), dropped_count)


def strip_markers(text: str) -> str:
    """Return a quoted text in which nothing reads as one of our marks: its own [2] becomes (2)."""
    segments = _CODE.split(text)
    for pattern in (_MARKER, _BARE_MARKER):
        segments[::2] = [
            pattern.sub(lambda match: f"{match[0][0].strip(_OPENING_BRACKETS)}({match[1]})", segment)
            for segment in segments[::2]
        ]
    return "".join(segments)


def _find_in_prose(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return what matches outside code."""
    matches: list[re.Match[str]] = []
    start = 0
    for code_span in [*(match.span() for match in _CODE.finditer(text)), (len(text), len(text))]:
        matches += pattern.finditer(text, start, code_span[0])
        start = code_span[1]
    return matches


def _parse_positions(ids: str) -> list[int]:
    """Return the positions, from 0, that "p1, p3" or "p1-p3" names."""
    positions: list[int] = []
    for dash, digits in _NUMBER.findall(ids):
        number = int(digits) - 1
        positions += (
            range(positions[-1] + 1, number + 1) if dash and positions and 0 < number - positions[-1] < 20 else [number]
        )
    return positions


def _get_citation(passage: Passage, citations_by_link: dict[str, Citation]) -> Citation:
    link = passage.url or passage.id
    if link not in citations_by_link:
        citations_by_link[link] = Citation(
            len(citations_by_link) + 1, passage.id, passage.source, passage.title, passage.path, passage.url
        )
    return citations_by_link[link]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text as they stand there; code blocks, headings and table rows are none.

    >>> split_sentences("Install it first. Then run it [1]. 完成。")
    ['Install it first.', 'Then run it [1].', '完成。']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return where `sentences(text)` begin and end."""
    prose = _NON_PROSE.sub(lambda match: "\n" * len(match[0]), text)
    spans: list[tuple[int, int]] = []
    for match in _SENTENCE.finditer(prose):
        body = match[0].strip()
        if content_words(body):
            start = match.start() + match[0].index(body)
            spans.append((start, start + len(body)))
    return spans


def insert_markers(text: str, support: Mapping[int, Sequence[int]]) -> str:
    """Put marks behind sentences. `support` maps a place in `sentences(text)` to positions of passages, both from 0."""
    spans = sentence_spans(text)
    # From the last to the first, so that the places before stay right.
    for index in sorted(support, reverse=True):
        if not support[index]:
            continue
        start, end = spans[index]
        closing = re.search(r"[.!?。！？]+[\"'”’)*_]*\Z", text[start:end])
        offset = start + closing.start() if closing else end
        marker = "[" + ", ".join(passage_ref(position) for position in support[index]) + "]"
        text = f"{text[:offset]} {marker}{text[offset:]}"
    return text


_WORD = re.compile(r"\w")
_BLOCK_BOUNDARY = re.compile(r"\n\s*\n|\n\s*(?:[-*+•]|\d+[.)])\s|```|~~~")


@dataclass(frozen=True, slots=True)
class Claim:
    """What one mark stands behind. `place` is the mark's in `marks(text)`, `positions` are those it names.

    `said` holds the words since the mark before it; two texts where it stands between sentences and may mean either.
    `context` holds the whole sentence, and that with the sentences before it that no mark separates.
    """

    marker_index: int
    positions: tuple[int, ...]
    texts: tuple[str, ...]
    context: tuple[str, ...]


def extract_claims(text: str, *, allow_bare: bool = True) -> list[Claim]:
    """Return the claims behind the marks of a text. Behind code, or far from any sentence, one claims nothing."""
    markers = find_markers(text, allow_bare=allow_bare)
    segments, end = [], 0
    for marker in markers:
        segments += [text[end : marker.start], " " * (marker.end - marker.start)]
        end = marker.end
    masked_text = "".join([*segments, text[end:]])
    spans = sentence_spans(masked_text)
    candidates = [_build_claim(marker_index, markers, masked_text, spans) for marker_index in range(len(markers))]
    return [claim for claim in candidates if any(claim.texts)]


def _build_claim(
    marker_index: int, markers: Sequence[CitationMarker], masked_text: str, spans: Sequence[tuple[int, int]]
) -> Claim:
    marker = markers[marker_index]
    line_start, line_end = masked_text.rfind("\n", 0, marker.start) + 1, masked_text.find("\n", marker.end)
    line = masked_text[line_start : line_end if line_end >= 0 else len(masked_text)]
    if line.lstrip().startswith(("|", "#")):
        return Claim(marker_index, marker.positions, (_collapse_whitespace(line.replace("|", " ")),), ())
    spans_before = [
        span
        for span in spans
        if span[0] <= marker.start and not _BLOCK_BOUNDARY.search(masked_text, span[1], marker.start)
    ]
    spans_after = [span for span in spans if marker.end <= span[0] < line_start + len(line)]
    if not spans_before:
        return Claim(
            marker_index,
            marker.positions,
            tuple(_collapse_whitespace(masked_text[slice(*span)]) for span in spans_after[:1]),
            (),
        )
    start, end = spans_before[-1]
    # Marks in a row stand behind the same words.
    marker_ends = [
        earlier_marker.end
        for earlier_marker in markers[:marker_index]
        if _WORD.search(masked_text, earlier_marker.end, marker.start)
    ]
    clause, sentence = masked_text[max([start, *marker_ends]) : min(end, marker.start)], masked_text[start:end]
    if not _WORD.search(clause):
        clause = sentence
    block_start = max((block.end() for block in _BLOCK_BOUNDARY.finditer(masked_text, 0, start)), default=0)
    block_text = masked_text[
        max([block_start, *(marker_end for marker_end in marker_ends if marker_end <= start)]) : end
    ]
    is_between_sentences = marker.start >= end and bool(spans_after)
    texts = (clause, masked_text[slice(*spans_after[0])]) if is_between_sentences else (clause,)
    return Claim(
        marker_index,
        marker.positions,
        tuple(map(_collapse_whitespace, texts)),
        (_collapse_whitespace(sentence), _collapse_whitespace(block_text)),
    )


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())
