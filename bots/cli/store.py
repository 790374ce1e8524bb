"""What `kimas store copy` does: knowledge moves between the stores, with its vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict

from bots.common.terminal import console, print_json, printable
from core.errors import UsageError
from core.runtime.locks import make_data_dir, refresh_lock
from core.settings import Settings
from core.text.formatting import counted
from knowledge.embedding import open_embedder
from knowledge.stores import Provider, open_store
from knowledge.stores.copying import Copied, copy_source

OTHER: dict[Provider, Provider] = {"lance": "weaviate", "weaviate": "lance"}


async def copy(settings: Settings, to: Provider, *, as_json: bool) -> int:
    """Copy all configured sources from the other store into this one; a source that the other has not stays as it is.

    Raises `StoreError`, `StoreMismatch` when one of them was built with another embedding model, `UsageError` when
    there is nothing to copy.
    """
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    with refresh_lock(settings.data_dir):
        done = await _copied(settings, to)
    if not done:
        raise UsageError(f"there is nothing to copy: {OTHER[to]} holds nothing of the configured sources")
    if as_json:
        print_json({"to": to, "sources": [asdict(one) | {"seconds": round(one.seconds, 3)} for one in done]})
        return 0
    out = console()
    for one in done:
        line = (
            f"{one.name}: {counted(one.copied, 'document')} copied ({counted(one.passages, 'passage')}), "
            f"{one.deleted} deleted, {one.unchanged} unchanged, {one.seconds:.1f} s"
        )
        out.print(printable(line), markup=False, soft_wrap=True)
    if settings.knowledge.store.provider != to:
        out.print(f"to answer from it, set knowledge.store.provider to {to}", markup=False, soft_wrap=True)
    return 0


async def _copied(settings: Settings, to: Provider) -> Sequence[Copied]:
    stores = settings.knowledge.store
    async with AsyncExitStack() as stack:
        embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
        stack.push_async_callback(embedder.close)
        opened = {}
        for provider in (OTHER[to], to):
            chosen = stores.model_copy(update={"provider": provider})
            opened[provider] = await open_store(chosen, settings.data_dir, embedder.name, embedder.dimension)
            stack.push_async_callback(opened[provider].close)
        origin, target = opened[OTHER[to]], opened[to]
        held = [name for name in settings.sources if await origin.manifest(name)]
        return [await copy_source(origin, target, name, embedder.dimension) for name in held]
