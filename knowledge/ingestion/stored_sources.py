"""Which sources are read into the store, and what decides on their passages. Loads nothing that reads or embeds."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from core.errors import UsageError
from core.settings import LiveSource, SourceSettings

# Raise it when chunking, titles or lexical tokens change: every document is then read again.
INDEX_FORMAT = 2


def stored_sources(sources: Mapping[str, SourceSettings], names: Collection[str] = ()) -> list[str]:
    """Return the named sources (all when none is named) that are read into the store, in the order of `sources`.

    Raises `UsageError` for an unknown name, and for one of a source that is asked at question time.
    """
    unknown_names = sorted(set(names) - set(sources))
    if unknown_names:
        valid_names = ", ".join(sorted(sources)) or "none are configured"
        raise UsageError(f"no source is named {', '.join(map(repr, unknown_names))}; the sources are: {valid_names}")
    live_names = sorted(name for name in names if isinstance(sources[name], LiveSource))
    if live_names:
        raise UsageError(f"{', '.join(live_names)}: asked at question time, so there is nothing to refresh")
    return [name for name in sources if (not names or name in names) and not isinstance(sources[name], LiveSource)]


def index_fingerprint(settings: SourceSettings, chunk_tokens: int) -> str:
    """Return a fingerprint of what decides on a source's passages beside its content; another one makes it due."""
    serialized_settings = settings.model_dump_json(exclude={"refresh"})
    return hashlib.sha256(f"{INDEX_FORMAT}\0{chunk_tokens}\0{serialized_settings}".encode()).hexdigest()[:32]
