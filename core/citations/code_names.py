"""Names that the Python code of an answer takes from a package: what can be looked up with certainty.

These are imported names, the modules on the way, and what stands behind the dot of an imported module. Attributes of
objects and arguments of calls are left out: who made an object, and what a call passes on, no list of names tells.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_BLOCK = re.compile(r"^[ \t]*```(?:python|py)\b[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_FROM = re.compile(
    r"^[ \t]*from[ \t]+(?P<module>[A-Za-z_][\w.]{0,200})[ \t]+import[ \t]+"
    r"(?:\((?P<lines>[^()]{0,2000})\)|(?P<line>[^\n(;]{1,500}))",
    re.MULTILINE,
)
_IMPORT = re.compile(r"^[ \t]*import[ \t]+(?P<modules>[^\n;]{1,500})", re.MULTILINE)
_MODULE = re.compile(r"(?P<module>[A-Za-z_][\w.]{0,200})(?:[ \t]+as[ \t]+(?P<alias>\w{1,100}))?")
# A parser refuses code that is not whole, which that of an answer often is not. A string without an end goes on to that
# of its line, or of the code: to begin again at each quote would take quadratic time.
_COMMENT_OR_STRING = re.compile(
    r"#[^\n]*"
    r"|(?P<triple>\"{3}|'{3})(?:\\.|[^\\])*?(?:(?P=triple)|\Z)"
    r"|(?P<quote>[\"'])(?:\\.|(?!(?P=quote))[^\\\n])*(?P=quote)?",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w{0,100}")
_DOTTED_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+){1,8}")


def find_package_names(text: str, packages: Collection[str]) -> list[str]:
    """Return the dotted names that the Python blocks of an answer take from one of these packages, each once.

    >>> find_package_names("```python\\nfrom flask import Flask as F\\nimport flask as f\\nf.g.user\\n```", {"flask"})
    ['flask.Flask', 'flask', 'flask.g']
    """
    names = [name for block in _BLOCK.finditer(text) for name in _iter_names(block[1])]
    return [name for name in dict.fromkeys(names) if name.partition(".")[0] in packages]


def _iter_names(code: str) -> Iterator[str]:
    code = _COMMENT_OR_STRING.sub(_get_placeholder, code)
    for match in _FROM.finditer(code):
        for item in (match["lines"] or match["line"]).split(","):
            if name := _NAME.match(item.strip()):
                yield f"{match['module']}.{name[0]}"
    items = [item.strip() for match in _IMPORT.finditer(code) for item in match["modules"].split(",")]
    imports = [found for item in items if (found := _MODULE.fullmatch(item))]
    modules = {match["alias"] or match["module"]: match["module"] for match in imports}
    yield from modules.values()
    for match in _DOTTED_NAME.finditer(code):
        parts = match[0].split(".")
        # The longest module that the name begins with; what follows its first attribute belongs to an object.
        length = next((n for n in range(len(parts) - 1, 0, -1) if ".".join(parts[:n]) in modules), 0)
        if length:
            yield f"{modules['.'.join(parts[:length])]}.{parts[length]}"


def _get_placeholder(match: re.Match[str]) -> str:
    # An empty string still keeps apart what stands before and behind it.
    return "" if match[0].startswith("#") else "''"
