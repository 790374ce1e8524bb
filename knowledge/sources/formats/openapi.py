"""OpenAPI and Swagger descriptions, read by operation: parameters, what is sent, what comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from core.settings.yaml_file import YamlFault, parse_yaml
from knowledge.sources.formats.limits import Allowance, forgiving
from knowledge.sources.formats.office import table

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
BEGINNING = 2000
# References that lead to references, parts of `allOf`, and fields of one body: what is beyond is not followed or shown.
MOST_STEPS, MOST_PARTS, MOST_FIELDS, MOST_VALUES = 20, 20, 100, 12
_YAML_MARK = re.compile(r"""^[\s{]*["']?(openapi|swagger)["']?\s*:""", re.MULTILINE)
_JSON_MARK = re.compile(r'"(?:openapi|swagger)"\s*:')

Mapped = Mapping[Any, Any]


def read_openapi(text: str) -> str:
    """Return an OpenAPI or Swagger description by operation, or nothing for a file that is none.

    Local references are resolved, those to other files named. Raises `FormatError` for one that is too large.
    """
    # JSON is YAML, and read much faster as what it is. Whoever writes it sorts its keys as they like.
    is_json = text.lstrip().startswith("{")
    if not (_YAML_MARK.search(text[:BEGINNING]) or (is_json and _JSON_MARK.search(text))):
        return ""
    try:
        described = json.loads(text) if is_json else parse_yaml(text.encode(), Path("-")).data
    except (ValueError, RecursionError, YamlFault):
        return ""
    if not isinstance(described, dict) or not isinstance(described.get("paths"), dict):
        return ""
    return _operations(described) if "openapi" in described or "swagger" in described else ""


@forgiving
def _operations(described: dict[str, Any]) -> str:
    allowance, description = Allowance(), _Description(described)
    info = _mapping(described.get("info"))
    parts = [f"# {info.get('title', 'API')} {info.get('version', '')}".strip(), str(info.get("description") or "")]
    for path, item in described["paths"].items():
        place = description.resolved(item)
        for method, operation in place.items():
            if method in METHODS and isinstance(operation, dict):
                heading = f"## {str(method).upper()} {path}"
                texts = description.operation(operation, place.get("parameters"))
                parts.append(allowance.take("\n\n".join([heading, *texts])))
    return "\n\n".join(filter(None, parts))


class _Description:
    """A whole description, to look up in it what an operation refers to."""

    def __init__(self, root: Mapped) -> None:
        self._root = root

    def operation(self, operation: Mapped, shared: Any) -> list[str]:
        """Return what is told of one operation, part by part; `shared` are the parameters of its path."""
        texts = [str(operation.get(name) or "").strip() for name in ("summary", "description")]
        if operation.get("operationId"):
            texts.append(f"Operation: `{operation['operationId']}`")
        parameters = self._parameters(shared, operation.get("parameters"))
        rows = [
            self._parameter(one) for one in parameters if one.get("in") != "body" and (_named(one) or "$ref" in one)
        ]
        if rows:
            texts.append(table([["parameter", "in", "meaning"], *rows]))
        texts += self._body(operation, parameters)
        replies = [[str(status), self._reply(reply)] for status, reply in _mapping(operation.get("responses")).items()]
        if replies:
            texts.append(table([["status", "meaning"], *replies]))
        return [text for text in texts if text]

    def resolved(self, value: Any) -> Mapped:
        """Follow local references to what they lead to; one that leads to another file, or round, stays one."""
        found, steps = _mapping(value), 0
        while isinstance(found.get("$ref"), str) and steps < MOST_STEPS:
            target = self._at(found["$ref"])
            if target is None:
                return found
            found, steps = target, steps + 1
        return found

    def _at(self, reference: str) -> Mapped | None:
        if not reference.startswith("#/"):
            return None
        found: Any = self._root
        for part in reference[2:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            # YAML may hold numbers as keys, such as the status of a reply.
            number = int(name) if name.isdecimal() and len(name) < 10 else None
            found = _mapping(found).get(name, _mapping(found).get(number))
        return found if isinstance(found, dict) else None

    def _parameters(self, *lists: Any) -> Sequence[Mapped]:
        """Return parameters, those of the operation in place of its path's of the same name and place."""
        found: dict[tuple[str, str], Mapped] = {}
        for one in (one for several in lists for one in _listed(several)):
            parameter = self.resolved(one)
            found[_named(parameter) or str(parameter.get("$ref", "")), str(parameter.get("in", ""))] = parameter
        return list(found.values())

    def _parameter(self, parameter: Mapped) -> list[str]:
        if not _named(parameter):
            return [_name_of(parameter["$ref"]), "", f"see {parameter['$ref']}"]
        schema = parameter.get("schema", parameter)
        told = [self._kind(schema), "required" if parameter.get("required") is True else ""]
        return [_named(parameter), str(parameter.get("in", "")), _with_notes(_about(parameter), told)]

    def _body(self, operation: Mapped, parameters: Sequence[Mapped]) -> Iterator[str]:
        """Yield what is sent with a request: of OpenAPI 3 its body, of Swagger 2 the parameter in its place."""
        bodies = [self.resolved(operation.get("requestBody"))]
        bodies += [one for one in parameters if one.get("in") == "body"]
        for body in filter(None, bodies):
            if "$ref" in body:
                yield f"Request body: see {body['$ref']}"
                continue
            content = _mapping(body.get("content"))
            if not content:
                kinds = (
                    _listed(operation.get("consumes")) or _listed(self._root.get("consumes")) or ["application/json"]
                )
                content = {", ".join(map(str, kinds)): body}
            needed = " (required)" if body.get("required") is True else ""
            about = _about(body)
            yield f"Request body{needed}: {about}" if about else f"Request body{needed}"
            yield from self._contents(content)

    def _contents(self, content: Mapped) -> Iterator[str]:
        """Yield the shape of every media type; a shape that several of them share comes once."""
        shapes: dict[tuple[str, str], list[str]] = {}
        for media, one in content.items():
            schema = _mapping(one).get("schema")
            rows = self._fields(schema)
            fields = table([["field", "type", "meaning"], *rows]) if rows else ""
            shapes.setdefault((self._kind(schema), fields), []).append(f"`{media}`")
        for (kind, fields), medias in shapes.items():
            yield f"As {', '.join(medias)}" + (f": {kind}" if kind else "")
            if fields:
                yield fields

    def _fields(self, schema: Any) -> list[list[str]]:
        """Return the top-level fields of an object, or of the objects in a list, with those it takes over."""
        found = self.resolved(schema)
        if isinstance(found.get("items"), dict):
            found = self.resolved(found["items"])
        fields: dict[str, Any] = {}
        required: set[str] = set()
        waiting, steps = [found], 0
        while waiting and steps < MOST_PARTS:
            part, steps = self.resolved(waiting.pop(0)), steps + 1
            for name, field in _mapping(part.get("properties")).items():
                fields.setdefault(str(name), field)
            required |= {name for name in _listed(part.get("required")) if isinstance(name, str)}
            waiting += [one for one in _listed(part.get("allOf")) if isinstance(one, dict)]
        rows = []
        for name, field in list(fields.items())[:MOST_FIELDS]:
            about = _about(_mapping(field)) or _about(self.resolved(field))
            rows.append([name, self._kind(field), _with_notes(about, ["required"] if name in required else [])])
        if len(fields) > MOST_FIELDS:
            rows.append(["...", "", f"{len(fields) - MOST_FIELDS} more"])
        return rows

    def _reply(self, reply: Any) -> str:
        found = self.resolved(reply)
        if "$ref" in found:
            return f"see {found['$ref']}"
        schemas = [
            found.get("schema"),
            *(_mapping(one).get("schema") for one in _mapping(found.get("content")).values()),
        ]
        kinds = dict.fromkeys(filter(None, map(self._kind, schemas)))
        return _with_notes(_about(found), list(kinds))

    def _kind(self, schema: Any, depth: int = 0) -> str:
        """Return in some words of what kind a value is: the name of its schema, or its type."""
        found = _mapping(schema)
        if isinstance(found.get("$ref"), str):
            return _name_of(found["$ref"])
        if isinstance(found.get("items"), dict) and depth < 3:
            return f"list of {self._kind(found['items'], depth + 1) or 'values'}"
        if _listed(found.get("enum")):
            values = [str(value) for value in found["enum"]]
            return "one of " + ", ".join(values[:MOST_VALUES]) + (", ..." if len(values) > MOST_VALUES else "")
        for key, word in (("oneOf", " or "), ("anyOf", " or "), ("allOf", " and ")):
            kinds = [self._kind(one, depth + 1) for one in _listed(found.get(key))[:MOST_VALUES]] if depth < 3 else []
            if any(kinds):
                return word.join(dict.fromkeys(filter(None, kinds)))
        given = found.get("type")
        kind = " or ".join(map(str, given)) if isinstance(given, list) else str(given or "")
        return f"{kind} ({found['format']})" if kind and found.get("format") else kind


def _with_notes(text: str, notes: Sequence[str]) -> str:
    told = ", ".join(filter(None, notes))
    return f"{text} ({told})".strip() if told else text


def _about(value: Mapped) -> str:
    return str(value.get("description") or value.get("title") or "").strip()


def _named(parameter: Mapped) -> str:
    return str(parameter.get("name") or "")


def _name_of(reference: Any) -> str:
    """Return by what name others speak of what a reference leads to."""
    name = unquote(str(reference).rstrip("/").rpartition("/")[2]).replace("~1", "/").replace("~0", "~")
    return name or str(reference)


def _mapping(value: Any) -> Mapped:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
