"""Names that the Python code of an answer takes from a package: what can be looked up with certainty.

These are imported names, the modules on the way, what stands behind the dot of an imported module, and the arguments
that calls of these name. Attributes of objects are left out: who made an object, no list of names tells.
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
_OBJECT = re.compile(r"(?P<name>[A-Za-z_]\w{0,100})(?:[ \t]+as[ \t]+(?P<alias>\w{1,100}))?")
_DOTTED_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*+(?:\.[A-Za-z_]\w*+){1,8}")

# Brackets, with what is called, and arguments that are named. A definition calls nothing; the parameters of a lambda
# stand between it and its colon as arguments do in brackets.
_LAMBDA = "lambda"
_CALL_PART = re.compile(
    rf"(?<![\w.])(?P<lambda>{_LAMBDA})\b|(?P<colon>:)|"
    r"(?P<definition>\b(?:def|class)[ \t]+)?(?P<callee>(?<![\w.])[A-Za-z_][\w.]*+)?(?P<open>[(\[{])"
    r"|(?P<close>[)\]}])"
    r"|(?<![\w.])(?P<argument>[A-Za-z_]\w*+)[ \t]*+=(?!=)"
)
_DEFINITION = re.compile(
    r"^[ \t]*(?:@[ \t]*(?P<decorator>[\w.]+)|(?:async[ \t]+)?(?P<kind>def|class)[ \t]+(?P<name>\w+))", re.MULTILINE
)
# After any other decorator, what is called may take other arguments than the definition has.
_HARMLESS_DECORATORS = frozenset(
    {"staticmethod", "classmethod", "property", "abstractmethod", "overload", "override", "final"}
    | {"cache", "lru_cache", "contextmanager", "asynccontextmanager"}
)
_SIGNATURE_PART = re.compile(r"(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)")
_PARAMETER = re.compile(r"\s*+(\*{0,2})\s*+([A-Za-z_]\w*)")
# From a definition to its brackets, and to their end.
MAX_HEADER_CHARS = 200
MAX_SIGNATURE_CHARS = 4000
# Among the parameters of a definition: it takes any argument, or nobody can tell.
ANY_ARGUMENT = "**"


def find_package_names(text: str, packages: Collection[str]) -> list[str]:
    """Return the dotted names that the Python blocks of an answer take from one of these packages, each once.

    >>> find_package_names("```python\\nfrom flask import Flask as F\\nimport flask as f\\nf.g.user\\n```", {"flask"})
    ['flask.Flask', 'flask', 'flask.g']
    """
    names = [name for block in _BLOCK.finditer(text) for name in _iter_names(block[1])]
    return [name for name in dict.fromkeys(names) if name.partition(".")[0] in packages]


def find_named_arguments(text: str, packages: Collection[str]) -> list[tuple[str, str]]:
    """Return what the Python blocks of an answer call of these packages with a named argument, and that, each once.

    >>> find_named_arguments("```python\\nfrom flask import Flask as F\\nF('x', root_path=p(q=1))\\n```", {"flask"})
    [('flask.Flask', 'root_path')]
    """
    arguments = [pair for block in _BLOCK.finditer(text) for pair in _iter_arguments(block[1])]
    return [pair for pair in dict.fromkeys(arguments) if pair[0].partition(".")[0] in packages]


def find_parameters(code: str, name: str) -> frozenset[str]:
    """Return the parameters of the function or class of this name that Python code defines; empty if it defines none.

    `ANY_ARGUMENT` is one of them where a definition takes any, is not there in full, has a decorator that may change
    them, or is that of a class without an initializer of its own.

    >>> sorted(find_parameters("class A:\\n    def __init__(self, x: dict[str, int], *, y=(1, 2)): ...", "A"))
    ['self', 'x', 'y']
    """
    code = _COMMENT_OR_STRING.sub(_get_placeholder, code)
    parameters: set[str] = set()
    is_changed = False
    is_in_class = False
    for line in _DEFINITION.finditer(code):
        if line["decorator"]:
            is_changed |= line["decorator"].rpartition(".")[2] not in _HARMLESS_DECORATORS
            continue
        is_wanted = line["name"] == ("__init__" if is_in_class and line["kind"] == "def" else name)
        if (is_changed and is_wanted) or (is_in_class and line["kind"] == "class"):
            return frozenset({ANY_ARGUMENT})
        is_changed = False
        if is_wanted and line["kind"] == "def":
            opening = code.find("(", line.end(), line.end() + MAX_HEADER_CHARS)
            parameters |= _read_parameters(code, opening) if opening >= 0 else {ANY_ARGUMENT}
            is_in_class = False
        elif is_wanted:
            is_in_class = True
    return frozenset(parameters | {ANY_ARGUMENT} if is_in_class else parameters)


def _read_parameters(code: str, start: int) -> set[str]:
    """Return the parameters in the brackets that open at `start`."""
    parameters: set[str] = set()
    depth = 0
    part_start = start + 1
    for part in _SIGNATURE_PART.finditer(code, start, start + MAX_SIGNATURE_CHARS):
        depth += bool(part["open"]) - bool(part["close"])
        if depth == 0 or (depth == 1 and part["comma"]):
            if parameter := _PARAMETER.match(code, part_start, part.start()):
                parameters.add(ANY_ARGUMENT if parameter[1] == ANY_ARGUMENT else parameter[2])
            part_start = part.end()
        if depth == 0:
            return parameters
    return {ANY_ARGUMENT}


def _iter_names(code: str) -> Iterator[str]:
    code = _COMMENT_OR_STRING.sub(_get_placeholder, code)
    for _, name in _iter_objects(code):
        yield name
    modules = _find_modules(code)
    yield from modules.values()
    for match in _DOTTED_NAME.finditer(code):
        parts = match[0].split(".")
        # The longest module that the name begins with; what follows its first attribute belongs to an object.
        length = next((n for n in range(len(parts) - 1, 0, -1) if ".".join(parts[:n]) in modules), 0)
        if length:
            yield f"{modules['.'.join(parts[:length])]}.{parts[length]}"


def _iter_arguments(code: str) -> Iterator[tuple[str, str]]:
    code = _COMMENT_OR_STRING.sub(_get_placeholder, code)
    objects = dict(_iter_objects(code))
    modules = _find_modules(code)
    callees: list[str] = []
    for part in _CALL_PART.finditer(code):
        if part["open"]:
            callees.append("" if part["definition"] else part["callee"] or "")
        elif part["lambda"]:
            callees.append(_LAMBDA)
        elif part["colon"]:
            if callees[-1:] == [_LAMBDA]:
                callees.pop()
        elif part["close"]:
            # A lambda without a colon ends as well.
            while callees and callees.pop() == _LAMBDA:
                pass
        elif callees:
            module, _, attribute = callees[-1].rpartition(".")
            name = f"{modules[module]}.{attribute}" if module in modules else objects.get(callees[-1])
            if name:
                yield name, part["argument"]


def _iter_objects(code: str) -> Iterator[tuple[str, str]]:
    """Yield what the code imports from modules, behind its name in the code."""
    for match in _FROM.finditer(code):
        for item in (match["lines"] or match["line"]).split(","):
            if found := _OBJECT.match(item.strip()):
                yield found["alias"] or found["name"], f"{match['module']}.{found['name']}"


def _find_modules(code: str) -> dict[str, str]:
    """Return the modules that the code imports, by their names in the code."""
    items = [item.strip() for match in _IMPORT.finditer(code) for item in match["modules"].split(",")]
    imports = [found for item in items if (found := _MODULE.fullmatch(item))]
    return {match["alias"] or match["module"]: match["module"] for match in imports}


def _get_placeholder(match: re.Match[str]) -> str:
    # An empty string still keeps apart what stands before and behind it.
    return "" if match[0].startswith("#") else "''"
