"""One round over a web site: what waits, what was found, what failed, and when it has cost enough."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

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


# What one visit may cost, beside the pauses: a maze of pages without text, or a site that hangs, has no end of its own.
REQUESTS_PER_PAGE = 4
SECONDS_PER_PAGE = 2.0
SHORTEST_VISIT_S = 60.0
# A site whose pages fail one after the other is left alone until the next refresh.
FAILURES_IN_A_ROW = 10
MOST_ADDRESSES = 20_000

BEYOND = "beyond max_pages"


@dataclass(slots=True)
class Visit:
    """`known` are the pages of the last visit, `found` those of this one, both by path; `answered` are the paths of
    which the site has said how they stand now. `requests` and `failures` count pages, without robots.txt and sitemaps.
    """

    known: dict[str, KnownPage]
    max_pages: int
    found: dict[str, KnownPage] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    waiting: deque[tuple[str, int]] = field(default_factory=deque)
    seen: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    requests: int = 0
    failures: int = 0
    in_a_row: int = 0
    first_failed: bool = False
    failure: str = ""
    cut: str = ""
    ends: float = float("inf")

    def begin(self, pause_s: float) -> None:
        """Start the clock; `pause_s` is what the site wants between two requests."""
        self.ends = time.monotonic() + max(SHORTEST_VISIT_S, self.max_pages * (pause_s + SECONDS_PER_PAGE))

    def add(self, url: str, depth: int) -> None:
        """Put an address into the queue, once; what is no address at all is left out."""
        if url in self.seen:
            return
        if len(self.seen) >= MOST_ADDRESSES:
            self.skipped["too many addresses"] += 1
            return
        try:
            urlsplit(url)
        except ValueError:
            return
        self.seen.add(url)
        self.waiting.append((url, depth))

    def enough(self) -> str:
        """Return why no further page is asked for, or an empty text."""
        if len(self.found) >= self.max_pages:
            return BEYOND
        if self.in_a_row >= FAILURES_IN_A_ROW:
            return "site failing"
        if self.requests >= self.max_pages * REQUESTS_PER_PAGE:
            return "requests used up"
        return "time used up" if time.monotonic() >= self.ends else ""

    def came(self, path: str) -> None:
        """Note that the site has answered for a path, whatever it said."""
        self.answered.add(path)
        self.in_a_row = 0

    def failed(self, path: str, reason: str, *, first: bool) -> KnownPage | None:
        """Note that a page failed for now, and return what is known of it, which stays."""
        self.skipped["failed"] += 1
        self.failures += 1
        self.in_a_row += 1
        self.first_failed = self.first_failed or first
        self.failure = self.failure or reason
        before = self.known.get(path)
        if before is not None and before.fingerprint:
            self.found[path] = before
        return before

    def stale(self) -> str:
        """Return why this round says little of the site: its first page, half of its pages or ten in a row failed."""
        whole = not self.first_failed and self.cut != "site failing"
        if whole and (not self.failures or self.failures * 2 < self.requests):
            return ""
        return f"{self.failures} of {self.requests} pages failed: {self.failure}"

    def unheard(self) -> dict[str, KnownPage]:
        """Return the pages of the last visit of which this one has heard nothing, where it ended early or is stale."""
        early = self.stale() or (self.cut and self.cut != BEYOND)
        room = self.max_pages - len(self.found) if early else 0
        left = [path for path in self.known if path not in self.found and path not in self.answered]
        return {path: self.known[path] for path in left[: max(0, room)]}


def path_of(url: str) -> str:
    """Return by what a page is known: its path with its query."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
