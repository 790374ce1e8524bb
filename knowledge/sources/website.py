"""A web site: the pages that its sitemap lists, or that can be reached from its first page."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from core.errors import SourceError
from core.settings import WebsiteSource
from knowledge.ports import Document, Listing
from knowledge.sources.selection import PathGlobs
from knowledge.sources.website_map import Robots, read_robots, read_sitemaps
from knowledge.sources.website_pages import HTML, read_page
from knowledge.web.addresses import shown
from knowledge.web.client import Request, Response, WebClient

GONE = frozenset({404, 410})
UNCHANGED = 304
# What is fetched between two writes of the record, so that an interrupted first visit is not lost.
SAVED_AFTER = 50


@dataclass(frozen=True, slots=True)
class _Known:
    """A page as it was last seen; its text is in a file of its own, named by `fingerprint`."""

    fingerprint: str
    title: str
    url: str
    links: tuple[str, ...] = ()
    etag: str = ""
    modified: str = ""


@dataclass(slots=True)
class _Visit:
    """One round over the site: what was found by path, what was passed over, and what is still to do."""

    known: dict[str, _Known]
    found: dict[str, _Known] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    waiting: deque[tuple[str, int]] = field(default_factory=deque)
    seen: set[str] = field(default_factory=set)

    def add(self, url: str, depth: int) -> None:
        """Put an address into the queue, once."""
        if url not in self.seen:
            self.seen.add(url)
            self.waiting.append((url, depth))


class Website:
    """The pages of one host. Its record of them is kept below `directory`."""

    def __init__(self, name: str, settings: WebsiteSource, directory: Path) -> None:
        self.name = name
        self._settings = settings
        self._directory = directory
        self._host = urlsplit(settings.url).netloc
        self._globs = PathGlobs(name, settings.include, settings.exclude)

    async def listing(self) -> Listing:
        """Visit the site and list its pages; pages that did not change are not sent again (ETag, Last-Modified).

        A site that cannot be reached is listed as it was, `stale` says why. Raises `SourceError` when nothing is known
        of it at all.
        """
        known = await asyncio.to_thread(self._load)
        visit = _Visit(known)
        try:
            async with WebClient(self._settings.allow_private) as client:
                robots = await read_robots(client, self._settings.url, self._settings.timeout_s)
                await self._begin(visit, client, robots)
                await self._visit(visit, client, robots)
            self._nothing(visit)
        except SourceError as fault:
            if not known:
                raise SourceError(f"source {self.name}: {fault}") from fault
            return Listing(_fingerprints(known), stale=str(fault))
        await asyncio.to_thread(self._save, visit.found)
        return Listing(_fingerprints(visit.found), skipped=dict(visit.skipped))

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield pages as they were at the last visit."""
        known = await asyncio.to_thread(self._load)
        for path in paths:
            page = known.get(path)
            if path in listing.fingerprints and page is not None:
                text = await asyncio.to_thread(self._text, page)
                if text is not None:
                    yield Document(path, text, "markdown", page.title, page.url)

    async def _begin(self, visit: _Visit, client: WebClient, robots: Robots) -> None:
        settings = self._settings
        visit.add(settings.url, 0)
        if settings.sitemap:
            most = settings.max_pages * 4
            for url in await read_sitemaps(client, settings.url, robots.sitemaps, settings.timeout_s, most):
                # What the sitemap lists is complete: its pages' links are not followed.
                visit.add(url, settings.depth)

    async def _visit(self, visit: _Visit, client: WebClient, robots: Robots) -> None:
        pause = max(robots.delay_s, self._settings.delay_s)
        fetched = 0
        while visit.waiting:
            url, depth = visit.waiting.popleft()
            path = _path(url)
            if not self._wanted(url) or path in visit.found:
                continue
            if len(visit.found) >= self._settings.max_pages:
                visit.skipped["beyond max_pages"] += 1 + len(visit.waiting)
                return
            if not robots.allow(url):
                visit.skipped["disallowed by robots.txt"] += 1
                continue
            if fetched:
                await asyncio.sleep(pause)
            fetched += 1
            await self._page(url, depth, visit, client)
            if fetched % SAVED_AFTER == 0:
                await asyncio.to_thread(self._save, {**visit.known, **visit.found})

    def _wanted(self, url: str) -> bool:
        parts = urlsplit(url)
        # The first page shows the way, also where it is not wanted itself.
        return parts.netloc == self._host and (url == self._settings.url or self._globs.takes(_path(url).split("?")[0]))

    async def _page(self, url: str, depth: int, visit: _Visit, client: WebClient) -> None:
        before = visit.known.get(_path(url))
        headers = {"If-None-Match": before.etag, "If-Modified-Since": before.modified} if before else {}
        settings = self._settings
        request = Request(
            url,
            headers={name: value for name, value in headers.items() if value},
            timeout_s=settings.timeout_s,
            kb=settings.max_page_kb,
        )
        try:
            reply = await client.fetch(request)
        except SourceError as fault:
            self._missed(url, before, visit, fault)
            return
        page = before if reply.status == UNCHANGED and before else await self._read(url, reply, visit, before)
        if page is None:
            return
        if page.fingerprint and self._globs.takes(_path(reply.url).split("?")[0]):
            visit.found[_path(reply.url)] = page
        if depth < settings.depth:
            for link in page.links:
                visit.add(link, depth + 1)

    def _missed(self, url: str, before: _Known | None, visit: _Visit, fault: SourceError) -> None:
        """Keep what is known of a page that fails for now. The first page of all must not fail."""
        if url == self._settings.url and len(visit.seen) == 1:
            raise fault
        visit.skipped["failed"] += 1
        if before is not None:
            visit.found[_path(url)] = before

    async def _read(self, url: str, reply: Response, visit: _Visit, before: _Known | None) -> _Known | None:
        if reply.status in GONE:
            visit.skipped["gone"] += 1
            return None
        if reply.status >= 300:
            fault = SourceError(f"{shown(url)} answered with status {reply.status}")
            self._missed(url, before, visit, fault)
            return None
        if urlsplit(reply.url).netloc != self._host:
            visit.skipped["leads elsewhere"] += 1
            return None
        if reply.headers.get("content-type", "").split(";")[0].strip().lower() not in HTML:
            visit.skipped["no HTML"] += 1
            return None
        page = await asyncio.to_thread(read_page, reply.content, reply.url)
        known = _Known("", page.title, page.canonical or reply.url, page.links)
        if not page.text:
            visit.skipped["no text"] += 1
            return known
        fingerprint = hashlib.sha256(f"{page.title}\n{known.url}\n{page.text}".encode()).hexdigest()
        await asyncio.to_thread(self._keep, fingerprint, page.text)
        etag, modified = (reply.headers.get(name, "") for name in ("etag", "last-modified"))
        return replace(known, fingerprint=fingerprint, etag=etag, modified=modified)

    def _nothing(self, visit: _Visit) -> None:
        if not visit.found:
            counts = ", ".join(f"{count} {reason}" for reason, count in sorted(visit.skipped.items())) or "nothing else"
            raise SourceError(f"{shown(self._settings.url)} has no page that can be used ({counts})")

    def _load(self) -> dict[str, _Known]:
        try:
            stored = json.loads((self._directory / "pages.json").read_text("utf-8"))
            return {path: _Known(**{**page, "links": tuple(page["links"])}) for path, page in stored.items()}
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            # Nothing known, or a damaged record: everything is fetched again.
            return {}

    def _save(self, pages: dict[str, _Known]) -> None:
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
            raise SourceError(f"source {self.name}: {self._directory} cannot be written: {fault.strerror}") from fault

    def _keep(self, fingerprint: str, text: str) -> None:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            (self._directory / f"{fingerprint}.md").write_text(text, "utf-8")
        except OSError as fault:
            raise SourceError(f"source {self.name}: {self._directory} cannot be written: {fault.strerror}") from fault

    def _text(self, page: _Known) -> str | None:
        try:
            return (self._directory / f"{page.fingerprint}.md").read_text("utf-8")
        except FileNotFoundError:
            return None


def _fingerprints(pages: dict[str, _Known]) -> dict[str, str]:
    return {path: page.fingerprint for path, page in pages.items()}


def _path(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
