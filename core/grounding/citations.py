"""Citation markers: finding, resolving and inserting them, and the claim that each marker belongs to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from core.grounding.evidence import passage_ref
from core.text.keywords import content_words
from core.types import Citation, Passage

# [p1] [p1, p3] [p1-p3] [p1 and p2] [p1 p2] 【p1】 [^p1] [P1] [passage 1]. A URL after a marker is the model's invention
# and dropped. Possessive quantifiers, because backtracking over text that is no marker in the end takes too long.
_MARKER_SEPARATOR = r"(?:\s*+(?:[,;、，/&]|and|or|和|[-–—])(?:\s*+(?:and|or)\b)?\s*+|\s++(?=p))"
_MARKER = re.compile(
    rf"\s?(?:\[\^?|[【［])\s*((?:passages?\s*p?|p)\s?\d{{1,3}}(?:{_MARKER_SEPARATOR}(?:passages?\s*+)?p?\s?\d{{1,3}})*)\s*+(?:[,;.]\s*+)?[\]】］]"
    r"(?:\([^()\s]*\))?",
    re.IGNORECASE,
)
# From models that always drop the letter: [1], unless it is an index, a list or a link.
_BARE_MARKER = re.compile(r"(?<![\w\])=(,:])(?<![=(,:] )\s?\[(\d{1,2}(?:\s*,\s*\d{1,2})*)\](?![(\[:])")
_CODE = re.compile(r"(```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`)", re.DOTALL)
_PARTIAL_MARKER = re.compile(r"\s?[\[【［][\^pP\d\s,;、，/&]{0,40}\Z")
_MAX_PARTIAL_CHARS = 42
_OPENING_BRACKETS = "[【［"
_OPENING_BRACKET = re.compile(f"[{re.escape(_OPENING_BRACKETS)}]")
_NUMBER = re.compile(r"([-–—]?)\s{0,9}p?\s?(\d{1,3})", re.IGNORECASE)
# Code, headings and table rows are not sentences.
_NON_PROSE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|^[ \t]*(?:#{1,6}\s|\|)[^\n]*$", re.DOTALL | re.MULTILINE)
# Inline code is one piece, and a full stop inside a name or number ends no sentence.
_SENTENCE = re.compile(r"(?:`[^`\n]*`|[.!?](?=\w)|[^.!?。！？\n])+(?:[.!?。！？]+[\"'”’)*_]*)?")


@dataclass(frozen=True, slots=True)
class ResolvedCitations:
    """A reply whose markers are numbers. `dropped_count` counts the ids of unknown passages and rejected citations."""

    text: str
    citations: tuple[Citation, ...]
    dropped_count: int


@dataclass(frozen=True, slots=True)
class CitationMarker:
    """The span of a marker with the blank before it, and the positions (from 0) of the passages that it names."""

    start: int
    end: int
    positions: tuple[int, ...]


def trim_partial_marker(text: str) -> str:
    """Return a streamed text without the marker at its end, which may still be incomplete."""
    match = _PARTIAL_MARKER.search(text, max(0, len(text) - _MAX_PARTIAL_CHARS))
    return text[: match.start()] if match else text


def find_markers(text: str, *, allow_bare: bool = True) -> list[CitationMarker]:
    """Return the markers of a text in order; code has none.

    With `allow_bare`, bare numbers are markers in a text that has no passage ids.
    """
    # The beginning of an answer mostly has none, and is searched whenever more of it is shown.
    if not _OPENING_BRACKET.search(text):
        return []
    matches = _find_in_prose(_MARKER, text)
    if allow_bare and not matches:
        matches = _find_in_prose(_BARE_MARKER, text)
    return [CitationMarker(match.start(), match.end(), tuple(_parse_positions(match[1]))) for match in matches]


def resolve_markers(
    text: str, passages: Sequence[Passage], rejections: Collection[tuple[int, int]] = (), *, allow_bare: bool = True
) -> ResolvedCitations:
    """Replace passage ids by numbers in the order of first mention, except in code.

    Two passages with the same link share a number. `rejections` are the citations to leave out, as pairs of the
    marker's index in `find_markers` and a position that it names. `allow_bare` is that of `find_markers`.
    """
    citations_by_link: dict[str, Citation] = {}
    segments: list[str] = []
    numbers: list[int] = []
    dropped_count = end = 0
    for index, marker in enumerate(find_markers(text, allow_bare=allow_bare)):
        between = text[end : marker.start]
        if between.strip() or not numbers:
            segments += [between, ""]
            numbers = []
        for position in marker.positions:
            if not 0 <= position < len(passages) or (index, position) in rejections:
                dropped_count += 1
            else:
                numbers.append(_get_citation(passages[position], citations_by_link).n)
        # Markers in a row are one, with its numbers in order.
        if numbers and not segments[-1]:
            segments[-2] += text[marker.start] if text[marker.start].isspace() else ""
        segments[-1] = "".join(f"[{number}]" for number in sorted(set(numbers)))
        end = marker.end
    return ResolvedCitations("".join([*segments, text[end:]]), tuple(citations_by_link.values()), dropped_count)


def strip_markers(text: str) -> str:
    """Return a quoted text without anything that reads as a marker: its own [2] becomes (2)."""
    segments = _CODE.split(text)
    for pattern in (_MARKER, _BARE_MARKER):
        segments[::2] = [
            pattern.sub(lambda match: f"{match[0][0].strip(_OPENING_BRACKETS)}({match[1]})", segment)
            for segment in segments[::2]
        ]
    return "".join(segments)


def _find_in_prose(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return the matches outside code."""
    matches: list[re.Match[str]] = []
    start = 0
    for code_span in [*(match.span() for match in _CODE.finditer(text)), (len(text), len(text))]:
        matches += _match_at_brackets(pattern, text, start, code_span[0])
        start = code_span[1]
    return matches


def _match_at_brackets(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """Yield the matches of a marker: at a bracket, or at the blank before it.

    All of an answer is searched whenever more of it is shown: the pattern itself would be tried at every character.
    """
    for bracket in _OPENING_BRACKET.finditer(text, start, end):
        for position in (bracket.start() - 1, bracket.start()):
            if position >= start and (match := pattern.match(text, position, end)):
                yield match
                start = match.end()
                break


def _parse_positions(ids: str) -> list[int]:
    """Return the positions, from 0, of ids such as "p1, p3" or "p1-p3"."""
    positions: list[int] = []
    for dash, digits in _NUMBER.findall(ids):
        number = int(digits) - 1
        positions += (
            range(positions[-1] + 1, number + 1) if dash and positions and 0 < number - positions[-1] < 20 else [number]
        )
    return positions


def _get_citation(passage: Passage, citations_by_link: dict[str, Citation]) -> Citation:
    citation = to_citation(passage, len(citations_by_link) + 1)
    return citations_by_link.setdefault(citation.url or passage.id, citation)


def to_citation(passage: Passage, number: int) -> Citation:
    """Return the link to a passage, by its readable title."""
    # A source of any other kind of address (`javascript:`) could make a reader run something.
    url = passage.url if passage.url.startswith(("http://", "https://")) else ""
    return Citation(number, passage.id, passage.source, get_readable_title(passage.title), passage.path, url)


def get_readable_title(title: str) -> str:
    """Return a title as people read it: definitions without their signatures, files by name, never a path.

    >>> get_readable_title("src/click/core.py > class Context > def invoke(self, callback: str) -> Any")
    'core.py > Context > invoke'
    """
    return " > ".join(to_name(part) for part in title.split(" > "))


def to_name(heading: str) -> str:
    """Return the name in a heading: a definition without its keyword and signature, a path without its folders."""
    heading = heading.strip()
    if match := _SIGNATURE.match(heading):
        return match[1] or match[2]
    return heading.rpartition("/")[2] if _PATH.fullmatch(heading) else heading


_SIGNATURE = re.compile(
    r"(?>(?:(?:export|public|private|static|abstract|async|default)\s+)*)"
    r"(?:(?:def|class|function|func|fn|struct|interface|enum|trait|impl|type)\s+([\w.$]+)|([\w.$]+)\()"
)
_PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,8}")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, unchanged; code blocks, headings and table rows are not sentences.

    >>> split_sentences("Install it first. Then run it [1]. 完成。")
    ['Install it first.', 'Then run it [1].', '完成。']
    """
    return [text[start:end] for start, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence of `split_sentences(text)`."""
    prose = _NON_PROSE.sub(lambda match: "\n" * len(match[0]), text)
    spans: list[tuple[int, int]] = []
    for match in _SENTENCE.finditer(prose):
        body = match[0].strip()
        if content_words(body):
            start = match.start() + match[0].index(body)
            spans.append((start, start + len(body)))
    return spans


def insert_markers(text: str, support: Mapping[int, Sequence[int]]) -> str:
    """Insert markers after sentences.

    `support` maps an index in `split_sentences(text)` to positions of passages, both from 0.
    """
    spans = sentence_spans(text)
    # From the last to the first, so that the earlier spans stay right.
    for index in sorted(support, reverse=True):
        if not support[index]:
            continue
        start, end = spans[index]
        closing = re.search(r"(?<![.!?。！？])[.!?。！？]++[\"'”’)*_]*+\Z", text[start:end])
        offset = start + closing.start() if closing else end
        marker = "[" + ", ".join(passage_ref(position) for position in support[index]) + "]"
        text = f"{text[:offset]} {marker}{text[offset:]}"
    return text


_WORD = re.compile(r"\w")
_BLOCK_BOUNDARY = re.compile(r"\n\s*\n|\n\s*(?:[-*+•]|\d+[.)])\s|```|~~~")


@dataclass(frozen=True, slots=True)
class Claim:
    """The text that one marker belongs to.

    `marker_index` is the marker's index in `find_markers`, `positions` are the passages that it names. `texts` holds
    the words since the previous marker, and also the next sentence when the marker is between two sentences and may
    belong to either. `context` holds the sentence alone, and together with those before it that no marker separates.
    """

    marker_index: int
    positions: tuple[int, ...]
    texts: tuple[str, ...]
    context: tuple[str, ...]


def extract_claims(text: str, *, allow_bare: bool = True) -> list[Claim]:
    """Return the claims of a text's markers. A marker after code, or far from any sentence, has no claim."""
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
    spans_after = [span for span in spans if marker.end <= span[0] < line_start + len(line)]
    next_sentences = tuple(_collapse_whitespace(masked_text[slice(*span)]) for span in spans_after[:1])
    spans_before = [
        span
        for span in spans
        if span[0] <= marker.start and not _BLOCK_BOUNDARY.search(masked_text, span[1], marker.start)
    ]
    if not spans_before:
        return Claim(marker_index, marker.positions, next_sentences, ())
    clause, context = _get_sentence_parts(masked_text, spans_before[-1], marker, markers[:marker_index])
    texts = (clause, *(next_sentences if marker.start >= spans_before[-1][1] else ()))
    return Claim(marker_index, marker.positions, texts, context)


def _get_sentence_parts(
    masked_text: str, span: tuple[int, int], marker: CitationMarker, previous_markers: Sequence[CitationMarker]
) -> tuple[str, tuple[str, str]]:
    """Return the clause before a marker, and as its context the whole sentence and the text of the block up to it."""
    start, end = span
    # Markers in a row belong to the same words.
    marker_ends = [
        previous_marker.end
        for previous_marker in previous_markers
        if _WORD.search(masked_text, previous_marker.end, marker.start)
    ]
    clause, sentence = masked_text[max([start, *marker_ends]) : min(end, marker.start)], masked_text[start:end]
    if not _WORD.search(clause):
        clause = sentence
    block_start = max((block.end() for block in _BLOCK_BOUNDARY.finditer(masked_text, 0, start)), default=0)
    earlier_ends = [marker_end for marker_end in marker_ends if marker_end <= start]
    block_text = masked_text[max([block_start, *earlier_ends]) : end]
    return _collapse_whitespace(clause), (_collapse_whitespace(sentence), _collapse_whitespace(block_text))


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())
