"""Markdown by heading (CommonMark's block rules as far as borders need them)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge.chunking.lines import LineRange, Lines, Section, complete_paths, get_root_title, spans_from, to_chunks
from knowledge.ports import Chunk, Document

_ATX = re.compile(r"(#{1,6})(?:[ \t]+(.*))?$")
_SETEXT = re.compile(r"(=+|-{2,})[ \t]*$")
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)$")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_NON_PARAGRAPH = re.compile(r"[ \t]{4}|[ \t]*(?:#{1,6}[ \t]|[>|]|(?:[-*+]|\d{1,9}[.)])[ \t]|`{3}|~{3}|[=-]+[ \t]*$)")
_HTML_ENDS = {"<!--": "-->", "<pre": "</pre>", "<script": "</script>", "<style": "</style>"}
_FRONT_KEY = re.compile(r"[A-Za-z_][\w -]*+[ \t]*+[:=]|#")
_FRONT_TITLE = re.compile(r"title[ \t]*[:=][ \t]*(.+)")
_INLINE = (
    (re.compile(r"!\[([^\]]{0,200})\]\([^)]{0,400}\)"), r"\1"),
    (re.compile(r"\[([^\]]{0,200})\](?:\([^)]{0,400}\)|\[[^\]]{0,200}\])"), r"\1"),
    # The anchor of a heading: {#install}, or {/*install*/} in MDX.
    (re.compile(r"(?<![ \t])[ \t]*+\{(?:#|/\*)[^}]{0,200}\}[ \t]*$"), ""),
    (re.compile(r"</?[A-Za-z][^<>]*>"), ""),
    (re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|`{1,3})(?=\S)(.{1,200}?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
)
_MAX_SETEXT_LINES = 3
MAX_HEADING_LENGTH = 1_000

Heading = tuple[int, int, str]


def chunk_markdown(document: Document, tokens: int) -> list[Chunk]:
    """Split by heading; long sections at paragraphs, list items, fences and tables."""
    lines = Lines.from_text(document.text)
    first_line, title = _front_matter(lines)
    headings = list(_find_headings(lines, first_line))
    sections = _make_sections(lines, headings, first_line)
    has_top_heading = bool(headings) and headings[0][1] == 1
    titled_sections = complete_paths(
        sections, document.title or title or get_root_title(document), allow_single_root=has_top_heading
    )
    return to_chunks(lines, titled_sections, tokens, lambda section: _split_blocks(lines, section.span))


def parse_markdown_sections(lines: Lines) -> list[Section]:
    """Find the sections of Markdown without front matter."""
    return _make_sections(lines, list(_find_headings(lines, 1)), 1)


def _make_sections(lines: Lines, headings: list[Heading], first_line: int) -> list[Section]:
    """Build sections from headings `(line, level, name)`. A heading without a body opens its first subsection."""
    sections = []
    open_headings: list[tuple[int, str]] = []
    start = first_line
    is_pending = not headings or headings[0][0] > first_line
    for index, (line, level, name) in enumerate(headings):
        if is_pending and line > start:
            sections.append(Section(tuple(heading_name for _, heading_name in open_headings), start, line - 1))
            start = line
        open_headings = [*(heading for heading in open_headings if heading[0] < level), (level, name)]
        next_heading = headings[index + 1] if index + 1 < len(headings) else None
        is_empty = next_heading is not None and lines.is_blank(_line_after_heading(lines, line), next_heading[0] - 1)
        is_pending = next_heading is None or not (is_empty and next_heading[1] > level)
    if start <= len(lines):
        sections.append(Section(tuple(heading_name for _, heading_name in open_headings), start, len(lines)))
    return sections


def _line_after_heading(lines: Lines, number: int) -> int:
    """Return the line after a heading, its underline included."""
    if _ATX.match(lines[number].strip()):
        return number + 1
    while number < len(lines) and not _SETEXT.match(lines[number].strip()):
        number += 1
    return number + 1


def _front_matter(lines: Lines) -> tuple[int, str]:
    """Return the first line after front matter, and the title that it gives."""
    fence = lines[1].rstrip()
    if fence not in ("---", "+++") or len(lines) < 3 or not _FRONT_KEY.match(lines[2]):
        return 1, ""
    title = ""
    for number in range(2, len(lines) + 1):
        line = lines[number].rstrip()
        if line == fence or (fence == "---" and line == "..."):
            return number + 1, title
        if match := _FRONT_TITLE.match(line):
            title = match[1].strip().strip("\"'")
    return 1, ""


def _find_headings(lines: Lines, first_line: int) -> Iterator[Heading]:
    number = first_line
    while number <= len(lines):
        line = lines[number]
        text = line.lstrip()
        if text and text[0] in "#`~<=-":
            end = _opaque_block_end(lines, number, text)
            if end:
                number = end + 1
                continue
            if len(line) - len(text) <= 3:
                if match := _ATX.match(text):
                    yield number, len(match[1]), _strip_markup(_strip_closing(match[2] or ""))
                elif match := _SETEXT.match(text):
                    start = _setext_start(lines, number, first_line)
                    if start:
                        name = " ".join(lines[title_line].strip() for title_line in range(start, number))
                        yield start, 1 if match[1][0] == "=" else 2, _strip_markup(name)
        number += 1


def _opaque_block_end(lines: Lines, number: int, text: str) -> int:
    """Return the last line of a fence or HTML block that opens here, or 0 when none opens."""
    if match := _FENCE.match(text):
        fence_marker = match[1]
        info_string = match[2]
        if fence_marker[0] == "`" and "`" in info_string:
            return 0
        for line_number in range(number + 1, len(lines) + 1):
            closing = lines[line_number].strip()
            if closing.startswith(fence_marker) and not closing.strip(fence_marker[0]):
                return line_number
        return len(lines)
    lower_start = text[:8].lower()
    for opening, closing in _HTML_ENDS.items():
        if lower_start.startswith(opening):
            for line_number in range(number, len(lines) + 1):
                if closing in lines[line_number].lower():
                    return line_number
            return len(lines)
    return 0


def _setext_start(lines: Lines, underline: int, first_line: int) -> int:
    """Return where the paragraph above an underline starts, or 0 when there is none that can be a heading."""
    start = underline
    while start > first_line and lines[start - 1].strip() and not _NON_PARAGRAPH.match(lines[start - 1]):
        start -= 1
    if start == underline or underline - start > _MAX_SETEXT_LINES:
        return 0
    is_interrupted = start > first_line and lines[start - 1].strip() and not _ends_block(lines[start - 1])
    return 0 if is_interrupted else start


def _ends_block(line: str) -> bool:
    """Return whether a paragraph may start right below this line: a heading, an underline or a fence."""
    text = line.strip()
    return bool(_ATX.match(text) or _SETEXT.match(text) or _FENCE.match(text))


def _strip_closing(name: str) -> str:
    """Strip the blanks and the number signs that close a heading."""
    name = name.rstrip(" \t")
    opening = name.rstrip("#")
    return opening.rstrip(" \t") if opening.endswith((" ", "\t")) else name


def _strip_markup(name: str) -> str:
    """Strip inline markup from a heading, and cut a very long one."""
    name = name[:MAX_HEADING_LENGTH]
    for pattern, replacement in _INLINE:
        name = pattern.sub(replacement, name)
    return " ".join(name.split()) or "(untitled)"


def _split_blocks(lines: Lines, span: LineRange) -> list[LineRange]:
    """Divide a section into paragraphs, list items, fences and tables."""
    starts = [span.start]
    number = span.start
    item_indent = -1
    while number <= span.end:
        line = lines[number]
        text = line.lstrip()
        indent = len(line) - len(text)
        if text:
            item = _ITEM.match(line)
            is_after_blank = number > span.start and not lines[number - 1].strip()
            is_inside_item = item_indent >= 0 and indent > item_indent
            if item and not (is_inside_item and item_indent >= 0):
                item_indent = indent
                starts.append(number)
            elif is_after_blank and not is_inside_item:
                item_indent = -1
                starts.append(number)
            end = min(_opaque_block_end(lines, number, text), span.end)
            if end and not is_inside_item:
                starts += [number, end + 1]
            number = max(number, end)
        number += 1
    return spans_from([start for start in sorted(set(starts)) if start <= span.end], span.end)
