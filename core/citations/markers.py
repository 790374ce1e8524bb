"""Citation markers: finding, resolving and inserting them, and the claim that each marker belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from core.evidence.rendering import passage_ref
from core.language.prose import CODE, FENCED_CODE, change_outside_code, sentence_spans, split_sentences
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

# An empty line, or a line that is an item of a list.
_BLOCK_BOUNDARY = re.compile(r"\n[^\S\n]*(?:\n|(?:[-*+•]|\d+[.)])\s)")
_ROW_OR_HEADING = re.compile(r"[^\S\n]*[|#]")

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

    `marker_index` is the marker's index in `find_markers`, `positions` are the passages that it names. The text is the
    last sentence before it, from the previous marker on, or else the next one.
    """

    marker_index: int
    positions: tuple[int, ...]
    text: str


def extract_claims(text: str) -> list[Claim]:
    """Return the claims of a text's markers. A marker after code, or far from any sentence, has no claim.

    Markers in a row stand behind the same words.
    """
    markers = find_markers(text)
    claims: list[Claim] = []
    words = ""
    for index, marker in enumerate(markers):
        segment = FENCED_CODE.sub("\n\n", text[markers[index - 1].end if index else 0 : marker.start])
        block_starts = [boundary.start() for boundary in _BLOCK_BOUNDARY.finditer(segment)]
        words = _find_last_sentence(segment[max(block_starts, default=0) :]) or ("" if block_starts else words)
        following_end = markers[index + 1].start if index + 1 < len(markers) else len(text)
        following = [] if words else split_sentences(text[marker.end : following_end].partition("\n")[0])
        if claimed_text := words or "".join(following[:1]):
            claims.append(Claim(index, marker.positions, claimed_text))
    return claims


def _find_last_sentence(block: str) -> str:
    """Return the last sentence of a block of prose; a row of a table, without its bars, or a heading is one."""
    line = block.rpartition("\n")[2]
    sentences = [line.replace("|", " ")] if _ROW_OR_HEADING.match(line) else split_sentences(block)
    return " ".join(sentences[-1].split()) if sentences else ""
