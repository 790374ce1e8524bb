"""The version of each source. It changes as soon as any document changes, whichever process refreshed it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection, Mapping

from knowledge.ports import Store, StoredDocument


class SourceVersions:
    """Versions read from the store, cached for as long as the caller allows."""

    def __init__(self, store: Store) -> None:
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
    lines = "\n".join(sorted(f"{document.fingerprint}\0{path}" for path, document in manifest.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:32]
