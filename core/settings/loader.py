"""Loads the configuration: defaults, then files, then the environment, then `--set`; what comes later wins.

Everything that is wrong is collected and told at once, one line per fault with its place:
`kimas.yaml:12: sources.docs.max_file_kb: must be an integer, not 'many'`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from core.errors import ConfigurationError
from core.settings import VARIABLE, Secret, Settings
from core.settings.paths import Key, kind_at, known_keys
from core.settings.validation_errors import did_you_mean, explain, place_of
from core.settings.yaml_file import Keys, YamlFault, read_yaml

PREFIX = "KIMAS_"
FOR_TESTS = "KIMAS_TEST_"
# What holds a secret for one configuration is no mistake while another one is used. No setting has such a name.
FOR_SECRETS = re.compile(r"KIMAS_(?!.*__).*_(TOKEN|KEY|SECRET|PASSWORD)")


def default_files(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the configuration that is used when none is named: the first that exists of three well-known places.

    Raises `ConfigurationError` when there is none.
    """
    home = Path(environment.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    places = (Path("kimas.yaml"), home / "kimas" / "kimas.yaml", Path("/etc/kimas/kimas.yaml"))
    for place in places:
        if place.is_file():
            return (place,)
    tried = ", ".join(str(place) for place in places)
    raise ConfigurationError([f"no configuration: none of {tried} exists; `kimas init` writes one to start from"])


def load_settings(
    files: Sequence[Path],
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] = os.environ,
    *,
    require_secrets: bool = True,
) -> Settings:
    """Load and check the whole configuration.

    `overrides` are `path.to.key=value` texts. Paths in a file are relative to that file's folder, others to the current
    folder; in the result all are absolute. Without `require_secrets` a secret that is not there is no fault (until it
    is used). Raises `ConfigurationError` with one line per fault.
    """
    draft = _Draft(tuple(known_keys()))
    for number, file in enumerate(files):
        draft.add_file(number, file)
    draft.stop_at_faults()
    unknown = [name for name in sorted(environment) if not draft.add_variable(len(files), name, environment[name])]
    for override in overrides:
        draft.add_override(len(files) + 1, override)
    draft.refuse_variables(len(files), unknown)
    draft.data.setdefault("data_dir", str(Settings.model_fields["data_dir"].default))
    draft.resolve_paths()
    draft.find_missing(environment, secrets=require_secrets)
    draft.find_unknown_sources()
    settings = draft.validate()
    draft.stop_at_faults()
    if settings is None:
        raise AssertionError("a configuration without faults must be valid")
    return settings


@dataclass(frozen=True, slots=True)
class _Layer:
    """Where values came from. `place` says where in it a key is: a line number for sorting, and words for the user."""

    rank: int
    base: Path
    place: Callable[[Keys], tuple[int, str]]


@dataclass(slots=True)
class _Draft:
    """The configuration while it is put together: raw data, where each key came from, and what is wrong so far."""

    keys: tuple[Key, ...]
    data: dict[str | int, Any] = field(default_factory=dict)
    origins: dict[Keys, _Layer] = field(default_factory=dict)
    faults: list[tuple[int, int, str]] = field(default_factory=list)

    def add_file(self, rank: int, file: Path) -> None:
        """Merge a YAML file."""
        try:
            parsed = read_yaml(file)
        except YamlFault as fault:
            hint = "" if file.exists() else " (`kimas init` writes a configuration to start from)"
            self.faults.append((rank, fault.line, f"{fault}{hint}"))
            return
        if parsed.data is not None and not isinstance(parsed.data, dict):
            self.faults.append((rank, 1, f"{file}:1: must be a mapping of keys to values"))
            return

        def place(path: Keys) -> tuple[int, str]:
            line = parsed.line_of(path)
            return line, f"{file}:{line}"

        self.merge(parsed.data or {}, _Layer(rank, Path(os.path.abspath(file)).parent, place))

    def add_variable(self, rank: int, name: str, text: str) -> bool:
        """Merge a variable of the environment. Returns false when it is one of ours but names no key."""
        if not name.startswith(PREFIX) or name.startswith(FOR_TESTS):
            return True
        path = self.named(tuple(name.removeprefix(PREFIX).lower().split("__")))
        key = next((key for key in self.keys if key.matches(path)), None)
        if key is None:
            return False
        # A secret may stand in the environment itself: then its variable is where it comes from.
        value = {"env": name} if key.is_secret() else text if key.is_text() else parse_value(text)
        self.merge(_nested(path, value), _Layer(rank, Path.cwd(), lambda _: (0, f"environment variable {name}")))
        return True

    def add_override(self, rank: int, override: str) -> None:
        """Merge a `path.to.key=value`."""
        dotted, equals, text = override.partition("=")
        path = tuple(dotted.strip().split("."))
        if not equals or not all(path):
            self.faults.append((rank, 0, "--set: must be path.to.key=value"))
            return
        plain = any(key.is_text() and key.matches(path) for key in self.keys)
        layer = _Layer(rank, Path.cwd(), lambda _: (0, "--set"))
        self.merge(_nested(path, text if plain else parse_value(text)), layer)

    def named(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Use the spelling of the files for names that a variable cannot spell (`MY_DOCS` for `my-docs`)."""
        spelt: list[str] = []
        here: object = self.data
        for step in path:
            names = [name for name in here if str(name).replace("-", "_") == step] if isinstance(here, dict) else []
            spelt.append(step if step in names or not names else str(names[0]))
            here = here.get(spelt[-1]) if isinstance(here, dict) else None
        return tuple(spelt)

    def refuse_variables(self, rank: int, names: Sequence[str]) -> None:
        """Note variables of ours that name no key, unless the configuration takes a secret from them."""
        used = {value for _, path, value in self.leaves() if path[-1] == "env" and isinstance(value, str)}
        for name in names:
            if name not in used and not FOR_SECRETS.fullmatch(name):
                given = name.removeprefix(PREFIX).split("__")
                known = {_variable(key, given) for key in self.keys}
                near = get_close_matches(name, known, n=1, cutoff=0)[0]
                self.faults.append((rank, 0, f"environment variable {name}: names no setting; the nearest is {near}"))

    def merge(self, values: Mapping[str | int, Any], layer: _Layer) -> None:
        """Lay values over what is there: mappings are joined, everything else (and a secret as a whole) is replaced."""
        self._merge(self.data, values, (), layer)

    def _merge(self, into: dict[str | int, Any], values: Mapping[str | int, Any], at: Keys, layer: _Layer) -> None:
        for name, value in values.items():
            path = (*at, name)
            self.origins[path] = layer
            if isinstance(value, Mapping):
                whole = any(key.is_secret() and key.matches(path) for key in self.keys)
                if whole or not isinstance(into.get(name), dict):
                    into[name] = {}
                self._merge(into[name], value, path, layer)
            else:
                into[name] = value

    def leaves(self) -> Iterator[tuple[dict[str | int, Any], Keys, Any]]:
        """Yield every value that is no mapping, with the mapping that holds it and its path."""
        return _leaves(self.data, ())

    def layer(self, path: Keys) -> _Layer | None:
        """Return where a key, or else its nearest parent, came from."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.origins:
                return self.origins[path[:length]]
        return None

    def fault(self, path: Keys, text: str, *, absent: bool = False) -> None:
        """Note what is wrong at a path; `absent` when it is a key that should be there."""
        layer = self.layer(path[:-1] if absent else path)
        line, place = layer.place(path) if layer else (0, "configuration")
        rank = layer.rank if layer else 0
        dotted = ".".join(str(step) for step in path)
        self.faults.append((rank, line, ": ".join(part for part in (place, dotted, text) if part)))

    def stop_at_faults(self) -> None:
        """Raise what was found so far, in the order of the files and their lines."""
        if self.faults:
            raise ConfigurationError(list(dict.fromkeys(text for _, _, text in sorted(self.faults))))

    def resolve_paths(self) -> None:
        """Make every path absolute, seen from the file that names it."""
        for holder, path, value in self.leaves():
            layer = self.layer(path)
            base = layer.base if layer else Path.cwd()
            if isinstance(value, str) and self.is_path(path, value, base):
                # Not Path.resolve: a link to a folder that moves later must stay a link.
                holder[path[-1]] = os.path.abspath(base / os.path.expanduser(value))

    def is_path(self, path: Keys, value: str, base: Path) -> bool:
        """Say whether a value is a path of this machine. A git URL is one when it looks so or is a folder here."""
        kind = kind_at(self.data, path)
        if path[0] == "sources" and path[-1] == "url" and kind == "git":
            return value.startswith((".", "/", "~")) or (bool(value) and os.path.isdir(base / value))
        return bool(value) and any(
            (key.is_path() and key.matches(path, kind)) or (key.holds_paths() and key.matches(path[:-1], kind))
            for key in self.keys
        )

    def find_missing(self, environment: Mapping[str, str], *, secrets: bool) -> None:
        """Note files that do not exist and, if asked, secrets that are not there."""
        for _, path, value in self.leaves():
            secret = any(key.is_secret() and key.matches(path[:-1]) for key in self.keys)
            if not isinstance(value, str) or (secret and not secrets) or path[0] == "data_dir":
                continue
            if secret:
                missing = _missing_secret(str(path[-1]), value, environment)
                if missing:
                    self.fault(path[:-1], missing)
            elif os.path.isabs(value) and self.is_path(path, value, Path("/")) and not os.path.exists(value):
                self.fault(path, f"does not exist: {value}")

    def find_unknown_sources(self) -> None:
        """Note sources that agents name but nobody configured."""
        sources, agents = self.data.get("sources") or {}, self.data.get("agents")
        if not isinstance(agents, dict) or not isinstance(sources, dict):
            return
        for name, agent in agents.items():
            named = agent.get("sources") if isinstance(agent, dict) else None
            for index, source in enumerate(named if isinstance(named, list) else []):
                if isinstance(source, str) and source not in sources:
                    hint = did_you_mean(source, map(str, sources))
                    self.fault(("agents", name, "sources", index), f"no source is named {source!r}{hint}")

    def validate(self) -> Settings | None:
        """Return the settings, or note every fault that the model finds."""
        try:
            return Settings.model_validate(self.data)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                path = place_of(detail, self.data)
                # The model as a whole repeats what was already found, with less of a place.
                if path or not self.faults:
                    self.fault(path, explain(detail, path, self.data, self.keys), absent=detail["type"] == "missing")
            return None


def secret_values(settings: Settings) -> tuple[str, ...]:
    """Return the values of all secrets that are there, for the log to hide."""
    return tuple(secret.value() for secret in settings.secrets().values() if not secret.missing())


def parse_value(text: str) -> Any:
    """Read the value of a variable or a `--set`: JSON, `[a, b]`, `null`; anything else is text as it stands."""
    stripped = text.strip()
    try:
        return json.loads(text)
    except ValueError:
        if stripped.startswith("[") and stripped.endswith("]"):
            return [parse_value(item.strip()) for item in stripped[1:-1].split(",") if item.strip()]
        return None if stripped in ("", "~") else text


def _missing_secret(key: str, value: str, environment: Mapping[str, str]) -> str:
    """Say what is missing, or nothing; a name that is none is the model's to complain about."""
    if key == "env" and re.match(VARIABLE, value):
        return Secret(env=value).missing(environment)
    return Secret(file=Path(value)).missing() if key == "file" else ""


def _nested(path: Sequence[str], value: Any) -> dict[str | int, Any]:
    for step in reversed(path[1:]):
        value = {step: value}
    return {path[0]: value}


def _leaves(holder: dict[str | int, Any], at: Keys) -> Iterator[tuple[dict[str | int, Any], Keys, Any]]:
    for name, value in holder.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*at, name))
        else:
            yield holder, (*at, name), value


def _variable(key: Key, given: Sequence[str]) -> str:
    """Return the variable of a key, with the names that the user gave in place of `*`."""
    steps = [given[at] if step == "*" and at < len(given) else step for at, step in enumerate(key.path)]
    return PREFIX + "__".join(step.replace("*", "NAME") for step in steps).upper()
