"""YAML as plain data with line numbers. The one module that imports `yaml`.

Scalars follow the core schema of YAML 1.2: only true and false are booleans (no and on are text), `12:30` and
`2024-05-01` stay text. Keys are words or whole numbers. Tags beyond that schema and merge keys (`<<`) are not
supported; anchors and aliases are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

KeyPath = tuple[str | int, ...]

MAX_NODES = 1_000_000
MAX_DEPTH = 100

_TAG = "tag:yaml.org,2002:"
_RESOLVERS = (
    ("null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    # Longer digit strings are identifiers, not numbers: they stay text.
    ("int", re.compile(r"^(?:[-+]?(?:0|[1-9][0-9]{0,17})|0x[0-9a-fA-F]{1,16}|0o[0-7]{1,20})$"), list("-+0123456789")),
    (
        "float",
        re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"),
        list("-+.0123456789"),
    ),
)
# The beginnings of what the parser says, and what is nearly always meant.
_HINTS = {
    "mapping values are not allowed": 'a value with ": " in it needs quotes (or this line is indented too far)',
    "found character that cannot start any token": (
        "a value that begins with this character needs quotes; if it is a tab, put spaces in its place"
    ),
    "did not find expected alphabetic or numeric character": "a value that begins with * or & needs quotes",
    "expected alphabetic or numeric character": "a value that begins with * or & needs quotes",
    "found undefined alias": "a value that begins with * needs quotes",
}


class YamlFileError(ValueError):
    """A file is not usable YAML. The message starts with file:line:column, or with the file if no line applies."""

    def __init__(self, path: Path, problem: str, line: int = 0, column: int = 0) -> None:
        self.path = path
        self.problem = problem
        self.line = line
        self.column = column
        super().__init__(f"{path}:{line}:{column}: {problem}" if line else f"{path}: {problem}")


@dataclass(frozen=True, slots=True)
class YamlFile:
    """The content of a YAML file. `lines` maps the path of every key and list item to its 1-based line."""

    path: Path
    data: Any
    lines: Mapping[KeyPath, int]

    def get_line(self, keys: Sequence[str | int]) -> int:
        """Return the line of a key or item, or of its nearest ancestor in the file; 1 if there is none."""
        for length in range(len(keys), 0, -1):
            line = self.lines.get(tuple(keys[:length]))
            if line is not None:
                return line
        return 1


def read_yaml(path: Path) -> YamlFile:
    """Read one YAML document. An empty file has the data None.

    Raises `YamlFileError` when the file cannot be read, is not UTF-8 (or UTF-16) text, is not valid YAML, has a key
    twice in one mapping, or contains itself through an alias.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise YamlFileError(path, f"cannot be read: {error.strerror or error}") from error
    return parse_yaml(raw, path)


def format_yaml(values: Mapping[str, Any]) -> str:
    """Return plain data as YAML, in its order."""
    text: str = yaml.safe_dump(dict(values), allow_unicode=True, sort_keys=False)
    return text


def parse_yaml(raw: bytes, path: Path) -> YamlFile:
    """Parse the content of a file as `read_yaml` does; `path` is for the error messages."""
    builder = _Builder(path)
    try:
        loader_class = _loader_class()
        _check_depth(path, raw, loader_class)
        node = _compose(raw, loader_class)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise YamlFileError(path, _format_problem(error), line, column) from error
    except yaml.YAMLError as error:
        line = _find_invalid_line(raw)
        raise YamlFileError(
            path, "is not readable text: " + _join_lines(str(error).split(' in "')[0]), line, 1 if line else 0
        ) from error
    data = None if node is None else builder.build(node, ())
    return YamlFile(path, data, builder.lines)


def format_flow(value: Any) -> str:
    """Return a plain value as YAML on one line: `[a, b]`, `{a: 1}`, `null`."""
    text: str = yaml.safe_dump(
        _simplify(value), default_flow_style=True, allow_unicode=True, sort_keys=False, width=1e9
    )
    # A single scalar ends with the marker of the document's end.
    return text.removesuffix("...\n").strip()


def _simplify(value: Any) -> Any:
    """Return a value with lists in place of tuples, and text in place of paths."""
    if isinstance(value, tuple | list):
        return [_simplify(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _simplify(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


def _loader_class() -> Any:
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader_class: Any = type("CoreSchemaLoader", (base,), {"yaml_implicit_resolvers": {}})
    for name, pattern, first in _RESOLVERS:
        loader_class.add_implicit_resolver(_TAG + name, pattern, first)
    return loader_class


def _check_depth(path: Path, raw: bytes, loader_class: Any) -> None:
    """Check the nesting before composing, which is recursive: a deep file crashes the C library."""
    depth = 0
    for event in yaml.parse(raw, loader_class):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            problem = f"is nested deeper than {MAX_DEPTH} levels"
            mark = event.start_mark
            raise YamlFileError(path, problem, mark.line + 1, mark.column + 1) if mark else YamlFileError(path, problem)


def _compose(raw: bytes, loader_class: Any) -> yaml.Node | None:
    loader = loader_class(raw)
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    finally:
        loader.dispose()


class _Builder:
    """Turns nodes into data and records their lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[KeyPath, int] = {}
        self.open_nodes: set[int] = set()
        self.node_count = 0

    def build(self, node: yaml.Node, keys: KeyPath) -> Any:
        self.node_count += 1
        if self.node_count > MAX_NODES:
            raise self.make_error(node, f"has more than {MAX_NODES} values (aliases repeated too often?)")
        if len(keys) > MAX_DEPTH:
            raise self.make_error(node, f"is nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node)
        if id(node) in self.open_nodes:
            raise self.make_error(node, "an alias makes this value contain itself")
        self.open_nodes.add(id(node))
        data = self.mapping(node, keys) if isinstance(node, yaml.MappingNode) else self.sequence(node, keys)
        self.open_nodes.remove(id(node))
        return data

    def mapping(self, node: yaml.MappingNode, keys: KeyPath) -> dict[str | int, Any]:
        self.expect_tag(node, "map")
        data: dict[str | int, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self.make_error(key_node, "a key must be a single word or number")
            scalar = self.scalar(key_node)
            key = scalar if isinstance(scalar, int) and not isinstance(scalar, bool) else str(key_node.value)
            if key in data:
                first_line = self.lines[*keys, key]
                raise self.make_error(key_node, f"the key {key!r} is given twice (first on line {first_line})")
            self.lines[*keys, key] = key_node.start_mark.line + 1
            data[key] = self.build(value_node, (*keys, key))
        return data

    def sequence(self, node: yaml.Node, keys: KeyPath) -> list[Any]:
        self.expect_tag(node, "seq")
        data = []
        for index, item in enumerate(node.value):
            self.lines[*keys, index] = item.start_mark.line + 1
            data.append(self.build(item, (*keys, index)))
        return data

    def scalar(self, node: yaml.ScalarNode) -> Any:
        text: str = node.value
        try:
            match node.tag.removeprefix(_TAG):
                case "str" | "!":
                    return text
                case "null":
                    return None
                case "bool":
                    return {"true": True, "false": False}[text.lower()]
                case "int":
                    return int(text, 0)
                case "float":
                    return float(text)
        except (ValueError, KeyError) as error:
            raise self.make_error(node, f"{text!r} does not fit its tag {node.tag.removeprefix(_TAG)}") from error
        raise self.make_error(node, f"the tag {node.tag} is not supported")

    def expect_tag(self, node: yaml.Node, name: str) -> None:
        if node.tag not in (_TAG + name, "!"):
            raise self.make_error(node, f"the tag {node.tag} is not supported")

    def make_error(self, node: yaml.Node, problem: str) -> YamlFileError:
        return YamlFileError(self.path, problem, node.start_mark.line + 1, node.start_mark.column + 1)


def _format_problem(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.problem, error.context) if part]
    hints = [f"; {hint}" for beginning, hint in _HINTS.items() if (error.problem or "").startswith(beginning)]
    return _join_lines("not valid YAML: " + ", ".join(parts) + "".join(hints))


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _find_invalid_line(raw: bytes) -> int:
    """Return the 1-based line of the first byte that is not UTF-8, or 0 if there is none."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return raw.count(b"\n", 0, error.start) + 1
    return 0
