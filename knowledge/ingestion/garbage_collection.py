"""What is left of sources that were removed from the configuration: passages, clones, the record of their refreshes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import StoreLocked
from core.observability.logs import logger
from core.runtime.locks import source_lock
from knowledge.ports import Store
from knowledge.sources.git.state import forget_sources
from knowledge.stores.locked_store import WritesInTurn

if TYPE_CHECKING:
    from core.storage.refresh_state import UpkeepRecord

# Documents deleted in one commit.
AT_ONCE = 2_000


async def forget_removed(
    store: Store, data_dir: Path, kept: Collection[str], record: UpkeepRecord | None = None
) -> Sequence[str]:
    """Forget all sources but those to be kept, and return the names of those whose documents were deleted.

    Which there were is known from the record of their refreshes: another deployment's passages in the same store are
    not touched, and without a record only clones go. A source that another process is refreshing is left for the next
    time. Raises `StoreError`.
    """
    await asyncio.to_thread(forget_sources, data_dir, kept)
    known = await record.entries() if record else {}
    deleted = list[str]()
    for name in known:
        if record and name not in kept:
            try:
                async with source_lock(data_dir, name):
                    documents = await _delete(WritesInTurn(store, data_dir), name)
                    await record.forget(name)
            except StoreLocked as fault:
                logger(__name__).info("source.busy", source=name, reason=str(fault))
                continue
            deleted += [name] if documents else []
            logger(__name__).info("source.forgotten", source=name, deleted=documents)
    return deleted


async def _delete(store: Store, name: str) -> int:
    """Delete all documents of a source, and return how many there were."""
    paths = list(await store.manifest(name))
    left = iter(paths)
    while some := list(islice(left, AT_ONCE)):
        await store.replace(name, some, [])
    if paths:
        await store.optimise()
    return len(paths)
