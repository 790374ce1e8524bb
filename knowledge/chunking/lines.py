"""Plain text, and everything that has no better chunker: paragraphs, packed up to the size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest
from pathlib import PurePosixPath

from knowledge.ports import Chunk, Document

STRETCH = 1.5
SLACK = 1.25
SMALL = 0.3
CRUMB = 0.15
MAX_NAMES = 60

_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_BORDER = re.compile(r"[.!?;。！？；](?=\s|[^\x00-\x7f]|$)|[,，、}\])>]|\s")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of lines, 1-based, inclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """A range of lines under a heading path. `continued` replaces the path's last name after the first chunk."""

    path: tuple[str, ...]
    start: int
    end: int
    continued: str = ""

    @property
    def span(self) -> Span:
        """The section's lines."""
        return Span(self.start, self.end)


def estimate(text: str) -> float:
    """Return about how many tokens a line or text has."""
    if text.isascii():
        return (len(text) + 1) / 4
    wide = len(_WIDE.findall(text))
    return wide + (len(text) - wide + 1) / 4


class Lines:
    """A text as lines, with the size of any range in constant time."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._sums = list(accumulate(map(estimate, lines), initial=0.0))

    @classmethod
    def of(cls, text: str) -> Lines:
        """Split at newlines of any system; other characters that Python calls line borders stay inside lines."""
        return cls(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n"))

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, number: int) -> str:
        return self.lines[number - 1]

    def size(self, start: int, end: int) -> float:
        """Return the estimated tokens of a range of lines."""
        return self._sums[end] - self._sums[start - 1]

    def blank(self, start: int, end: int) -> bool:
        """Tell whether a range has no content."""
        return not any(self.lines[number - 1].strip() for number in range(start, end + 1))


def root_name(document: Document) -> str:
    """Return the title of a document without headings: its own, or the file's name."""
    return document.title or PurePosixPath(document.path).name or "untitled"


def rooted(sections: Sequence[Section], root: str, *, spanned: bool = True) -> list[Section]:
    """Complete heading paths, so that none is empty or ambiguous.

    Where one top heading spans the document (`spanned`: its level allows that), it is the root; otherwise every path
    starts with `root`.
    """
    tops = {section.path[0] for section in sections if section.path}
    if len(tops) == 1 and spanned:
        return [Section(section.path or tuple(tops), section.start, section.end) for section in sections]
    return [Section((root, *section.path), section.start, section.end) for section in sections]


def chunks_of(
    lines: Lines, sections: Sequence[Section], tokens: int, split: Callable[[Section], Sequence[Span]]
) -> list[Chunk]:
    """Turn consecutive sections into chunks: small ones joined, long ones divided at the borders `split` returns."""
    pieces: list[_Piece] = []
    for group in _join_small(lines, sections, tokens):
        title = _title(group)
        if len(group) > 1 or lines.size(group[0].start, group[0].end) <= tokens * SLACK:
            spans = [Span(group[0].start, group[-1].end)]
        else:
            spans = pack(lines, split(group[0]), tokens)
        for index, span in enumerate(spans):
            path = (*title[:-1], group[0].continued) if index > 0 and group[0].continued else title
            pieces.append(_Piece(span, path))
    swept = _sweep(lines, pieces, tokens)
    return [chunk for piece in swept for chunk in _chunks(lines, piece.span, " > ".join(piece.path), tokens)]


@dataclass(frozen=True, slots=True)
class _Piece:
    span: Span
    path: tuple[str, ...]


def _sweep(lines: Lines, pieces: Sequence[_Piece], tokens: int) -> list[_Piece]:
    """Join crumbs (a lone call, a class line) to the piece before or after them on the same branch of the headings."""
    swept: list[_Piece] = []
    for piece in pieces:
        if swept and (joined := _joined(lines, swept[-1], piece, tokens)):
            swept[-1] = joined
        else:
            swept.append(piece)
    return swept


def _joined(lines: Lines, left: _Piece, right: _Piece, tokens: int) -> _Piece | None:
    before = lines.size(left.span.start, left.span.end)
    after = lines.size(right.span.start, right.span.end)
    depth = min(len(left.path), len(right.path)) - (left.path[:-1] == right.path[:-1])
    if (
        min(before, after) >= tokens * CRUMB
        or before + after > tokens * STRETCH
        or left.path[:depth] != right.path[:depth]
    ):
        return None
    return _Piece(Span(left.span.start, right.span.end), left.path if before > after else right.path)


def _join_small(lines: Lines, sections: Sequence[Section], tokens: int) -> list[list[Section]]:
    """Group small sections with their neighbours. One that opens subsections waits for these."""
    groups: list[list[Section]] = []
    size = 0.0
    filled = [section for section in sections if not lines.blank(section.start, section.end)]
    for section, following in zip_longest(filled, filled[1:]):
        added = lines.size(section.start, section.end)
        small = min(size, added) < tokens * SMALL
        opens = following is not None and _contains(section, following)
        if (
            groups
            and small
            and size + added <= tokens * SLACK
            and _related(groups[-1], section)
            and (not opens or all(_contains(member, section) for member in groups[-1]))
        ):
            groups[-1].append(section)
            size += added
        else:
            groups.append([section])
            size = added
    return groups


def _contains(section: Section, other: Section) -> bool:
    return len(section.path) < len(other.path) and other.path[: len(section.path)] == section.path


def _related(group: Sequence[Section], section: Section) -> bool:
    """Tell whether a section has the same parent as a group, or continues it one level down."""
    parent = section.path[:-1]
    shallowest = min(len(member.path) for member in group)
    return shallowest <= len(section.path) and all(member.path[: len(parent)] == parent for member in group)


def _title(group: Sequence[Section]) -> tuple[str, ...]:
    depth = min(len(section.path) for section in group)
    if any(section.path[:depth] != group[0].path[:depth] for section in group):
        depth -= 1
    names = list(dict.fromkeys(section.path[depth] for section in group if len(section.path) > depth))
    shown = len(names)
    while shown > 1 and len(" / ".join(names[:shown])) > MAX_NAMES:
        shown -= 1
    rest = [f"{len(names) - shown} more"] if shown < len(names) else []
    tail = " / ".join(names[:shown] + rest)
    return (*group[0].path[:depth], tail) if tail else group[0].path[:depth]


def pack(lines: Lines, spans: Iterable[Span], tokens: int) -> list[Span]:
    """Join consecutive spans into spans of at most about `tokens`; a span that is far too long is divided first."""
    packed: list[list[Span]] = []
    for piece in (part for span in spans for part in _shatter(lines, span, tokens)):
        if packed and lines.size(packed[-1][0].start, piece.end) <= tokens:
            packed[-1].append(piece)
        elif packed and len(packed[-1]) > 1 and _introduces(lines, packed[-1][-1], piece, tokens):
            packed.append([packed[-1].pop(), piece])
        else:
            packed.append([piece])
    return _without_crumbs(lines, [Span(group[0].start, group[-1].end) for group in packed], tokens)


def _introduces(lines: Lines, span: Span, following: Span, tokens: int) -> bool:
    """Tell whether a short span ends in a colon, and so belongs to what follows, if both fit into one chunk."""
    if lines.size(span.start, span.end) > tokens * SMALL or lines.size(span.start, following.end) > tokens * STRETCH:
        return False
    text = next((lines[number] for number in range(span.end, span.start - 1, -1) if lines[number].strip()), "")
    return text.rstrip().endswith((":", "："))


def _without_crumbs(lines: Lines, spans: Sequence[Span], tokens: int) -> list[Span]:
    merged: list[Span] = []
    for span in spans:
        if merged:
            last = merged[-1]
            small = min(lines.size(last.start, last.end), lines.size(span.start, span.end)) < tokens * SMALL
            if small and lines.size(last.start, span.end) <= tokens * STRETCH:
                merged[-1] = Span(last.start, span.end)
                continue
        merged.append(span)
    return merged


def _shatter(lines: Lines, span: Span, tokens: int) -> list[Span]:
    if lines.size(span.start, span.end) <= tokens * STRETCH or span.start == span.end:
        return [span]
    parts = paragraphs(lines, span)
    if len(parts) == 1:
        return [Span(number, number) for number in range(span.start, span.end + 1)]
    return [piece for part in parts for piece in _shatter(lines, part, tokens)]


def paragraphs(lines: Lines, span: Span) -> list[Span]:
    """Divide a span after runs of blank lines."""
    starts = [span.start]
    for number in range(span.start + 1, span.end + 1):
        if lines[number].strip() and not lines[number - 1].strip():
            starts.append(number)
    return spans_from(starts, span.end)


def spans_from(starts: Sequence[int], end: int) -> list[Span]:
    """Return the spans between ascending, distinct starts, the last one up to `end`."""
    stops = [*(start - 1 for start in starts[1:]), end]
    return [Span(start, stop) for start, stop in zip(starts, stops, strict=True)]


def _chunks(lines: Lines, span: Span, title: str, tokens: int) -> list[Chunk]:
    start, end = span.start, span.end
    while start <= end and not lines[start].strip():
        start += 1
    while end > start and not lines[end].strip():
        end -= 1
    if start > end:
        return []
    if start == end and lines.size(start, end) > tokens * STRETCH:
        return [Chunk(piece, title, start, end) for piece in cut_line(lines[start], tokens)]
    return [Chunk("\n".join(lines.lines[start - 1 : end]).rstrip(), title, start, end)]


def cut_line(line: str, tokens: int) -> list[str]:
    """Cut one very long line into pieces of about `tokens`, at sentence ends, commas or blanks where there are any."""
    pieces = []
    position = 0
    while position < len(line):
        window = line[position : position + tokens * 4]
        while (size := estimate(window)) > tokens + 1:
            window = window[: max(1, int(len(window) * tokens / size))]
        if position + len(window) < len(line):
            borders = [match.end() for match in _BORDER.finditer(window, len(window) * 2 // 3)]
            window = window[: borders[-1]] if borders else window
        position += len(window)
        if piece := window.strip():
            pieces.append(piece)
    return pieces


def chunk_plain(document: Document, tokens: int) -> list[Chunk]:
    """Split at blank lines, then at lines, then inside lines."""
    lines = Lines.of(document.text)
    whole = Section((root_name(document),), 1, len(lines))
    return chunks_of(lines, [whole], tokens, lambda section: paragraphs(lines, section.span))


def chunk_faq(document: Document, tokens: int) -> list[Chunk]:
    """Keep a question and its answer in one chunk, up to twice the size; longer answers are split at paragraphs."""
    lines = Lines.of(document.text)
    title = root_name(document)
    if lines.size(1, len(lines)) <= 2 * tokens and not lines.blank(1, len(lines)):
        first = next(number for number in range(1, len(lines) + 1) if lines[number].strip())
        end = max(number for number in range(1, len(lines) + 1) if lines[number].strip())
        return [Chunk("\n".join(lines.lines[first - 1 : end]).rstrip(), title, first, end)]
    whole = Section((title,), 1, len(lines))
    return chunks_of(lines, [whole], tokens, lambda section: [Span(1, len(lines))])
