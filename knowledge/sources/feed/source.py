"""A feed (RSS or Atom): its entries, kept for a while after they have left it."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.errors import SourceError
from core.settings import FeedSource
from knowledge.ports import Document, Listing
from knowledge.sources.feed.poll import moment_of
from knowledge.sources.formats.html import read_page
from knowledge.web.addresses import SCHEMES, shown
from knowledge.web.client import Request, WebClient

DAY_S = 86_400
UNCHANGED = 304


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it was last seen; `published` is in seconds since 1970."""

    title: str
    text: str
    link: str
    published: float

    def fingerprint(self) -> str:
        """Return a hash of what it says."""
        return hashlib.sha256(f"{self.title}\n{self.link}\n{self.text}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Record:
    """What is known of the feed: its entries by id, and what to ask for next time."""

    entries: Mapping[str, Entry]
    etag: str = ""
    modified: str = ""


class Feed:
    """One feed. Its record is kept below `directory`."""

    def __init__(self, name: str, settings: FeedSource, directory: Path) -> None:
        self.name = name
        self._settings = settings
        self._file = directory / "entries.json"

    async def listing(self) -> Listing:
        """Fetch the feed, when it changed, and list its entries and the kept ones.

        A feed that cannot be read is listed as it was, `stale` says why. Raises `SourceError` when nothing is known of
        it.
        """
        record = await asyncio.to_thread(self._load)
        try:
            fresh = await self._fetched(record)
        except SourceError as fault:
            if not record.entries:
                raise SourceError(f"source {self.name}: {fault}") from fault
            return Listing(_fingerprints(record.entries), stale=str(fault))
        await asyncio.to_thread(self._save, fresh)
        return Listing(_fingerprints(fresh.entries))

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield entries as they were at the last visit."""
        entries = (await asyncio.to_thread(self._load)).entries
        for path in paths:
            entry = entries.get(path)
            if path in listing.fingerprints and entry is not None:
                day = time.strftime("%Y-%m-%d", time.gmtime(entry.published))
                yield Document(path, f"{entry.text}\n\n({day})", "markdown", entry.title, entry.link)

    async def _fetched(self, record: _Record) -> _Record:
        settings = self._settings
        known = {"If-None-Match": record.etag, "If-Modified-Since": record.modified} if record.entries else {}
        headers = {name: value for name, value in known.items() if value}
        request = Request(settings.url, headers=headers, timeout_s=settings.timeout_s, kb=settings.max_page_kb)
        async with WebClient(settings.allow_private) as client:
            reply = await client.fetch(request)
        entries = dict(record.entries)
        if reply.status != UNCHANGED:
            if reply.status >= 300:
                raise SourceError(f"{shown(settings.url)} answered with status {reply.status}")
            entries |= await asyncio.to_thread(self._parsed, reply.content)
        oldest = time.time() - settings.keep_days * DAY_S
        newest = sorted(entries.items(), key=lambda item: -item[1].published)[: settings.max_entries]
        kept = {path: entry for path, entry in newest if entry.published >= oldest}
        if not kept:
            raise SourceError(f"{shown(settings.url)} has no entry of the last {settings.keep_days} days")
        etag = reply.headers.get("etag", record.etag)
        return _Record(kept, etag, reply.headers.get("last-modified", record.modified))

    def _parsed(self, content: bytes) -> dict[str, Entry]:
        import feedparser

        # Bytes alone would be tried as the name of a file first.
        feed = feedparser.parse(io.BytesIO(content), sanitize_html=False, resolve_relative_uris=False)
        if not feed.entries and (feed.bozo or not feed.get("version")):
            raise SourceError(f"{shown(self._settings.url)} is no feed that can be read")
        entries = (_entry(one) for one in feed.entries[: self._settings.max_entries])
        return {path: entry for path, entry in entries if entry.text}

    def _load(self) -> _Record:
        try:
            stored = json.loads(self._file.read_text("utf-8"))
            entries = {path: Entry(**entry) for path, entry in stored["entries"].items()}
            return _Record(entries, stored["etag"], stored["modified"])
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            # Nothing known, or a damaged record: the feed is read anew.
            return _Record({})

    def _save(self, record: _Record) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps(asdict(record)), "utf-8")
            os.replace(fresh, self._file)
        except OSError as fault:
            raise SourceError(f"source {self.name}: {self._file} cannot be written: {fault.strerror}") from fault


def _entry(found: Any) -> tuple[str, Entry]:
    """Return an entry under the name by which it is known. One without a date counts as of now."""
    link = str(found.get("link") or "")
    link = link if link.split("://", maxsplit=1)[0].lower() in SCHEMES else ""
    bodies = [str(one.get("value") or "") for one in found.get("content") or ()]
    html = max([*bodies, str(found.get("summary") or "")], key=len)
    title = " ".join(read_page(f"<p>{found.get('title') or ''}</p>".encode(), "").plain.split())
    page = read_page(f"<html><body><article>{html}</article></body></html>".encode(), link)
    dated = found.get("published_parsed") or found.get("updated_parsed")
    moment = moment_of(dated)
    published = time.time() if moment is None else moment
    name = str(found.get("id") or link or title)
    return name[:500], Entry(title[:300], page.text or page.plain or title, link, published)


def _fingerprints(entries: Mapping[str, Entry]) -> dict[str, str]:
    return {path: entry.fingerprint() for path, entry in entries.items()}
