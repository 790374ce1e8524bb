"""What a `conf.py` of Sphinx gives to its pages, read as data: none of it is run.

Known is what literals say, alone or put together, and what names of them say below.
"""

from __future__ import annotations

import ast
import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Sequence

from core.formatting import replace_lone_surrogates
from knowledge.formats.include_parts import parse_python
from knowledge.formats.inline import escape, make_link

# What is put together may grow with each line.
_MAX_CHARS = 1000
_MAX_BITS = 64
_ROLE = re.compile(r":[\w:+-]{1,40}:`([^`<>]{1,200}?)[ ]?(?:<[^<>`]{0,200}>)?`")
_RST_VALUE = re.compile(r"\.\. (\|[^|\n]{1,80}\|)[ \t]+replace::[ \t]+([^\n\"]{1,300})")
_CONSTANT = re.compile(r"^(\w+)[ \t]*=[ \t]*[\"']([^\"'\n{}]{1,200})[\"'][ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"\{([^{}\n]{0,100})\}|%\(?\w")
# Sphinx tells functions when it has read a page: many replace names in braces then, also in code.
_SOURCE_EVENT = "source-read"
_REPLACED = re.compile(r"\{\{[ ]?([\w.-]{1,80}?)[ ]?\}\}")
_LINE = re.compile(r"[^\n]{1,200}")

_Constants = ChainMap[str, object]
# The names of a dictionary, a key and its value; what is not known is `None`.
_Pair = tuple[list[str], object, object]


def read_sphinx_values(text: str) -> dict[str, str]:
    """Return what names between bars, roles, and names in braces stand for; behind `}}` are those also in code.

    >>> read_sphinx_values("host = 'a.example'\\nextlinks = {'src': ('https://' + host + '/%s', None)}")
    {'src`': 'https://a.example/%s'}
    """
    constants: _Constants = ChainMap({}, dict(_CONSTANT.findall(text)))
    values: dict[str, str] = {}
    has_event = _SOURCE_EVENT in text
    for names, key, value in _iter_pairs(parse_python(text), constants):
        match names, key, value:
            case ["extlinks"], str(role), (str(address), str() | None as caption):
                shown = caption or address
                values[f"{role}`"] = make_link(escape(shown if "%s" in shown else f"{shown}%s"), address)
            case ["myst_substitutions"], str(name), _ if substitution := _to_text(value):
                values["{{" + name] = substitution
            case _, str(key), _ if has_event and (replaced := _REPLACED.fullmatch(key)):
                # Of a value that only a run knows, the name says most.
                is_known = isinstance(value, str) and _LINE.fullmatch(value)
                values[f"{{{{{replaced[1]}}}}}"] = str(value) if is_known else replaced[1]
    known = {name: value for name, value in constants.items() if isinstance(value, str) and _LINE.fullmatch(value)}
    values |= {f"|{name}|": known[name] for name in ("release", "version") if name in known}
    for name, value in _RST_VALUE.findall(text):
        resolved = _FIELD.sub(lambda match: known.get(match[1], match[0]), value)
        # What is open here ends behind a quotation mark or in the next line.
        if not _FIELD.search(resolved) and "{" not in resolved:
            values[name] = clean_rst(resolved)
    # A literal may have half of a character.
    return {replace_lone_surrogates(name): replace_lone_surrogates(value) for name, value in values.items()}


def clean_rst(text: str) -> str:
    """Return a line of reStructuredText without its marks."""
    return _ROLE.sub(r"\1", text.strip()).replace("`", "").replace("*", "").replace("\\ ", "")


def _iter_pairs(statements: Iterable[ast.stmt], constants: _Constants) -> Iterator[_Pair]:
    """Yield what the dictionaries of statements have; `constants` are values by names, to which theirs are added."""
    for node in statements:
        match node:
            case ast.Assign(targets=targets, value=value) if all(map(_get_name, targets)):
                yield from _assign(list(map(_get_name, targets)), value, constants)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from _assign([_get_name(target)], value, constants)
            case ast.If():
                yield from _iter_branches(node, constants)
            case ast.FunctionDef(body=body):
                yield from _iter_pairs(body, constants.new_child())
            case _:
                # What such a statement does to a name depends on more than literals.
                stored = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
                constants.update({_get_name(each): None for each in stored if isinstance(each.ctx, ast.Store)})


def _assign(names: list[str], node: ast.expr, constants: _Constants) -> Iterator[_Pair]:
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield names, _evaluate(key, constants), _evaluate(value, constants)
    found = _evaluate(node, constants)
    # What holds others may hold one many times.
    constants.update(dict.fromkeys(names, found if isinstance(found, str | int | float) else None))


def _iter_branches(node: ast.If, constants: _Constants) -> Iterator[_Pair]:
    """Yield what is in the branches of a condition; of a name that all of them set, one value may be known then."""
    branches = [node.body]
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        branches.append(node.body)
    branches.append(node.orelse)
    values: dict[str, list[object]] = {}
    for branch in branches:
        inner = constants.new_child()
        yield from _iter_pairs(branch, inner)
        for name, value in inner.maps[0].items():
            values.setdefault(name, []).append(value)
    for name, found in values.items():
        is_set = len(found) == len(branches)
        before = constants.get(name)
        # What nobody knows before may stay.
        constants[name] = _choose(found if is_set else [*found, before]) if is_set or before is not None else None


def _choose(values: Sequence[object]) -> object:
    """Return the one of several values that is known, or nothing where several are."""
    known = [value for value in values if value is not None]
    return known[0] if known and all(value == known[0] for value in known) else None


def _get_name(node: ast.expr | None) -> str:
    """Return a name with its dots, or an empty string for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _evaluate(node: ast.expr | None, constants: _Constants) -> object:
    """Return the value of an expression that has nothing but literals and what is known, or `None`."""
    try:
        return _compute(node, constants)
    except RecursionError:
        return None


def _compute(node: ast.expr | None, constants: _Constants) -> object:
    value: object = None
    match node:
        case ast.Constant(value=literal):
            value = literal
        case ast.Name() | ast.Attribute():
            value = constants.get(_get_name(node))
        case ast.Tuple(elts=parts):
            value = tuple(_compute(part, constants) for part in parts)
        case ast.JoinedStr(values=parts):
            value = _join(_compute(part, constants) for part in parts)
        case ast.FormattedValue(value=part, conversion=-1, format_spec=None):
            value = _to_text(_compute(part, constants))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            value = _join(_compute(part, constants) for part in (left, right))
        case ast.IfExp(body=body, orelse=orelse):
            value = _choose([_compute(part, constants) for part in (body, orelse)])
    return value


def _to_text(value: object) -> str | None:
    is_number = isinstance(value, float) or (isinstance(value, int) and value.bit_length() <= _MAX_BITS)
    return str(value) if isinstance(value, str) or is_number else None


def _join(parts: Iterable[object]) -> str | None:
    texts = list(parts)
    strings = [text for text in texts if isinstance(text, str)]
    return "".join(strings) if len(strings) == len(texts) and sum(map(len, strings)) <= _MAX_CHARS else None
