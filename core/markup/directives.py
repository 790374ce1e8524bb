"""What is written as a directive of MyST: the names that are known, its options, and the fields that stand alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.markup.inline import write_short_codes

# What is set apart from the text, with the title that a reader sees where it gives none.
ADMONITIONS = {
    name: name.capitalize()
    for name in """
    note warning tip hint important attention caution danger error info success question failure bug example abstract
    summary todo check notice quote
    """.split()  # noqa: SIM905 (one word a line would hide the code)
} | {"seealso": "See also", "admonition": "", "callout": "", "alert": "", "aside": ""}
VERSIONS = {"versionadded": "Added in", "versionchanged": "Changed in", "deprecated": "Deprecated since"}
CODE_DIRECTIVES = frozenset(
    ("code", "code-block", "code-cell", "sourcecode", "prompt", "parsed-literal", "doctest", "terminal", "testcode")
)
# Code of which the name says the language: the cells of R Markdown and Quarto, and drawings.
CELLS = frozenset(("r", "python", "julia", "bash", "sql", "js", "ojs", "math", "mermaid", "dot"))
# What they hold is a list of files, a picture or an index.
EMPTY_DIRECTIVES = frozenset(
    (
        "toctree",
        "include",
        "literalinclude",
        "image",
        "contents",
        "index",
        "currentmodule",
        "bibliography",
        "raw-cell",
    )
)
SHOWN_OPTION = re.compile(
    r"^[ \t]*:([\w-]+):[ \t]+(?:\"?([^\Wa-z][^\s\"]*[ ][^\n\"]+)|\"([^\n\"]+)\"[ \t]*$)", re.MULTILINE
)
_OPTION = re.compile(r"[ \t]*:[\w-]+:(?:[ \t]|$)")
_FIELD = re.compile(r"^:([A-Za-z][\w .-]{0,60}):[ \t]+(?=\S)", re.MULTILINE)


def read_fields(text: str) -> list[tuple[str, str]]:
    """Return the names and the texts of MyST's fields, where a text has nothing else; an icon begins none."""
    parts = _FIELD.split(text) if text.startswith(":") else [text]
    fields = list(zip(parts[1::2], parts[2::2], strict=True))
    names = [f":{name}:" for name, _ in fields]
    return fields if not parts[0] and all(name == write_short_codes(name) for name in names) else []


def name_directive(name: str, argument: str) -> tuple[str, str, str]:
    """Return what a directive is read as, its title, and the beginning of its text."""
    if name in VERSIONS:
        version, _, text = argument.partition(" ")
        return "note", f"{VERSIONS[name]} {version}", text
    if ":" in name and argument:
        # What a domain describes, such as a function.
        return "card", f"`{argument.replace('`', '')}`", ""
    return (name, "", argument) if ADMONITIONS.get(name) else (name, argument, "")


def skip_options(lines: Sequence[str], numbers: Sequence[int]) -> tuple[list[str], list[int]]:
    """Return the lines of a directive below its options, which are fields or a block of YAML."""
    start = 0
    if lines[:1] == ["---"] and "---" in lines[1:]:
        start = lines.index("---", 1) + 1
    while start < len(lines) and (_OPTION.match(lines[start]) or not lines[start].strip()):
        start += 1
    return list(lines[start:]), list(numbers[start:])
