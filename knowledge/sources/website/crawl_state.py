"""The state of one crawl: the queue, the pages, the failures, and the limits that end it."""

from __future__ import annotations

import re
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from core.errors import SourceError
from knowledge.sources.common.state_files import TextStore
from knowledge.sources.website.rendering import Renderer
from knowledge.web.refusals import KEPT_S

# The limits of one crawl, besides the pauses: a maze of pages without text, or a site that hangs, never ends by itself.
REQUESTS_PER_PAGE = 4
SECONDS_PER_PAGE = 2.0
MIN_CRAWL_S = 60.0

# A site whose pages fail one after the other is left alone until the next refresh.
MAX_CONSECUTIVE_FAILURES = 10
MAX_URLS = 20_000
_INDEX_FILE = re.compile(r"/(?:(?:index|default)\.[a-z]{2,5})?$", re.IGNORECASE)
PAGE_LIMIT_REASON = "beyond max_pages"


@dataclass(frozen=True, slots=True)
class PageState:
    """A page as it was last seen; its text is in the file that `fingerprint` names (none without text).

    `url` is the address that it gives itself; `digest` stands for what is on it; `expires_at` is in seconds since 1970,
    and so is `refused_since`, when the site first refused it.
    """

    fingerprint: str
    title: str
    url: str
    links: tuple[str, ...] = ()
    etag: str = ""
    modified: str = ""
    digest: str = ""
    expires_at: float | None = None
    refused_since: float | None = None

    @property
    def is_expired(self) -> bool:
        """Return whether the page asked to be forgotten by now, or was refused for too long."""
        now = time.time()
        is_refused = self.refused_since is not None and now - self.refused_since >= KEPT_S
        return is_refused or (self.expires_at is not None and self.expires_at <= now)


class PageStateStore(TextStore):
    """The pages of one site as they were last seen, and their texts."""

    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(name, directory, "pages.json")

    def load(self) -> dict[str, PageState]:
        """Return the pages by path; none when nothing is known or the state is damaged: all is fetched again then."""
        try:
            pages = self.read_state()
            return {path: PageState(**{**page, "links": tuple(page["links"])}) for path, page in pages.items()}
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return {}

    def save_pages(self, pages: Mapping[str, PageState]) -> None:
        """Keep these pages and their texts, and no others. Raises `SourceError`."""
        self.save({path: asdict(page) for path, page in pages.items()}, {page.fingerprint for page in pages.values()})


@dataclass(slots=True)
class CrawlState:
    """`known_pages` are the pages of the last visit, `found_pages` those of this one, both by path; `answered_paths`
    are the paths for which the site has answered. `request_count` and `failure_count` count pages, without
    robots.txt and sitemaps; `refused_count` are those that failed because the site refuses them, `closed_count`
    those that it has no more, or not for us, and `read_count` those that it let us see. `aliases` are the pages
    that name another one as themselves, by the path of that one.
    """

    known_pages: dict[str, PageState]
    max_pages: int
    found_pages: dict[str, PageState] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)
    queue: deque[tuple[str, int]] = field(default_factory=deque)
    seen_urls: set[str] = field(default_factory=set)
    answered_paths: set[str] = field(default_factory=set)
    refreshed_urls: set[str] = field(default_factory=set)
    aliases: dict[str, set[str]] = field(default_factory=dict)
    paths_by_stem: dict[str, str] = field(default_factory=dict)
    paths_by_digest: dict[str, str] = field(default_factory=dict)
    request_count: int = 0
    failure_count: int = 0
    refused_count: int = 0
    closed_count: int = 0
    read_count: int = 0
    consecutive_failures: int = 0
    has_first_page_failed: bool = False
    first_error: str = ""
    stop_reason: str = ""
    renderer: Renderer | None = None
    deadline: float = float("inf")

    def start(self, delay_s: float) -> None:
        """Start the clock; `delay_s` is what the site wants between two requests."""
        self.deadline = time.monotonic() + max(MIN_CRAWL_S, self.max_pages * (delay_s + SECONDS_PER_PAGE))

    def enqueue(self, url: str, depth: int) -> None:
        """Put an address into the queue, once."""
        if url in self.seen_urls:
            return
        if len(self.seen_urls) >= MAX_URLS:
            self.skipped["too many addresses"] += 1
            return
        self.seen_urls.add(url)
        self.queue.append((url, depth))

    def add_page(self, path: str, page: PageState) -> None:
        """Keep a page, once: not beside the page that it names as itself, nor beside one with the same text.

        A page that names another one as itself without being it keeps its own address.
        """
        canonical_path = get_path(page.url)
        other_spelling = path if path in self.aliases else self.paths_by_stem.get(_get_stem(path), path)
        twin_path = canonical_path if canonical_path != path else other_spelling
        twin = self.found_pages.get(twin_path)
        if twin is not None and twin_path != path and _is_same(path, page, twin_path, twin):
            self.skipped["duplicate"] += 1
            return
        # Many sites answer for any address; one that others name as themselves comes in their place.
        first_path = self.paths_by_digest.setdefault(page.digest, path) if page.digest else path
        if first_path != path and first_path in self.found_pages and path not in self.aliases:
            self.skipped["duplicate"] += 1
            return
        if twin is not None:
            page = replace(page, url=urljoin(page.url, path))
        self.found_pages[path] = page
        self.paths_by_stem.setdefault(_get_stem(path), path)
        if canonical_path != path:
            self.aliases.setdefault(canonical_path, set()).add(path)
        for alias in self.aliases.pop(path, ()):
            alias_page = self.found_pages.get(alias)
            if alias_page is None:
                continue
            if _is_same(alias, alias_page, path, page):
                del self.found_pages[alias]
                self.skipped["duplicate"] += 1
            else:
                self.found_pages[alias] = replace(alias_page, url=urljoin(page.url, alias))

    def get_stop_reason(self) -> str:
        """Return why no further page is asked for, or an empty text."""
        if len(self.found_pages) >= self.max_pages:
            return PAGE_LIMIT_REASON
        if self.consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
            return "site failing"
        if self.request_count >= self.max_pages * REQUESTS_PER_PAGE:
            return "requests used up"
        return "time used up" if time.monotonic() >= self.deadline else ""

    def mark_answered(self, path: str) -> None:
        """Note that the site has answered for a path, whatever it said."""
        self.answered_paths.add(path)
        self.consecutive_failures = 0

    @property
    def is_refused(self) -> bool:
        """Return whether the site let us see nothing, and no page failed for another reason."""
        has_failed = self.failure_count > self.refused_count
        return not has_failed and not self.read_count and self.refused_count + self.closed_count > 0

    def skip_closed(self, reason: str) -> None:
        """Count a page that the site has no more, or not for us."""
        self.skipped[reason] += 1
        self.closed_count += 1

    def mark_failed(self, path: str, error: SourceError, *, is_first: bool) -> PageState | None:
        """Note that a page failed for now, and return what is known of it, which stays; for a week if it is refused."""
        self.skipped["failed"] += 1
        self.failure_count += 1
        self.consecutive_failures += 1
        self.has_first_page_failed = self.has_first_page_failed or is_first
        self.first_error = self.first_error or str(error)
        self.refused_count += error.is_refused
        previous_page = self.known_pages.get(path)
        if previous_page is not None and error.is_refused:
            now = time.time()
            previous_page = replace(previous_page, refused_since=min(previous_page.refused_since or now, now))
        if previous_page is not None and previous_page.fingerprint:
            self.found_pages[path] = previous_page
        return previous_page

    def stale_reason(self) -> str:
        """Return why this round says little of the site: its first page, half of its pages or ten in a row failed."""
        is_complete = not self.has_first_page_failed and self.stop_reason != "site failing"
        if is_complete and (not self.failure_count or self.failure_count * 2 < self.request_count):
            return ""
        return f"{self.failure_count} of {self.request_count} pages failed: {self.first_error}"

    def unvisited(self) -> dict[str, PageState]:
        """Return the pages of the last visit that this one did not reach, if it ended early or is stale."""
        ended_early = self.stale_reason() or (self.stop_reason and self.stop_reason != PAGE_LIMIT_REASON)
        capacity = self.max_pages - len(self.found_pages) if ended_early else 0
        remaining_paths = [
            path for path in self.known_pages if path not in self.found_pages and path not in self.answered_paths
        ]
        return {path: self.known_pages[path] for path in remaining_paths[: max(0, capacity)]}


def get_path(url: str) -> str:
    """Return the key of a page: its path with its query."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _get_stem(path: str) -> str:
    """Return a path without what sites spell in several ways: a slash at the end, and an index file."""
    return _INDEX_FILE.sub("", path.partition("?")[0]).casefold()


def _is_same(path: str, page: PageState, twin_path: str, twin: PageState) -> bool:
    """Return whether a page is another one: its content is, or it says so, and its title or its path agrees.

    Some sites name their first page as the own address of every page.
    """
    if page.digest and page.digest == twin.digest and _get_stem(path) == _get_stem(twin_path):
        return True
    is_named = get_path(page.url) == twin_path
    return is_named and (page.title == twin.title or _get_stem(path) == _get_stem(twin_path))
