"""The store as questions see it: without expired results of standing queries, and without what others were to see.

Another process may have read a closed source under a name that is an open one's here, as `kimas ingest` does with a
newer file. It labels the source before its passages, so the labels are compared after every search. It may also have
read of a source what is left out here, or taught answers for other readers.

A refresh deletes expired results. Until it runs, and when it has failed for days, they must not be shown either: every
search checks the record that the refresh keeps beside the store. The record also says when a result was last found;
that is added below its text. The same search is made only once for a moment.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path

from core.errors import SourceError
from core.observability.logs import get_logger
from core.settings import SourceSettings, StandingSource
from core.settings.audience import Audiences
from core.settings.labels import make_reading
from core.settings.places import find_place, find_within
from core.settings.sources import DocumentSource
from core.types import Passage
from knowledge.ports import PassageRow, SearchableStore, StoredDocument, Vectors, label_name
from knowledge.retrieval.recent_searches import RecentSearches
from knowledge.sources.common.closed_parts import describe_closed_parts, find_taking
from knowledge.sources.common.left_out import find_excluded, find_left_out, find_private, has_globs
from knowledge.sources.standing import StandingRecord, StandingResult, get_file_version, get_record_folder, load_record
from knowledge.stores.labels import has_been_closed, has_other_parts, may_be_closed

_log = get_logger(__name__)


class ExpiryFilteringStore:
    """Implements `SearchableStore` over another one, which it does not own.

    `get_audiences` returns those of now, which say in which sources no page may show files of others, and which files
    are private, whatever the `audiences` of the start say.
    """

    def __init__(
        self,
        store: SearchableStore,
        sources: Mapping[str, SourceSettings],
        data_dir: Path,
        audiences: Audiences,
        clock: Callable[[], float] = time.time,
        *,
        get_audiences: Callable[[], Audiences] = Audiences,
    ) -> None:
        self._store = store
        self._audiences = audiences
        self._get_audiences = get_audiences
        self._sources = sources
        self._readings = {name: make_reading(source, sources) for name, source in sources.items()}
        self._recent_searches = RecentSearches(store)
        self._standing_sources = {
            name: source for name, source in sources.items() if isinstance(source, StandingSource)
        }
        self._folders = {name: get_record_folder(data_dir, name) for name in self._standing_sources}
        self._clock = clock
        self._closed_parts: dict[str, str] = {}
        self._private_paths: dict[str, tuple[frozenset[Path], Sequence[str], Sequence[str]]] = {}
        self._records: dict[str, tuple[tuple[int, int], StandingRecord]] = {}
        self._labels: dict[str, frozenset[str]] = {}

    def get_restriction(self, sources: Collection[str]) -> object:
        """Return what decides now, beside the settings, what is left out of sources: what was told before may be.

        Of what the store itself says of them, that is what the last reading of it found.
        """
        audiences = self._get_audiences()
        labels = [self._labels.get(source) for source in sources]
        return audiences.narrowed & set(sources), audiences.private_files, labels

    async def read_restriction(self, sources: Collection[str]) -> object:
        """Return the same as the store says it now."""
        for source in sources:
            await self._read_label(source)
        return self.get_restriction(sources)

    async def _read_label(self, source: str) -> Collection[str]:
        fingerprints = await self._store.manifest(label_name(source))
        self._labels[source] = frozenset(fingerprints)
        return fingerprints

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what may be shown of a source, by path."""
        manifest = await self._store.manifest(source)
        if await self._find_closed([source]):
            return {}
        if left_out := await self._find_left_out(source, manifest):
            manifest = {path: document for path, document in manifest.items() if path not in left_out}
        if source not in self._standing_sources:
            return manifest
        visible_results = await self._load_visible_results(source)
        return {path: document for path, document in manifest.items() if path in visible_results}

    async def filled(self, sources: Collection[str]) -> Set[str]:
        """Return those of these sources that have passages which may be shown."""
        filled = await self._store.filled(sources)
        filled -= await self._find_closed(filled)
        return {name for name in filled if name not in self._standing_sources or await self.manifest(name)}

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[PassageRow]:
        """Return the rows of these paths of a source, which the manifest has named; none that may be closed by now."""
        rows = await self._store.rows(source, paths)
        if await self._find_closed([source]):
            return ()
        shown = {passage.id for passage in await self._drop_excluded([row.passage for row in rows])}
        return [row for row in rows if row.passage.id in shown]

    async def read_page(self, source: str, path: str) -> Sequence[Passage]:
        """Return the passages of a document in order; none of one that may not be shown, or whose results expire."""
        if source in self._standing_sources:
            return ()
        rows = await self._store.rows(source, [path])
        # As in a search: after the reading.
        if await self._find_closed([source]) or path in await self._find_left_out(source, [path]):
            return ()
        return await self._drop_excluded([row.passage for row in rows])

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Search as the store does. Expired results take no places from the others."""
        visible_results = {
            source: await self._load_visible_results(source) for source in sources if source in self._standing_sources
        }
        searchable_sources = [source for source in sources if visible_results.get(source, True)]
        if not searchable_sources:
            return ()
        found = await self._recent_searches.search(tokens, vector, searchable_sources, limit)
        passages = await self._drop_excluded(found)
        paths = defaultdict[str, set[str]](set)
        for passage in passages:
            paths[passage.source].add(passage.path)
        closed_sources = await self._find_closed(paths)
        left_out = {source: await self._find_left_out(source, paths[source]) for source in paths}
        return [
            _append_times(passage, visible_results[passage.source][passage.path])
            if passage.source in visible_results
            else passage
            for passage in passages
            if passage.source not in closed_sources
            and passage.path not in left_out[passage.source]
            and (passage.source not in visible_results or passage.path in visible_results[passage.source])
        ]

    async def _find_closed(self, sources: Collection[str]) -> Set[str]:
        """Return the sources whose passages may be those of a closed one. Call it after they were read."""
        labels = await asyncio.gather(*map(self._read_label, sources))
        return {
            source
            for source, fingerprints in zip(sources, labels, strict=True)
            if may_be_closed(
                source,
                fingerprints,
                self._audiences,
                self._get_closed_parts(source, of_files=False),
                self._readings.get(source, ""),
            )
        }

    def _get_closed_parts(self, source: str, *, of_files: bool) -> str:
        """Return the hash of what others read of the place of a source, of files or not, for fewer people."""
        settings = self._sources.get(source)
        if settings is None or isinstance(settings, DocumentSource) != of_files:
            return ""
        if source not in self._closed_parts:
            self._closed_parts[source] = describe_closed_parts(source, self._sources, self._audiences)
        return self._closed_parts[source]

    async def _find_left_out(self, source: str, paths: Collection[str]) -> Collection[str]:
        """Return those of a source's documents that are private, or may be those of a closed one, or show some of it.

        Its globs leave them out, or they were read when other files were private or closed.
        """
        settings = self._sources.get(source)
        if settings is None:
            return ()
        left_out = set[str]()
        former_private, private_paths = await self._find_private_paths(source, settings)
        if private_paths:
            left_out.update(await asyncio.to_thread(find_private, source, settings, private_paths, list(paths)))
        closed_parts = self._get_closed_parts(source, of_files=True)
        is_narrowed = source in self._get_audiences().narrowed
        fingerprints = await self._read_label(source) if has_globs(settings) or closed_parts else ()
        if await self._judges_globs(source):
            left_out.update(await asyncio.to_thread(find_left_out, source, settings, list(paths)))
        may_take = is_narrowed or private_paths != former_private
        if may_take or has_other_parts(fingerprints, closed_parts):
            left_out |= find_taking(await self._store.manifest(source)) & set(paths)
        return left_out

    async def _judges_globs(self, source: str) -> bool:
        """Return whether what the globs of a source leave out may have been read before, and be for fewer people."""
        settings = self._sources.get(source)
        if settings is None or not has_globs(settings):
            return False
        is_narrowed = source in self._get_audiences().narrowed or self._audiences.has_closed_sources
        return is_narrowed or has_been_closed(source, await self._read_label(source), self._audiences)

    async def _drop_excluded(self, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages of pages that do not name an address as their own which their source excludes."""
        urls = defaultdict[str, set[str]](set)
        for passage in passages:
            urls[passage.source].add(passage.url)
        excluded = {
            source: await asyncio.to_thread(find_excluded, source, self._sources[source], urls[source])
            for source in urls
            if await self._judges_globs(source)
        }
        return [passage for passage in passages if passage.url not in excluded.get(passage.source, ())]

    async def _find_private_paths(self, source: str, settings: SourceSettings) -> tuple[Sequence[str], Sequence[str]]:
        """Return which files of a source's place were private at the start, and which are by now."""
        files = self._audiences.private_files, self._audiences.private_files | self._get_audiences().private_files
        known = self._private_paths.get(source)
        if known is None or known[0] != files[1]:
            place = await asyncio.to_thread(find_place, settings)
            former, now = [await asyncio.to_thread(find_within, place, each) for each in files]
            known = self._private_paths[source] = files[1], former, now
        return known[1:]

    def forget_searches(self) -> None:
        """Forget what was found: the passages may have changed."""
        self._recent_searches.forget()

    async def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Count as the store does."""
        return await self._store.term_weights(tokens, sources)

    async def vectors(self, source: str) -> Vectors:
        """Return all vectors of a source, expired ones too: they say what it is about."""
        vectors = await self._store.vectors(source)
        return vectors[:0] if await self._find_closed([source]) else vectors

    async def _load_visible_results(self, source: str) -> Mapping[str, StandingResult]:
        """Return the results of a standing source that may be shown, by path: none without a record to be read."""
        folder = self._folders[source]
        cached_record = self._records.get(source)
        try:
            state, record = await asyncio.to_thread(_read_record, folder, cached_record)
        except SourceError as error:
            _log.warning("standing.record_unreadable", source=source, error=str(error))
            return {}
        self._records[source] = state, record
        paths = record.fresh_paths(self._standing_sources[source].keep_hours, self._clock())
        return {path: record.results[path] for path in paths}


def _append_times(passage: Passage, result: StandingResult) -> Passage:
    return replace(passage, text=f"{passage.text}\n{result.time_note}")


def _read_record(
    folder: Path, cached_record: tuple[tuple[int, int], StandingRecord] | None
) -> tuple[tuple[int, int], StandingRecord]:
    # The version is read first: a record written in between is read again at the next search.
    state = get_file_version(folder)
    return cached_record if cached_record and cached_record[0] == state else (state, load_record(folder))


class SourceVersions:
    """Versions read from the store, cached for as long as the caller allows."""

    def __init__(self, store: SearchableStore) -> None:
        self._store = store
        self._cache: dict[str, tuple[float, str]] = {}
        self._lock = asyncio.Lock()

    async def get_versions(self, sources: Collection[str], max_age_s: float) -> Mapping[str, str]:
        """Return the version of each source, at most `max_age_s` seconds old; "" for an empty source.

        Raises `StoreError`.
        """
        oldest_allowed = time.monotonic() - max_age_s
        async with self._lock:
            for source in sources:
                if source not in self._cache or self._cache[source][0] < oldest_allowed:
                    read_at = time.monotonic()
                    manifest = await self._store.manifest(source)
                    self._cache[source] = read_at, await asyncio.to_thread(_hash_manifest, manifest)
        return {source: self._cache[source][1] for source in sources}


def _hash_manifest(manifest: Mapping[str, StoredDocument]) -> str:
    if not manifest:
        return ""
    lines = "\n".join(
        sorted(f"{document.fingerprint}\0{path}\0{document.unfilled_count}" for path, document in manifest.items())
    )
    return hashlib.sha256(lines.encode()).hexdigest()[:32]
