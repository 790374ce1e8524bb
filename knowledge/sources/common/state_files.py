"""State that sources keep between refreshes: small JSON files, and texts named by their fingerprints.

Everything here blocks: call it in a worker thread.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from core.errors import SourceError

# The folders in `data_dir` that hold what sources have read, each below the source's name.
TEXT_FOLDERS = ("web", "forge", "own", "standing")
# That of what was public once.
PUBLIC_FOLDER = "public"
_MARK = re.compile("[0-9a-f]{32}")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step; its folder is made where it is missing. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp_file = path.with_name(f"{path.name}.new")
    temp_file.write_text(text, "utf-8")
    temp_file.replace(path)


def read_json(path: Path) -> Any:
    """Return what a JSON file holds. Raises `OSError`, and `ValueError` for a damaged one."""
    return json.loads(path.read_text("utf-8"))


def write_json(path: Path, value: object, owner: str = "") -> None:
    """Replace a JSON file in one step. Raises `SourceError`, which begins with `owner` (`source docs`) where given."""
    try:
        write_atomically(path, json.dumps(value))
    except OSError as error:
        prefix = f"{owner}: " if owner else ""
        raise SourceError(f"{prefix}{path} cannot be written: {error.strerror}") from error


class TextStore:
    """The state of a source whose documents are texts: one JSON file, and a Markdown file per text in one folder."""

    def __init__(self, source: str, directory: Path, state_name: str) -> None:
        self._source = source
        self._directory = directory
        self._state_file = directory / state_name

    def read_state(self) -> Any:
        """Return what the JSON file holds. Raises `OSError`, and `ValueError` for a damaged one."""
        return read_json(self._state_file)

    def fingerprints(self) -> set[str]:
        """Return the fingerprints of all texts that are there."""
        return {file.stem for file in self._directory.glob("*.md")}

    def save(self, state: object, fingerprints: Collection[str]) -> None:
        """Replace the JSON file, and remove all texts but these. Raises `SourceError`."""
        try:
            write_atomically(self._state_file, json.dumps(state))
            for file in self._directory.iterdir():
                # Files of interrupted writes are removed as well.
                if file.suffix == ".new" or (file.suffix == ".md" and file.stem not in fingerprints):
                    file.unlink()
        except OSError as error:
            raise self._to_write_error(error) from error

    def save_text(self, fingerprint: str, text: str) -> None:
        """Write one text. Raises `SourceError`."""
        try:
            write_atomically(self._directory / f"{fingerprint}.md", text)
        except OSError as error:
            raise self._to_write_error(error) from error

    def load_text(self, fingerprint: str) -> str | None:
        """Return one text, or None when its file is gone."""
        try:
            return (self._directory / f"{fingerprint}.md").read_text("utf-8")
        except FileNotFoundError:
            return None

    def _to_write_error(self, error: OSError) -> SourceError:
        return SourceError(f"source {self._source}: {self._directory} cannot be written: {error.strerror}")


class PublicMark:
    """Records that what a source reads was public once: who reads it with a token does not see when that ends.

    It outlives what is known of the source, and its name: `identity` names what is read. `former_file` is where earlier
    versions recorded it, by the name of the source.
    """

    def __init__(self, data_dir: Path, identity: str, former_file: Path) -> None:
        # However its address is written.
        place = identity.casefold().rstrip("/").removesuffix(".git")
        self._file = data_dir / PUBLIC_FOLDER / hashlib.sha256(place.encode()).hexdigest()[:32]
        self._former_file = former_file
        self._identity = identity

    def was_public(self, *, is_public: bool) -> bool:
        """Return whether it was public before, and record that it `is_public` now. Blocking. Raises `SourceError`."""
        was_public = self._file.exists() or self._was_recorded()
        if (is_public or was_public) and not self._file.exists():
            write_json(self._file, True)
        return was_public

    def _was_recorded(self) -> bool:
        try:
            return bool(read_json(self._former_file) == self._identity)
        except (OSError, ValueError):
            return False


def list_public_marks(data_dir: Path) -> frozenset[str]:
    """Return the marks of all that was public once, for other machines. Blocking."""
    return frozenset(file.name for file in (data_dir / PUBLIC_FOLDER).glob("*") if _MARK.fullmatch(file.name))


def add_public_marks(data_dir: Path, marks: Collection[str]) -> None:
    """Record marks of other machines. Blocking. Raises `SourceError`."""
    for mark in filter(_MARK.fullmatch, marks):
        write_json(data_dir / PUBLIC_FOLDER / mark, True)
