"""reStructuredText by underlined headings."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowledge.chunking.lines import Lines, Section, Span, chunks_of, root_name, rooted, spans_from
from knowledge.ports import Chunk, Document

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_MARKER = re.compile(r"\.\. _[^:]*:[ \t]*$|\.\. (?:meta|index|currentmodule|highlight|contents)::.*$")
_ROLE = re.compile(r":[\w:.+-]+:`~?([^`<]*?)[ \t]*(?:<[^>]*>)?`")
_MARKUP = re.compile(r"(``|`|\*\*|\*)(?=\S)(.+?)(?<=\S)\1_{0,2}")
_ITEM = re.compile(r"(?:[-*+•]|\d+[.)]|#\.)[ \t]|:[^:]+:[ \t]")


def chunk_rst(document: Document, tokens: int) -> list[Chunk]:
    """Split by heading; long sections at blocks, so that a directive or literal block stays with its indented body."""
    lines = Lines.of(document.text)
    sections = rooted(rst_sections(lines.lines), root_name(document))
    return chunks_of(lines, sections, tokens, lambda section: rst_blocks(lines, section.span))


def rst_sections(texts: Sequence[str]) -> list[Section]:
    """Find the sections of a text given as lines. Levels follow the order in which adornments first appear."""
    sections = []
    styles: list[str] = []
    names: list[str] = []
    start, body = 1, 1
    number = 1
    while number <= len(texts):
        found = _heading(texts, number)
        if not found:
            number += 1
            continue
        style, name, end = found
        first = _with_labels(texts, number, body)
        level = _level(styles, style)
        empty = not any(text.strip() for text in texts[body - 1 : first - 1])
        if first > start and not (empty and level > len(names) - 1):
            sections.append(Section(tuple(names), start, first - 1))
            start = first
        names = [*names[:level], name]
        number = body = end + 1
    sections.append(Section(tuple(names), start, len(texts)))
    return [section for section in sections if section.start <= section.end]


def _level(styles: list[str], style: str) -> int:
    if style not in styles:
        styles.append(style)
    return styles.index(style)


def _heading(texts: Sequence[str], number: int) -> tuple[str, str, int] | None:
    """Return style, name and last line of a heading that starts here."""
    if number > 1 and texts[number - 2].strip() and not _MARKER.match(texts[number - 2]):
        return None
    line = texts[number - 1]
    below = texts[number : number + 2]
    over = _ADORNMENT.match(line)
    if over and len(below) == 2 and below[0].strip() and below[1].rstrip() == line.rstrip():
        return "over" + over[1], _plain(below[0]), number + 2
    if over or not line.strip() or line[0].isspace() or not below:
        return None
    under = _ADORNMENT.match(below[0])
    if under is None or _MARKER.match(line):
        return None
    return under[1], _plain(line), number + 1


def _with_labels(texts: Sequence[str], number: int, body: int) -> int:
    """Return where a heading starts when the link targets right above it are counted in."""
    first = number
    above = number - 1
    while above >= body and (not texts[above - 1].strip() or texts[above - 1].startswith(".. _")):
        if texts[above - 1].strip():
            first = above
        above -= 1
    return first


def _plain(name: str) -> str:
    return " ".join(_MARKUP.sub(r"\2", _ROLE.sub(r"\1", name)).split()) or "(untitled)"


def rst_blocks(lines: Lines, span: Span) -> list[Span]:
    """Divide a section where an unindented block or list item starts."""
    starts = [span.start]
    for number in range(span.start + 1, span.end + 1):
        line = lines[number]
        if not line.strip() or line[0].isspace():
            continue
        if not lines[number - 1].strip() or _ITEM.match(line):
            starts.append(number)
    return spans_from(starts, span.end)
