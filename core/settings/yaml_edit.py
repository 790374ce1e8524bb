"""Additions to a YAML file that somebody wrote: everything else in it, its comments included, stays as it is."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.settings.yaml_file import KeyPath, YamlFile, YamlFileError, format_flow, parse_yaml

INDENT = "  "
NOT_EDITABLE = "cannot be changed from here, because of how it is written: add it to the file by hand"


def add_value(raw: bytes, path: Path, keys: Sequence[str], value: Any) -> bytes:
    """Return the file with one more entry: a key in a mapping, or for a `value` in a list, an item of the list `keys`.

    The result is read again, and must be what was there and the addition alone. Raises `YamlFileError` for a file that
    cannot be read, a key that exists, and a place where nothing can be added in this way.
    """
    file = parse_yaml(raw, path)
    expected = _add_to_data({} if file.data is None else file.data, keys, value, path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YamlFileError(path, "is not UTF-8 text") from error
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.removesuffix("\n").removesuffix("\r").split(newline) if text else []
    try:
        _insert(lines, file, tuple(keys), value)
        result = (newline.join(lines) + newline).encode("utf-8")
        is_right = parse_yaml(result, path).data == expected
    except (YamlFileError, IndexError):
        # To YAML a lone CR ends a line, too: then its numbers are not ours.
        is_right = False
    if not is_right:
        raise YamlFileError(path, f"{'.'.join(keys)} {NOT_EDITABLE}", file.get_line(tuple(keys)))
    return result


def _add_to_data(data: Any, keys: Sequence[str], value: Any, path: Path) -> Any:
    """Return the data with the addition."""
    data = copy.deepcopy(data)
    place = data
    for key in keys[:-1]:
        if not isinstance(place, dict):
            raise YamlFileError(path, f"{'.'.join(keys)} {NOT_EDITABLE}")
        if place.get(key) is None:
            place[key] = {}
        place = place[key]
    last = keys[-1]
    if isinstance(place, dict) and isinstance(place.get(last), list) and isinstance(value, list):
        place[last] = [*value, *place[last]]
    elif isinstance(place, dict) and place.get(last) is None:
        place[last] = value
    else:
        raise YamlFileError(path, f"{'.'.join(keys)} is there already: change it in the file")
    return data


def _insert(lines: list[str], file: YamlFile, keys: KeyPath, value: Any) -> None:
    """Insert the addition into the lines, below the deepest of its sections that exists."""
    depth = max((length for length in range(len(keys) + 1) if not length or keys[:length] in file.lines), default=0)
    if not depth:
        if lines and lines[-1].strip():
            lines.append("")
        lines.extend(_render(keys, value, ""))
        return
    number = file.lines[keys[:depth]] - 1
    rest = keys[depth:]
    head, opening, tail = _split_flow(lines[number])
    if rest and opening == "{" and tail.startswith("}"):
        # Nothing is on this line yet: what comes can have lines of its own.
        lines[number] = f"{head}{tail[1:]}".rstrip()
    elif opening:
        addition = ", ".join(map(format_flow, value)) if not rest else f"{rest[0]}: {_render_flow(rest[1:], value)}"
        separator = "" if tail.lstrip()[:1] in ("]", "}", "") else ", "
        lines[number] = f"{head}{opening}{addition}{separator}{tail}"
        return
    indent = _find_child_indent(lines, file, keys[:depth], number)
    new_lines = _render(rest, value, indent) if rest else [f"{indent}- {format_flow(item)}" for item in value]
    lines[number + 1 : number + 1] = new_lines


def _split_flow(line: str) -> tuple[str, str, str]:
    """Return a line of a key in three parts, the second being the bracket that opens its value; "" where none does."""
    match = re.match(r"([^:\[\]{}]*:\s+)([\[{])(.*)$", line)
    return (match[1], match[2], match[3]) if match else (line, "", "")


def _find_child_indent(lines: Sequence[str], file: YamlFile, keys: KeyPath, number: int) -> str:
    own_indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    children = [line for path, line in file.lines.items() if path[:-1] == keys]
    if not children:
        return own_indent + INDENT
    first = lines[children[0] - 1]
    return first[: len(first) - len(first.lstrip())]


def _render(keys: KeyPath, value: Any, indent: str) -> list[str]:
    """Return the lines of a value below its keys; a mapping has a line for each of its keys."""
    lines = []
    for key in keys[:-1]:
        lines.append(f"{indent}{key}:")
        indent += INDENT
    if not isinstance(value, Mapping):
        return [*lines, f"{indent}{keys[-1]}: {format_flow(value)}"]
    lines.append(f"{indent}{keys[-1]}:")
    return [*lines, *(f"{indent}{INDENT}{key}: {format_flow(item)}" for key, item in value.items())]


def _render_flow(keys: KeyPath, value: Any) -> str:
    for key in reversed(keys):
        value = {key: value}
    return format_flow(value)
