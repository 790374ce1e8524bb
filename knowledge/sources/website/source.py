"""A web site: the pages that its sitemap lists, or that can be reached from its first page.

robots.txt says which of them may be fetched.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from core.errors import SourceError
from core.formatting import strip_source_prefix
from core.settings import WebsiteSource
from knowledge.formats.html import HTML_TYPES, read_page
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import PathGlobs
from knowledge.sources.website.crawl_state import REQUESTS_PER_PAGE, CrawlState, PageState, PageStateStore, get_path
from knowledge.sources.website.parsing import MAX_SITEMAP_KB, parse_robots, parse_sitemap
from knowledge.web.addresses import redact_url
from knowledge.web.client import ROBOT_NAME, Request, Response, ResponseTooLarge, WebClient

GONE_STATUSES = frozenset({404, 410})
# The site works and refuses this page.
REFUSED_STATUSES = frozenset({401, 403, 451})
NOT_MODIFIED = 304
# How much is fetched between two writes of the record, so that an interrupted first visit is not lost.
SAVE_INTERVAL = 50
MAX_SITEMAPS = 50
# Of all sitemaps of one visit together.
MAX_SITEMAPS_BYTES = 200 << 20
MAX_DELAY_S = 10.0


class _PageSkipped(SourceError):
    """A redirect leads where we do not go; the message is the reason that is counted."""


class Website:
    """The pages of one host. Its record of them is kept below `directory`."""

    def __init__(self, name: str, settings: WebsiteSource, directory: Path, parser: Parser | None = None) -> None:
        self.name = name
        self._parser = parser or ThreadParser()
        self._settings = settings
        self._store = PageStateStore(name, directory)
        self._host = urlsplit(settings.url).netloc
        self._globs = PathGlobs(name, settings.include, settings.exclude)

    async def listing(self) -> Listing:
        """Visit the site and list its pages. Unchanged pages are not downloaded again (ETag, Last-Modified).

        If the site cannot be reached, the pages of the last visit are listed. If most of the visit failed or it took
        too long, the pages that it did not reach are listed as they were. `stale` and `skipped` say why. Raises
        `SourceError` when no earlier visit is recorded.
        """
        known_pages = await asyncio.to_thread(self._store.load)
        crawl = CrawlState(known_pages, self._settings.max_pages)
        try:
            async with WebClient(self._settings.allow_private) as client:
                robots = await read_robots(client, self._parser, self._settings.url, self._settings.timeout_s)
                crawl.start(max(robots.delay_s, self._settings.delay_s))
                await self._seed_queue(crawl, client, robots)
                await self._crawl(crawl, client, robots)
            unvisited_pages = {path: page for path, page in crawl.unvisited().items() if self._is_allowed(path, robots)}
            pages = {**unvisited_pages, **crawl.found_pages}
            self._require_pages(pages, crawl)
        except SourceError as error:
            # A record that cannot be written names the source, too.
            reason = strip_source_prefix(self.name, str(error))
            if not known_pages:
                raise SourceError(f"source {self.name}: {reason}") from error
            return Listing(_fingerprints(known_pages), stale=reason)
        await asyncio.to_thread(self._store.save_pages, pages)
        return Listing(
            _fingerprints(pages),
            skipped=dict(crawl.skipped),
            stale=crawl.stale_reason(),
            unreadable=crawl.unreadable,
        )

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield pages as they were at the last visit."""
        pages = await asyncio.to_thread(self._store.load)
        for path in paths:
            page = pages.get(path)
            if path in listing.fingerprints and page is not None:
                text = await asyncio.to_thread(self._store.load_text, page.fingerprint)
                if text is not None:
                    yield Document(path, text, "markdown", page.title, page.url)

    async def _seed_queue(self, crawl: CrawlState, client: WebClient, robots: Robots) -> None:
        settings = self._settings
        crawl.enqueue(settings.url, 0)
        if settings.sitemap:
            limit = settings.max_pages * REQUESTS_PER_PAGE
            request = Request(settings.url, timeout_s=settings.timeout_s, max_kb=MAX_SITEMAP_KB)
            urls = await read_sitemaps(
                client, self._parser, request, robots.sitemaps, limit=limit, deadline=crawl.deadline
            )
            for url in urls:
                # What the sitemap lists is complete: its pages' links are not followed.
                crawl.enqueue(url, settings.depth)

    async def _crawl(self, crawl: CrawlState, client: WebClient, robots: Robots) -> None:
        delay_s = max(robots.delay_s, self._settings.delay_s)
        while crawl.queue:
            url, depth = crawl.queue.popleft()
            if not self._is_wanted(url) or get_path(url) in crawl.found_pages:
                continue
            crawl.stop_reason = crawl.get_stop_reason()
            if crawl.stop_reason:
                # Off the event loop: many may be waiting.
                crawl.skipped[crawl.stop_reason] += 1 + await asyncio.to_thread(self._count_remaining, crawl)
                return
            if not robots.can_fetch(url):
                crawl.skipped["disallowed by robots.txt"] += 1
                continue
            if crawl.request_count:
                await asyncio.sleep(delay_s)
            crawl.request_count += 1
            await self._fetch_page(url, depth, crawl, client, robots)
            if crawl.request_count % SAVE_INTERVAL == 0:
                await asyncio.to_thread(self._store.save_pages, {**crawl.known_pages, **crawl.found_pages})

    def _is_wanted(self, url: str) -> bool:
        # The first page shows the way, also where it is not wanted itself.
        return urlsplit(url).netloc == self._host and (url == self._settings.url or self._matches_globs(get_path(url)))

    def _matches_globs(self, path: str) -> bool:
        return self._globs.matches(path.partition("?")[0])

    def _is_allowed(self, path: str, robots: Robots) -> bool:
        return self._matches_globs(path) and robots.can_fetch(urljoin(self._settings.url, path))

    def _count_remaining(self, crawl: CrawlState) -> int:
        """Return how many pages that are wanted still wait."""
        return sum(self._is_wanted(url) and get_path(url) not in crawl.found_pages for url, _ in crawl.queue)

    def _check_redirect(self, url: str, robots: Robots) -> None:
        """Raise `_PageSkipped` for a redirect that leads where no link would be followed to."""
        if urlsplit(url).netloc != self._host:
            raise _PageSkipped("leads elsewhere")
        if not robots.can_fetch(url):
            raise _PageSkipped("disallowed by robots.txt")

    async def _fetch_page(self, url: str, depth: int, crawl: CrawlState, client: WebClient, robots: Robots) -> None:
        previous_page = crawl.known_pages.get(get_path(url))
        headers = (
            {"If-None-Match": previous_page.etag, "If-Modified-Since": previous_page.modified} if previous_page else {}
        )
        settings = self._settings
        request = Request(
            url,
            headers={name: value for name, value in headers.items() if value},
            timeout_s=settings.timeout_s,
            max_kb=settings.max_page_kb,
        )
        try:
            response = await client.fetch(request, partial(self._check_redirect, robots=robots))
            page = (
                previous_page
                if response.status == NOT_MODIFIED and previous_page
                else await self._parse_page(url, response, crawl)
            )
        except (_PageSkipped, ResponseTooLarge) as error:
            crawl.mark_answered(get_path(url))
            crawl.skipped["too large" if isinstance(error, ResponseTooLarge) else str(error)] += 1
            return
        except SourceError as error:
            page = self._handle_failure(url, crawl, error)
        else:
            crawl.mark_answered(get_path(url))
            if page is not None and page.fingerprint and self._matches_globs(get_path(response.url)):
                crawl.found_pages[get_path(response.url)] = page
        if page is not None and depth < settings.depth:
            for link in filter(self._is_wanted, page.links):
                crawl.enqueue(link, depth + 1)

    def _handle_failure(self, url: str, crawl: CrawlState, error: SourceError) -> PageState | None:
        """Keep the recorded page when a visit fails. Raises the error for the first page if it is the only one."""
        is_first = url == self._settings.url
        if is_first and len(crawl.seen_urls) == 1:
            raise error
        return crawl.mark_failed(get_path(url), str(error), is_first=is_first)

    async def _parse_page(self, url: str, response: Response, crawl: CrawlState) -> PageState | None:
        """Return a page, without a fingerprint where it has no text; None for what is none.

        Raises `SourceError` when it fails for now.
        """
        if response.status in GONE_STATUSES:
            crawl.skipped["gone"] += 1
            return None
        if response.status in REFUSED_STATUSES:
            crawl.consecutive_failures = 0
        if response.status >= 300:
            raise SourceError(f"{redact_url(url)} answered with status {response.status}")
        if response.headers.get("content-type", "").split(";")[0].strip().lower() not in HTML_TYPES:
            crawl.skipped["no HTML"] += 1
            return None
        try:
            page = await self._parser.run(read_page, response.content, response.url)
        except FormatError as error:
            crawl.skipped["unreadable"] += 1
            crawl.unreadable[get_path(url)] = str(error)
            return None
        page_state = PageState("", page.title, page.canonical or response.url, page.links)
        if not page.text:
            crawl.skipped["no text"] += 1
            return page_state
        fingerprint = hashlib.sha256(f"{page.title}\n{page_state.url}\n{page.text}".encode()).hexdigest()
        await asyncio.to_thread(self._store.save_text, fingerprint, page.text)
        etag, last_modified = (response.headers.get(name, "") for name in ("etag", "last-modified"))
        return replace(page_state, fingerprint=fingerprint, etag=etag, modified=last_modified)

    def _require_pages(self, pages: Mapping[str, PageState], crawl: CrawlState) -> None:
        """Raise `SourceError` when there is no page at all."""
        if not pages:
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(crawl.skipped.items())) or "nothing else"
            cause = f": {crawl.first_error}" if crawl.first_error else ""
            raise SourceError(f"{redact_url(self._settings.url)} has no page that can be used ({counts}){cause}")


def _fingerprints(pages: Mapping[str, PageState]) -> dict[str, str]:
    return {path: page.fingerprint for path, page in pages.items()}


@dataclass(frozen=True, slots=True)
class Robots:
    """A site's rules for us: `delay_s` between two requests, and where its sitemaps are."""

    rules: RobotFileParser
    delay_s: float
    sitemaps: tuple[str, ...]

    def can_fetch(self, url: str) -> bool:
        """Return whether a page may be fetched."""
        return self.rules.can_fetch(ROBOT_NAME, url)


async def read_robots(client: WebClient, parser: Parser, site_url: str, timeout_s: float) -> Robots:
    """Read a site's robots.txt; a site without one allows everything.

    Raises `SourceError` when it cannot be told: a site that fails is not to be fetched (RFC 9309, 2.3.1.4).
    """
    response = await client.fetch(Request(urljoin(site_url, "/robots.txt"), timeout_s=timeout_s, max_kb=512))
    if response.status >= 500:
        raise SourceError(f"{urljoin(site_url, '/robots.txt')} answered with status {response.status}")
    try:
        rules = await parser.run(parse_robots, response.text() if response.status < 400 else "", ROBOT_NAME)
    except FormatError as error:
        raise SourceError(f"{urljoin(site_url, '/robots.txt')} cannot be used: {error}") from error
    robots_file = RobotFileParser()
    robots_file.parse(rules.lines)
    return Robots(robots_file, min(rules.delay_s, MAX_DELAY_S), rules.sitemaps)


async def read_sitemaps(
    client: WebClient, parser: Parser, request: Request, sitemap_urls: Sequence[str], *, limit: int, deadline: float
) -> list[str]:
    """Return the pages that a site's sitemaps list, at most `limit`; none when there is no usable sitemap.

    `request` is one for the site's first page. No sitemap is asked for after `deadline`, on the clock of
    `time.monotonic`.
    """
    queue = list(sitemap_urls) or [urljoin(request.url, "/sitemap.xml")]
    bytes_left = MAX_SITEMAPS_BYTES
    seen_urls: set[str] = set()
    pages: dict[str, None] = {}
    while (
        queue
        and len(seen_urls) < MAX_SITEMAPS
        and len(pages) < limit
        and bytes_left > 0
        and time.monotonic() < deadline
    ):
        url = queue.pop(0)
        if url in seen_urls:
            continue
        seen_urls.add(url)
        try:
            response = await client.fetch(replace(request, url=url))
            content = response.content if response.status < 400 else b""
            nested_sitemaps, page_urls = await parser.run(parse_sitemap, content, limit)
        except (SourceError, FormatError):
            # A site without a usable sitemap is crawled.
            continue
        bytes_left -= len(content)
        queue += nested_sitemaps
        pages |= dict.fromkeys(page_urls)
    return list(pages)[:limit]
