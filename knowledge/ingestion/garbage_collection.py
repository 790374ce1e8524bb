"""What is left of sources that were removed from the configuration: passages, clones, the record of their refreshes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import StoreLocked
from core.observability.logs import get_logger
from core.runtime.locks import source_lock
from knowledge.ports import Store
from knowledge.sources.git.state import delete_unused_clones
from knowledge.stores.locked_store import LockedStore

if TYPE_CHECKING:
    from core.storage.refresh_state import RefreshStateRepository

# Documents deleted in one commit.
DELETE_BATCH_SIZE = 2_000


async def purge_removed_sources(
    store: Store, data_dir: Path, names_to_keep: Collection[str], refresh_states: RefreshStateRepository | None = None
) -> Sequence[str]:
    """Forget all sources but those to be kept, and return the names of those whose documents were deleted.

    Which there were is known from the record of their refreshes: another deployment's passages in the same store are
    not touched, and without a record only clones go. A source that another process is refreshing is left for the next
    time. Raises `StoreError`.
    """
    await asyncio.to_thread(delete_unused_clones, data_dir, names_to_keep)
    states = await refresh_states.get_states() if refresh_states else {}
    purged_names = list[str]()
    for name in states:
        if refresh_states and name not in names_to_keep:
            try:
                async with source_lock(data_dir, name):
                    document_count = await _delete_documents(LockedStore(store, data_dir), name)
                    await refresh_states.delete_state(name)
            except StoreLocked as error:
                get_logger(__name__).info("source.busy", source=name, reason=str(error))
                continue
            purged_names += [name] if document_count else []
            get_logger(__name__).info("source.forgotten", source=name, deleted=document_count)
    return purged_names


async def _delete_documents(store: Store, name: str) -> int:
    """Delete all documents of a source, and return how many there were."""
    paths = list(await store.manifest(name))
    remaining_paths = iter(paths)
    while batch := list(islice(remaining_paths, DELETE_BATCH_SIZE)):
        await store.replace(name, batch, [])
    if paths:
        await store.optimise()
    return len(paths)
