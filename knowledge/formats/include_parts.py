"""Which lines of an included file are shown: by number, by text around them, by a marked part, by a definition."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

# The marks of a part, alone in a comment: of AsciiDoc, mdBook, MkDocs, Vocs and VitePress.
_BEGIN = re.compile(
    r"\btag::([\w.-]+)\[\]|\bANCHOR:\s*([\w-]+)|-8<-+\s*\[start:\s*([\w-]+)\]|(?:\[!|(?<!\w)#)region\s+([\w.-]+)"
)
_END = re.compile(
    r"\bend::([\w.-]+)\[\]|\bANCHOR_END:\s*([\w-]+)|-8<-+\s*\[end:\s*([\w-]+)\]"
    r"|(?:\[!|(?<!\w)#)endregion\b(?:\s+([\w.-]+))?"
)
# What a line with a mark has: most lines of a long file have none of these.
_SIGNS = ("::", "ANCHOR", "8<-", "region")
_CMAKE_COMMENT = re.compile(r"#\[(=*)\[\.rst:[ \t]*$")
_RANGE = re.compile(r"\s*+(\d{0,7})\s*+(?:(?:-|\.\.|:)\s*+(-?\d{0,7}))?\s*+$")
_TAG_SECTION = re.compile(r"[ \t]*<(/?)section(?: id=[\"']([\w.-]{1,100})[\"'])?>[ \t]*$")


def select_lines(lines: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """Return the lines that options choose, by the names that the tools give them, without the marks of parts."""
    selectors: tuple[tuple[tuple[str, ...], Callable[[Sequence[str], str], Sequence[str]]], ...] = (
        (("pyobject",), _select_definition),
        (("part",), _select_part),
        (("tag", "tags"), _select_tags),
        (("lines",), _select_ranges),
        (("start-line",), lambda rows, value: rows[_to_number(value, 0) :]),
        (("end-line",), lambda rows, value: rows[: _to_number(value, len(rows))]),
        (("start-after",), lambda rows, value: rows[_find(rows, value, -1) + 1 :]),
        (("start-at",), lambda rows, value: rows[max(0, _find(rows, value, 0)) :]),
        (("end-before",), lambda rows, value: rows[: _find(rows, value, len(rows))]),
        (("end-at",), lambda rows, value: rows[: _find(rows, value, len(rows)) + 1]),
    )
    selected_lines: Sequence[str] = lines
    for names, select in selectors:
        for name in names:
            if name in options:
                selected_lines = select(selected_lines, options[name])
    return [line for line in selected_lines if not (_search(_BEGIN, line) or _search(_END, line))]


def read_cmake_comments(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a module of CMake that are its documentation: those of comments in brackets for it.

    >>> list(read_cmake_comments(["#[==[.rst:", "Title", "#]==]", "set(a b)"]))
    ['Title']
    """
    end = ""
    for line in lines:
        if not end:
            start = _CMAKE_COMMENT.match(line)
            end = f"]{start[1]}]" if start else ""
        elif line.lstrip("# \t").startswith(end):
            end = ""
        else:
            yield line


def _search(mark: re.Pattern[str], line: str) -> re.Match[str] | None:
    return mark.search(line) if any(sign in line for sign in _SIGNS) else None


def _to_number(value: str, default: int) -> int:
    return int(value) if re.fullmatch(r"-?\d{1,7}", value) else default


def _find(lines: Sequence[str], text: str, default: int) -> int:
    return next((number for number, line in enumerate(lines) if text and text in line), default)


def _select_ranges(lines: Sequence[str], ranges: str) -> list[str]:
    """Return lines by their numbers: `1-3,7-` or `1..3;7..-1`."""
    chosen: set[int] = set()
    for each in re.split(r"[,;]", ranges):
        if match := _RANGE.match(each):
            start = int(match[1] or 1)
            end = start if match[2] is None else len(lines) if match[2] in ("", "-", "-1") else int(match[2])
            chosen.update(range(start, min(end, len(lines)) + 1))
    return [line for number, line in enumerate(lines, 1) if number in chosen]


def _select_part(lines: Sequence[str], part: str) -> list[str]:
    """Return the part behind a colon: one with a name, or lines."""
    return _select_ranges(lines, part) if _RANGE.match(part) else _select_tags(lines, part)


def _select_tags(lines: Sequence[str], tags: str) -> list[str]:
    """Return the lines in one of some marked parts. `*` and `**` are all of them, `!a` those outside one."""
    names = {tag.strip() for tag in re.split(r"[;,]", tags) if tag.strip()}
    unwanted = {name[1:] for name in names if name.startswith("!")}
    wanted = {name for name in names if not name.startswith("!")}
    open_names: list[str] = []
    selected_lines = []
    for line in lines:
        if begin := _search(_BEGIN, line):
            open_names.append(begin[begin.lastindex or 1])
        elif end := _search(_END, line):
            # One without a name ends the last part.
            name = end[end.lastindex] if end.lastindex else "".join(open_names[-1:])
            open_names = [each for each in open_names if each != name]
        elif not unwanted.intersection(open_names) and _is_wanted(wanted, open_names):
            selected_lines.append(line)
    return selected_lines


def _is_wanted(wanted: set[str], open_names: Sequence[str]) -> bool:
    if not wanted or "**" in wanted:
        return True
    return bool(open_names) if "*" in wanted else not wanted.isdisjoint(open_names)


def parse_python(text: str) -> Sequence[ast.stmt]:
    """Return the statements of a text in Python, which is not run; none where it cannot be read."""
    try:
        return ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _select_definition(lines: Sequence[str], name: str) -> Sequence[str]:
    """Return a class, a function or a method of Python by its dotted name."""
    nodes = parse_python("\n".join(lines))
    found: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for part in name.split("."):
        definitions = (
            node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        )
        found = next((node for node in definitions if node.name == part), None)
        if found is None:
            return lines
        nodes = found.body
    if found is None:
        return lines
    start = min([found.lineno, *(decorator.lineno for decorator in found.decorator_list)])
    return lines[start - 1 : found.end_lineno]


def select_section(lines: Sequence[str], name: str) -> Iterator[str]:
    """Yield what stands between the tags of a section with a name."""
    is_open = False
    for line in lines:
        if tag := _TAG_SECTION.match(line):
            is_open = tag[2] == name and not tag[1]
        elif is_open:
            yield line
