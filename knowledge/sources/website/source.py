"""A web site: the pages that its sitemap lists, or that can be reached from its first page.

robots.txt says which of them may be fetched.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

from core.errors import SourceError, is_refusal
from core.formatting import strip_source_prefix
from core.runtime.tasks import raise_if_stopped, to_stoppable_thread
from core.settings import WebsiteSource
from knowledge.formats.html import HTML_TYPES, WebPage, read_page
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing
from knowledge.sources.common.documents import AddressGlobs
from knowledge.sources.website.crawl_state import REQUESTS_PER_PAGE, CrawlState, PageState, PageStateStore, get_path
from knowledge.sources.website.rendering import open_renderer
from knowledge.sources.website.robots import Robots, read_robots
from knowledge.sources.website.sitemaps import MAX_SITEMAP_KB, MAX_SITEMAPS, read_sitemaps
from knowledge.web.addresses import get_site, normalize_url, redact_url
from knowledge.web.client import Request, Response, ResponseTooLarge, WebClient
from knowledge.web.page_rules import ROBOT_NAME, PageRules, parse_page_rules
from knowledge.web.refusals import REFUSED_STATUSES

GONE_STATUSES = frozenset({404, 410})
# The site works and refuses this page.
REFUSED_PAGE_STATUSES = REFUSED_STATUSES - GONE_STATUSES
NOT_MODIFIED = 304
# How much is fetched between two writes of the record, so that an interrupted first visit is not lost.
SAVE_INTERVAL = 50
UTF8_HTML = "text/html; charset=utf-8"
SCRIPTS_HINT = "scripts make its content; the setting render runs them"
NOINDEX_REASON = "noindex"
SCRIPTS_REASON = "empty without scripts"


class _PageSkipped(SourceError):
    """A redirect leads where we do not go; the message is the reason that is counted."""


class Website:
    """The pages of one host. Its record of them is kept below `directory`.

    Where the site `is_shared`, another source reads what this one excludes for fewer people: then no page is read that
    names an excluded address as its own, and scripts get nothing of it.
    """

    def __init__(
        self,
        name: str,
        settings: WebsiteSource,
        directory: Path,
        parser: Parser | None = None,
        *,
        is_shared: bool = False,
    ) -> None:
        self.name = name
        self._parser = parser or ThreadParser()
        self._settings = settings
        self._store = PageStateStore(name, directory)
        self._start_url = self._normalize(settings.url)
        self._site = get_site(settings.url)
        self._is_shared = is_shared
        self._globs = AddressGlobs(name, settings.include, settings.exclude)

    async def listing(self) -> Listing:
        """Visit the site and list its pages. Unchanged pages are not downloaded again (ETag, Last-Modified).

        If the site cannot be reached, the pages of the last visit are listed. If most of the visit failed or it took
        too long, the pages that it did not reach are listed as they were. `stale` and `skipped` say why. Raises
        `SourceError` when no earlier visit is recorded.
        """
        known_pages = await asyncio.to_thread(self._store.load)
        crawl = CrawlState(known_pages, self._settings.max_pages)
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(WebClient(self._settings.allow_private))
                robots = await read_robots(client, self._settings.url, self._settings.timeout_s)
                if self._settings.render:
                    check_url = partial(self._check_script_request, robots=robots)
                    crawl.renderer = await stack.enter_async_context(open_renderer(client, check_url))
                crawl.start(max(robots.delay_s, self._settings.delay_s))
                await self._seed_queue(crawl, client, robots)
                await self._crawl(crawl, client, robots)
            unvisited_pages = await to_stoppable_thread(self._find_unvisited, crawl, robots)
            all_pages = {**unvisited_pages, **crawl.found_pages}
            pages = {path: page for path, page in all_pages.items() if not page.is_expired}
            self._require_pages(pages, crawl)
        except SourceError as error:
            # A record that cannot be written names the source, too.
            reason = strip_source_prefix(self.name, str(error))
            if not known_pages:
                raise SourceError(f"source {self.name}: {reason}") from error
            return Listing(_fingerprints(known_pages), stale=reason, is_refused=is_refusal(error))
        await asyncio.to_thread(self._store.save_pages, pages)
        stale_reason = crawl.stale_reason()
        return Listing(
            _fingerprints(pages),
            skipped=dict(crawl.skipped),
            stale=stale_reason,
            unreadable=crawl.unreadable,
            is_refused=bool(stale_reason) and crawl.is_refused,
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
        crawl.enqueue(self._start_url, 0)
        if settings.sitemap:
            limit = settings.max_pages * REQUESTS_PER_PAGE
            request = Request(settings.url, timeout_s=settings.timeout_s, max_kb=MAX_SITEMAP_KB)
            sitemap_pages = await read_sitemaps(
                client, self._parser, request, robots.sitemaps, limit=limit, deadline=crawl.deadline
            )
            crawl.unreadable |= {
                get_path(url) if get_site(url) == self._site else redact_url(url): f"as a sitemap: {problem}"
                for url, problem in sitemap_pages.problems.items()
            }
            if sitemap_pages.unread_count:
                crawl.skipped[f"sitemaps beyond {MAX_SITEMAPS}, or beyond their limits"] = sitemap_pages.unread_count
            for url in sitemap_pages.urls:
                if get_site(url) != self._site:
                    crawl.skipped["on another host"] += 1
                # What the sitemap lists is complete: its pages' links are not followed.
                self._enqueue(url, settings.depth, crawl)

    def _normalize(self, url: str) -> str:
        return normalize_url(url, self._settings.ignore_parameters)

    def _enqueue(self, url: str, depth: int, crawl: CrawlState) -> None:
        """Put an address into the queue, in its one form; what is no address at all is left out."""
        try:
            normalized_url = self._normalize(url)
        except ValueError:
            return
        if self._is_wanted(normalized_url):
            crawl.enqueue(normalized_url, depth)

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
            # Off the event loop: each of many rules is tried.
            if not await asyncio.to_thread(robots.can_fetch, url):
                crawl.skip_closed("disallowed by robots.txt")
                continue
            if crawl.request_count:
                await asyncio.sleep(delay_s)
            crawl.request_count += 1
            await self._fetch_page(url, depth, crawl, client, robots)
            if crawl.request_count % SAVE_INTERVAL == 0:
                await asyncio.to_thread(self._store.save_pages, {**crawl.known_pages, **crawl.found_pages})

    def _is_wanted(self, url: str) -> bool:
        # The first page shows the way, also where it is not wanted itself.
        return get_site(url) == self._site and (url == self._start_url or self._matches_globs(get_path(url)))

    def _matches_globs(self, path: str) -> bool:
        return self._globs.matches(path)

    def _is_closed(self, url: str) -> bool:
        return self._is_shared and self._globs.excludes(get_path(url))

    def _find_unvisited(self, crawl: CrawlState, robots: Robots) -> dict[str, PageState]:
        unvisited_pages = {}
        for path, page in crawl.unvisited().items():
            raise_if_stopped()
            is_wanted = self._matches_globs(path) and not self._is_closed(page.url)
            if is_wanted and robots.can_fetch(urljoin(self._settings.url, path)):
                unvisited_pages[path] = page
        return unvisited_pages

    def _count_remaining(self, crawl: CrawlState) -> int:
        """Return how many pages that are wanted still wait."""
        return sum(self._is_wanted(url) and get_path(url) not in crawl.found_pages for url, _ in crawl.queue)

    def _check_redirect(self, url: str, robots: Robots) -> None:
        """Raise `_PageSkipped` for a redirect that leads where no link would be followed to."""
        if get_site(url) != self._site:
            raise _PageSkipped("leads elsewhere")
        if not robots.can_fetch(url):
            raise _PageSkipped("disallowed by robots.txt")

    def _check_script_request(self, url: str, robots: Robots) -> None:
        """Raise `_PageSkipped` for what scripts of a page may not ask for."""
        self._check_redirect(url, robots)
        if self._is_closed(self._normalize(url)):
            raise _PageSkipped("excluded")

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
            page = await self._read_response(url, depth, response, crawl)
        except ResponseTooLarge:
            crawl.mark_answered(get_path(url))
            crawl.skipped["too large"] += 1
            return
        except _PageSkipped as error:
            crawl.mark_answered(get_path(url))
            crawl.skip_closed(str(error))
            return
        except SourceError as error:
            page = self._handle_failure(url, crawl, error)
        else:
            crawl.mark_answered(get_path(url))
            path = get_path(self._normalize(response.url))
            if page is not None and page.fingerprint and self._is_closed(page.url):
                crawl.skip_closed("excluded by its own address")
            elif page is not None and page.fingerprint and self._matches_globs(path):
                crawl.add_page(path, page)
                crawl.read_count += 1
                self._enqueue(page.url, depth, crawl)
        if page is not None and depth < settings.depth:
            for link in page.links:
                self._enqueue(link, depth + 1, crawl)

    def _handle_failure(self, url: str, crawl: CrawlState, error: SourceError) -> PageState | None:
        """Keep the recorded page when a visit fails. Raises the error for the first page if it is the only one."""
        is_first = url == self._start_url
        if is_first and len(crawl.seen_urls) == 1:
            raise error
        return crawl.mark_failed(get_path(url), error, is_first=is_first)

    async def _read_response(self, url: str, depth: int, response: Response, crawl: CrawlState) -> PageState | None:
        """Return a page, without a fingerprint where it has no text; None for what is none.

        Raises `SourceError` when it fails for now.
        """
        header_rules = parse_page_rules(response.headers.get("x-robots-tag", "").splitlines(), ROBOT_NAME)
        known_page = crawl.known_pages.get(get_path(url))
        if response.status == NOT_MODIFIED and known_page is not None:
            return self._apply_rules(known_page, header_rules, crawl)
        if response.status in GONE_STATUSES:
            if url == self._start_url:
                crawl.unreadable[get_path(url)] = f"as the first page: it answered with status {response.status}"
            crawl.skip_closed("gone")
            return None
        if response.status in REFUSED_PAGE_STATUSES:
            crawl.consecutive_failures = 0
        if response.status >= 300:
            reason = f"{redact_url(url)} answered with status {response.status}"
            raise SourceError(reason, is_refused=response.status in REFUSED_STATUSES)
        content_type = response.headers.get("content-type", "")
        media_type = content_type.split(";")[0].strip().lower()
        # Without a type, what looks like markup is a page.
        if media_type not in HTML_TYPES and (media_type or not response.content.lstrip().startswith(b"<")):
            crawl.skipped["no HTML"] += 1
            return None
        try:
            page = await self._parser.run(read_page, response.content, response.url, content_type)
            if page.needs_scripts and crawl.renderer is not None:
                html = await crawl.renderer.render(response, self._settings.timeout_s, self._settings.max_page_kb)
                page = await self._parser.run(read_page, html, response.url, UTF8_HTML)
                # The frame of such a page stays the same while its content changes.
                response = replace(response, headers={})
        except FormatError as error:
            crawl.skipped["unreadable"] += 1
            crawl.unreadable[get_path(url)] = str(error)
            return None
        if page.refresh:
            self._follow_refresh(url, page.refresh, depth, crawl)
            return None
        return self._apply_rules(await self._store_page(page, response, crawl), page.rules.combine(header_rules), crawl)

    def _follow_refresh(self, url: str, target: str, depth: int, crawl: CrawlState) -> None:
        """Follow a page that leads elsewhere by itself as if it were a redirect: each one once."""
        crawl.refreshed_urls.add(url)
        if get_site(target) != self._site:
            raise _PageSkipped("leads elsewhere")
        if self._normalize(target) in crawl.refreshed_urls:
            raise _PageSkipped("redirects in a circle")
        self._enqueue(target, depth, crawl)

    def _apply_rules(self, page: PageState, rules: PageRules, crawl: CrawlState) -> PageState:
        """Return a page as its rules allow: without its text, without its links, or for a while."""
        links = page.links if rules.has_followable_links else ()
        expires_at = page.expires_at if rules.expires_at is None else rules.expires_at
        page = replace(page, links=links, expires_at=expires_at, refused_since=None)
        if rules.is_indexable and not page.is_expired:
            return page
        crawl.skip_closed(NOINDEX_REASON)
        return replace(page, fingerprint="")

    async def _store_page(self, page: WebPage, response: Response, crawl: CrawlState) -> PageState:
        """Return the record of a page, whose text is kept where it has one."""
        url = self._normalize(page.canonical or response.url)
        page_state = PageState("", page.title, url, page.links)
        if not page.rules.is_indexable:
            return page_state
        if page.needs_scripts:
            crawl.skipped[SCRIPTS_REASON] += 1
            crawl.unreadable[get_path(url)] = SCRIPTS_HINT
            return page_state
        if not page.text:
            crawl.skipped["no text"] += 1
            return page_state
        fingerprint = hashlib.sha256(f"{page.title}\n{page_state.url}\n{page.text}".encode()).hexdigest()
        await asyncio.to_thread(self._store.save_text, fingerprint, page.text)
        return replace(
            page_state,
            fingerprint=fingerprint,
            etag=response.headers.get("etag", ""),
            modified=response.headers.get("last-modified", ""),
            digest=hashlib.sha256(f"{page.title}\n{page.text}".encode()).hexdigest()[:16],
        )

    def _require_pages(self, pages: Mapping[str, PageState], crawl: CrawlState) -> None:
        """Raise `SourceError` when there is no page at all."""
        if not pages:
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(crawl.skipped.items())) or "nothing else"
            cause = f": {crawl.first_error}" if crawl.first_error else ""
            reason = f"{redact_url(self._settings.url)} has no page that can be used ({counts}){cause}"
            raise SourceError(reason, is_refused=crawl.is_refused)


def _fingerprints(pages: Mapping[str, PageState]) -> dict[str, str]:
    return {path: page.fingerprint for path, page in pages.items()}
