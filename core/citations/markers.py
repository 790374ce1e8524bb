"""Citation markers: finding, resolving and inserting them, and the claim that each marker belongs to."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from core.evidence.rendering import passage_ref
from core.language.prose import CODE, change_outside_code, sentence_spans
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
# As `resolve_markers` writes them; with an address it is a link.
_NUMBERS = re.compile(r"[^\S\n]?(?:\[\d{1,2}\])+(?![(:])")
_PARTIAL_MARKER = re.compile(r"\s?[\[【［][\^pP\d\s,;、，/&]{0,40}\Z")
_MAX_PARTIAL_CHARS = 42
_OPENING_BRACKETS = "[【［"
_OPENING_BRACKET = re.compile(f"[{re.escape(_OPENING_BRACKETS)}]")
_NUMBER = re.compile(r"([-–—]?)\s{0,9}p?\s?(\d{1,3})", re.IGNORECASE)
_SIGNATURE = re.compile(
    r"(?>(?:(?:export|public|private|static|abstract|async|default)\s+)*)"
    r"(?:(?:def|class|function|func|fn|struct|interface|enum|trait|impl|type)\s+([\w.$]+)|([\w.$]+)\()"
)
_PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)+\.\w{1,8}")
_WORD = re.compile(r"\w+")

# What separates blocks, wherever it begins, each as short as it can be.
_BLOCK_BOUNDARY = re.compile(r"(?=(\n[^\S\n]*(?:\n|(?:[-*+•]|\d+[.)])\s)|```|~~~))")
_ROW_OR_HEADING = re.compile(r"[^\S\n]*[|#]")

# Markers in a row share their words. What stands between these markers is not collected without end.
_MAX_CLAUSE_TAIL = 30

# A citation: the index of its marker in `find_markers`, and the position of the passage that it names.
CitationKey = tuple[int, int]


# The position that `[p0]` names.
NO_PASSAGE = -1


@dataclass(frozen=True, slots=True)
class ResolvedCitations:
    """A reply whose markers are numbers.

    `dropped_count` counts the ids of unknown passages and removed citations, `moved_count` those that name another
    passage now. With `finds_nothing`, the model marked the answer as one that the passages do not give: `[p0]`.
    """

    text: str
    citations: tuple[Citation, ...]
    dropped_count: int = 0
    moved_count: int = 0
    finds_nothing: bool = False


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


def find_markers(text: str) -> list[CitationMarker]:
    """Return the markers of a text in order; code has none. Bare numbers are markers where no passage ids are."""
    # The beginning of an answer mostly has none, and is searched whenever more of it is shown.
    if not _OPENING_BRACKET.search(text):
        return []
    matches = _find_in_prose(_MARKER, text)
    if not matches:
        matches = _find_in_prose(_BARE_MARKER, text)
    return [CitationMarker(match.start(), match.end(), tuple(_parse_positions(match[1]))) for match in matches]


def resolve_markers(
    text: str,
    passages: Sequence[Passage],
    changes: Mapping[CitationKey, int | None] = MappingProxyType({}),
) -> ResolvedCitations:
    """Replace passage ids by numbers in the order of first mention, except in code.

    Two passages with the same link share a number. `changes` has the citations to leave out (None) and those that move,
    with the position of their new passage. `[p0]` stands for no passage: a model's mark that nothing was found.
    """
    finds_nothing = False
    citations_by_link: dict[str, Citation] = {}
    segments: list[str] = []
    numbers: set[int] = set()
    dropped_count = 0
    moved_count = 0
    end = 0
    for index, marker in enumerate(find_markers(text)):
        between = text[end : marker.start]
        if between.strip() or not numbers:
            segments += [between, ""]
            numbers = set()
        for named_position in marker.positions:
            position = changes.get((index, named_position), named_position)
            # A bare [0] is an index.
            if position == NO_PASSAGE and "p" in text[marker.start : marker.end].lower():
                finds_nothing = True
            elif position is None or not 0 <= position < len(passages):
                dropped_count += 1
            else:
                moved_count += position != named_position
                numbers.add(_get_citation(passages[position], citations_by_link).n)
        # Markers in a row are one, with its numbers in order.
        if numbers and not segments[-1]:
            segments[-2] += text[marker.start] if text[marker.start].isspace() else ""
        segments[-1] = "".join(f"[{number}]" for number in sorted(numbers))
        end = marker.end
    resolved_text = "".join([*segments, text[end:]])
    if finds_nothing:
        resolved_text = resolved_text.lstrip()
    citations = tuple(citations_by_link.values())
    return ResolvedCitations(resolved_text, citations, dropped_count, moved_count, finds_nothing)


def strip_markers(text: str) -> str:
    """Return a quoted text without anything that reads as a marker: its own [2] becomes (2)."""
    return change_outside_code(text, _put_into_parentheses)


def strip_numbers(text: str) -> str:
    """Return an answer without the numbers of its citations, except in code: a model would cite them again.

    >>> strip_numbers("Use pip [1][2], or 用 pip[3]。 `x[1]` stays.")
    'Use pip, or 用 pip。 `x[1]` stays.'
    """
    return change_outside_code(text, lambda part: _NUMBERS.sub("", part))


def _put_into_parentheses(text: str) -> str:
    for pattern in (_MARKER, _BARE_MARKER):
        text = pattern.sub(lambda match: f"{match[0][0].strip(_OPENING_BRACKETS)}({match[1]})", text)
    return text


def _find_in_prose(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """Return the matches outside code."""
    matches: list[re.Match[str]] = []
    start = 0
    for code_span in [*(match.span() for match in CODE.finditer(text)), (len(text), len(text))]:
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
    """Return the name in a heading: a definition without its keyword and signature, a path without its folders.

    A colon at its end, which leads to what follows in the document, goes.
    """
    heading = heading.strip().rstrip(":：").rstrip()
    if match := _SIGNATURE.match(heading):
        return match[1] or match[2]
    return heading.rpartition("/")[2] if _PATH.fullmatch(heading) else heading


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


@dataclass(frozen=True, slots=True)
class Claim:
    """The text that one marker belongs to.

    `marker_index` is the marker's index in `find_markers`, `positions` are the passages that it names. `texts` holds
    the words since the previous marker, and also the next sentence when the marker is between two sentences and may
    belong to either.
    """

    marker_index: int
    positions: tuple[int, ...]
    texts: tuple[str, ...]


def extract_claims(text: str) -> list[Claim]:
    """Return the claims of a text's markers. A marker after code, or far from any sentence, has no claim."""
    markers = find_markers(text)
    segments = []
    end = 0
    for marker in markers:
        segments += [text[end : marker.start], " " * (marker.end - marker.start)]
        end = marker.end
    masked_text = "".join([*segments, text[end:]])
    spans = sentence_spans(masked_text)
    candidates = _ClaimReader(masked_text, markers, spans).read()
    return [claim for claim in candidates if any(claim.texts)]


class _ClaimReader:
    """Reads the claims of a text whose markers are blanks; `spans` are its sentences.

    A reply may have thousands of markers: what is asked for each of them is found once, in order, and looked up.
    Claims with the same words share one string.
    """

    def __init__(self, masked_text: str, markers: Sequence[CitationMarker], spans: Sequence[tuple[int, int]]) -> None:
        self._text = masked_text
        self._markers = markers
        self._marker_ends = [marker.end for marker in markers]
        self._spans = spans
        self._span_starts = [start for start, _ in spans]
        word_spans = [match.span() for match in _WORD.finditer(masked_text)]
        self._word_starts = [start for start, _ in word_spans]
        self._word_ends = [end for _, end in word_spans]
        self._newlines = [match.start() for match in re.finditer("\n", masked_text)]
        self._boundaries = [match.span(1) for match in _BLOCK_BOUNDARY.finditer(masked_text)]
        self._boundary_starts = [start for start, _ in self._boundaries]
        self._lines: dict[int, str] = {}
        self._slices: dict[tuple[int, int], str] = {}

    def read(self) -> list[Claim]:
        """Return a claim for each marker, without texts where it has none."""
        return [self._build_claim(index, marker) for index, marker in enumerate(self._markers)]

    def _build_claim(self, marker_index: int, marker: CitationMarker) -> Claim:
        line_start, line_end = self._get_line_span(marker)
        if row := self._get_row_or_heading(line_start, line_end):
            return Claim(marker_index, marker.positions, (row,))
        number = bisect_left(self._span_starts, marker.end)
        is_in_line = number < len(self._spans) and self._span_starts[number] < line_end
        next_sentences = (self._get_slice(*self._spans[number]),) if is_in_line else ()
        span = self._find_sentence_before(marker)
        if span is None:
            return Claim(marker_index, marker.positions, next_sentences)
        texts = (self._get_words_before(marker, *span), *(next_sentences if marker.start >= span[1] else ()))
        return Claim(marker_index, marker.positions, texts)

    def _get_line_span(self, marker: CitationMarker) -> tuple[int, int]:
        number = bisect_left(self._newlines, marker.start)
        start = self._newlines[number - 1] + 1 if number else 0
        return start, self._newlines[number] if number < len(self._newlines) else len(self._text)

    def _get_row_or_heading(self, start: int, end: int) -> str:
        """Return a line without the bars of its cells if it is a table row or a heading, else an empty string."""
        if start not in self._lines:
            is_row_or_heading = _ROW_OR_HEADING.match(self._text, start, end)
            line = self._text[start:end].replace("|", " ") if is_row_or_heading else ""
            self._lines[start] = _collapse_whitespace(line)
        return self._lines[start]

    def _find_sentence_before(self, marker: CitationMarker) -> tuple[int, int] | None:
        """Return the last sentence that begins before a marker, in the same block."""
        number = bisect_right(self._span_starts, marker.start) - 1
        if number < 0:
            return None
        span = self._spans[number]
        boundary = bisect_left(self._boundary_starts, span[1])
        is_in_other_block = boundary < len(self._boundaries) and self._boundaries[boundary][1] <= marker.start
        return None if is_in_other_block else span

    def _get_words_before(self, marker: CitationMarker, start: int, end: int) -> str:
        """Return the clause of a sentence before a marker; the sentence where that has no words."""
        word = bisect_right(self._word_ends, marker.start) - 1
        last_word_end = self._word_ends[word] if word >= 0 else 0
        # Markers in a row belong to the same words: only those before the last word separate anything.
        clause_start = max(start, self._get_marker_end_before(last_word_end))
        return self._get_clause(clause_start, min(end, marker.start)) or self._get_slice(start, end)

    def _get_marker_end_before(self, position: int) -> int:
        number = bisect_left(self._marker_ends, position)
        return self._marker_ends[number - 1] if number else 0

    def _get_clause(self, start: int, end: int) -> str:
        """Return the words of a clause with the marks right behind them, or an empty string if it has no word."""
        number = bisect_left(self._word_starts, end) - 1
        if number < 0 or self._word_ends[number] <= start:
            return ""
        return self._get_slice(start, min(end, self._word_ends[number] + _MAX_CLAUSE_TAIL))

    def _get_slice(self, start: int, end: int) -> str:
        if (start, end) not in self._slices:
            self._slices[start, end] = _collapse_whitespace(self._text[start:end])
        return self._slices[start, end]


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())
