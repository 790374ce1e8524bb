"""Which deployment a passage store on a server belongs to."""

from __future__ import annotations

from collections.abc import Collection

from bots.common.open_storage import open_database, open_existing_database
from core.settings import Settings
from knowledge.ports import StoreOwner


async def open_store_owner(settings: Settings) -> StoreOwner:
    """Return this deployment as the owner of a store: by its configured name, or by the id in its journal.

    The journal and the id are created if they are missing. Raises `StoreError`.
    """
    from core.storage.deployment import ensure_deployment_id
    from core.storage.refresh_state import RefreshStateRepository

    if settings.knowledge.store.weaviate.deployment:
        return _make_named_owner(settings)
    database = await open_database(settings)
    try:
        deployment_id = await ensure_deployment_id(database)
        refreshed_sources = await RefreshStateRepository(database).get_states()
    finally:
        await database.close()
    return _make_owner(deployment_id, refreshed_sources)


async def read_store_owner(settings: Settings) -> StoreOwner:
    """Return the same and write nothing: the id is "" where the journal has none yet. Raises `StoreError`."""
    from core.storage.deployment import read_deployment_id
    from core.storage.refresh_state import RefreshStateRepository

    if settings.knowledge.store.weaviate.deployment:
        return _make_named_owner(settings)
    async with open_existing_database(settings) as database:
        if database is None:
            return _make_owner("", ())
        refreshed_sources = await RefreshStateRepository(database).get_states()
        return _make_owner(await read_deployment_id(database), refreshed_sources)


def _make_named_owner(settings: Settings) -> StoreOwner:
    return StoreOwner(settings.knowledge.store.weaviate.deployment, is_named=True)


def _make_owner(deployment_id: str, refreshed_sources: Collection[str]) -> StoreOwner:
    # Not what is configured: another deployment's sources may have the same names.
    return StoreOwner(deployment_id, frozenset(refreshed_sources))
