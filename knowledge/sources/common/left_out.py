"""Which documents of a source are none now: another configuration may have read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from core.errors import SourceError
from core.formatting import strip_source_prefix
from core.observability.logs import get_logger
from core.settings import GitSource, SourceSettings, WebsiteSource
from core.settings.sources import FilteredSource
from knowledge.sources.common.documents import AddressGlobs, PathGlobs, make_private_check

_log = get_logger(__name__)


def has_globs(source: SourceSettings) -> bool:
    """Return whether a source may leave documents out."""
    return isinstance(source, FilteredSource) and bool(source.include or source.exclude)


def find_left_out(name: str, source: SourceSettings, paths: Iterable[str]) -> Collection[str]:
    """Return those of some documents that the globs of a source leave out: they may be those of a closed source."""
    if not isinstance(source, FilteredSource):
        return ()
    try:
        kind = AddressGlobs if isinstance(source, WebsiteSource) else PathGlobs
        globs = kind(name, source.include, source.exclude)
    except SourceError as error:
        # Nobody knows what they leave out.
        _log.error("source.failed", source=name, error=strip_source_prefix(name, str(error)))
        return frozenset(paths)
    return frozenset(path for path in paths if not globs.matches(_find_place(source, path)))


def find_excluded(name: str, source: SourceSettings, urls: Iterable[str]) -> Collection[str]:
    """Return those of some addresses, which pages of a website name as their own, that its globs exclude."""
    if not isinstance(source, WebsiteSource) or not source.exclude:
        return ()
    try:
        globs = AddressGlobs(name, source.include, source.exclude)
    except SourceError as error:
        _log.error("source.failed", source=name, error=strip_source_prefix(name, str(error)))
        return frozenset(urls)
    return frozenset(url for url in urls if globs.excludes(urlsplit(url).path or "/"))


def find_private(
    name: str, source: SourceSettings, private_paths: Collection[str], paths: Iterable[str]
) -> Collection[str]:
    """Return those of a source's documents that are private, or copies beside one that is."""
    is_private = make_private_check(name, private_paths)
    return frozenset(path for path in paths if is_private(_find_place(source, path)))


def _find_place(source: SourceSettings, path: str) -> str:
    """Return the part of a document's path that globs judge."""
    if isinstance(source, GitSource) and len(source.branches) > 1:
        return path.partition(":")[2]
    return path
