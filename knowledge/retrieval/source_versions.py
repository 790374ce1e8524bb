"""The version of each source: another one as soon as any of its documents changed, whoever refreshed it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection, Mapping

from knowledge.ports import Held, Store


class SourceVersions:
    """Versions read from the store, remembered for as long as whoever asks allows."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[float, str]] = {}
        self._reading = asyncio.Lock()

    async def of(self, sources: Collection[str], oldest_s: float) -> Mapping[str, str]:
        """Return the version of each source as it was at most `oldest_s` seconds ago; "" for one that holds nothing.

        Raises `StoreError`.
        """
        since = time.monotonic() - oldest_s
        async with self._reading:
            for source in sources:
                if source not in self._known or self._known[source][0] < since:
                    began = time.monotonic()
                    manifest = await self._store.manifest(source)
                    self._known[source] = began, await asyncio.to_thread(_version, manifest)
        return {source: self._known[source][1] for source in sources}


def _version(manifest: Mapping[str, Held]) -> str:
    if not manifest:
        return ""
    lines = "\n".join(sorted(f"{held.fingerprint}\0{path}" for path, held in manifest.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:32]
