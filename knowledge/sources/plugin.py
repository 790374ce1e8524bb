"""A plug-in source, which an installed package offers as an entry point. Nothing it does can lose knowledge.

Its results are checked before they count, and every exception becomes a `SourceError` that names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, contextmanager
from importlib.metadata import EntryPoint, entry_points
from inspect import signature
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from core.errors import SourceError
from core.settings import OwnSource
from knowledge.parsing.parser import Parser, ThreadParser
from knowledge.ports import Document, Listing, Source

# The entry point group of plug-in sources.
SOURCES_GROUP = "kimas.sources"
# Where the connectors are that KIMAs brings.
CONNECTORS = "kimas.connectors"
_TEXT_FIELDS = ("path", "text", "kind", "title", "url")


class SourceFactory(Protocol):
    """An entry point of the group `kimas.sources`: a class or function that returns a `Source`."""

    def __call__(self, name: str, options: Mapping[str, Any], data_dir: Path, *, parser: Parser = ...) -> Source:
        """Return the source of a name. `options` are as configured; `data_dir` is a folder of its own to keep state.

        One that takes `parser` gets what reads foreign documents in worker processes.
        """
        ...


@runtime_checkable
class ProbedSource(Source, Protocol):
    """A source that `kimas check --live` asks whether its service can be read."""

    async def probe(self) -> str:
        """Return what can be read there, in a few words. Raises `SourceError` that says what is wrong."""
        ...


class PluginSource:
    """Implements `Source` with what a package offers. It is loaded at the first listing."""

    def __init__(self, name: str, settings: OwnSource, data_dir: Path, parser: Parser | None = None) -> None:
        self.name = name
        self._parser = parser or ThreadParser()
        self._settings = settings
        self._plugin = settings.plugin
        self._timeout = settings.timeout_s
        self._folder = data_dir.expanduser() / "own" / name
        self._source: Source | None = None

    async def listing(self) -> Listing:
        """Let the plug-in list. Raises `SourceError` for whatever it raises, and for what is no listing of anything."""
        with self._wrap_plugin_errors("listing"):
            async with asyncio.timeout(self._timeout):
                if self._source is None:
                    # Its import and its start may take long.
                    self._source = await asyncio.to_thread(self._load_source)
                listing = await self._source.listing()
            _check_listing(listing)
            return listing

    async def documents(self, listing: Listing, paths: Collection[str]) -> AsyncIterator[Document]:
        """Yield what the plug-in yields of these paths. Raises `SourceError` as `listing` does."""
        remaining_paths = set(paths)
        with self._wrap_plugin_errors("reading"):
            if self._source is None:
                self._source = await asyncio.to_thread(self._load_source)
            documents = self._source.documents(listing, paths)
            async with AsyncExitStack() as stack:
                if isinstance(documents, AsyncGenerator):
                    await stack.enter_async_context(aclosing(documents))
                while (document := await self._next_document(documents)) is not None:
                    _check_document(document, remaining_paths)
                    remaining_paths.discard(document.path)
                    yield document

    async def probe(self) -> str:
        """Return what the plug-in says of its service, "" where it has no `probe`. Raises `SourceError`."""
        with self._wrap_plugin_errors("probing"):
            source = await asyncio.to_thread(self._load_source)
            return await source.probe() if isinstance(source, ProbedSource) else ""

    async def _next_document(self, documents: AsyncIterator[Document]) -> Document | None:
        async with asyncio.timeout(self._timeout):
            try:
                return await anext(documents)
            except StopAsyncIteration:
                return None

    def _load_source(self) -> Source:
        factory: SourceFactory = find_plugin(self._plugin).load()
        self._folder.mkdir(parents=True, exist_ok=True)
        # Most plug-ins read no foreign documents.
        parser = {"parser": self._parser} if "parser" in signature(factory).parameters else {}
        return factory(self.name, add_token(self._settings), self._folder, **parser)

    @contextmanager
    def _wrap_plugin_errors(self, step: str) -> Iterator[None]:
        cancellations_before = _count_cancellations()
        try:
            yield
        except GeneratorExit:
            raise
        except BaseException as error:  # Whatever somebody else's code raises, other sources go on.
            if isinstance(error, KeyboardInterrupt) or _count_cancellations() > cancellations_before:
                raise
            message = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
            if isinstance(error, TimeoutError) and not str(error):
                message = f"no answer within {self._timeout:g} s"
            raise SourceError(
                f"source {self.name}: its plug-in {self._plugin!r} failed in {step}: {message}"
            ) from error


def _count_cancellations() -> int:
    """Return how often the task that runs was cancelled from outside: what else looks so is a fault of the code."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def find_plugin(plugin: str) -> EntryPoint:
    """Return the entry point of a name, not loaded. Blocking. Raises `SourceError` that lists those there are."""
    plugins = {entry_point.name: entry_point for entry_point in entry_points(group=SOURCES_GROUP)}
    if plugin not in plugins:
        names = ", ".join(sorted(plugins)) or "none"
        raise SourceError(f"no installed package offers {plugin!r} under {SOURCES_GROUP} (known: {names})")
    return plugins[plugin]


def describe_plugin(name: str, settings: OwnSource, data_dir: Path) -> str:
    """Return where a plug-in is. Blocking. Raises `SourceError`, also for options that a connector does not take."""
    entry_point = find_plugin(settings.plugin)
    token = settings.token
    # What other plug-ins do when they are made is not known; a token that is missing is told elsewhere.
    if entry_point.module == CONNECTORS and not (token and token.missing_reason()):
        entry_point.load()(name, add_token(settings), data_dir)
    return entry_point.value


def add_token(settings: OwnSource) -> dict[str, Any]:
    """Return the options with the token, as a plug-in gets them."""
    return {**settings.options, **({"token": settings.token.value()} if settings.token else {})}


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
    if not isinstance(listing.is_refused, bool):
        raise TypeError("its listing says as is_refused what is no truth value")
    if not isinstance(listing.stale, str) or not isinstance(listing.revision, str):
        raise TypeError("its listing says as stale or revision what is no text")
    if not listing.fingerprints:
        # To forget a source it is removed from the configuration; a service that lists nothing is more often broken.
        raise ValueError("it lists nothing")


def _check_document(document: object, expected_paths: Collection[str]) -> None:
    """Raise `TypeError` or `ValueError` for what is no document, or was not asked for."""
    if not isinstance(document, Document):
        raise TypeError(f"it returned a {type(document).__name__} in place of a Document")
    for field in _TEXT_FIELDS:
        text = getattr(document, field)
        if not isinstance(text, str):
            raise TypeError(f"it returned a document whose {field} is a {type(text).__name__}")
        text.encode()
    if document.path not in expected_paths:
        raise ValueError(f"it returned {document.path!r}, which was not asked for or came twice")
