"""`kimas store copy`: copies knowledge between the stores, with its vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict

from bots.common.store_owner import open_store_owner
from bots.common.terminal import make_console, print_json
from core.errors import UsageError
from core.formatting import pluralize, strip_control_characters
from core.runtime.data_dir import make_data_dir
from core.runtime.locks import refresh_lock
from core.settings import Settings
from knowledge.embedding import open_embedder
from knowledge.stores import NO_SOURCES, Provider, may_hold_passages, open_store
from knowledge.stores.copying import CopyReport, copy_source

NOTHING_TO_COPY = "there is nothing to copy: {} holds nothing of the configured sources"
OTHER_PROVIDER: dict[Provider, Provider] = {"sqlite": "weaviate", "weaviate": "sqlite"}


async def copy_knowledge(settings: Settings, target: Provider, *, as_json: bool) -> int:
    """Copy all configured sources from the other store into this one; sources missing there stay unchanged.

    Raises `StoreError`, `StoreMismatch` when one of them was built with another embedding model, `UsageError` when
    there is nothing to copy.
    """
    await _require_origin(settings, OTHER_PROVIDER[target])
    with refresh_lock(settings.data_dir):
        reports = await _copy_between_stores(settings, target)
    if not reports:
        raise UsageError(NOTHING_TO_COPY.format(OTHER_PROVIDER[target]))
    if as_json:
        print_json(
            {
                "to": target,
                "sources": [asdict(report) | {"seconds": round(report.seconds, 3)} for report in reports],
            }
        )
        return 0
    out = make_console()
    for report in reports:
        line = (
            f"{report.name}: {pluralize(report.copied, 'document')} copied ({pluralize(report.passages, 'passage')}), "
            f"{report.deleted} deleted, {report.unchanged} unchanged, {report.seconds:.1f} s"
        )
        out.print(strip_control_characters(line), markup=False, soft_wrap=True)
    if settings.knowledge.store.provider != target:
        out.print(f"to answer from it, set knowledge.store.provider to {target}", markup=False, soft_wrap=True)
    return 0


async def _require_origin(settings: Settings, origin_provider: Provider) -> None:
    """Raise `UsageError` where there is nothing to copy, as far as that shows before a model and a store are opened."""
    if not settings.sources:
        raise UsageError(NO_SOURCES)
    await asyncio.to_thread(make_data_dir, settings.data_dir)
    if origin_provider == "sqlite" and not await asyncio.to_thread(may_hold_passages, settings.data_dir):
        raise UsageError(NOTHING_TO_COPY.format(origin_provider))


async def _copy_between_stores(settings: Settings, target_provider: Provider) -> Sequence[CopyReport]:
    store_settings = settings.knowledge.store
    async with AsyncExitStack() as stack:
        embedder = await open_embedder(settings.knowledge.embedding, settings.data_dir / "models")
        stack.push_async_callback(embedder.close)
        stores_by_provider = {}
        owner = await open_store_owner(settings)
        for provider in (OTHER_PROVIDER[target_provider], target_provider):
            provider_settings = store_settings.model_copy(update={"provider": provider})
            stores_by_provider[provider] = await open_store(
                provider_settings, settings.data_dir, embedder.name, embedder.dimension, owner=owner
            )
            stack.push_async_callback(stores_by_provider[provider].close)
        origin = stores_by_provider[OTHER_PROVIDER[target_provider]]
        target = stores_by_provider[target_provider]
        source_names = [name for name in settings.sources if await origin.manifest(name)]
        return [await copy_source(origin, target, name) for name in source_names]
