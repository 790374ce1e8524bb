"""Sections of printed pages: what is below each bookmark or each large line, over all of its pages."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from knowledge.formats.page_paragraphs import (
    Layout,
    Paragraph,
    find_layout,
    join_pages,
    make_paragraphs,
    split_notes,
)
from knowledge.formats.page_segments import Line

Bookmark = tuple[int, str]
_SECTION = re.compile(r"\d{1,3}(?:\.\d{1,3}){0,5}\.?\s")
_TITLE = re.compile(r"[^\W\d_]{2}")
# A heading is so many times as large as the text, and so much of it is headings, at most.
HEADING_SIZE = 1.25
# What goes on for longer is text.
MAX_TITLE_CHARS = 300
MAX_HEADING_SHARE = 0.1


@dataclass(slots=True)
class Section:
    """What is below one heading, which stands on `page`; `notes` are the footnotes of its pages."""

    title: str
    level: int
    page: int
    paragraphs: list[Paragraph]
    notes: list[Paragraph] = field(default_factory=list)


def find_headings(pages: Sequence[list[Line]]) -> Mapping[int, Sequence[Bookmark]]:
    """Return what is much larger than most of the text, as bookmarks: the larger, the higher, up to most of them."""
    lines = [(number, line) for number, page in enumerate(pages) for line in page if not line.cells]
    sizes: Counter[int] = Counter()
    for _, line in lines:
        sizes[round(line.size)] += len(line.text)
    usual = sizes.most_common(1)[0][0] if sizes else 0
    large_lines = [line for _, line in lines if line.size > HEADING_SIZE * usual and _TITLE.search(line.text)]
    # What is framed, as an example, heads nothing outside; where all of the page is in frames, it does.
    has_free = not all(line.is_framed for line in large_lines)
    large = [round(line.size) for line in large_lines if not (has_free and line.is_framed)]
    top = Counter(large).most_common(1)[0][0] if large else 0
    # What is larger than most of them, as a title or an example, heads none of those that follow.
    smaller = sorted({size for size in large if size <= top})
    levels = {size: 1 + len(smaller) - bisect_right(smaller, size) for size in large}
    headings: dict[int, list[Bookmark]] = defaultdict(list)
    # Where much is large, as on a poster, size tells nothing.
    if sum(sizes[size] for size in levels) > MAX_HEADING_SHARE * sizes.total():
        return headings
    last: tuple[int, int] | None = None
    for number, line in lines:
        place = (number, round(line.size))
        if place[1] in levels and _TITLE.search(line.text) and not (has_free and line.is_framed):
            # A title of two lines is one; two of one size may have their numbers.
            is_second = place == last and not _SECTION.match(line.text)
            before = headings[number].pop()[1][:MAX_TITLE_CHARS] if is_second else ""
            headings[number].append((levels[place[1]], f"{before} {line.text}".lstrip()))
            last = place
        else:
            last = None
    return headings


def make_sections(pages: Sequence[list[Line]], bookmarks: Mapping[int, Sequence[Bookmark]]) -> list[Section]:
    """Return what is below each bookmark, over all of its pages; without any, what is on each page, below its number.

    What stands above the first bookmark has no title.
    """
    sections: list[Section] = []
    layout = find_layout([line for page in pages for line in page])
    foot = floor = min((line.bottom for page in pages for line in page), default=0.0)
    for page, lines_and_notes in enumerate(pages, 1):
        lines, notes = split_notes(lines_and_notes)
        headings = _place_bookmarks([line.text for line in lines], bookmarks.get(page - 1, ()))
        make = partial(_make_paragraphs, page=page, layout=layout)
        first = make(lines[: headings[0][0] if headings else len(lines)])
        if first and sections and (before := sections[-1].paragraphs):
            # What goes on belongs to where it began.
            first = first[join_pages(before[-1], first[0], foot) :]
        if first and bookmarks and sections:
            sections[-1].paragraphs += first
        elif first:
            sections.append(Section("" if bookmarks else f"Page {page}", 1, page, first))
        for index, (_, start, level, title) in enumerate(headings):
            end = headings[index + 1][0] if index + 1 < len(headings) else len(lines)
            sections.append(Section(title, level, page, make(lines[start:end])))
        for place, note in notes if sections else ():
            # The last sections start on the page, the one before them goes on there.
            begun = bisect_right([first for first, *_ in headings], place)
            sections[max(0, len(sections) - 1 - len(headings) + begun)].notes += make(note)
        # Above notes, a page ends earlier.
        foot = lines[-1].bottom if lines and notes else floor
    return sections


def _make_paragraphs(lines: Sequence[Line], page: int, layout: Layout) -> list[Paragraph]:
    paragraphs = make_paragraphs(lines, layout)
    for paragraph in paragraphs:
        paragraph.pages = [page] * (len(paragraph.cells) or paragraph.text.count("\n") + 1)
    return paragraphs


def _place_bookmarks(lines: Sequence[str], bookmarks: Sequence[Bookmark]) -> list[tuple[int, int, int, str]]:
    """Return where each bookmark's line is, where its text begins, its level and its title.

    One that stands nowhere on its page begins where the one before it does: at the top, if it is the first.
    """
    spans: dict[str, tuple[int, int]] = {}
    for normalize in (_normalize, _close_up_unnumbered, _close_up):
        for number, line in reversed(list(enumerate(lines))):
            following_line = lines[number + 1] if number + 1 < len(lines) else ""
            spans[normalize(line + following_line)] = (number, number + 2)
            spans[normalize(line)] = (number, number + 1)
    places: list[tuple[int, int, int, str]] = []
    for level, title in bookmarks:
        last_start = places[-1][1] if places else 0
        first, end = spans.get(_close_up(title)) or spans.get(_normalize(title), (last_start, last_start))
        places.append((max(first, last_start), max(end, last_start), level, title))
    return places


def _close_up(text: str) -> str:
    return "".join(text.casefold().split())


def _close_up_unnumbered(text: str) -> str:
    return _close_up(_SECTION.sub("", text, count=1)) if _SECTION.match(text) else _close_up(text)


def _normalize(text: str) -> str:
    """Return a title without what bookmarks and pages write differently: spaces, marks, the number of a section."""
    return "".join(character for character in text.casefold() if character.isalpha()) or text
