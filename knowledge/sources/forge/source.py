"""A project on GitHub or GitLab as a source: its issues, discussions and releases, followed by their changes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from core.errors import MadePrivate, SourceError, is_refusal
from core.settings import GithubSource, GitlabSource
from core.settings.base import EVERYONE
from core.types.messages import OWN_COMMENT_MARKER
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing
from knowledge.sources.common.state_files import PublicMark, TextStore
from knowledge.sources.forge.api import MAX_WAIT_S, ApiLimits, ForgeApi, ForgeClient, RateLimited, StatusError
from knowledge.sources.forge.github import HEADERS, Github
from knowledge.sources.forge.gitlab import Gitlab
from knowledge.sources.forge.items import Comment, Item
from knowledge.web.addresses import redact_url
from knowledge.web.client import ResponseTooLarge, WebClient
from knowledge.web.refusals import note_refusals

DAY_S = 86_400

# This much is requested again at every refresh: clocks differ, and two changes may share a second.
OVERLAP_S = 60.0

# Comments fetched between two writes of the record, so that an interrupted first round is not lost.
SAVE_INTERVAL = 50

# An issue that was not listed for so long is asked for again: without a change it may have been hidden.
CHECK_AFTER_S = 1800.0

# Items that may fail each on its own before the service is held to have failed.
MAX_FAILURES = 3

# Longer items are written down in a worker process.
MAX_INLINE_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class ItemState:
    """An item as it was last read; its text is in a file of its own, named by `fingerprint`.

    `updated` is when it changed, `read` when its comments were asked for, and `seen` when the service listed it last,
    all in seconds since 1970.
    """

    fingerprint: str
    title: str
    url: str
    stamp: str
    updated: float
    read: float
    seen: float = 0.0


@dataclass(slots=True)
class SyncState:
    """The items by path, and where the next refresh goes on.

    `scope` names the settings that it was made with. `cursors` hold by kind the last change that was seen; a kind
    without one has not been read to its end since `full_round_at`, when the last full round started. `tags` are ETags
    by kind and address; before `blocked_until` the service takes no requests. `refused_since` says of the
    kinds that it does not let us see since when. `is_emptied`: all that was there is listed as none to be told of.
    """

    scope: str
    items: dict[str, ItemState] = field(default_factory=dict)
    cursors: dict[str, float] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    full_round_at: float = 0.0
    blocked_until: float = 0.0
    refused_since: dict[str, float] = field(default_factory=dict)
    is_emptied: bool = False

    def fingerprints(self) -> dict[str, str]:
        """Return what a listing holds."""
        return {path: item.fingerprint for path, item in self.items.items()}


class ItemStateStore(TextStore):
    """The items of one project as they were last read, and their texts."""

    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(name, directory, "items.json")

    def load(self, scope: str) -> SyncState:
        """Return the state; an empty one where there is none, where it is damaged, or made with other settings."""
        try:
            data = self.read_state()
            sync_state = SyncState(
                **{**data, "items": {path: ItemState(**item) for path, item in data["items"].items()}}
            )
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            # Nothing known, or a damaged state: everything is asked for again.
            return SyncState(scope)
        fingerprints = self.fingerprints()
        is_complete = _is_valid(sync_state) and all(
            item.fingerprint in fingerprints for item in sync_state.items.values()
        )
        return sync_state if is_complete and sync_state.scope == scope else SyncState(scope)

    def save_items(self, sync_state: SyncState) -> None:
        """Write the state, and remove texts that it no longer names. Raises `SourceError`."""
        self.save(asdict(sync_state), {item.fingerprint for item in sync_state.items.values()})


def _is_valid(sync_state: SyncState) -> bool:
    """Return whether a state read from a file has numbers where numbers belong."""
    times = (*_values(sync_state.cursors), *_values(sync_state.refused_since))
    numbers = [sync_state.full_round_at, sync_state.blocked_until, *times]
    tags = _values(sync_state.tags)
    return all(isinstance(value, float | int) for value in numbers) and all(isinstance(value, dict) for value in tags)


def _values(mapping: object) -> list[object]:
    return list(mapping.values()) if isinstance(mapping, Mapping) else [None]


@dataclass(slots=True)
class _SyncRun:
    """One refresh while it runs: what it knows so far, what it passed over, and what went wrong.

    `left_out` are the items that are listed, and that the service or the settings do not want to be told of.

    `refused_kinds` are those that the service does not let us see, `read_kinds` those that it did. `has_failed`:
    something went wrong that is no refusal.
    """

    sync_state: SyncState
    skipped: Counter[str] = field(default_factory=Counter)
    left_out: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    read_count: int = 0
    refused_kinds: list[str] = field(default_factory=list)
    read_kinds: list[str] = field(default_factory=list)
    has_failed: bool = False

    @property
    def is_refused(self) -> bool:
        """Return whether the service lets us see nothing."""
        return bool(self.refused_kinds) and not (self.read_kinds or self.has_failed)

    def note_error(self, error: Exception, kinds: Sequence[str]) -> None:
        """Note why some kinds could not be read."""
        self.errors.append(str(error))
        if is_refusal(error):
            self.refused_kinds += kinds
        else:
            self.has_failed = True


class ForgeProject:
    """The items of one project. Its record of them is kept below `directory`."""

    def __init__(
        self, name: str, settings: GithubSource | GitlabSource, directory: Path, parser: Parser | None = None
    ) -> None:
        self.name = name
        self._parser = parser or ThreadParser()
        self._settings = settings
        self._store = ItemStateStore(name, directory)
        self._project = settings.repository if isinstance(settings, GithubSource) else settings.project
        identity = f"{settings.kind} {settings.api_url} {self._project}"
        data_dir = directory.parent.parent
        self._public_mark = PublicMark(data_dir, identity, directory.with_name(f"{name}.public"))

    @property
    def display_name(self) -> str:
        """The project as messages may show it."""
        return f"{self._project} at {redact_url(self._settings.api_url)}"

    async def listing(self) -> Listing:
        """Ask for what changed, and list all that is known.

        Every `full_days` all is listed anew. When the service fails or its rate limit is reached, what was read so far
        is kept and listed, and `stale` says why. Raises `SourceError` when nothing is known at all, and `MadePrivate`.
        """
        sync_state = await asyncio.to_thread(self._store.load, self._scope())
        run = _SyncRun(sync_state)
        if 0 < sync_state.blocked_until - time.time() <= MAX_WAIT_S:
            run.errors.append(f"{self.display_name}: {RateLimited(sync_state.blocked_until)}")
        else:
            await self._sync(run)
            await asyncio.to_thread(self._store.save_items, sync_state)
        if not (sync_state.items or sync_state.is_emptied):
            errors = run.errors or [f"{self.display_name} has no {' or '.join(self._settings.take)} that can be used"]
            raise SourceError(f"source {self.name}: {errors[0]}", is_refused=run.is_refused)
        return Listing(
            sync_state.fingerprints(),
            skipped=dict(run.skipped),
            stale="; ".join(run.errors),
            unreadable=run.unreadable,
            is_refused=run.is_refused,
        )

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield items as they were at the last visit."""
        items = (await asyncio.to_thread(self._store.load, self._scope())).items
        for path in paths:
            item_state = items.get(path)
            if path in listing.fingerprints and item_state is not None:
                text = await asyncio.to_thread(self._store.load_text, item_state.fingerprint)
                if text is not None:
                    yield Document(path, text, "markdown", item_state.title, item_state.url)

    async def probe(self) -> str:
        """Ask for the project and return its present name. Raises `SourceError`."""
        try:
            async with self._open_client(SyncState("")) as (client, _):
                return await client.probe()
        except RateLimited as error:
            raise SourceError(f"{self.display_name}: {error}") from error

    @asynccontextmanager
    async def _open_client(self, sync_state: SyncState) -> AsyncIterator[tuple[ForgeClient, ForgeApi]]:
        settings = self._settings
        headers = await asyncio.to_thread(self._auth_headers)
        etags = {address: etag for kind_etags in sync_state.tags.values() for address, etag in kind_etags.items()}
        limits = ApiLimits(settings.timeout_s, settings.max_page_kb)
        async with WebClient(settings.allow_private) as web_client:
            if isinstance(settings, GithubSource):
                api = ForgeApi(web_client, settings.api_url, {**HEADERS, **headers}, limits, etags=etags)
                yield Github(api, settings), api
            else:
                api = ForgeApi(web_client, settings.api_url, headers, limits, etags=etags)
                yield Gitlab(api, settings), api

    def _auth_headers(self) -> dict[str, str]:
        """Return the header with the token, which may be in a file."""
        token = self._settings.token
        missing_reason = token.missing_reason() if token else ""
        if missing_reason:
            raise SourceError(f"{self.display_name}: token: {missing_reason}")
        return {"Authorization": f"Bearer {token.value()}"} if token else {}

    async def _sync(self, run: _SyncRun) -> None:
        """Follow each kind; one that fails leaves the others alone, a rate limit ends it all."""
        sync_state, previous_items = run.sync_state, dict(run.sync_state.items)
        self._begin_full_sync_if_due(sync_state)
        try:
            await self._sync_kinds(run)
        except MadePrivate:
            raise
        except SourceError as error:
            run.note_error(error, self._settings.take)
        except RateLimited as error:
            sync_state.blocked_until = error.until
            run.note_error(SourceError(f"{self.display_name}: {error}"), ())
        for closed_kind in note_refusals(sync_state.refused_since, run.refused_kinds, run.read_kinds):
            self._drop_items(closed_kind, sync_state, (), is_full=True)
            sync_state.cursors.pop(closed_kind, None)
        # What is listed, but not to be told of, is no error of the service.
        missing_items = {path: item for path, item in previous_items.items() if path not in run.left_out}
        if missing_items and not sync_state.items and not run.refused_kinds:
            # An empty listing is more often an error of the service than a deletion of everything: the round is
            # repeated.
            sync_state.items = missing_items
            sync_state.cursors = {}
            run.errors.append(f"{self.display_name} has nothing left that can be used")
        was_emptied = bool(previous_items and not missing_items) or sync_state.is_emptied
        sync_state.is_emptied = was_emptied and not sync_state.items

    async def _sync_kinds(self, run: _SyncRun) -> None:
        sync_state = run.sync_state
        async with self._open_client(sync_state) as (client, api):
            await self._require_public(client)
            for kind in dict.fromkeys(self._settings.take):
                try:
                    api.received_etags.clear()
                    await self._sync_kind(kind, run, client)
                    if kind == "issues":
                        await self._drop_hidden(run, client)
                    sync_state.tags[kind] = {address: etag for address, etag in api.received_etags.items() if etag}
                    run.read_kinds.append(kind)
                except SourceError as error:
                    run.note_error(error, [kind])

    async def _require_public(self, client: ForgeClient) -> None:
        """Raise `MadePrivate` for a project that was public and is private now, where everybody may see this source.

        A token of a member still reads it then; without one the service refuses us by itself. The mark that it was
        public outlives what is known of the project.
        """
        settings = self._settings
        if settings.token is None or EVERYONE not in settings.audience:
            return
        try:
            is_private = await client.is_private()
        except StatusError:
            # What is asked for next fails in the same way, and says it of its kind.
            return
        was_public = await asyncio.to_thread(self._public_mark.was_public, is_public=is_private is False)
        if is_private and was_public:
            reason = f"{self.display_name} is private now: give this source the audience of those who may see it"
            raise MadePrivate(f"source {self.name}: {reason}")

    def _begin_full_sync_if_due(self, sync_state: SyncState) -> None:
        """Start a full round when it is time for one and the last has come to its end."""
        now = time.time()
        has_ended = all(kind in sync_state.cursors for kind in self._settings.take)
        if (
            not sync_state.full_round_at
            or sync_state.full_round_at > now
            or (has_ended and now - sync_state.full_round_at >= self._settings.full_days * DAY_S)
        ):
            sync_state.full_round_at = now
            sync_state.cursors = {}

    async def _sync_kind(self, kind: str, run: _SyncRun, client: ForgeClient) -> None:
        """Read what changed of one kind; its cursor moves only when this came to its end."""
        sync_state = run.sync_state
        seen_paths = set[str]()
        errors = list[SourceError]()
        is_full = kind not in sync_state.cursors
        cursor = sync_state.cursors.get(kind, 1.0)
        async for item in client.items(kind, 0.0 if is_full else max(cursor - OVERLAP_S, 1.0)):
            if item is None:
                run.skipped["not understood"] += 1
                continue
            cursor = max(cursor, item.updated_at)
            if item.skip_reason:
                run.skipped[item.skip_reason] += 1
            if item.skip_reason or not self._matches_filters(item):
                sync_state.items.pop(item.path, None)
                run.left_out.add(item.path)
                continue
            if item.path not in seen_paths and len(seen_paths) >= self._settings.max_items:
                run.skipped["beyond max_items"] += 1
                break
            seen_paths.add(item.path)
            try:
                await self._update_item(item, run, client)
            except (FormatError, ResponseTooLarge) as error:
                # No failure of the service: whoever writes issues must not stop the others from being read.
                run.skipped["unreadable"] += 1
                run.unreadable[item.path] = str(error)
                sync_state.items.pop(item.path, None)
            except SourceError as error:
                errors.append(error)
                run.skipped["failed"] += 1
                if len(errors) > MAX_FAILURES:
                    raise
        self._drop_items(kind, sync_state, seen_paths, is_full=is_full)
        if errors:
            raise errors[0]
        # A date in the future would hide what changes until then.
        sync_state.cursors[kind] = min(cursor, time.time())

    async def _drop_hidden(self, run: _SyncRun, client: ForgeClient) -> None:
        """Forget issues that are not there any more, or not for us: what is not listed is no change that is listed."""
        items = run.sync_state.items
        now = time.time()
        unseen = [path for path in items if path.startswith("issues/") and now - items[path].seen >= CHECK_AFTER_S]
        gone, checked = await client.find_gone(sorted(unseen, key=lambda path: items[path].seen))
        items.update({path: replace(items[path], seen=now) for path in checked})
        for path in gone:
            run.skipped["gone"] += 1
            run.left_out.add(path)
            del items[path]

    def _matches_filters(self, item: Item) -> bool:
        settings = self._settings
        if item.path.startswith("releases/"):
            return True
        labels = {label.casefold() for label in item.labels}
        return (
            settings.state in ("all", item.state)
            and (not settings.labels or bool(labels & {label.casefold() for label in settings.labels}))
            and not labels & {label.casefold() for label in settings.exclude_labels}
        )

    async def _update_item(self, item: Item, run: _SyncRun, client: ForgeClient) -> None:
        """Take an item into the record; its comments are asked for only when it changed, or in a full round."""
        sync_state = run.sync_state
        previous_state = sync_state.items.get(item.path)
        comments = item.comments
        if comments is None:
            if (
                previous_state
                and previous_state.stamp == item.stamp
                and previous_state.read >= sync_state.full_round_at
            ):
                sync_state.items[item.path] = replace(previous_state, seen=time.time())
                return
            comments = await client.comments(item)
        text = await self._to_markdown(item, comments)
        fingerprint = hashlib.sha256(f"{item.title}\n{item.url}\n{text}".encode()).hexdigest()
        if previous_state is None or previous_state.fingerprint != fingerprint:
            await asyncio.to_thread(self._store.save_text, fingerprint, text)
        now = time.time()
        item_state = ItemState(fingerprint, item.title, item.url, item.stamp, item.updated_at, now, now)
        sync_state.items[item.path] = item_state
        run.read_count += item.comments is None
        if item.comments is None and run.read_count % SAVE_INTERVAL == 0:
            await asyncio.to_thread(self._store.save_items, sync_state)

    async def _to_markdown(self, item: Item, comments: Sequence[Comment]) -> str:
        """Return an item as Markdown; a long one is left to a worker. Raises `FormatError` beyond its limits."""
        arguments = replace(item, comments=()), list(comments), self._settings.skip_authors
        if len(item.body) + sum(len(comment.text) for comment in comments) <= MAX_INLINE_CHARS:
            return Item.to_markdown(*arguments)
        return await self._parser.run(Item.to_markdown, *arguments)

    def _drop_items(self, kind: str, sync_state: SyncState, seen_paths: Collection[str], *, is_full: bool) -> None:
        """Drop what a full round no longer found, and what is beyond the limit by now."""
        kind_paths = [path for path in sync_state.items if path.startswith(f"{kind}/")]
        gone_paths = [path for path in kind_paths if is_full and path not in seen_paths]
        remaining_paths = sorted(
            set(kind_paths) - set(gone_paths), key=lambda path: (-sync_state.items[path].updated, path)
        )
        for path in [*gone_paths, *remaining_paths[self._settings.max_items :]]:
            del sync_state.items[path]

    def _scope(self) -> str:
        """Return a name for the settings that decide what an item's text is and which are taken."""
        names = ("api_url", "take", "state", "labels", "exclude_labels", "max_items", "max_comments", "skip_authors")
        values = [self._settings.kind, self._project, *(getattr(self._settings, name) for name in names)]
        # What earlier versions read has comments of our own.
        values.append(OWN_COMMENT_MARKER)
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()
