"""What is known of a forge between two refreshes: an index of its items, and a file with the text of each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from core.errors import SourceError


@dataclass(frozen=True, slots=True)
class Known:
    """An item as it was last read; its text is in a file of its own, named by `fingerprint`.

    `updated` is when it changed and `read` when its comments were asked for, both in seconds since 1970.
    """

    fingerprint: str
    title: str
    url: str
    stamp: str
    updated: float
    read: float


@dataclass(slots=True)
class Record:
    """The items by path, and where the next refresh goes on.

    `scope` names the settings that it was made with. `cursors` hold by kind the last change that was seen; a kind
    without one has not been read to its end since `began`, when the last full round started. `tags` are ETags by kind
    and address; until `blocked_until` the service wants to be left alone.
    """

    scope: str
    items: dict[str, Known] = field(default_factory=dict)
    cursors: dict[str, float] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    began: float = 0.0
    blocked_until: float = 0.0

    def fingerprints(self) -> dict[str, str]:
        """Return what a listing holds."""
        return {path: known.fingerprint for path, known in self.items.items()}


class RecordFiles:
    """Where a source's record is kept. All methods block: call them in a thread."""

    def __init__(self, name: str, directory: Path) -> None:
        self._name = name
        self._directory = directory

    def load(self, scope: str) -> Record:
        """Return the record; an empty one where there is none, where it is damaged, or made with other settings."""
        try:
            stored = json.loads((self._directory / "items.json").read_text("utf-8"))
            record = Record(**{**stored, "items": {path: Known(**one) for path, one in stored["items"].items()}})
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            # Nothing known, or a damaged record: everything is asked for again.
            return Record(scope)
        texts = {file.stem for file in self._directory.glob("*.md")}
        whole = _is_sound(record) and all(known.fingerprint in texts for known in record.items.values())
        return record if whole and record.scope == scope else Record(scope)

    def save(self, record: Record) -> None:
        """Write the record, and remove texts that it no longer names. Raises `SourceError`."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            fresh = self._directory / "items.json.new"
            fresh.write_text(json.dumps(asdict(record)), "utf-8")
            os.replace(fresh, self._directory / "items.json")
            kept = {known.fingerprint for known in record.items.values()}
            for file in self._directory.iterdir():
                # Also what an interrupted write left behind.
                if file.suffix == ".new" or (file.suffix == ".md" and file.stem not in kept):
                    file.unlink()
        except OSError as fault:
            raise self._unwritable(fault) from fault

    def keep(self, fingerprint: str, text: str) -> None:
        """Write the text of an item. Raises `SourceError`."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            fresh = self._directory / f"{fingerprint}.new"
            fresh.write_text(text, "utf-8")
            os.replace(fresh, self._directory / f"{fingerprint}.md")
        except OSError as fault:
            raise self._unwritable(fault) from fault

    def text(self, known: Known) -> str | None:
        """Return the text of an item, or None when it is not there any more."""
        try:
            return (self._directory / f"{known.fingerprint}.md").read_text("utf-8")
        except FileNotFoundError:
            return None

    def _unwritable(self, fault: OSError) -> SourceError:
        return SourceError(f"source {self._name}: {self._directory} cannot be written: {fault.strerror}")


def _is_sound(record: Record) -> bool:
    """Say whether what a file held are numbers where numbers belong."""
    numbers = [record.began, record.blocked_until, *_values(record.cursors)]
    tags = _values(record.tags)
    return all(isinstance(one, float | int) for one in numbers) and all(isinstance(one, dict) for one in tags)


def _values(mapping: object) -> list[object]:
    return list(mapping.values()) if isinstance(mapping, Mapping) else [None]
