"""The front matter of a document: what stands between two marks above it, and the title and more in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import dropwhile, islice, takewhile

_FRONT_KEY = re.compile(r"[A-Za-z_][\w -]*+[ \t]*+[:=]|#")
# All lines of YAML may be indented; by more, they are code between two rules.
_INDENT = re.compile(r"[ ]{1,3}(?=\w)")
# Hugo reads keys in any case. The title of a page may be longer than that of its entry in a menu.
_FRONT_TITLE = re.compile(r"(page[_-]?)?title[ \t]*[:=][ \t]*(.*)", re.IGNORECASE)
_DESCRIPTION = re.compile(r"description[ \t]*[:=][ \t]*(.*)", re.IGNORECASE)
# What stands among the names of a page whose site shows the description below its title.
SHOWN_DESCRIPTION = "{{front.description"
_SUBSTITUTIONS = re.compile(r"[ \t]*(?:myst_)?substitutions:[ \t]*$")
_SUBSTITUTION = re.compile(r"([ \t]+)([\w.-]{1,80}):[ \t]+(\S[^\n]{0,1000})$")
# A name with a value in one line, or with names below it; in TOML, these are below their own line.
_SCALAR = re.compile(r"([ \t]*)[\"']?([A-Za-z_][\w-]{0,80})[\"']?[ \t]*[:=](?:[ \t]+(\S.*))?[ \t]*$")
_TOML_TABLE = re.compile(r"[ \t]*\[([\w.-]{1,200})\][ \t]*$")
_ANCHOR = re.compile(r"&[\w-]+[ \t]+")
_MAX_NESTED = 5
# What a page names the values of its front matter by: in VuePress and VitePress, in Jekyll, and in MkDocs.
_PAGE_NAMES = ("frontmatter", "page", "page.meta")
_YAML_BLOCKS = frozenset((">", ">-", ">+", "|", "|-", "|+"))
# In quotes of one kind, those of the other are text, as are escaped ones.
_QUOTED = re.compile(r"\"((?>(?:[^\"\\]|\\.)+))\"|'((?>(?:[^']|'')+))'")
_ESCAPE = re.compile(r"\\([\"\\/])")
_YAML_KEY = re.compile(r"[ \t]+(?:[\w-]+:(?:[ \t]|$)|- )")


def read_title(text: str) -> str:
    """Return the title that the front matter of a document gives, or an empty string."""
    return read_front_matter(text.split("\n"))[1]


def read_description(text: str) -> tuple[str, int]:
    """Return what the front matter of a document says that it is about, and its line; or an empty string and 0."""
    lines = text.split("\n")
    end = read_front_matter(lines)[0] - 1
    found = ((number, match) for number, line in enumerate(lines[:end], 1) if (match := _DESCRIPTION.match(line)))
    return next(((_join_title(match[1].strip(), lines[number:end]), number) for number, match in found), ("", 0))


def read_substitutions(text: str) -> dict[str, str]:
    """Return the values that the front matter of a document has, of one line, by what begins their use.

    >>> read_substitutions("---\\nmyst:\\n  substitutions:\\n    big: '<b>Big</b>'\\n---\\n{{ big }}")["{{big"]
    '<b>Big</b>'
    >>> read_substitutions("---\\ntitle: 'A b'\\n---\\n# {{ $frontmatter.title }}")["{{frontmatter.title"]
    'A b'
    """
    lines = text.split("\n")
    head = lines[: read_front_matter(lines)[0] - 1]
    named = {f"{{{{{page}.{name}": value for name, value in read_scalars(head).items() for page in _PAGE_NAMES}
    return named | find_substitutions(head)


def find_substitutions(lines: Sequence[str]) -> dict[str, str]:
    """Return the values of MyST that lines of YAML have, as the front matter of a page or a setting of Jupyter Book."""
    below = list(dropwhile(lambda line: not _SUBSTITUTIONS.match(line), lines))
    values: dict[str, str] = {}
    for line in islice(below, 1, None):
        value = _SUBSTITUTION.match(line)
        if value is None or len(value[1]) <= len(below[0]) - len(below[0].lstrip()):
            break
        values[f"{{{{{value[2]}"] = value[3].strip().strip("\"'")
    return values


def read_scalars(lines: Iterable[str]) -> dict[str, str]:
    """Return the values of one line that YAML or TOML has, by their names, which dots join to those around them.

    >>> read_scalars(["a: 1 # one", "b:", "  c: &d 'e f'", "g:", "  - h: 2"])
    {'a': '1', 'b.c': 'e f'}
    >>> read_scalars(['a = "1"', "[b]", "c = 2"])
    {'a': '1', 'b.c': '2'}
    """
    values: dict[str, str] = {}
    outer: list[tuple[int, str]] = []
    table = ""
    for line in lines:
        if header := _TOML_TABLE.match(line):
            outer, table = [], f"{header[1]}."
        if not (scalar := _SCALAR.match(line)):
            continue
        while outer and outer[-1][0] >= len(scalar[1]):
            outer.pop()
        value = _ANCHOR.sub("", scalar[3] or "", count=1)
        quote = value[:1] if value[:1] in "\"'" else ""
        value = value[1:].partition(quote)[0] if quote else value.partition(" #")[0].strip()
        if value and (quote or value[0] not in "[{|>*!#"):
            values[table + ".".join([*(name for _, name in outer), scalar[2]])] = value
        elif len(outer) < _MAX_NESTED:
            outer.append((len(scalar[1]), scalar[2]))
    return values


def read_front_matter(lines: list[str]) -> tuple[int, str, int]:
    """Return the number of the first line after front matter, and the title that it gives with its line."""
    # Hugo takes blank lines before it.
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    fence = lines[start].rstrip()
    if len(lines) > start + 1 and (indent := _INDENT.match(lines[start + 1])):
        lines = [line.removeprefix(indent[0]) for line in lines]
    if fence not in ("---", "+++") or len(lines) < start + 3:
        return 1, "", 0
    if not (_FRONT_KEY.match(lines[start + 1]) or (fence == "+++" and _TOML_TABLE.match(lines[start + 1]))):
        return 1, "", 0
    title = ""
    title_line = 0
    is_of_page = False
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if line.rstrip() == fence or (fence == "---" and line.rstrip() == "..."):
            return number + 1, title, title_line
        if (match := _FRONT_TITLE.match(line)) and (match[1] or not is_of_page):
            title = _join_title(match[2].strip(), (lines[below] for below in range(number, len(lines))))
            title_line = number
            is_of_page = bool(match[1] and title)
    return 1, "", 0


def _join_title(text: str, following: Iterable[str]) -> str:
    """Return a title of YAML with the lines below it that are part of it, which are indented."""
    lines = list(takewhile(lambda line: line[:1] in (" ", "\t") and line.strip(), following))
    if not text and any(_YAML_KEY.match(line) for line in lines):
        # It has the title in several languages, or other parts.
        return ""
    title = " ".join(["" if text in _YAML_BLOCKS else text, *map(str.strip, lines)]).strip()
    quoted = _QUOTED.fullmatch(title)
    if quoted is None:
        return title.strip("\"'")
    return _ESCAPE.sub(r"\1", quoted[1]) if quoted[1] else quoted[2].replace("''", "'")
