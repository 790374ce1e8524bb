"""Loads the configuration: defaults, then files, then the environment, then `--set`; the last one wins.

All errors are collected and reported at once, one line each with its place:
`kimas.yaml:12: sources.docs.max_file_kb: must be an integer, not 'many'`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from operator import getitem
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from core.errors import ConfigurationError
from core.settings import ENV_VARIABLE_PATTERN, Secret, Settings
from core.settings.former_keys import describe_former_key
from core.settings.schema import SettingKey, find_keys, find_kind, list_setting_keys
from core.settings.validation_errors import describe_error, did_you_mean, error_path
from core.settings.yaml_file import KeyPath, YamlFileError, read_yaml

Model = TypeVar("Model", bound=BaseModel)

ENV_PREFIX = "KIMAS_"
TEST_ENV_PREFIX = "KIMAS_TEST_"
# A variable may hold a secret of another configuration, so it is no error. No setting has such a name.
SECRET_ENV_NAME = re.compile(r"KIMAS_(?!.*__).*_(TOKEN|KEY|SECRET|PASSWORD)")


def find_default_files(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the default configuration file: the first of three well-known places that exists.

    Raises `ConfigurationError` when there is none.
    """
    home = Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    candidates = (Path("kimas.yaml"), home / "kimas" / "kimas.yaml", Path("/etc/kimas/kimas.yaml"))
    for candidate in candidates:
        if candidate.is_file():
            return (candidate,)
    candidate_list = ", ".join(str(candidate) for candidate in candidates)
    raise ConfigurationError(
        [f"no configuration: none of {candidate_list} exists; `kimas init` writes one to start from"]
    )


def load_settings(
    files: Sequence[Path],
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
    *,
    require_secrets: bool = True,
    require_sources: bool = True,
    unused_sections: Collection[str] = (),
    variable_files: Mapping[str, Path] = MappingProxyType({}),
) -> Settings:
    """Load and check the whole configuration.

    `overrides` are `path.to.key=value` texts. Paths in a file are relative to that file's folder, others to the current
    folder; in the result all are absolute. Without `require_secrets`, and in `unused_sections`, a missing secret is no
    error until it is used; without `require_sources`, neither is a folder or file of a source that is missing.
    `variable_files` has the files that set variables of the environment, by the variables' names. Raises
    `ConfigurationError` with one line per error.
    """
    draft = _Draft(variable_files)
    for rank, file in enumerate(files):
        draft.add_file(rank, file)
    draft.raise_errors()
    unknown_names = [
        name for name in sorted(environment) if not draft.add_variable(len(files), name, environment[name])
    ]
    for override in overrides:
        draft.add_override(len(files) + 1, override)
    draft.report_unknown_variables(len(files), unknown_names)
    draft.data.setdefault("data_dir", str(Settings.model_fields["data_dir"].default))
    draft.resolve_paths()
    draft.check_missing(
        environment,
        check_secrets=require_secrets,
        unchecked_sections=() if require_sources else ("sources",),
        unused_sections=unused_sections,
    )
    draft.check_sources()
    settings = draft.validate()
    draft.raise_errors()
    if settings is None:
        raise AssertionError("a configuration without errors must be valid")
    return settings


@dataclass(frozen=True, slots=True)
class _Layer:
    """Where values come from. `locate` returns the place of a key: a line number for sorting, and text for the user."""

    rank: int
    base: Path
    locate: Callable[[KeyPath], tuple[int, str]]


@dataclass(slots=True)
class _Draft:
    """The configuration while it is built: raw data, the origin of each key, and the errors so far."""

    variable_files: Mapping[str, Path]
    data: dict[str | int, Any] = field(default_factory=dict)
    origins: dict[KeyPath, _Layer] = field(default_factory=dict)
    errors: list[tuple[int, int, str]] = field(default_factory=list)

    def add_file(self, rank: int, file: Path) -> None:
        """Merge a YAML file."""
        try:
            yaml_file = read_yaml(file)
        except YamlFileError as error:
            hint = "" if file.exists() else " (`kimas init` writes a configuration to start from)"
            self.errors.append((rank, error.line, f"{error}{hint}"))
            return
        if yaml_file.data is not None and not isinstance(yaml_file.data, dict):
            self.errors.append((rank, 1, f"{file}:1: must be a mapping of keys to values"))
            return

        def locate(path: KeyPath) -> tuple[int, str]:
            line = yaml_file.get_line(path)
            return line, f"{file}:{line}"

        self.merge(yaml_file.data or {}, _Layer(rank, Path(os.path.abspath(file)).parent, locate))

    def add_variable(self, rank: int, name: str, text: str) -> bool:
        """Merge an environment variable. Return false when it has our prefix but names no key."""
        if not name.startswith(ENV_PREFIX) or name.startswith(TEST_ENV_PREFIX):
            return True
        path = self.resolve_spelling(tuple(name.removeprefix(ENV_PREFIX).lower().split("__")))
        key = next(find_keys(path), None)
        if key is None:
            return False
        # A secret may be in the environment itself: then this variable is its source.
        value = {"env": name} if key.is_secret() else text if key.is_text() else parse_value(text)
        self.merge(_nest_value(path, value), _Layer(rank, Path.cwd(), lambda _: (0, self.describe_variable(name))))
        return True

    def describe_variable(self, name: str) -> str:
        """Return what an error calls a variable: with the file that has set it."""
        file = self.variable_files.get(name)
        return f"environment variable {name}" + (f", set by {file}" if file else "")

    def add_override(self, rank: int, override: str) -> None:
        """Merge a `path.to.key=value` of `--set`."""
        dotted, separator, text = override.partition("=")
        path = tuple(dotted.strip().split("."))
        if not separator or not all(path):
            self.errors.append((rank, 0, "--set: must be path.to.key=value"))
            return
        is_text = any(key.is_text() for key in find_keys(path))
        layer = _Layer(rank, Path.cwd(), lambda _: (0, "--set"))
        self.merge(_nest_value(path, text if is_text else parse_value(text)), layer)

    def resolve_spelling(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return a path with the files' spelling of names that a variable cannot spell (MY_DOCS for my-docs)."""
        steps: list[str] = []
        node: object = self.data
        for step in path:
            names = [name for name in node if str(name).replace("-", "_") == step] if isinstance(node, dict) else []
            steps.append(step if step in names or not names else str(names[0]))
            node = node.get(steps[-1]) if isinstance(node, dict) else None
        return tuple(steps)

    def report_unknown_variables(self, rank: int, names: Sequence[str]) -> None:
        """Add an error for variables with our prefix that name no key, unless they hold a configured secret."""
        secret_variables = {value for _, path, value in self.leaves() if path[-1] == "env" and isinstance(value, str)}
        for name in names:
            if name not in secret_variables and not SECRET_ENV_NAME.fullmatch(name):
                steps = name.removeprefix(ENV_PREFIX).split("__")
                if problem := describe_former_key([step.lower() for step in steps]):
                    self.errors.append((rank, 0, f"{self.describe_variable(name)}: {problem}"))
                    continue
                candidates = {_variable_name(key, steps) for key in list_setting_keys()}
                nearest_name = get_close_matches(name, candidates, n=1, cutoff=0)[0]
                self.errors.append(
                    (rank, 0, f"{self.describe_variable(name)}: names no setting; the nearest is {nearest_name}")
                )

    def merge(self, values: Mapping[str | int, Any], layer: _Layer, parent: KeyPath = ()) -> None:
        """Merge values into the data: mappings are merged, everything else (also a whole secret) is replaced."""
        target = reduce(getitem, parent, self.data)
        for name, value in values.items():
            path = (*parent, name)
            self.origins[path] = layer
            if isinstance(value, Mapping):
                is_secret = any(key.is_secret() for key in find_keys(path))
                if is_secret or not isinstance(target.get(name), dict):
                    target[name] = {}
                self.merge(value, layer, path)
            else:
                target[name] = value

    def leaves(self) -> Iterator[tuple[dict[str | int, Any], KeyPath, Any]]:
        """Yield every value that is not a mapping, with its mapping and its path."""
        return _leaves(self.data, ())

    def find_layer(self, path: KeyPath) -> _Layer | None:
        """Return the origin of a key, or else of its nearest parent."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return None

    def add_error(self, path: KeyPath, text: str, *, is_missing: bool = False) -> None:
        """Add an error at a path; with `is_missing` the key is absent."""
        layer = self.find_layer(path[:-1] if is_missing else path)
        line, location = layer.locate(path) if layer else (0, "")
        rank = layer.rank if layer else 0
        dotted = ".".join(str(step) for step in path)
        self.errors.append((rank, line, ": ".join(part for part in (location, dotted, text) if part)))

    def raise_errors(self) -> None:
        """Raise the errors so far, in the order of the files and their lines."""
        if self.errors:
            raise ConfigurationError(list(dict.fromkeys(text for _, _, text in sorted(self.errors))))

    def resolve_paths(self) -> None:
        """Make every path absolute, relative to the file that contains it."""
        for container, path, value in self.leaves():
            layer = self.find_layer(path)
            base = layer.base if layer else Path.cwd()
            if isinstance(value, str) and self.is_path(path, value, base):
                # Not Path.resolve, which follows symbolic links: their targets may change later.
                container[path[-1]] = os.path.abspath(base / os.path.expanduser(value))

    def is_path(self, path: KeyPath, value: str, base: Path) -> bool:
        """Return whether a value is a local path. A git URL is one if it looks like one or is a folder here."""
        kind = find_kind(self.data, path)
        if path[0] == "sources" and path[-1] == "url" and kind == "git":
            return value.startswith((".", "/", "~")) or (bool(value) and os.path.isdir(base / value))
        return bool(value) and (
            any(key.is_path() for key in find_keys(path, kind))
            or any(key.is_path_mapping() for key in find_keys(path[:-1], kind))
        )

    def is_missing_path(self, path: KeyPath, value: str) -> bool:
        """Return whether a value names a file or folder that does not exist."""
        return os.path.isabs(value) and self.is_path(path, value, Path("/")) and not os.path.exists(value)

    def check_missing(
        self,
        environment: Mapping[str, str],
        *,
        check_secrets: bool,
        unchecked_sections: Collection[str],
        unused_sections: Collection[str],
    ) -> None:
        """Add errors for files that do not exist and, with `check_secrets`, for missing secrets of used sections.

        Files in the sections `unchecked_sections` may be missing.
        """
        for _, path, value in self.leaves():
            is_secret = any(key.is_secret() for key in find_keys(path[:-1]))
            is_optional = is_secret and (not check_secrets or path[0] in unused_sections)
            if not isinstance(value, str) or is_optional or path[0] == "data_dir":
                continue
            if is_secret:
                problem = _describe_missing_secret(str(path[-1]), value, environment)
                if problem:
                    self.add_error(path[:-1], problem)
            elif path[0] not in unchecked_sections and self.is_missing_path(path, value):
                self.add_error(path, f"does not exist: {value}")

    def check_sources(self) -> None:
        """Add errors for sources of agents that are not configured."""
        sources = self.data.get("sources") or {}
        agents = self.data.get("agents")
        if not isinstance(agents, dict) or not isinstance(sources, dict):
            return
        for name, agent in agents.items():
            source_names = agent.get("sources") if isinstance(agent, dict) else None
            for index, source in enumerate(source_names if isinstance(source_names, list) else []):
                if isinstance(source, str) and source not in sources:
                    hint = did_you_mean(source, map(str, sources))
                    self.add_error(("agents", name, "sources", index), f"no source is named {source!r}{hint}")

    def validate(self) -> Settings | None:
        """Return the settings, or add every error of the validation and return None."""
        try:
            return Settings.model_validate(self.data)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path = error_path(detail, self.data)
                text = describe_error(detail, path, self.data, list_setting_keys())
                # Errors of the whole model repeat earlier ones, with a less exact place.
                if path or not self.errors:
                    path, text = self.split_place(path, text)
                    self.add_error(path, text, is_missing=detail["type"] == "missing")
            return None

    def split_place(self, path: KeyPath, text: str) -> tuple[KeyPath, str]:
        """Return the place of an error, and its text. Those of the whole model may begin with theirs."""
        dotted, separator, rest = text.partition(": ")
        place = tuple(dotted.split("."))
        is_known = not path and bool(separator) and place[0] in self.data
        return (place, rest) if is_known and self.find_layer(place) else (path, text)


def validate(kind: type[Model], values: Mapping[str, Any]) -> Model:
    """Return settings of values that are in no file. Raises `ConfigurationError` with a sentence per error."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        keys = list_setting_keys()
        details = [(detail, error_path(detail, values)) for detail in error.errors(include_url=False)]
        raise ConfigurationError(
            [": ".join((*map(str, path[-1:]), describe_error(detail, path, values, keys))) for detail, path in details]
        ) from None


def get_secret_values(settings: Settings) -> tuple[str, ...]:
    """Return the values of all secrets that are set, for the log to redact."""
    return tuple(secret.value() for secret in settings.secrets().values() if not secret.missing_reason())


def find_missing_sources(settings: Settings) -> tuple[str, ...]:
    """Return the names of the sources that read a folder or file of this machine which does not exist now."""
    sections = {name: source.model_dump(mode="json") for name, source in settings.sources.items()}
    draft = _Draft({}, {"sources": sections})
    paths = (path for _, path, value in draft.leaves() if isinstance(value, str) and draft.is_missing_path(path, value))
    return tuple(dict.fromkeys(str(path[1]) for path in paths))


def parse_value(text: str) -> Any:
    """Parse the value of a variable or a `--set`: JSON, `[a, b]`, `null`; anything else is plain text.

    >>> parse_value("0.5"), parse_value("[a, b]"), parse_value("text")
    (0.5, ['a', 'b'], 'text')
    """
    stripped_text = text.strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if stripped_text.startswith("[") and stripped_text.endswith("]"):
            return [parse_value(item.strip()) for item in stripped_text[1:-1].split(",") if item.strip()]
        return None if stripped_text in ("", "~") else text


def _describe_missing_secret(key: str, value: str, environment: Mapping[str, str]) -> str:
    """Return what is missing, or an empty string; the validation reports malformed names."""
    if key == "env" and re.match(ENV_VARIABLE_PATTERN, value):
        reason = Secret(env=value).missing_reason(environment)
        return reason and f"{reason}: set it, or write it into the file of secrets beside the configuration (kimas.env)"
    return Secret(file=Path(value)).missing_reason() if key == "file" else ""


def _nest_value(path: Sequence[str], value: Any) -> dict[str | int, Any]:
    for step in reversed(path[1:]):
        value = {step: value}
    return {path[0]: value}


def _leaves(container: dict[str | int, Any], parent: KeyPath) -> Iterator[tuple[dict[str | int, Any], KeyPath, Any]]:
    for name, value in container.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*parent, name))
        else:
            yield container, (*parent, name), value


def _variable_name(key: SettingKey, names: Sequence[str]) -> str:
    """Return the variable of a key, with the user's names in place of `*`."""
    steps = [names[index] if step == "*" and index < len(names) else step for index, step in enumerate(key.path)]
    return ENV_PREFIX + "__".join(step.replace("*", "NAME") for step in steps).upper()
