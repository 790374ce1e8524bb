"""Refreshing many sources: one after the other, each failure its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import EmbeddingError, SourceError, UsageError
from core.logs import logger
from core.settings import SourceSettings
from knowledge.live import is_live
from knowledge.locks import refresh_lock
from knowledge.ports import Embedder, Store
from knowledge.sources import open_source
from knowledge.sync import Progress, SyncReport, refresh


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did: a report per source that worked, and the reason by name for each that did not."""

    reports: tuple[SyncReport, ...]
    failures: Mapping[str, str]


async def refresh_sources(
    sources: Mapping[str, SourceSettings],
    names: Collection[str],
    store: Store,
    embedder: Embedder,
    data_dir: Path,
    *,
    chunk_tokens: int,
    progress: Callable[[Progress], None] | None = None,
    news: Callable[[], Awaitable[None]] | None = None,
) -> Refreshed:
    """Bring the named sources up to date (all that are stored when none is named).

    A source that fails keeps its old knowledge and does not stop the others. `news` is awaited after every source that
    may have changed, early in one that held nothing, and at the end. Raises `UsageError` for an unknown name,
    `StoreLocked` when another process is at it, `StoreError` when nothing can be written.
    """
    chosen = _chosen(sources, names)
    reports, failures = list[SyncReport](), dict[str, str]()
    with refresh_lock(data_dir):
        for name in chosen:
            changed = True
            try:
                source = open_source(name, sources[name], data_dir)
                report = await refresh(
                    source, store, embedder, chunk_tokens=chunk_tokens, progress=progress, first_batch=news
                )
            except (SourceError, EmbeddingError) as fault:
                logger(__name__).error("source.failed", source=name, error=str(fault))
                failures[name] = str(fault)
            else:
                reports.append(report)
                if report.stale:
                    logger(__name__).warning("source.stale", source=name, reason=report.stale)
                changed = bool(report.added or report.updated or report.deleted)
            # At the end in any case: another process may have changed what this one found up to date.
            if news and (changed or name == chosen[-1]):
                await news()
    return Refreshed(tuple(reports), failures)


def _chosen(sources: Mapping[str, SourceSettings], names: Collection[str]) -> list[str]:
    unknown = sorted(set(names) - set(sources))
    if unknown:
        known = ", ".join(sorted(sources)) or "none are configured"
        raise UsageError(f"no source is named {', '.join(map(repr, unknown))}; the sources are: {known}")
    live = sorted(name for name in names if is_live(sources[name]))
    if live:
        raise UsageError(f"{', '.join(live)}: asked at question time, so there is nothing to refresh")
    return [name for name in sources if (not names or name in names) and not is_live(sources[name])]
