"""What is remembered of a web site from one visit to the next: its pages, each with its text in a file of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from core.errors import SourceError


@dataclass(frozen=True, slots=True)
class KnownPage:
    """A page as it was last seen; its text is in the file that `fingerprint` names (none without text)."""

    fingerprint: str
    title: str
    url: str
    links: tuple[str, ...] = ()
    etag: str = ""
    modified: str = ""


class SiteRecord:
    """The record of the site called `name`, below `directory`. All of it blocks: call it off the event loop."""

    def __init__(self, name: str, directory: Path) -> None:
        self._name = name
        self._directory = directory

    def load(self) -> dict[str, KnownPage]:
        """Return the pages by path; none when nothing is known or the record is damaged: all is fetched again then."""
        try:
            stored = json.loads((self._directory / "pages.json").read_text("utf-8"))
            return {path: KnownPage(**{**page, "links": tuple(page["links"])}) for path, page in stored.items()}
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return {}

    def save(self, pages: Mapping[str, KnownPage]) -> None:
        """Keep these pages and the files of their texts, and no others. Raises `SourceError`."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            kept = {page.fingerprint for page in pages.values()}
            fresh = self._directory / "pages.json.new"
            fresh.write_text(json.dumps({path: asdict(page) for path, page in pages.items()}), "utf-8")
            os.replace(fresh, self._directory / "pages.json")
            for file in self._directory.glob("*.md"):
                if file.stem not in kept:
                    file.unlink()
        except OSError as fault:
            raise self._unwritable(fault) from fault

    def keep(self, fingerprint: str, text: str) -> None:
        """Write the text of a page. Raises `SourceError`."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            (self._directory / f"{fingerprint}.md").write_text(text, "utf-8")
        except OSError as fault:
            raise self._unwritable(fault) from fault

    def text(self, page: KnownPage) -> str | None:
        """Return the text of a page, or None when its file is gone."""
        try:
            return (self._directory / f"{page.fingerprint}.md").read_text("utf-8")
        except FileNotFoundError:
            return None

    def _unwritable(self, fault: OSError) -> SourceError:
        return SourceError(f"source {self._name}: {self._directory} cannot be written: {fault.strerror}")
