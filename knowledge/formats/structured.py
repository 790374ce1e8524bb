"""Text formats with a structure of their own: HTML, AsciiDoc."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from knowledge.parsing.limits import FormatError, map_parser_errors

_ASCIIDOC_TITLE = re.compile(r"(={1,6})[ \t]+(\S.*)$")
_ASCIIDOC_SOURCE = re.compile(r"\[source(?:,([\w+-]++))?[^\]\n]*+\]$")
_ASCIIDOC_DELIMITER = re.compile(r"-{4,}[ \t]*$")
_ASCIIDOC_ATTRIBUTE = re.compile(r"(?::[\w-]+!?:.*|//(?!/).*|\[\[?[\w.,=# \"-]+\]?\])$")


@map_parser_errors
def read_html(data: bytes) -> str:
    """Return the main text of a page. Raises `FormatError`."""
    from knowledge.formats.html import read_page

    page = read_page(data, "file:///")
    if not page.text:
        raise FormatError("it holds no text")
    has_heading = page.text.lstrip().startswith("#") or not page.title
    return page.text if has_heading else f"# {page.title}\n\n{page.text}"


@map_parser_errors
def read_asciidoc(text: str) -> str:
    """Return AsciiDoc with Markdown's headings and code fences; the rest reads alike. Takes linear time."""
    lines = text.split("\n")
    results = list[str]()
    ends = _find_block_ends(lines)
    number = 0
    while number < len(lines):
        line = lines[number]
        end = ends.get(number)
        if end is not None and line.startswith("-"):
            source = _ASCIIDOC_SOURCE.match(lines[number - 1]) if number else None
            if source and results and results[-1] == lines[number - 1]:
                results.pop()
            language = (source[1] or "") if source else ""
            results += [f"```{language}", *lines[number + 1 : end], "```"]
        elif end is not None:
            results += lines[number : end + 1]
        elif title := _ASCIIDOC_TITLE.match(line):
            results.append("#" * len(title[1]) + " " + title[2])
        elif _opens_listing(lines, number, ends) or not _ASCIIDOC_ATTRIBUTE.match(line):
            results.append(line)
        number = number + 1 if end is None else end + 1
    return "\n".join(results)


def _opens_listing(lines: Sequence[str], number: int, ends: Mapping[int, int]) -> bool:
    """Return whether a line says of which language the listing below it is."""
    is_above_listing = number + 1 in ends and lines[number + 1].startswith("-")
    return is_above_listing and _ASCIIDOC_SOURCE.match(lines[number]) is not None


def _find_block_ends(lines: Sequence[str]) -> Mapping[int, int]:
    """Return where each block of code ends that a line opens: a listing between dashes, or a Markdown fence."""
    ends: dict[int, int] = {}
    next_dashes: int | None = None
    next_fence: int | None = None
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if _ASCIIDOC_DELIMITER.match(line):
            if next_dashes is not None and not line.endswith((" ", "\t")):
                ends[number] = next_dashes
            next_dashes = number
        elif line.startswith("```"):
            if next_fence is not None:
                ends[number] = next_fence
            next_fence = number if line == "```" else next_fence
    return ends
