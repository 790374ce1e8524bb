"""What all connectors share: the service lists everything with marks of change, and only what changed is read.

A connector implements `Service`; this module keeps the record, follows deletions, and goes on after interruptions.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from core.errors import SourceError, is_refusal
from core.observability.logs import get_logger
from core.settings.connectors import AnyOptions, ConnectorOptions, parse_options
from knowledge.connectors.api import ConnectorApi, TimeUp
from knowledge.parsing.limits import FormatError
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing
from knowledge.sources.common.state_files import TextStore
from knowledge.sources.forge.api import MAX_WAIT_S, RateLimited, StatusError
from knowledge.web.client import ResponseTooLarge
from knowledge.web.refusals import REFUSED_STATUSES, note_refusals

_log = get_logger(__name__)

# A refresh reads for so long, less than the `timeout_s` of a plug-in; the next one goes on where it ended.
REFRESH_S = 240.0
PROBE_S = 10.0
# Documents that may fail in a row before the service is held to have failed.
MAX_FAILURES = 3
GONE_STATUSES = frozenset({404, 410})
GONE = "it is not there any more, or not for this account"
# The token is refused, or the service is broken: nothing is known of the document.
UNAUTHORIZED = 401
FORBIDDEN = 403
SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Content:
    """What a document holds: `write` makes Markdown of the `arguments`, in a worker process.

    What is `of_others` in part is read anew each time: it may change, or be closed, without a mark of its own.
    """

    title: str
    url: str
    write: Callable[..., str]
    arguments: tuple[Any, ...]
    of_others: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One document as the service lists it. `mark` is another text after each change.

    `skip_reason` says why it is not taken. `content` is given where the list has it already. `part` is the part of the
    service that has it, such as a channel.
    """

    path: str
    mark: str
    skip_reason: str = ""
    content: Content | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A page of a list; `next_cursor` leads to the next one, "" after the last.

    `problem` says why the rest of a `part` of the service cannot be listed: what is known of that stays, for a week if
    the service `is_refusing` it.
    """

    items: Sequence[Item]
    next_cursor: str = ""
    part: str = ""
    problem: str = ""
    is_refusing: bool = False


def is_of_part(error: StatusError) -> bool:
    """Return whether a refusal may be of one channel or space alone: not of the token, nor of the whole service."""
    return error.status != UNAUTHORIZED and error.status < SERVER_ERROR


class Service(Protocol):
    """One service. `max_age_s`: an item is read again after so many seconds without a new mark; 0: never.

    `says_what_is_gone`: `read` fails with one of `GONE_STATUSES` for what is there no more, or not for us any more.
    Others know of each part whether they may list it, and what they do not list there is gone.
    """

    max_age_s: float
    says_what_is_gone: bool

    @property
    def display_name(self) -> str:
        """What messages call it."""
        ...

    def open(self, seconds: float) -> AbstractAsyncContextManager[ConnectorApi]:
        """Return its API, for so many seconds."""
        ...

    async def list_page(self, api: ConnectorApi, cursor: str) -> ItemPage:
        """Return a part of all that there is; the first one for "". Raises `SourceError` and `RateLimited`."""
        ...

    async def read(self, api: ConnectorApi, item: Item) -> Content:
        """Return the content of an item. Raises `SourceError` and `RateLimited`."""
        ...

    async def probe(self, api: ConnectorApi) -> str:
        """Return what can be read there, in a few words. Raises `SourceError` and `RateLimited`."""
        ...


@dataclass(frozen=True, slots=True)
class ItemState:
    """An item as it was last read. `problem` is empty, or says why it has no text. `read_at`: seconds since 1970."""

    mark: str
    fingerprint: str
    title: str = ""
    url: str = ""
    problem: str = ""
    read_at: float = 0.0
    part: str = ""


@dataclass(slots=True)
class ConnectorState:
    """The record of a source: its items by path, and how far the list was read, whose items so far are `seen`.

    `failed_parts` are those that could not be listed so far, with the reasons, and `refused_parts` those of them that
    the service refuses. `unfinished` is the item in whose middle the last refresh had to end. `refused_since` says of
    parts and items since when, in seconds since 1970.
    """

    scope: str
    items: dict[str, ItemState] = field(default_factory=dict)
    cursor: str = ""
    seen: list[str] = field(default_factory=list)
    failed_parts: dict[str, str] = field(default_factory=dict)
    refused_parts: list[str] = field(default_factory=list)
    unfinished: str = ""
    blocked_until: float = 0.0
    refused_since: dict[str, float] = field(default_factory=dict)

    def begin_list(self) -> None:
        """Have the next refresh begin with the first part of the list."""
        self.cursor, self.seen, self.failed_parts, self.refused_parts = "", [], {}, []


class _StateStore(TextStore):
    def __init__(self, name: str, directory: Path) -> None:
        super().__init__(name, directory, "items.json")
        # A refresh that is stopped may still be saving when it saves for the last time.
        self._lock = threading.Lock()

    def load(self, scope: str) -> ConnectorState:
        """Return the record; an empty one where there is none, where it is damaged, or made with other options."""
        try:
            data = self.read_state()
            items = {path: ItemState(**item) for path, item in data["items"].items()}
            state = ConnectorState(**{**data, "items": items})
            has_all = {item.fingerprint for item in items.values() if not item.problem} <= self.fingerprints()
            has_lists = isinstance(state.seen, list) and isinstance(state.failed_parts, dict)
            has_lists = has_lists and isinstance(state.refused_parts, list) and isinstance(state.refused_since, dict)
            is_valid = has_all and isinstance(state.blocked_until, int | float) and has_lists
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return ConnectorState(scope)
        return state if is_valid and state.scope == scope else ConnectorState(scope)

    def save_items(self, state: ConnectorState) -> None:
        with self._lock:
            self.save(asdict(state), {item.fingerprint for item in state.items.values()})


@dataclass(slots=True)
class _Refresh:
    """One refresh while it runs. `refused` are items that the service does not let us read."""

    state: ConnectorState
    api: ConnectorApi
    errors: list[str]
    seen: set[str] = field(default_factory=set)
    refused: dict[str, ItemState] = field(default_factory=dict)
    failed_parts: dict[str, str] = field(default_factory=dict)
    refused_parts: set[str] = field(default_factory=set)
    read_count: int = 0
    failure_count: int = 0
    has_restarted: bool = False


class ConnectorSource:
    """Implements `Source` for a service. The record is kept in `data_dir`, and made anew with other `options`."""

    def __init__(
        self, name: str, service: Service, options: ConnectorOptions, data_dir: Path, parser: Parser | None = None
    ) -> None:
        self.name = name
        self._service = service
        self._parser = parser or ThreadParser()
        self._store = _StateStore(name, data_dir)
        self._max_items = options.max_items
        choices = options.model_dump(mode="json", exclude={"token", "allow_private"})
        self._scope = hashlib.sha256(json.dumps([type(service).__name__, choices]).encode()).hexdigest()

    async def listing(self) -> Listing:
        """Read what changed, and list all that is known. `stale` says what failed, and what is not read yet.

        Raises `SourceError` when nothing is known at all.
        """
        state = await asyncio.to_thread(self._store.load, self._scope)
        errors: list[str] = []
        is_refused = False
        if 0 < state.blocked_until - time.time() <= MAX_WAIT_S:
            errors.append(f"{self._service.display_name}: {RateLimited(state.blocked_until)}")
        else:
            try:
                is_refused = await self._refresh(state, errors)
            finally:
                # Also what was read before a stop, or before the plug-in's time was up.
                await asyncio.to_thread(self._store.save_items, state)
        if not state.items:
            reason = errors[0] if errors else f"{self._service.display_name} has nothing that can be read"
            raise SourceError(reason, is_refused=is_refused)
        fingerprints = {path: item.fingerprint for path, item in state.items.items()}
        problems = {path: item.problem for path, item in state.items.items() if item.problem}
        return Listing(fingerprints, stale="; ".join(errors), unreadable=problems, is_refused=is_refused)

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield items as they were last read."""
        items = (await asyncio.to_thread(self._store.load, self._scope)).items
        for path in paths:
            item = items.get(path)
            if item is None or path not in listing.fingerprints:
                continue
            if item.problem:
                yield Document(path, "", "markdown", unreadable_reason=item.problem)
                continue
            text = await asyncio.to_thread(self._store.load_text, item.fingerprint)
            if text is not None:
                yield Document(path, text, "markdown", item.title, item.url)

    async def probe(self) -> str:
        """Return what the service says of itself. Raises `SourceError`."""
        try:
            async with self._service.open(PROBE_S) as api:
                return f"{self._service.display_name}: {await self._service.probe(api)}"
        except RateLimited as error:
            raise SourceError(f"{self._service.display_name}: {error}") from error

    async def _refresh(self, state: ConnectorState, errors: list[str]) -> bool:
        """Read what changed; whatever fails, what was read so far stays, and nothing is deleted.

        Return whether the service lets us see nothing any more.
        """
        try:
            async with self._service.open(REFRESH_S) as api:
                refresh = _Refresh(state, api, errors, set(state.seen), failed_parts=dict(state.failed_parts))
                refresh.refused_parts |= set(state.refused_parts)
                try:
                    await self._read_list(refresh)
                finally:
                    self._take_refused(refresh)
                    if errors:
                        # What failed is behind the cursor: the next refresh begins anew, and asks for it again.
                        state.begin_list()
                    # A part may be refused for good: those behind it are not to wait for it.
                    errors += refresh.failed_parts.values()
        except TimeUp:
            errors.append(f"{self._service.display_name}: not everything is read yet, the next refresh goes on")
        except RateLimited as error:
            state.blocked_until = error.until
            errors.append(f"{self._service.display_name}: {error}")
        except SourceError as error:
            errors.append(str(error))
            return is_refusal(error)
        return False

    async def _read_list(self, refresh: _Refresh) -> None:
        state = refresh.state
        if state.cursor:
            # The newest come first, also where the whole list takes many refreshes.
            await self._take_page(refresh, await self._service.list_page(refresh.api, ""))
        is_first = True
        while is_first or (state.cursor and len(refresh.seen) < self._max_items):
            page = await self._list_next(refresh)
            is_first = False
            await self._take_page(refresh, page)
            state.cursor, state.seen = page.next_cursor, sorted(refresh.seen)
            state.failed_parts, state.refused_parts = dict(refresh.failed_parts), sorted(refresh.refused_parts)
            await asyncio.to_thread(self._store.save_items, state)
        state.begin_list()
        await self._drop_unseen(refresh)

    async def _list_next(self, refresh: _Refresh) -> ItemPage:
        """Return the next part of the list; the first one where the service no longer knows how far we were."""
        state = refresh.state
        try:
            return await self._service.list_page(refresh.api, state.cursor)
        except StatusError as error:
            if not state.cursor or error.status >= SERVER_ERROR or refresh.has_restarted:
                raise
            refresh.has_restarted = True
            state.begin_list()
            refresh.seen.clear()
            refresh.failed_parts.clear()
            refresh.refused_parts.clear()
            return await self._service.list_page(refresh.api, "")

    async def _drop_unseen(self, refresh: _Refresh) -> None:
        """Forget what the whole list no longer has. An empty list is more often an error than a deletion."""
        items, since = refresh.state.items, refresh.state.refused_since
        answered_parts = {item.part for item in items.values()} - refresh.failed_parts.keys()
        note_refusals(since, (), answered_parts if refresh.seen else ())
        for part in refresh.failed_parts if refresh.seen else {item.part for item in items.values()}:
            await self._forget_gone(refresh, part)
        if not refresh.seen:
            if known_parts := {item.part for item in items.values() if not item.problem}:
                reason = f"{self._service.display_name} lists nothing any more: what was known stays"
                raise SourceError(reason, is_refused=known_parts <= since.keys())
            return
        for path in items.keys() - refresh.seen:
            if items[path].part not in refresh.failed_parts:
                del items[path]

    async def _forget_gone(self, refresh: _Refresh, part: str) -> None:
        """Forget the documents of a part that lists none, where some of them, asked for by name, are gone as well.

        Who takes a right from us often leaves no list that says so. They stay as what cannot be read: without any
        document a source would be held to be broken.
        """
        items = refresh.state.items
        paths = sorted(path for path, item in items.items() if item.part == part and not item.problem)
        if not paths:
            return
        if self._service.says_what_is_gone:
            samples = dict.fromkeys(paths[index] for index in (0, len(paths) // 2, -1))
            statuses = {await self._find_status(refresh.api, Item(path, "", part=part)) for path in samples}
            is_gone, is_refused = statuses <= GONE_STATUSES, statuses <= REFUSED_STATUSES
        else:
            is_gone, is_refused = part not in refresh.failed_parts, part in refresh.refused_parts
        overdue_parts = note_refusals(refresh.state.refused_since, [part] if is_refused else (), ())
        if is_gone or overdue_parts:
            items.update({path: replace(_make_problem("", GONE), part=part) for path in paths})

    async def _find_status(self, api: ConnectorApi, item: Item) -> int:
        """Return with which status the service refuses an item, 0 where it does not."""
        try:
            with api.document():
                await self._service.read(api, item)
        except StatusError as error:
            return error.status
        except (SourceError, FormatError, ResponseTooLarge) as error:
            # Nothing is known of it: it stays until a refresh can tell.
            _log.info("document.not_probed", path=item.path, error=str(error))
        return 0

    async def _take_page(self, refresh: _Refresh, page: ItemPage) -> None:
        items = refresh.state.items
        if page.problem:
            refresh.failed_parts[page.part] = f"{self._service.display_name}: {page.part}: {page.problem}"
            refresh.refused_parts |= {page.part} if page.is_refusing else set()
        for item in page.items:
            if item.path in refresh.seen or len(refresh.seen) < self._max_items:
                await self._take(refresh, item)
                refresh.seen.add(item.path)
                if (known := items.get(item.path)) and known.part != item.part:
                    items[item.path] = replace(known, part=item.part)

    async def _take(self, refresh: _Refresh, item: Item) -> None:
        """Read an item that changed. One that cannot be read loses only itself."""
        items = refresh.state.items
        if item.skip_reason:
            _close(items, item)
            return
        known = items.get(item.path)
        max_age_s = self._service.max_age_s
        if known and known.mark == item.mark and not (max_age_s and time.time() - known.read_at > max_age_s):
            return
        replies_before = refresh.api.reply_count
        try:
            items[item.path] = await self._read(refresh, item)
        except (TimeUp, RateLimited) as error:
            # A limit that others used up says nothing of the item.
            is_innocent = isinstance(error, RateLimited) and refresh.api.reply_count == replies_before
            if is_innocent or refresh.state.unfinished != item.path:
                refresh.state.unfinished = item.path
                raise
            # For the second time: all that comes after it would wait for ever. What is known of it stays.
            late = _make_problem(item.mark, "it takes longer to read than a refresh has time")
            items[item.path] = replace(known, mark=item.mark) if known and not known.problem else late
        except (FormatError, ResponseTooLarge) as error:
            items[item.path] = _make_problem(item.mark, str(error))
        except StatusError as error:
            self._note_status(refresh, item, error)
        except SourceError as error:
            self._note_failure(refresh, error)
        else:
            refresh.read_count += 1
            refresh.failure_count = 0
            if refresh.state.unfinished == item.path:
                refresh.state.unfinished = ""

    async def _read(self, refresh: _Refresh, item: Item) -> ItemState:
        with refresh.api.document():
            content = item.content or await self._service.read(refresh.api, item)
        text = await self._parser.run(content.write, *content.arguments)
        if not text.strip():
            return _make_problem(item.mark, "it holds no text")
        fingerprint = hashlib.sha256(f"{content.title}\n{content.url}\n{text}".encode()).hexdigest()
        await asyncio.to_thread(self._store.save_text, fingerprint, text)
        mark = "" if content.of_others else item.mark
        return ItemState(mark, fingerprint, content.title, content.url, read_at=time.time())

    def _note_status(self, refresh: _Refresh, item: Item, error: StatusError) -> None:
        if error.status == UNAUTHORIZED or error.status >= SERVER_ERROR:
            self._note_failure(refresh, error)
        elif error.status == FORBIDDEN:
            refresh.refused[item.path] = _make_problem("", str(error))
        else:
            # Without its mark, what is gone is asked for again as long as it is listed.
            mark = "" if error.status in GONE_STATUSES else item.mark
            refresh.state.items[item.path] = _make_problem(mark, str(error))

    def _note_failure(self, refresh: _Refresh, error: SourceError) -> None:
        refresh.errors.append(str(error))
        refresh.failure_count += 1
        if refresh.failure_count > MAX_FAILURES:
            raise error

    def _take_refused(self, refresh: _Refresh) -> None:
        """Close what is forbidden by now; where everything is, the token has lost its right, or a wall is up: later."""
        state, refused = refresh.state, refresh.refused
        overdue_paths = note_refusals(state.refused_since, refused, refresh.seen - refused.keys())
        if refresh.read_count or len(refused) <= MAX_FAILURES:
            state.items.update(refused)
        elif refused:
            refresh.errors.append(next(iter(refused.values())).problem)
            state.items.update({path: refused[path] for path in overdue_paths})


def connector(kind: type[AnyOptions], make_service: Callable[[AnyOptions], Service]) -> Callable[..., ConnectorSource]:
    """Return what opens the source of a service, as an entry point of the group `kimas.sources` does.

    It raises `SourceError` for options that are not right.
    """

    def open_source(
        name: str, options: Mapping[str, Any], data_dir: Path, parser: Parser | None = None
    ) -> ConnectorSource:
        parsed_options = parse_options(kind, options)
        return ConnectorSource(name, make_service(parsed_options), parsed_options, data_dir, parser)

    return open_source


def _close(items: dict[str, ItemState], item: Item) -> None:
    """Forget an item that is not taken; of a channel all that is in it, also where the list is not read to its end."""
    if "/" not in item.path:
        for path in [path for path in items if path.startswith(f"{item.path}/")]:
            del items[path]
    # Without its mark, it is read again as soon as it may be.
    items[item.path] = _make_problem("", item.skip_reason)


def _make_problem(mark: str, reason: str) -> ItemState:
    return ItemState(mark, hashlib.sha256(reason.encode()).hexdigest(), problem=reason, read_at=time.time())
