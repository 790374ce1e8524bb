"""OpenAPI and Swagger descriptions, read by operation: parameters, what is sent, what comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from core.markup.document import Block
from core.markup.writer import write_markdown
from knowledge.parsing.limits import ParseLimits, map_parser_errors

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
HEAD_CHARS = 2000
# References that lead to references, parts of `allOf`, and fields of one body: what is beyond is not followed or shown.
MAX_STEPS = 20
MAX_PARTS = 20
MAX_FIELDS = 100
MAX_DEPTH = 3
MAX_VALUES = 12
# What a schema says of a value besides its type.
_BOUNDS = (
    ("default", "default"), ("const", "always"), ("minimum", "at least"), ("maximum", "at most"),
    ("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than"),
)  # fmt: skip
_YAML_MARK = re.compile(r"""^(?>(?:[^\S\n]|\{)*)["']?(openapi|swagger)["']?\s*:""", re.MULTILINE)
# The scheme and the host of an address, which may have parts to fill in.
_ADDRESS_START = re.compile(r"^(?:[\w{}.+-]{1,100}:)?//[^/]{0,300}")
_JSON_MARK = re.compile(r'"(?:openapi|swagger)"\s*:')

JsonObject = Mapping[Any, Any]


def read_openapi(text: str) -> str:
    """Return an OpenAPI or Swagger description by operation, or nothing for a file that is none.

    Local references are resolved, those to other files named. Raises `FormatError` for one that is too large.
    """
    # JSON is YAML, and read much faster as what it is. Whoever writes it sorts its keys as they like.
    is_json = text.lstrip().startswith("{")
    if not (_YAML_MARK.search(text[:HEAD_CHARS]) or (is_json and _JSON_MARK.search(text))):
        return ""
    from core.settings.yaml_file import YamlFileError, parse_yaml

    try:
        spec = json.loads(text) if is_json else parse_yaml(text.encode(), Path("-")).data
    except (ValueError, RecursionError, YamlFileError):
        return ""
    if not isinstance(spec, dict) or not isinstance(spec.get("paths"), dict):
        return ""
    return _describe_operations(spec) if "openapi" in spec or "swagger" in spec else ""


@map_parser_errors
def _describe_operations(spec: dict[str, Any]) -> str:
    limits = ParseLimits()
    api_spec = _ApiSpec(spec)
    base_path = _find_base_path(spec)
    info = _as_mapping(spec.get("info"))
    parts = [f"# {info.get('title', 'API')} {info.get('version', '')}".strip(), str(info.get("description") or "")]
    for path, item in spec["paths"].items():
        path_item = api_spec.resolve(item)
        for method, operation in path_item.items():
            if method in METHODS and isinstance(operation, dict):
                heading = f"## {str(method).upper()} {base_path}{path}"
                texts = api_spec.describe_operation(operation, path_item.get("parameters"))
                parts.append(limits.consume("\n\n".join([heading, *texts])))
    return "\n\n".join(filter(None, parts))


def _find_base_path(spec: JsonObject) -> str:
    """Return what stands before every path, where all servers agree on it."""
    addresses = [_as_mapping(server).get("url") for server in _as_list(spec.get("servers"))] or [spec.get("basePath")]
    paths = {_ADDRESS_START.sub("", str(address or "")).rstrip("/") for address in addresses}
    path = paths.pop() if len(paths) == 1 else ""
    return path if path.startswith("/") else ""


class _ApiSpec:
    """A whole description, to look up in it what an operation refers to."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def describe_operation(self, operation: JsonObject, path_parameters: Any) -> list[str]:
        """Return what is told of one operation, part by part; `path_parameters` are the parameters of its path."""
        texts = [str(operation.get(name) or "").strip() for name in ("summary", "description")]
        if operation.get("operationId"):
            texts.append(f"Operation: `{operation['operationId']}`")
        parameters = self._merge_parameters(path_parameters, operation.get("parameters"))
        rows = [
            self._parameter_row(parameter)
            for parameter in parameters
            if parameter.get("in") != "body" and (_get_name(parameter) or "$ref" in parameter)
        ]
        if rows:
            texts.append(_write_table(("parameter", "in", "meaning"), rows))
        texts += self._describe_body(operation, parameters)
        responses = [
            [str(status), self._describe_response(response)]
            for status, response in _as_mapping(operation.get("responses")).items()
        ]
        if responses:
            texts.append(_write_table(("status", "meaning"), responses))
        texts += self._describe_replies(operation)
        return [text for text in texts if text]

    def resolve(self, value: Any) -> JsonObject:
        """Follow local references to what they lead to; one that leads to another file, or round, stays one."""
        node = _as_mapping(value)
        steps = 0
        while isinstance(node.get("$ref"), str) and steps < MAX_STEPS:
            target = self._look_up(node["$ref"])
            if target is None:
                return node
            node = target
            steps = steps + 1
        return node

    def _look_up(self, reference: str) -> JsonObject | None:
        if not reference.startswith("#/"):
            return None
        node: Any = self._root
        for part in reference[2:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            # YAML may hold numbers as keys, such as the status of a reply.
            number = int(name) if name.isdecimal() and len(name) < 10 else None
            node = _as_mapping(node).get(name, _as_mapping(node).get(number))
        return node if isinstance(node, dict) else None

    def _merge_parameters(self, *lists: Any) -> Sequence[JsonObject]:
        """Return parameters, those of the operation in place of its path's of the same name and place."""
        parameters: dict[tuple[str, str], JsonObject] = {}
        for value in (value for values in lists for value in _as_list(values)):
            parameter = self.resolve(value)
            parameters[_get_name(parameter) or str(parameter.get("$ref", "")), str(parameter.get("in", ""))] = parameter
        return list(parameters.values())

    def _parameter_row(self, parameter: JsonObject) -> list[str]:
        if not _get_name(parameter):
            return [_reference_name(parameter["$ref"]), "", f"see {parameter['$ref']}"]
        media = next(iter(_as_mapping(parameter.get("content")).values()), parameter)
        schema = _as_mapping(media).get("schema", parameter)
        fields = (f"`{name}`: {_with_notes(meaning, [kind])}" for name, kind, meaning in self._field_rows(schema))
        notes = [
            self._describe_type(schema),
            "required" if parameter.get("required") is True else "",
            *self._describe_values(schema, parameter),
            *fields,
        ]
        return [_get_name(parameter), str(parameter.get("in", "")), _with_notes(_get_description(parameter), notes)]

    def _describe_body(self, operation: JsonObject, parameters: Sequence[JsonObject]) -> Iterator[str]:
        """Yield what is sent with a request: of OpenAPI 3 its body, of Swagger 2 the parameter in its place."""
        bodies = [self.resolve(operation.get("requestBody"))]
        bodies += [parameter for parameter in parameters if parameter.get("in") == "body"]
        for body in filter(None, bodies):
            if "$ref" in body:
                yield f"Request body: see {body['$ref']}"
                continue
            content = _as_mapping(body.get("content"))
            if not content:
                media_types = (
                    _as_list(operation.get("consumes")) or _as_list(self._root.get("consumes")) or ["application/json"]
                )
                content = {", ".join(map(str, media_types)): body}
            required_note = " (required)" if body.get("required") is True else ""
            description = _get_description(body)
            yield f"Request body{required_note}: {description}" if description else f"Request body{required_note}"
            yield from self._describe_content(content)

    def _describe_replies(self, operation: JsonObject) -> Iterator[str]:
        """Yield the fields of what comes back where all is well; what failures hold is alike everywhere."""
        for status, response in _as_mapping(operation.get("responses")).items():
            node = self.resolve(response)
            schemas = [node, *_as_mapping(node.get("content")).values()]
            rows = [self._field_rows(_as_mapping(media).get("schema")) for media in schemas]
            if str(status).startswith("2") and any(rows):
                yield f"Reply {status}"
                yield _write_table(("field", "type", "meaning"), next(filter(None, rows)))

    def _describe_content(self, content: JsonObject) -> Iterator[str]:
        """Yield the shape of every media type; a shape that several of them share comes once."""
        media_by_shape: dict[tuple[str, str], list[str]] = {}
        for media_type, media_object in content.items():
            schema = _as_mapping(media_object).get("schema")
            rows = self._field_rows(schema)
            fields = _write_table(("field", "type", "meaning"), rows) if rows else ""
            media_by_shape.setdefault((self._describe_type(schema), fields), []).append(f"`{media_type}`")
        for (kind, fields), media_types in media_by_shape.items():
            yield f"As {', '.join(media_types)}" + (f": {kind}" if kind else "")
            if fields:
                yield fields

    def _field_rows(self, schema: Any) -> list[list[str]]:
        """Return the fields of an object, or of the objects in a list, with those it takes over and those in them."""
        rows = list(islice(self._iter_field_rows(schema), MAX_FIELDS + 1))
        return [*rows[:MAX_FIELDS], ["...", "", "more"]] if len(rows) > MAX_FIELDS else rows

    def _iter_field_rows(
        self, schema: Any, prefix: str = "", above: tuple[JsonObject, ...] = ()
    ) -> Iterator[list[str]]:
        owner = self._resolve_item(schema)
        fields, required_names = self._collect_fields(owner)
        for name, field in fields.items():
            node = self.resolve(field)
            notes = ["required" if name in required_names else "", *self._describe_values(field)]
            description = _get_description(_as_mapping(field)) or _get_description(node)
            yield [f"{prefix}{name}", self._describe_type(field), _with_notes(description, notes)]
            inner = self._resolve_item(field)
            is_list = inner is not node
            is_named = "$ref" in _as_mapping(field) or (is_list and "$ref" in node["items"])
            holders = (*above, owner)
            # What has a name may hold itself, and as much again.
            if len(holders) <= (1 if is_named else MAX_DEPTH) and not any(inner is holder for holder in holders):
                yield from self._iter_field_rows(inner, f"{prefix}{name}{'[]' if is_list else ''}.", holders)

    def _resolve_item(self, schema: Any) -> JsonObject:
        """Return the schema of an object, or of the objects in a list."""
        node = self.resolve(schema)
        return self.resolve(node["items"]) if isinstance(node.get("items"), dict) else node

    def _collect_fields(self, node: JsonObject) -> tuple[dict[str, Any], set[str]]:
        """Return the fields of an object, with those it takes over, and the names of those that are required."""
        fields: dict[str, Any] = {}
        required_names: set[str] = set()
        queue = [node]
        steps = 0
        while queue and steps < MAX_PARTS:
            part = self.resolve(queue.pop(0))
            steps = steps + 1
            for name, field in _as_mapping(part.get("properties")).items():
                fields.setdefault(str(name), field)
            required_names |= {name for name in _as_list(part.get("required")) if isinstance(name, str)}
            queue += [sub_schema for sub_schema in _as_list(part.get("allOf")) if isinstance(sub_schema, dict)]
        return fields, required_names

    def _describe_response(self, response: Any) -> str:
        node = self.resolve(response)
        if "$ref" in node:
            return f"see {node['$ref']}"
        schemas = [
            node.get("schema"),
            *(_as_mapping(media_object).get("schema") for media_object in _as_mapping(node.get("content")).values()),
        ]
        kinds = dict.fromkeys(filter(None, map(self._describe_type, schemas)))
        return _with_notes(_get_description(node), list(kinds))

    def _describe_values(self, schema: Any, parameter: JsonObject | None = None) -> Iterator[str]:
        """Yield what a schema, or one that it refers to, says of values: those that are allowed, and the default."""
        node = _as_mapping(schema)
        parts = [node, *map(self.resolve, [node, *_as_list(node.get("allOf"))[:MAX_PARTS]])]
        said = {name: value for part in reversed(parts) for name, value in part.items()}
        for name, words in _BOUNDS:
            value = said.get(name)
            # Before 3.1 a bound that is excluded is a mark of the bound.
            if isinstance(value, str | int | float) and not (name.startswith("exclusive") and isinstance(value, bool)):
                yield f"{words} {json.dumps(value) if value == '' or isinstance(value, bool) else value}"
        if said.get("deprecated") is True or _as_mapping(parameter).get("deprecated") is True:
            yield "deprecated"
        if "enum" not in node and _as_list(said.get("enum")):
            yield self._describe_type({"enum": said["enum"]})

    def _describe_type(self, schema: Any, depth: int = 0) -> str:
        """Return in some words of what kind a value is: the name of its schema, or its type."""
        node = _as_mapping(schema)
        if isinstance(node.get("$ref"), str):
            return _reference_name(node["$ref"])
        if isinstance(node.get("items"), dict) and depth < 3:
            return f"list of {self._describe_type(node['items'], depth + 1) or 'values'}"
        if _as_list(node.get("enum")):
            values = [str(value) for value in node["enum"]]
            return "one of " + ", ".join(values[:MAX_VALUES]) + (", ..." if len(values) > MAX_VALUES else "")
        for key, word in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")):
            kinds = (
                [self._describe_type(sub_schema, depth + 1) for sub_schema in _as_list(node.get(key))[:MAX_VALUES]]
                if depth < 3
                else []
            )
            if any(kinds):
                return word.join(dict.fromkeys(filter(None, kinds)))
        declared_type = node.get("type")
        kind = " or ".join(map(str, declared_type)) if isinstance(declared_type, list) else str(declared_type or "")
        return f"{kind} ({node['format']})" if kind and node.get("format") else kind


def _write_table(header: tuple[str, ...], rows: Sequence[Sequence[str]]) -> str:
    return write_markdown([Block("table", header=header, rows=tuple(map(tuple, rows)))])


def _with_notes(text: str, notes: Sequence[str]) -> str:
    joined_notes = ", ".join(filter(None, notes))
    return f"{text} ({joined_notes})".strip() if joined_notes else text


def _get_description(value: JsonObject) -> str:
    return str(value.get("description") or value.get("title") or "").strip()


def _get_name(parameter: JsonObject) -> str:
    return str(parameter.get("name") or "")


def _reference_name(reference: Any) -> str:
    """Return by what name others speak of what a reference leads to."""
    name = unquote(str(reference).rstrip("/").rpartition("/")[2]).replace("~1", "/").replace("~0", "~")
    return name or str(reference)


def _as_mapping(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
