"""reStructuredText by underlined headings."""

from __future__ import annotations

import re
from collections.abc import Sequence

from knowledge.chunking.lines import LineRange, Lines, Section, complete_paths, get_root_title, spans_from, to_chunks
from knowledge.ports import Chunk, Document

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_MARKER = re.compile(r"\.\. _[^:]*:[ \t]*$|\.\. (?:meta|index|currentmodule|highlight|contents)::.*$")
_ROLE = re.compile(r":[\w:.+-]{1,60}:`~?([^`<]*+)(?:<[^>`]*+>)?`")
_MARKUP = re.compile(r"(``|`|\*\*|\*)(?=\S)(.+?)(?<=\S)\1_{0,2}")
# Their bodies are pages of HTML, pictures that link to other pages, or lists of file names: nothing that can be read.
_GENERATED = re.compile(r"^([ \t]*)\.\. (?:raw:: html|toctree::|minigallery::|thumbnail-parent-div)")
_ITEM = re.compile(r"(?:[-*+•]|\d+[.)]|#\.)[ \t]|:[^:]+:[ \t]")


def chunk_rst(document: Document, tokens: int) -> list[Chunk]:
    """Split by heading; long sections at blocks, so that a directive or literal block stays with its indented body."""
    lines = blank_generated(Lines.from_text(document.text))
    sections = complete_paths(parse_rst_sections(lines.lines), get_root_title(document))
    return to_chunks(lines, sections, tokens, lambda section: split_rst_blocks(lines, section.span))


def blank_generated(lines: Lines) -> Lines:
    """Blank the directives whose bodies are no prose, so that they are in no chunk; the lines keep their numbers."""
    texts = list(lines.lines)
    indent = -1
    for number, text in enumerate(texts):
        is_inside = indent >= 0 and (not text.strip() or len(text) - len(text.lstrip()) > indent)
        if not is_inside:
            match = _GENERATED.match(text)
            indent = len(match[1]) if match else -1
        if is_inside or indent >= 0:
            texts[number] = ""
    return Lines(texts)


def parse_rst_sections(texts: Sequence[str]) -> list[Section]:
    """Find the sections of a text given as lines. Levels follow the order in which adornments first appear."""
    sections = []
    styles: list[str] = []
    names: list[str] = []
    start = 1
    body_start = 1
    number = 1
    while number <= len(texts):
        heading = _match_heading(texts, number)
        if not heading:
            number += 1
            continue
        style, name, end = heading
        first_line = _include_labels(texts, number, body_start)
        level = _get_level(styles, style)
        is_empty = not any(text.strip() for text in texts[body_start - 1 : first_line - 1])
        if first_line > start and not (is_empty and level > len(names) - 1):
            sections.append(Section(tuple(names), start, first_line - 1))
            start = first_line
        names = [*names[:level], name]
        number = body_start = end + 1
    sections.append(Section(tuple(names), start, len(texts)))
    return [section for section in sections if section.start <= section.end]


def _get_level(styles: list[str], style: str) -> int:
    if style not in styles:
        styles.append(style)
    return styles.index(style)


def _match_heading(texts: Sequence[str], number: int) -> tuple[str, str, int] | None:
    """Return style, name and last line of a heading that starts here."""
    if number > 1 and texts[number - 2].strip() and not _MARKER.match(texts[number - 2]):
        return None
    line = texts[number - 1]
    next_lines = texts[number : number + 2]
    overline = _ADORNMENT.match(line)
    if overline and len(next_lines) == 2 and next_lines[0].strip() and next_lines[1].rstrip() == line.rstrip():
        return "over" + overline[1], _strip_markup(next_lines[0]), number + 2
    if overline or not line.strip() or line[0].isspace() or not next_lines:
        return None
    underline = _ADORNMENT.match(next_lines[0])
    if underline is None or _MARKER.match(line):
        return None
    return underline[1], _strip_markup(line), number + 1


def _include_labels(texts: Sequence[str], number: int, body_start: int) -> int:
    """Return where a heading starts when the link targets right above it are counted in."""
    first_line = number
    line_number = number - 1
    while line_number >= body_start and (
        not texts[line_number - 1].strip() or texts[line_number - 1].startswith(".. _")
    ):
        if texts[line_number - 1].strip():
            first_line = line_number
        line_number -= 1
    return first_line


def _strip_markup(name: str) -> str:
    return " ".join(_MARKUP.sub(r"\2", _ROLE.sub(lambda match: match[1].rstrip(" \t"), name)).split()) or "(untitled)"


def split_rst_blocks(lines: Lines, span: LineRange) -> list[LineRange]:
    """Divide a section where an unindented block or list item starts."""
    starts = [span.start]
    for number in range(span.start + 1, span.end + 1):
        line = lines[number]
        if not line.strip() or line[0].isspace():
            continue
        if not lines[number - 1].strip() or _ITEM.match(line):
            starts.append(number)
    return spans_from(starts, span.end)
