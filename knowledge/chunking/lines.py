"""Plain text, and every format without a chunker of its own: paragraphs, packed up to the chunk size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from pathlib import PurePosixPath

from core.language.tokens import measure_tokens
from knowledge.ports import Chunk, Document

HARD_MAX = 1.5
SOFT_MAX = 1.25
SMALL_FRACTION = 0.3
MIN_FRACTION = 0.15
MAX_TITLE_LENGTH = 60

MAX_LINK_LENGTH = 600
_LINK = re.compile(r"\[[^\[\]\n]{1,300}\]\([^()\s]{0,300}\)")
_BREAK = re.compile(r"[.!?;。！？；](?=\s|[^\x00-\x7f]|$)|[,，、}\])>]|\s")


@dataclass(frozen=True, slots=True)
class LineRange:
    """A range of lines, 1-based, inclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """A range of lines under a heading path."""

    path: tuple[str, ...]
    start: int
    end: int

    @property
    def span(self) -> LineRange:
        """The section's lines."""
        return LineRange(self.start, self.end)


def _measure_line(line: str) -> float:
    return measure_tokens(f"{line}\n")


class Lines:
    """A text as lines, with the size of any range in constant time."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._cumulative_tokens = list(accumulate(map(_measure_line, lines), initial=0.0))

    @classmethod
    def from_text(cls, text: str) -> Lines:
        """Split at newlines of any system; other characters that Python calls line borders stay inside lines."""
        return cls(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n"))

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: int) -> str:
        return self.lines[number - 1]

    def size(self, start: int, end: int) -> float:
        """Return the estimated tokens of a range of lines."""
        return self._cumulative_tokens[end] - self._cumulative_tokens[start - 1]

    def is_blank(self, start: int, end: int) -> bool:
        """Return whether a range has no content."""
        return not any(self.lines[number - 1].strip() for number in range(start, end + 1))


def get_root_title(document: Document) -> str:
    """Return the title of a document without headings: its own, or the file's name."""
    return document.title or PurePosixPath(document.path).name or "untitled"


def complete_paths(sections: Sequence[Section], root: str, *, allow_single_root: bool = True) -> list[Section]:
    """Complete heading paths, so that none is empty or ambiguous.

    Where one top heading spans the document (`allow_single_root`: its level allows that), it is the root; otherwise
    every path starts with `root`.
    """
    top_headings = {section.path[0] for section in sections if section.path}
    if len(top_headings) == 1 and allow_single_root:
        return [Section(section.path or tuple(top_headings), section.start, section.end) for section in sections]
    return [Section((root, *section.path), section.start, section.end) for section in sections]


def to_chunks(
    lines: Lines, sections: Sequence[Section], tokens: int, split: Callable[[Section], Sequence[LineRange]]
) -> list[Chunk]:
    """Turn consecutive sections into chunks: small ones joined, long ones divided at the borders `split` returns."""
    return [
        chunk
        for piece in to_pieces(lines, sections, tokens, split)
        for chunk in _make_chunks(lines, piece.span, piece.title, tokens)
    ]


def to_pieces(
    lines: Lines, sections: Sequence[Section], tokens: int, split: Callable[[Section], Sequence[LineRange]]
) -> list[Piece]:
    """Turn consecutive sections into pieces of about `tokens`, as `to_chunks` does."""
    pieces: list[Piece] = []
    for group in _group_small(lines, sections, tokens):
        title = _make_title_path(group)
        if len(group) > 1 or lines.size(group[0].start, group[0].end) <= tokens * SOFT_MAX:
            spans = [LineRange(group[0].start, group[-1].end)]
        else:
            spans = pack_spans(lines, split(group[0]), tokens)
        pieces += [Piece(span, title) for span in spans]
    return _merge_tiny(lines, pieces, tokens)


@dataclass(frozen=True, slots=True)
class Piece:
    """The lines of one chunk, and the headings above them."""

    span: LineRange
    path: tuple[str, ...]

    @property
    def title(self) -> str:
        """The headings as one line."""
        return " > ".join(self.path)


def _merge_tiny(lines: Lines, pieces: Sequence[Piece], tokens: int) -> list[Piece]:
    """Join tiny pieces (a lone call, a class line) to the piece before or after them under the same heading.

    What opens others is with these.
    """
    merged_pieces: list[Piece] = []
    for piece, following in zip_longest(pieces, pieces[1:]):
        opens = following is not None and _is_ancestor(piece, following)
        if merged_pieces and (merged_piece := _try_merge(lines, merged_pieces[-1], piece, tokens, opens=opens)):
            merged_pieces[-1] = merged_piece
        else:
            merged_pieces.append(piece)
    return merged_pieces


def _try_merge(lines: Lines, left: Piece, right: Piece, tokens: int, *, opens: bool) -> Piece | None:
    left_size = lines.size(left.span.start, left.span.end)
    right_size = lines.size(right.span.start, right.span.end)
    depth = min(len(left.path), len(right.path)) - (left.path[:-1] == right.path[:-1])
    if (
        min(left_size, right_size) >= tokens * MIN_FRACTION
        or left_size + right_size > tokens * HARD_MAX
        or left.path[:depth] != right.path[:depth]
        or (opens and right_size < left_size and not _is_ancestor(left, right))
    ):
        return None
    return Piece(LineRange(left.span.start, right.span.end), left.path if left_size > right_size else right.path)


def _group_small(lines: Lines, sections: Sequence[Section], tokens: int) -> list[list[Section]]:
    """Group small sections with their neighbours. One that opens subsections waits for these."""
    groups: list[list[Section]] = []
    size = 0.0
    nonblank_sections = [section for section in sections if not lines.is_blank(section.start, section.end)]
    for section, next_section in zip_longest(nonblank_sections, nonblank_sections[1:]):
        section_size = lines.size(section.start, section.end)
        is_small = min(size, section_size) < tokens * SMALL_FRACTION
        has_subsections = next_section is not None and _is_ancestor(section, next_section)
        if (
            groups
            and is_small
            and size + section_size <= tokens * SOFT_MAX
            and _is_related(groups[-1], section)
            and (not has_subsections or all(_is_ancestor(member, section) for member in groups[-1]))
        ):
            groups[-1].append(section)
            size += section_size
        else:
            groups.append([section])
            size = section_size
    return groups


def _is_ancestor(section: Section | Piece, other: Section | Piece) -> bool:
    return len(section.path) < len(other.path) and other.path[: len(section.path)] == section.path


def _is_related(group: Sequence[Section], section: Section) -> bool:
    """Return whether a section has the same parent as a group, or continues it one level down."""
    parent = section.path[:-1]
    min_depth = min(len(member.path) for member in group)
    return min_depth <= len(section.path) and all(member.path[: len(parent)] == parent for member in group)


def _make_title_path(group: Sequence[Section]) -> tuple[str, ...]:
    depth = min(len(section.path) for section in group)
    if any(section.path[:depth] != group[0].path[:depth] for section in group):
        depth -= 1
    all_names = dict.fromkeys(section.path[depth] for section in group if len(section.path) > depth)
    # A name may cover several already, or be a heading with a slash.
    covered = {part for name in all_names if " / " in name for part in name.split(" / ")}
    names = [name for name in all_names if name not in covered]
    visible_count = len(names)
    while visible_count > 1 and len(" / ".join(names[:visible_count])) > MAX_TITLE_LENGTH:
        visible_count -= 1
    more_label = [f"{len(names) - visible_count} more"] if visible_count < len(names) else []
    last_name = " / ".join(names[:visible_count] + more_label)
    return (*group[0].path[:depth], last_name) if last_name else group[0].path[:depth]


def pack_spans(lines: Lines, spans: Iterable[LineRange], tokens: int) -> list[LineRange]:
    """Join consecutive spans into spans of at most about `tokens`; a span that is far too long is divided first."""
    span_groups: list[list[LineRange]] = []
    for piece in (part for span in spans for part in _split_oversized(lines, span, tokens)):
        if span_groups and lines.size(span_groups[-1][0].start, piece.end) <= tokens:
            span_groups[-1].append(piece)
        elif span_groups and len(span_groups[-1]) > 1 and _is_introduction(lines, span_groups[-1][-1], piece, tokens):
            span_groups.append([span_groups[-1].pop(), piece])
        else:
            span_groups.append([piece])
    return _merge_small(lines, [LineRange(group[0].start, group[-1].end) for group in span_groups], tokens)


def _is_introduction(lines: Lines, span: LineRange, next_span: LineRange, tokens: int) -> bool:
    """Return whether a short span introduces what follows, and so belongs to it, if both fit into one chunk.

    It ends in a colon, or code or a table follows.
    """
    if (
        lines.size(span.start, span.end) > tokens * SMALL_FRACTION
        or lines.size(span.start, next_span.end) > tokens * HARD_MAX
    ):
        return False
    text = next((lines[number] for number in range(span.end, span.start - 1, -1) if lines[number].strip()), "")
    next_line = lines[next_span.start]
    return text.rstrip().endswith((":", "：")) or next_line.startswith("```") or next_line[:1] == "|" != text[:1]


def _merge_small(lines: Lines, spans: Sequence[LineRange], tokens: int) -> list[LineRange]:
    merged_spans: list[LineRange] = []
    for span in spans:
        if merged_spans:
            previous_span = merged_spans[-1]
            is_small = (
                min(lines.size(previous_span.start, previous_span.end), lines.size(span.start, span.end))
                < tokens * SMALL_FRACTION
            )
            if is_small and lines.size(previous_span.start, span.end) <= tokens * HARD_MAX:
                merged_spans[-1] = LineRange(previous_span.start, span.end)
                continue
        merged_spans.append(span)
    return merged_spans


def _split_oversized(lines: Lines, span: LineRange, tokens: int) -> list[LineRange]:
    if lines.size(span.start, span.end) <= tokens * HARD_MAX or span.start == span.end:
        return [span]
    paragraph_spans = split_paragraphs(lines, span)
    if len(paragraph_spans) == 1:
        return [LineRange(number, number) for number in range(span.start, span.end + 1)]
    return [piece for paragraph in paragraph_spans for piece in _split_oversized(lines, paragraph, tokens)]


def split_paragraphs(lines: Lines, span: LineRange) -> list[LineRange]:
    """Divide a span after runs of blank lines."""
    starts = [span.start]
    for number in range(span.start + 1, span.end + 1):
        if lines[number].strip() and not lines[number - 1].strip():
            starts.append(number)
    return spans_from(starts, span.end)


def spans_from(starts: Sequence[int], end: int) -> list[LineRange]:
    """Return the spans between ascending, distinct starts, the last one up to `end`."""
    stops = [*(start - 1 for start in starts[1:]), end]
    return [LineRange(start, stop) for start, stop in zip(starts, stops, strict=True)]


def _make_chunks(lines: Lines, span: LineRange, title: str, tokens: int) -> list[Chunk]:
    start = span.start
    end = span.end
    while start <= end and not lines[start].strip():
        start += 1
    while end > start and not lines[end].strip():
        end -= 1
    if start > end:
        return []
    if start == end and lines.size(start, end) > tokens * HARD_MAX:
        return [Chunk(piece, title, start, end) for piece in split_line(lines[start], tokens)]
    return [Chunk("\n".join(lines.lines[start - 1 : end]).rstrip(), title, start, end)]


def split_line(line: str, tokens: int) -> list[str]:
    """Cut one very long line into pieces of about `tokens`, at sentence ends, commas or blanks where there are any."""
    pieces = []
    position = 0
    while position < len(line):
        window = line[position : position + tokens * 4]
        while (size := _measure_line(window)) > tokens + 1:
            window = window[: max(1, int(len(window) * tokens / size))]
        if position + len(window) < len(line):
            links = [match.span() for match in _LINK.finditer(line, position, position + len(window) + MAX_LINK_LENGTH)]
            breaks = (match.end() for match in _BREAK.finditer(window, len(window) // 3))
            # A link that is cut leads nowhere.
            ends = [end for end in breaks if not any(start < position + end < stop for start, stop in links)]
            window = window[: ends[-1]] if ends else window
        position += len(window)
        if piece := window.strip():
            pieces.append(piece)
    return pieces


def chunk_plain(document: Document, tokens: int) -> list[Chunk]:
    """Split at blank lines, then at lines, then inside lines."""
    lines = Lines.from_text(document.text)
    document_section = Section((get_root_title(document),), 1, len(lines))
    return to_chunks(lines, [document_section], tokens, lambda section: split_paragraphs(lines, section.span))


def chunk_faq(document: Document, tokens: int) -> list[Chunk]:
    """Keep a question and its answer in one chunk, up to twice the size; longer answers are split at paragraphs."""
    lines = Lines.from_text(document.text)
    title = get_root_title(document)
    if lines.size(1, len(lines)) <= 2 * tokens and not lines.is_blank(1, len(lines)):
        first_line = next(number for number in range(1, len(lines) + 1) if lines[number].strip())
        last_line = max(number for number in range(1, len(lines) + 1) if lines[number].strip())
        return [Chunk("\n".join(lines.lines[first_line - 1 : last_line]).rstrip(), title, first_line, last_line)]
    document_section = Section((title,), 1, len(lines))
    return to_chunks(lines, [document_section], tokens, lambda section: [LineRange(1, len(lines))])
