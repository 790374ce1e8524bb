"""A web site: the pages that its sitemap lists, or that can be reached from its first page."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from core.errors import SourceError
from core.settings import WebsiteSource
from knowledge.ports import Document, Listing
from knowledge.sources.common.path_filter import PathGlobs
from knowledge.sources.formats.html import HTML, read_page
from knowledge.sources.website.crawl_state import REQUESTS_PER_PAGE, KnownPage, SiteRecord, Visit, path_of
from knowledge.sources.website.robots_and_sitemaps import Robots, read_robots, read_sitemaps
from knowledge.web.addresses import shown
from knowledge.web.client import Request, Response, TooLong, WebClient

GONE = frozenset({404, 410})
# A site that answers so is well: it keeps the page for some.
REFUSED = frozenset({401, 403, 451})
UNCHANGED = 304
# What is fetched between two writes of the record, so that an interrupted first visit is not lost.
SAVED_AFTER = 50


class _PassedOver(SourceError):
    """A redirect leads where we do not go; the message is the reason that is counted."""


class Website:
    """The pages of one host. Its record of them is kept below `directory`."""

    def __init__(self, name: str, settings: WebsiteSource, directory: Path) -> None:
        self.name = name
        self._settings = settings
        self._record = SiteRecord(name, directory)
        self._host = urlsplit(settings.url).netloc
        self._globs = PathGlobs(name, settings.include, settings.exclude)

    async def listing(self) -> Listing:
        """Visit the site and list its pages; pages that did not change are not sent again (ETag, Last-Modified).

        A site that cannot be reached is listed as it was, and so are the pages of which a visit that failed for the
        most part, or took too long, has heard nothing; `stale` and `skipped` say why. Raises `SourceError` when nothing
        is known of it at all.
        """
        known = await asyncio.to_thread(self._record.load)
        visit = Visit(known, self._settings.max_pages)
        try:
            async with WebClient(self._settings.allow_private) as client:
                robots = await read_robots(client, self._settings.url, self._settings.timeout_s)
                visit.begin(max(robots.delay_s, self._settings.delay_s))
                await self._begin(visit, client, robots)
                await self._visit(visit, client, robots)
            unheard = {path: page for path, page in visit.unheard().items() if self._allowed(path, robots)}
            pages = {**unheard, **visit.found}
            self._require(pages, visit)
        except SourceError as fault:
            if not known:
                raise SourceError(f"source {self.name}: {fault}") from fault
            return Listing(_fingerprints(known), stale=str(fault))
        await asyncio.to_thread(self._record.save, pages)
        return Listing(_fingerprints(pages), skipped=dict(visit.skipped), stale=visit.stale())

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield pages as they were at the last visit."""
        known = await asyncio.to_thread(self._record.load)
        for path in paths:
            page = known.get(path)
            if path in listing.fingerprints and page is not None:
                text = await asyncio.to_thread(self._record.text, page)
                if text is not None:
                    yield Document(path, text, "markdown", page.title, page.url)

    async def _begin(self, visit: Visit, client: WebClient, robots: Robots) -> None:
        settings = self._settings
        visit.add(settings.url, 0)
        if settings.sitemap:
            most = settings.max_pages * REQUESTS_PER_PAGE
            listed = await read_sitemaps(
                client, settings.url, robots.sitemaps, settings.timeout_s, most=most, ends=visit.ends
            )
            for url in listed:
                # What the sitemap lists is complete: its pages' links are not followed.
                visit.add(url, settings.depth)

    async def _visit(self, visit: Visit, client: WebClient, robots: Robots) -> None:
        pause = max(robots.delay_s, self._settings.delay_s)
        while visit.waiting:
            url, depth = visit.waiting.popleft()
            if not self._wanted(url) or path_of(url) in visit.found:
                continue
            visit.cut = visit.enough()
            if visit.cut:
                # Off the event loop: many may be waiting.
                visit.skipped[visit.cut] += 1 + await asyncio.to_thread(self._left, visit)
                return
            if not robots.allow(url):
                visit.skipped["disallowed by robots.txt"] += 1
                continue
            if visit.requests:
                await asyncio.sleep(pause)
            visit.requests += 1
            await self._page(url, depth, visit, client, robots)
            if visit.requests % SAVED_AFTER == 0:
                await asyncio.to_thread(self._record.save, {**visit.known, **visit.found})

    def _wanted(self, url: str) -> bool:
        # The first page shows the way, also where it is not wanted itself.
        return urlsplit(url).netloc == self._host and (url == self._settings.url or self._takes(path_of(url)))

    def _takes(self, path: str) -> bool:
        return self._globs.takes(path.partition("?")[0])

    def _allowed(self, path: str, robots: Robots) -> bool:
        return self._takes(path) and robots.allow(urljoin(self._settings.url, path))

    def _left(self, visit: Visit) -> int:
        """Return how many pages that are wanted still wait."""
        return sum(self._wanted(url) and path_of(url) not in visit.found for url, _ in visit.waiting)

    def _judge(self, url: str, robots: Robots) -> None:
        """Raise `_PassedOver` for a redirect that leads where no link would be followed to."""
        if urlsplit(url).netloc != self._host:
            raise _PassedOver("leads elsewhere")
        if not robots.allow(url):
            raise _PassedOver("disallowed by robots.txt")

    async def _page(self, url: str, depth: int, visit: Visit, client: WebClient, robots: Robots) -> None:
        before = visit.known.get(path_of(url))
        headers = {"If-None-Match": before.etag, "If-Modified-Since": before.modified} if before else {}
        settings = self._settings
        request = Request(
            url,
            headers={name: value for name, value in headers.items() if value},
            timeout_s=settings.timeout_s,
            kb=settings.max_page_kb,
        )
        try:
            reply = await client.fetch(request, partial(self._judge, robots=robots))
            page = before if reply.status == UNCHANGED and before else await self._read(url, reply, visit)
        except (_PassedOver, TooLong) as fault:
            visit.came(path_of(url))
            visit.skipped["too large" if isinstance(fault, TooLong) else str(fault)] += 1
            return
        except SourceError as fault:
            page = self._missed(url, visit, fault)
        else:
            visit.came(path_of(url))
            if page is not None and page.fingerprint and self._takes(path_of(reply.url)):
                visit.found[path_of(reply.url)] = page
        if page is not None and depth < settings.depth:
            for link in filter(self._wanted, page.links):
                visit.add(link, depth + 1)

    def _missed(self, url: str, visit: Visit, fault: SourceError) -> KnownPage | None:
        """Keep what is known of a page that fails for now. A first page that nothing else stands beside must not."""
        first = url == self._settings.url
        if first and len(visit.seen) == 1:
            raise fault
        return visit.failed(path_of(url), str(fault), first=first)

    async def _read(self, url: str, reply: Response, visit: Visit) -> KnownPage | None:
        """Return a page, without a fingerprint where it has no text; None for what is none.

        Raises `SourceError` when it fails for now.
        """
        if reply.status in GONE:
            visit.skipped["gone"] += 1
            return None
        if reply.status in REFUSED:
            visit.in_a_row = 0
        if reply.status >= 300:
            raise SourceError(f"{shown(url)} answered with status {reply.status}")
        if reply.headers.get("content-type", "").split(";")[0].strip().lower() not in HTML:
            visit.skipped["no HTML"] += 1
            return None
        page = await asyncio.to_thread(read_page, reply.content, reply.url)
        known = KnownPage("", page.title, page.canonical or reply.url, page.links)
        if not page.text:
            visit.skipped["no text"] += 1
            return known
        fingerprint = hashlib.sha256(f"{page.title}\n{known.url}\n{page.text}".encode()).hexdigest()
        await asyncio.to_thread(self._record.keep, fingerprint, page.text)
        etag, modified = (reply.headers.get(name, "") for name in ("etag", "last-modified"))
        return replace(known, fingerprint=fingerprint, etag=etag, modified=modified)

    def _require(self, pages: Mapping[str, KnownPage], visit: Visit) -> None:
        """Raise `SourceError` when there is no page at all."""
        if not pages:
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(visit.skipped.items())) or "nothing else"
            cause = f": {visit.failure}" if visit.failure else ""
            raise SourceError(f"{shown(self._settings.url)} has no page that can be used ({counts}){cause}")


def _fingerprints(pages: Mapping[str, KnownPage]) -> dict[str, str]:
    return {path: page.fingerprint for path, page in pages.items()}
