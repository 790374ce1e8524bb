"""Every section and key of the configuration, read off the settings model, and the JSON Schema for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from core.settings import Secret, Settings


def json_schema() -> str:
    """Return the schema of a configuration file as indented JSON, with a newline at its end."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Settings.model_json_schema()}
    schema["title"] = "KIMAs configuration"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One key. In `path`, `*` is a name that the user chooses; `kind` is set below sections that have a kind."""

    path: tuple[str, ...]
    field: FieldInfo
    kind: str = ""

    def matches(self, path: Sequence[str | int], kind: str = "") -> bool:
        """Return whether a path of the configuration is this key; an empty `kind` matches any."""
        return (
            len(path) == len(self.path)
            and all(expected in ("*", step) for expected, step in zip(self.path, path, strict=True))
            and (not kind or not self.kind or kind == self.kind)
        )

    def is_path(self) -> bool:
        """Return whether the value is the path of a file or folder."""
        return Path in _union_members(self.field.annotation)

    def is_path_mapping(self) -> bool:
        """Return whether the value maps names to paths of files or folders."""
        return get_origin(self.field.annotation) is dict and get_args(self.field.annotation)[1] is Path

    def is_text(self) -> bool:
        """Return whether the value is plain text, which is not parsed."""
        return set(_union_members(self.field.annotation)) <= {str, type(None)}

    def is_secret(self) -> bool:
        """Return whether the value is a `Secret`."""
        return Secret in _union_members(self.field.annotation)


def iter_sections(
    section: type[BaseModel] = Settings, path: tuple[str, ...] = (), kind: str = ""
) -> Iterator[tuple[tuple[str, ...], str, type[BaseModel]]]:
    """Yield every section with its path and the kind of the source that it belongs to, parents before children."""
    yield path, kind, section
    for name, field in section.model_fields.items():
        yield from _iter_nested_sections(field.annotation, (*path, name), kind)


@cache
def list_setting_keys() -> tuple[SettingKey, ...]:
    """Return all keys, parents before children."""
    return tuple(
        SettingKey((*path, name), field, kind)
        for path, kind, section in iter_sections()
        for name, field in section.model_fields.items()
    )


def find_keys(path: Sequence[str | int], kind: str = "") -> Iterator[SettingKey]:
    """Yield the keys that a path of the configuration is, as `SettingKey.matches` says."""
    candidates = _group_keys().get((len(path), path[0]), ()) if path else ()
    return (key for key in candidates if key.matches(path, kind))


def find_kind(data: object, path: Sequence[str | int]) -> str:
    """Return the kind of the innermost section around a path of the raw configuration, or an empty string."""
    kind = ""
    for step in path:
        if not isinstance(data, Mapping):
            break
        kind = str(data.get("kind") or "") or kind
        data = data.get(step)
    return kind


@cache
def _group_keys() -> Mapping[tuple[int, str | int], Sequence[SettingKey]]:
    """Return all keys by the length of their paths and their section, which no user names."""
    groups: dict[tuple[int, str | int], list[SettingKey]] = {}
    for key in list_setting_keys():
        groups.setdefault((len(key.path), key.path[0]), []).append(key)
    return groups


def _iter_nested_sections(
    annotation: Any, path: tuple[str, ...], kind: str
) -> Iterator[tuple[tuple[str, ...], str, type[BaseModel]]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind_field = annotation.model_fields.get("kind")
        yield from iter_sections(annotation, path, get_args(kind_field.annotation)[0] if kind_field else kind)
    elif get_origin(annotation) is dict:
        yield from _iter_nested_sections(get_args(annotation)[1], (*path, "*"), kind)
    else:
        for member in get_args(annotation):
            yield from _iter_nested_sections(member, path, kind)


def _union_members(annotation: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union, or the type itself."""
    return get_args(annotation) if type(None) in get_args(annotation) else (annotation,)
