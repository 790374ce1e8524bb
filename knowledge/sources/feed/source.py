"""A feed (RSS or Atom): its entries, kept for a while after they have left it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from core.errors import SourceError, is_refusal
from core.settings import FeedSource
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing
from knowledge.sources.common.state_files import read_json, write_json
from knowledge.sources.feed.parsing import FeedEntry, parse_entries, to_entry_name
from knowledge.sources.feed.poll import NOT_MODIFIED
from knowledge.web.addresses import redact_url
from knowledge.web.client import Request, Response, WebClient
from knowledge.web.refusals import REFUSED_STATUSES

DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class _FeedState:
    """The known state of the feed: its entries by name, and the values for the next request.

    `first_seen` says, in seconds since 1970, when entries turned up that have no date, or one to come.
    """

    entries: Mapping[str, FeedEntry]
    etag: str = ""
    modified: str = ""
    first_seen: Mapping[str, float] = field(default_factory=dict)


class Feed:
    """One feed. Its record is kept below `directory`."""

    def __init__(self, name: str, settings: FeedSource, directory: Path, parser: Parser | None = None) -> None:
        self.name = name
        self._parser = parser or ThreadParser()
        self._settings = settings
        self._file = directory / "entries.json"

    async def listing(self) -> Listing:
        """Fetch the feed, when it changed, and list its entries and the kept ones.

        A feed that cannot be read is listed as it was, `stale` says why. What is too old is listed in no case. Raises
        `SourceError` when nothing is known of it.
        """
        stored_state = await asyncio.to_thread(self._load)
        is_known = bool(stored_state.entries)
        state = replace(stored_state, entries=self._keep_recent(stored_state.entries))
        try:
            new_state = await self._fetch(state)
            if not (new_state.entries or is_known):
                days = self._settings.keep_days
                raise SourceError(f"{redact_url(self._settings.url)} has no entry of the last {days} days")
        except SourceError as error:
            if not is_known:
                raise SourceError(f"source {self.name}: {error}") from error
            return Listing(_fingerprints(state.entries), stale=str(error), is_refused=is_refusal(error))
        await asyncio.to_thread(self._save, new_state)
        return Listing(_fingerprints(new_state.entries))

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield entries as they were at the last visit."""
        entries = (await asyncio.to_thread(self._load)).entries
        for path in paths:
            entry = entries.get(path)
            if path in listing.fingerprints and entry is not None:
                day = time.strftime("%Y-%m-%d", time.gmtime(entry.published or 0.0))
                yield Document(path, f"{entry.text}\n\n({day})", "markdown", entry.title, entry.link)

    async def _fetch(self, state: _FeedState) -> _FeedState:
        settings = self._settings
        conditions = {"If-None-Match": state.etag, "If-Modified-Since": state.modified} if state.entries else {}
        headers = {name: value for name, value in conditions.items() if value}
        request = Request(settings.url, headers=headers, timeout_s=settings.timeout_s, max_kb=settings.max_page_kb)
        async with WebClient(settings.allow_private) as client:
            response = await client.fetch(request)
        entries = dict(state.entries)
        first_seen = state.first_seen
        if response.status != NOT_MODIFIED:
            if response.status >= 300:
                reason = f"{redact_url(settings.url)} answered with status {response.status}"
                raise SourceError(reason, is_refused=response.status in REFUSED_STATUSES)
            new_entries = await self._parse(response)
            first_seen = _find_first_seen(new_entries, state)
            entries |= {
                name: replace(entry, published=first_seen.get(name, entry.published))
                for name, entry in new_entries.items()
            }
        recent_entries = self._keep_recent(entries)
        etag = response.headers.get("etag", state.etag)
        return _FeedState(recent_entries, etag, response.headers.get("last-modified", state.modified), first_seen)

    def _keep_recent(self, entries: Mapping[str, FeedEntry]) -> Mapping[str, FeedEntry]:
        """Return the newest entries, without those that are too old by now."""
        cutoff = time.time() - self._settings.keep_days * DAY_S
        newest = sorted(entries.items(), key=lambda item: -(item[1].published or 0.0))[: self._settings.max_entries]
        return {path: entry for path, entry in newest if (entry.published or 0.0) >= cutoff}

    async def _parse(self, response: Response) -> dict[str, FeedEntry]:
        try:
            max_entries = self._settings.max_entries
            return dict(await self._parser.run(parse_entries, response.content, max_entries, response.url))
        except FormatError as error:
            raise SourceError(f"{redact_url(self._settings.url)} {error}") from error

    def _load(self) -> _FeedState:
        try:
            data = read_json(self._file)
            entries = {to_entry_name(name): FeedEntry(**entry) for name, entry in data["entries"].items()}
            return _FeedState(entries, data["etag"], data["modified"], data.get("first_seen", {}))
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            # Nothing known, or a damaged record: the feed is read anew.
            return _FeedState({})

    def _save(self, state: _FeedState) -> None:
        write_json(self._file, asdict(state), f"source {self.name}")


def _find_first_seen(entries: Mapping[str, FeedEntry], state: _FeedState) -> Mapping[str, float]:
    """Return when the entries were first seen that have no date, or one more than a day ahead."""
    now = time.time()
    return {
        name: state.first_seen.get(name) or _get_published(state.entries.get(name), now) or now
        for name, entry in entries.items()
        if entry.published is None or entry.published > now + DAY_S
    }


def _get_published(entry: FeedEntry | None, now: float) -> float | None:
    """Return the date that is recorded of an entry, unless it is to come."""
    return entry.published if entry is not None and (entry.published or 0.0) <= now else None


def _fingerprints(entries: Mapping[str, FeedEntry]) -> dict[str, str]:
    return {
        path: hashlib.sha256(f"{entry.title}\n{entry.link}\n{entry.text}".encode()).hexdigest()
        for path, entry in entries.items()
    }
