"""The file of secrets beside a configuration: NAME=VALUE per line, as docker and systemd read it, too."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from core.errors import ConfigurationError

_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_OTHERS = 0o077
# Some editors begin a file with a mark that nobody sees.
_ENCODING = "utf-8-sig"


def get_env_path(config: Path) -> Path:
    """Return where a configuration's file of secrets is: `kimas.env` beside `kimas.yaml`."""
    return config.with_suffix(".env")


def load_env_file(config: Path) -> Mapping[str, Path]:
    """Set the variables of a configuration's file, if there is one; what the environment has already stays.

    Returns the file by the names that have its values. Warns on standard error about a file that others may read.
    Raises `ConfigurationError` for one that is unusable.
    """
    file = get_env_path(config)
    try:
        text = file.read_text(_ENCODING)
        is_open = bool(file.stat().st_mode & _OTHERS)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{file} cannot be read: {error}"]) from error
    origins: dict[str, Path] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise ConfigurationError([f"{file}:{number}: must be NAME=VALUE"])
        value = _strip_quotes(match[2])
        # When it is read again, the environment has its values already.
        if os.environ.setdefault(match[1], value) == value:
            origins[match[1]] = file
    if is_open:
        sys.stderr.write(f"{file} holds secrets and others can read it: chmod 600 {file}\n")
    return origins


def _strip_quotes(value: str) -> str:
    """Return a value without the quotes around it, as Compose and systemd do."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def read_env_names(file: Path) -> frozenset[str]:
    """Return the names that a file sets; none where there is no file. Raises `OSError`."""
    if not file.exists():
        return frozenset()
    matches = (_LINE.fullmatch(line.strip()) for line in file.read_text(_ENCODING).splitlines())
    return frozenset(match[1] for match in matches if match)


def write_env_file(file: Path, secrets: Mapping[str, str]) -> None:
    """Write a new file that its owner alone may read; a name without a value is left as a comment. Raises `OSError`."""
    lines = ["# Secrets of the configuration beside this file. Never put it into a repository."]
    lines += [f"{name}={value}" if value else f"# {name}=" for name, value in secrets.items()]
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines) + "\n")


def add_to_env_file(file: Path, secrets: Mapping[str, str]) -> None:
    """Set secrets in a file that its owner alone may read; all other lines stay. Raises `OSError`."""
    if not file.exists():
        write_env_file(file, secrets)
        return
    target = file.resolve()
    lines = [line for line in target.read_text(_ENCODING).splitlines() if _get_name(line) not in secrets]
    lines += [f"{name}={value}" for name, value in secrets.items()]
    # A temporary file is for its owner alone.
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    new_file = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        new_file.replace(target)
    finally:
        new_file.unlink(missing_ok=True)


def _get_name(line: str) -> str:
    """Return the name that a line sets, or keeps a place for."""
    return line.removeprefix("# ").partition("=")[0].strip()
