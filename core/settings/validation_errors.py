"""Turns pydantic's validation errors into sentences, in the terms of the configuration file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from core.settings.base import NAME_PATTERN
from core.settings.former_keys import describe_former_key
from core.settings.schema import SettingKey, find_kind

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

KeyPath = tuple[str | int, ...]

INLINE_SECRET_MESSAGE = "must not be written here: use {env: NAME} or {file: PATH}"  # noqa: S105

# Keys of earlier versions, dotted, with `*` for a name that the user chooses, and what to do now.
_EXPECTED_TYPES = {
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "an integer"),
    **dict.fromkeys(("float_parsing", "float_type"), "a number"),
    **dict.fromkeys(("bool_parsing", "bool_type"), "true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a mapping"),
    "string_type": "text",
    "path_type": "a path",
}
_TYPE_NAMES = {dict: "a mapping", list: "a list", str: "text", type(None): "nothing", bool: "true or false"}


def error_path(error: ErrorDetails, data: Mapping[Any, Any]) -> KeyPath:
    """Return the path of an error in the configuration, without the steps that pydantic adds."""
    path: list[str | int] = []
    node: object = data
    is_kind_tag = False
    for step in error["loc"]:
        # In a section that has a kind, pydantic names the kind before the key.
        is_kind_tag = not is_kind_tag and isinstance(node, Mapping) and node.get("kind") == step
        if is_kind_tag:
            continue
        # What pydantic adds below a value that is no section names an alternative of its type.
        if step == "[key]" or not isinstance(node, Mapping | list):
            break
        path.append(step)
        node = _get_child(node, step)
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path.append("kind")
    return tuple(path)


def describe_error(error: ErrorDetails, path: KeyPath, data: Mapping[Any, Any], keys: Collection[SettingKey]) -> str:
    """Return a sentence about the error at a path. It never repeats a value that may be a secret."""
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            return describe_former_key(path) or "unknown key" + did_you_mean(
                str(path[-1]), sibling_keys(path, data, keys)
            )
        case "missing":
            return "is missing"
        case "union_tag_not_found":
            return f"is missing; the kinds are {_list_kinds(keys, path)}"
        case "union_tag_invalid":
            return f"unknown kind {context.get('tag')!r}; the kinds are {_list_kinds(keys, path)}"
    if context.get("class_name") == "Secret":
        return INLINE_SECRET_MESSAGE
    is_secret = any(key.is_secret() and key.matches(path[: len(key.path)]) for key in keys)
    is_mismatch = error["type"] == "string_pattern_mismatch"
    return (
        _describe_mismatch(context["pattern"], path, keys, is_secret=is_secret)
        if is_mismatch
        else _describe_wrong_value(error, is_secret=is_secret)
    )


def _describe_mismatch(pattern: str, path: KeyPath, keys: Collection[SettingKey], *, is_secret: bool) -> str:
    if is_secret:
        return "must be the name of an environment variable, in capitals (never the secret itself)"
    if pattern == NAME_PATTERN:
        return "is no name: use small letters, digits, - and _, at most 63, and start with a letter or digit"
    description = next((key.field.description for key in keys if key.matches(path)), None)
    return f"must match {pattern}" + (f" ({description})" if description else "")


def _describe_wrong_value(error: ErrorDetails, *, is_secret: bool) -> str:
    error_type = error["type"]
    value = error["input"]
    if error_type in _EXPECTED_TYPES:
        # What YAML takes for something else.
        way_out = ": put it in quotes" if error_type == "string_type" and isinstance(value, int | float) else ""
        return f"must be {_EXPECTED_TYPES[error_type]}" + (
            "" if is_secret else f", not {_format_value(value, _EXPECTED_TYPES[error_type])}{way_out}"
        )
    text = error["msg"].removeprefix("Value error, ").removesuffix(" after validation, not 0")
    subject, separator, rest = text.partition(" should ")
    if not separator or " " in subject:
        return text
    can_show_value = isinstance(value, str | int | float) and not is_secret and value != ""
    return f"must {rest}" + (f", not {_format_value(value)}" if can_show_value else "")


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean x?`, or the list of candidates if none is similar."""
    names = sorted(set(candidates))
    matches = get_close_matches(name, names, n=1, cutoff=0.6)
    if matches:
        return f"; did you mean {matches[0]}?"
    return f"; known here: {', '.join(names)}" if names else ""


def sibling_keys(path: KeyPath, data: Mapping[Any, Any], keys: Collection[SettingKey]) -> list[str]:
    """Return the names of the keys that are valid at the level of a path."""
    kind = find_kind(data, path)
    return [
        key.path[-1]
        for key in keys
        if key.path[-1] != "*" and len(key.path) == len(path) and key.matches((*path[:-1], key.path[-1]), kind)
    ]


def _list_kinds(keys: Collection[SettingKey], path: KeyPath) -> str:
    """Return the kinds that the section of a `kind` key may have."""
    return ", ".join(sorted({key.kind for key in keys if key.kind and key.matches(path)}))


def _get_child(value: object, step: str | int) -> object:
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _format_value(value: object, expected_type: str = "") -> str:
    """Return a value for display; only its type where a section or list was expected (it may be a misplaced secret)."""
    if isinstance(value, bool):
        return str(value).lower()
    if type(value) in (dict, list, type(None)) or expected_type in ("a mapping", "a list"):
        return _TYPE_NAMES.get(type(value), "a number")
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
