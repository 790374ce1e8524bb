"""Words for what pydantic finds wrong: one sentence per fault, in the terms of the configuration file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from core.settings.paths import Key, kind_at

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Path = tuple[str | int, ...]

WRITE_SECRET = "must not be written here: use {env: NAME} or {file: PATH}"  # noqa: S105

_EXPECTED = {
    "int_parsing": "an integer",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "path_type": "a path",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_TYPES = {dict: "a mapping", list: "a list", str: "text", type(None): "nothing", bool: "true or false"}


def place_of(error: ErrorDetails, data: Mapping[Any, Any]) -> Path:
    """Return the path in the configuration that an error is about, without what pydantic puts in between."""
    path: list[str | int] = []
    here: object = data
    tagged = False
    for step in error["loc"]:
        # In a section that has a kind, pydantic names the kind before the key.
        tagged = not tagged and isinstance(here, Mapping) and here.get("kind") == step
        if tagged:
            continue
        if step == "[key]":
            break
        path.append(step)
        here = _child(here, step)
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path.append("kind")
    return tuple(path)


def explain(error: ErrorDetails, path: Path, data: Mapping[Any, Any], keys: Collection[Key]) -> str:
    """Return what is wrong at a path, in words. Never repeats a value that may be a secret."""
    details = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return "unknown key" + did_you_mean(str(path[-1]), siblings(path, data, keys))
        case "missing":
            return "is missing"
        case "union_tag_not_found":
            return f"is missing; the kinds are {_kinds(keys, path)}"
        case "union_tag_invalid":
            return f"unknown kind {details.get('tag')!r}; the kinds are {_kinds(keys, path)}"
    if details.get("class_name") == "Secret":
        return WRITE_SECRET
    secret = any(key.is_secret() and key.matches(path[: len(key.path)]) for key in keys)
    return _wrong_value(error, secret=secret)


def _wrong_value(error: ErrorDetails, *, secret: bool) -> str:
    kind, value = error["type"], error["input"]
    if kind == "string_pattern_mismatch" and secret:
        return "must be the name of an environment variable, in capitals (never the secret itself)"
    if kind == "string_pattern_mismatch":
        return "is no name: use small letters, digits, - and _, at most 63, and start with a letter or digit"
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}" + ("" if secret else f", not {_show(value, _EXPECTED[kind])}")
    text = error["msg"].removeprefix("Value error, ").removesuffix(" after validation, not 0")
    subject, should, rest = text.partition(" should ")
    if not should or " " in subject:
        return text
    plain = isinstance(value, str | int | float) and not secret and value != ""
    return f"must {rest}" + (f", not {_show(value)}" if plain else "")


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean x?`, or the list of what is known where nothing is near."""
    names = sorted(set(known))
    near = get_close_matches(given, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; known here: {', '.join(names)}" if names else ""


def siblings(path: Path, data: Mapping[Any, Any], keys: Collection[Key]) -> list[str]:
    """Return the names of the keys that may stand at the level of a path."""
    kind = kind_at(data, path)
    return [
        key.path[-1]
        for key in keys
        if key.path[-1] != "*" and len(key.path) == len(path) and key.matches((*path[:-1], key.path[-1]), kind)
    ]


def _kinds(keys: Collection[Key], path: Path) -> str:
    """Return the kinds that the section of a `kind` key may have."""
    return ", ".join(sorted({key.kind for key in keys if key.kind and key.matches(path)}))


def _child(value: object, step: str | int) -> object:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _show(value: object, expected: str = "") -> str:
    """Show a value; where a whole section or list was expected, only its type (it may be a misplaced secret)."""
    if isinstance(value, bool):
        return str(value).lower()
    if type(value) in (dict, list, type(None)) or expected in ("a mapping", "a list"):
        return _TYPES.get(type(value), "a number")
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
