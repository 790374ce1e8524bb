"""What is kept of a source: for whom it was read, on this machine and in the store, and whether another one knows more.

See `knowledge/sources/kept.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import SourceError, StoreLocked
from core.runtime.locks import source_lock
from core.settings import SourceSettings
from core.settings.audience import Audiences
from core.settings.sources import FilteredSource
from knowledge.ingestion.schedule import is_opened_otherwise
from knowledge.ports import Listing, Store
from knowledge.sources.common.closed_parts import describe_closed_parts, find_taking
from knowledge.sources.common.left_out import find_left_out
from knowledge.sources.common.state_files import add_public_marks, list_public_marks
from knowledge.sources.kept import (
    KeptLabel,
    delete_source_state,
    find_kept_names,
    keeps_state,
    read_kept_label,
    write_kept_label,
)
from knowledge.stores.labels import has_other_parts, read_readers, read_reading, was_read_otherwise

if TYPE_CHECKING:
    from core.storage.refresh_state import RefreshStateRepository


@dataclass(frozen=True, slots=True)
class KeptTexts:
    """What one source keeps on this machine. Hold the source's lock around every method.

    `fingerprint` is that of its settings now. `refresh_states` say when any machine has read the source.
    """

    name: str
    settings: SourceSettings
    data_dir: Path
    fingerprint: str
    audiences: Audiences
    refresh_states: RefreshStateRepository | None = None

    async def claim(self, *, is_known: bool, is_for_others: bool) -> None:
        """Label it, and delete it before if it was read for others: where the refresh fails, it would be told.

        `is_for_others` is what the store says of its passages. What is kept may be older than these, or come back with
        a source that was removed: its own label decides as well. Without it, and without any record of the source
        (`is_known`), nobody can tell whose it is. Raises `SourceError`.
        """
        if not keeps_state(self.settings):
            return
        kept = await asyncio.to_thread(read_kept_label, self.data_dir, self.name)
        former = kept.fingerprints if kept else ()
        is_other = any(read_readers(each)[0] != read_readers(self.fingerprint)[0] for each in former)
        is_opened = is_opened_otherwise(self.name, self.fingerprint, former, self.audiences)
        reading = read_reading(self.fingerprint)
        is_opened = is_opened or was_read_otherwise(self.name, former, self.audiences, reading)
        if is_for_others or is_other or is_opened or not (kept or is_known):
            await self._delete()
            former = ()
        success = kept.success if kept and former else ""
        await self._label(KeptLabel(tuple({*former, self.fingerprint}), success))

    async def share_public_marks(self) -> None:
        """Let this machine know what others have found public once, and them what this one has. Raises `SourceError`.

        Below a token nobody else would notice that it is private now.
        """
        if self.refresh_states is None or not keeps_state(self.settings):
            return
        own = await asyncio.to_thread(list_public_marks, self.data_dir)
        known = await self.refresh_states.list_public_marks()
        await self.refresh_states.add_public_marks(own - known)
        await asyncio.to_thread(add_public_marks, self.data_dir, known - own)

    async def note_success(self) -> None:
        """Record that all of it was read under today's settings, and is as new as the journal knows the source."""
        if keeps_state(self.settings):
            await self._label(KeptLabel((self.fingerprint,), await self._read_last_success()))

    async def require_current(self, listing: Listing) -> None:
        """Raise `SourceError` for a listing that fell back on what is kept, if another machine has read anew since.

        That may have found that something was deleted, or made private, which must not come back. The next refresh here
        begins from nothing.
        """
        if not (listing.stale and keeps_state(self.settings)):
            return
        kept = await asyncio.to_thread(read_kept_label, self.data_dir, self.name)
        if kept and kept.success and kept.success != await self._read_last_success():
            await self._delete()
            raise SourceError(f"source {self.name}: {listing.stale}", is_refused=listing.is_refused)

    async def _label(self, label: KeptLabel) -> None:
        await asyncio.to_thread(write_kept_label, self.data_dir, self.name, label)

    async def _delete(self) -> None:
        await asyncio.to_thread(delete_source_state, self.data_dir, self.name)

    async def _read_last_success(self) -> str:
        state = await self.refresh_states.get_state(self.name) if self.refresh_states else None
        return state.last_success.isoformat() if state and state.last_success else ""


async def delete_kept_texts(data_dir: Path, names_to_keep: Collection[str]) -> None:
    """Delete what all other sources keep on this machine. One that another process is refreshing stays until later."""
    for name in await asyncio.to_thread(find_kept_names, data_dir) - set(names_to_keep):
        try:
            async with source_lock(data_dir, name):
                await asyncio.to_thread(delete_source_state, data_dir, name)
        except StoreLocked:
            continue


async def find_closed_documents(
    store: Store, name: str, sources: Mapping[str, SourceSettings], audiences: Audiences, stored: Collection[str]
) -> Collection[str]:
    """Return what the globs of a source leave out now, where any source is closed, and what may show a closed file.

    `stored` are the fingerprints that it may have been read under. Raises `StoreError`.
    """
    source = sources[name]
    if not (isinstance(source, FilteredSource) and audiences.has_closed_sources):
        return ()
    manifest = await store.manifest(name)
    left_out = await asyncio.to_thread(find_left_out, name, source, manifest)
    has_others = has_other_parts(stored, describe_closed_parts(name, sources, audiences))
    return {*left_out, *(find_taking(manifest) if has_others else ())}
