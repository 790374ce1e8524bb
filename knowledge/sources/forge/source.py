"""A project on GitHub or GitLab as a source: its issues, discussions and releases, followed by their changes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from core.errors import SourceError
from core.settings import GithubSource, GitlabSource
from knowledge.ports import Document, Listing
from knowledge.sources.forge.api import LONGEST_WAIT_S, Forge, ForgeApi, Item, RateLimited
from knowledge.sources.forge.github import HEADERS, Github
from knowledge.sources.forge.gitlab import Gitlab
from knowledge.web.addresses import shown
from knowledge.web.client import WebClient


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


DAY_S = 86_400
# What is asked for again at every refresh: clocks differ, and two changes may share a second.
OVERLAP_S = 60.0
# Comments fetched between two writes of the record, so that an interrupted first round is not lost.
SAVED_AFTER = 50
# Items that may fail each on its own before the service is held to have failed.
MOST_FAILURES = 3


@dataclass(slots=True)
class _Round:
    """One refresh while it runs: what it knows so far, what it passed over, and what went wrong."""

    record: Record
    skipped: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    read: int = 0


class ForgeProject:
    """The items of one project. Its record of them is kept below `directory`."""

    def __init__(self, name: str, settings: GithubSource | GitlabSource, directory: Path) -> None:
        self.name = name
        self._settings = settings
        self._files = RecordFiles(name, directory)
        self._project = settings.repository if isinstance(settings, GithubSource) else settings.project

    @property
    def where(self) -> str:
        """The project as messages may show it."""
        return f"{self._project} at {shown(self._settings.api_url)}"

    async def listing(self) -> Listing:
        """Ask for what changed, and list all that is known.

        Every `full_days` all is listed anew. When the service fails or its rate limit is reached, what was read so far
        is kept and listed, and `stale` says why. Raises `SourceError` when nothing is known at all.
        """
        record = await asyncio.to_thread(self._files.load, self._scope())
        visit = _Round(record)
        if 0 < record.blocked_until - time.time() <= LONGEST_WAIT_S:
            visit.faults.append(f"{self.where}: {RateLimited(record.blocked_until)}")
        else:
            await self._visit(visit)
            await asyncio.to_thread(self._files.save, record)
        if not record.items:
            told = visit.faults or [f"{self.where} has no {' or '.join(self._settings.take)} that can be used"]
            raise SourceError(f"source {self.name}: {told[0]}")
        return Listing(record.fingerprints(), skipped=dict(visit.skipped), stale="; ".join(visit.faults))

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield items as they were at the last visit."""
        items = (await asyncio.to_thread(self._files.load, self._scope())).items
        for path in paths:
            known = items.get(path)
            if path in listing.fingerprints and known is not None:
                text = await asyncio.to_thread(self._files.text, known)
                if text is not None:
                    yield Document(path, text, "markdown", known.title, known.url)

    async def probe(self) -> str:
        """Ask for the project and return its present name. Raises `SourceError`."""
        try:
            async with self._opened(Record("")) as (forge, _):
                return await forge.probe()
        except RateLimited as limit:
            raise SourceError(f"{self.where}: {limit}") from limit

    @asynccontextmanager
    async def _opened(self, record: Record) -> AsyncIterator[tuple[Forge, ForgeApi]]:
        settings = self._settings
        headers = await asyncio.to_thread(self._authorization)
        tags = {address: tag for of_kind in record.tags.values() for address, tag in of_kind.items()}
        async with WebClient(settings.allow_private) as client:
            if isinstance(settings, GithubSource):
                api = ForgeApi(client, settings.api_url, {**HEADERS, **headers}, settings, tags)
                yield Github(api, settings), api
            else:
                api = ForgeApi(client, settings.api_url, headers, settings, tags)
                yield Gitlab(api, settings), api

    def _authorization(self) -> dict[str, str]:
        """Return the header with the token, which may be in a file."""
        token = self._settings.token
        missing = token.missing() if token else ""
        if missing:
            raise SourceError(f"{self.where}: token: {missing}")
        return {"Authorization": f"Bearer {token.value()}"} if token else {}

    async def _visit(self, visit: _Round) -> None:
        """Follow each kind; one that fails leaves the others alone, a rate limit ends it all."""
        record, before = visit.record, dict(visit.record.items)
        self._begin(record)
        try:
            await self._follow_all(visit)
        except SourceError as fault:
            visit.faults.append(str(fault))
        except RateLimited as limit:
            record.blocked_until = limit.until
            visit.faults.append(f"{self.where}: {limit}")
        if before and not record.items:
            # More often a mistake over there than a wish to forget everything: all is asked for until that is clear.
            record.items, record.cursors = before, {}
            visit.faults.append(f"{self.where} has nothing left that can be used")

    async def _follow_all(self, visit: _Round) -> None:
        record = visit.record
        async with self._opened(record) as (forge, api):
            for kind in dict.fromkeys(self._settings.take):
                try:
                    api.seen.clear()
                    await self._follow(kind, visit, forge)
                    record.tags[kind] = {address: tag for address, tag in api.seen.items() if tag}
                except SourceError as fault:
                    visit.faults.append(str(fault))

    def _begin(self, record: Record) -> None:
        """Start a full round when it is time for one and the last has come to its end."""
        now = time.time()
        ended = all(kind in record.cursors for kind in self._settings.take)
        if not record.began or record.began > now or (ended and now - record.began >= self._settings.full_days * DAY_S):
            record.began = now
            record.cursors = {}

    async def _follow(self, kind: str, visit: _Round, forge: Forge) -> None:
        """Read what changed of one kind; its cursor moves only when this came to its end."""
        record, seen, failed = visit.record, set[str](), list[SourceError]()
        whole = kind not in record.cursors
        newest = record.cursors.get(kind, 1.0)
        async for item in forge.items(kind, 0.0 if whole else max(newest - OVERLAP_S, 1.0)):
            if item is None:
                visit.skipped["not understood"] += 1
                continue
            newest = max(newest, item.updated)
            if item.unwanted:
                visit.skipped[item.unwanted] += 1
            if item.unwanted or not self._wants(item):
                record.items.pop(item.path, None)
                continue
            if item.path not in seen and len(seen) >= self._settings.max_items:
                visit.skipped["beyond max_items"] += 1
                break
            seen.add(item.path)
            try:
                await self._read(item, visit, forge)
            except SourceError as fault:
                failed.append(fault)
                visit.skipped["failed"] += 1
                if len(failed) > MOST_FAILURES:
                    raise
        self._forget(kind, record, seen, whole=whole)
        if failed:
            raise failed[0]
        # A date in the future would hide what changes until then.
        record.cursors[kind] = min(newest, time.time())

    def _wants(self, item: Item) -> bool:
        settings = self._settings
        if item.path.startswith("releases/"):
            return True
        labels = {label.casefold() for label in item.labels}
        return (
            settings.state in ("all", item.state)
            and (not settings.labels or bool(labels & {label.casefold() for label in settings.labels}))
            and not labels & {label.casefold() for label in settings.exclude_labels}
        )

    async def _read(self, item: Item, visit: _Round, forge: Forge) -> None:
        """Take an item into the record; its comments are asked for only when it changed, or in a full round."""
        record = visit.record
        known = record.items.get(item.path)
        comments = item.comments
        if comments is None:
            if known and known.stamp == item.stamp and known.read >= record.began:
                return
            comments = await forge.comments(item)
        text = await asyncio.to_thread(item.read_as, comments, self._settings.skip_authors)
        fingerprint = hashlib.sha256(f"{item.title}\n{item.url}\n{text}".encode()).hexdigest()
        if known is None or known.fingerprint != fingerprint:
            await asyncio.to_thread(self._files.keep, fingerprint, text)
        fresh = Known(fingerprint, item.title, item.url, item.stamp, item.updated, time.time())
        record.items[item.path] = fresh
        visit.read += item.comments is None
        if item.comments is None and visit.read % SAVED_AFTER == 0:
            await asyncio.to_thread(self._files.save, record)

    def _forget(self, kind: str, record: Record, seen: Collection[str], *, whole: bool) -> None:
        """Drop what a full round no longer found, and what is beyond the limit by now."""
        own = [path for path in record.items if path.startswith(f"{kind}/")]
        gone = [path for path in own if whole and path not in seen]
        kept = sorted(set(own) - set(gone), key=lambda path: (-record.items[path].updated, path))
        for path in [*gone, *kept[self._settings.max_items :]]:
            del record.items[path]

    def _scope(self) -> str:
        """Return a name for the settings that decide what an item's text is and which are taken."""
        names = ("api_url", "take", "state", "labels", "exclude_labels", "max_items", "max_comments", "skip_authors")
        values = [self._settings.kind, self._project, *(getattr(self._settings, name) for name in names)]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()
