"""A source of somebody's own, which an installed package offers as an entry point. Whatever it does, nothing is lost.

What it makes is checked before it counts, and what it raises becomes a `SourceError` that names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

from core.errors import SourceError
from core.settings import OwnSource
from knowledge.ports import Document, Listing, Source

# Installed packages offer sources of their own under this group.
SOURCES_GROUP = "kimas.sources"
_TEXTS = ("path", "text", "kind", "title", "url")


class MakeSource(Protocol):
    """What an entry point of the group `kimas.sources` is: a class or a function that makes a `Source`."""

    def __call__(self, name: str, options: Mapping[str, Any], data_dir: Path) -> Source:
        """Return the source of a name. `options` are as configured; `data_dir` is a folder of its own to keep state."""
        ...


class PluggedIn:
    """Implements `Source` with what a package offers. It is loaded at the first listing."""

    def __init__(self, name: str, settings: OwnSource, data_dir: Path) -> None:
        self.name = name
        self._plugin = settings.plugin
        self._options = settings.options
        self._timeout = settings.timeout_s
        self._folder = data_dir.expanduser() / "own" / name
        self._made: Source | None = None

    async def listing(self) -> Listing:
        """Let the plug-in list. Raises `SourceError` for whatever it raises, and for what is no listing of anything."""
        with self._blamed("listing"):
            async with asyncio.timeout(self._timeout):
                if self._made is None:
                    # Its import and its start may take long.
                    self._made = await asyncio.to_thread(self._make)
                listing = await self._made.listing()
            _check_listing(listing)
            return listing

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield what the plug-in yields of these paths. Raises `SourceError` as `listing` does."""
        wanted = set(paths)
        with self._blamed("reading"):
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
            documents = self._made.documents(listing, paths)
            async with AsyncExitStack() as stack:
                if isinstance(documents, AsyncGenerator):
                    await stack.enter_async_context(aclosing(documents))
                while (document := await self._next(documents)) is not None:
                    _check_document(document, wanted)
                    wanted.discard(document.path)
                    yield document

    async def _next(self, documents: AsyncIterator[Document]) -> Document | None:
        async with asyncio.timeout(self._timeout):
            try:
                return await anext(documents)
            except StopAsyncIteration:
                return None

    def _make(self) -> Source:
        make: MakeSource = find_plugin(self._plugin).load()
        self._folder.mkdir(parents=True, exist_ok=True)
        return make(self.name, self._options, self._folder)

    @contextmanager
    def _blamed(self, step: str) -> Iterator[None]:
        before = _cancellations()
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as fault:  # Whatever somebody else's code raises, other sources go on.
            if isinstance(fault, KeyboardInterrupt) or _cancellations() > before:
                raise
            said = str(fault) if isinstance(fault, SourceError) else f"{type(fault).__name__}: {fault}"
            if isinstance(fault, TimeoutError) and not str(fault):
                said = f"no answer within {self._timeout:g} s"
            raise SourceError(f"source {self.name}: its plug-in {self._plugin!r} failed in {step}: {said}") from fault


def _cancellations() -> int:
    """Return how often the task that runs was cancelled from outside: what else looks so is a fault of the code."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def find_plugin(plugin: str) -> EntryPoint:
    """Return the entry point of a name, not loaded. Blocking. Raises `SourceError` that lists those there are."""
    offered = {one.name: one for one in entry_points(group=SOURCES_GROUP)}
    if plugin not in offered:
        known = ", ".join(sorted(offered)) or "none"
        raise SourceError(f"no installed package offers {plugin!r} under {SOURCES_GROUP} (known: {known})")
    return offered[plugin]


def _check_listing(listing: object) -> None:
    """Raise `TypeError` or `ValueError` for what is no listing of anything."""
    if not isinstance(listing, Listing):
        raise TypeError(f"it returned a {type(listing).__name__} in place of a Listing")
    for path, fingerprint in listing.fingerprints.items():
        if not isinstance(path, str) or not isinstance(fingerprint, str):
            raise TypeError("it listed a path or a fingerprint that is no text")
        path.encode()
    if not all(isinstance(reason, str) and isinstance(count, int) for reason, count in listing.skipped.items()):
        raise TypeError("it listed something as skipped that is no number by its reason")
    if not isinstance(listing.stale, str) or not isinstance(listing.revision, str):
        raise TypeError("its listing says as stale or revision what is no text")
    if not listing.fingerprints:
        # To forget a source it is removed from the configuration; a service that lists nothing is more often broken.
        raise ValueError("it lists nothing")


def _check_document(document: object, wanted: Collection[str]) -> None:
    """Raise `TypeError` or `ValueError` for what is no document, or was not asked for."""
    if not isinstance(document, Document):
        raise TypeError(f"it returned a {type(document).__name__} in place of a Document")
    for field in _TEXTS:
        text = getattr(document, field)
        if not isinstance(text, str):
            raise TypeError(f"it returned a document whose {field} is a {type(text).__name__}")
        text.encode()
    if document.path not in wanted:
        raise ValueError(f"it returned {document.path!r}, which was not asked for or came twice")
