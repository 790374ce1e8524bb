"""Which deployment the passages on a server belong to: two that use the same names would delete each other's."""

from __future__ import annotations

import asyncio

from core.errors import StoreError
from core.observability.logs import get_logger
from knowledge.ports import StoreOwner
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.errors import SETTINGS_SECTION
from knowledge.stores.weaviate.schema import OWNER_KEY, NewObject

_log = get_logger(__name__)

# Longer than a server takes to write an object.
SETTLES_AFTER_S = 0.3
WAY_OUT = f"set tenant or collection in {SETTINGS_SECTION}"


async def claim_ownership(cluster: Cluster, owner: StoreOwner) -> None:
    """Make the passages those of `owner`, for good, unless they are another deployment's. Raises `StoreError`.

    Passages of a version that recorded no owner become those of the first deployment that knows all of their sources,
    or whose configuration names it.
    """
    if await require_ownership(cluster, owner):
        return
    sources = await cluster.sources()
    is_created = await cluster.create(NewObject(OWNER_KEY, {"owner": owner.id}))
    # The server looks for an object and then writes it: two that create one at once may both succeed, and one stays.
    await asyncio.sleep(SETTLES_AFTER_S if is_created else 0)
    await require_ownership(cluster, owner)
    if is_created and sources:
        _log.warning("store.adopted", store=cluster.store_name, sources=sorted(sources), deployment=owner.id)


async def require_ownership(cluster: Cluster, owner: StoreOwner) -> bool:
    """Return whether the passages belong to `owner` already; false where they may. Nothing is written.

    Raises `StoreError` where they are another deployment's, or seem to be.
    """
    properties = (await cluster.get([OWNER_KEY])).get(OWNER_KEY)
    if properties is None:
        unknown_sources = await cluster.sources() - owner.sources
        if unknown_sources and not owner.is_named:
            raise StoreError(
                f"{cluster.store_name} belongs to another deployment, it seems: it holds sources that this one never "
                f"had ({', '.join(sorted(unknown_sources))}): {WAY_OUT}; if it is your own, give it a name with "
                f"{SETTINGS_SECTION}.deployment"
            )
        return False
    if properties["owner"] != owner.id:
        raise StoreError(
            f"{cluster.store_name} belongs to another deployment: {WAY_OUT}; if it is your own, of another machine or "
            f"of a lost journal, set {SETTINGS_SECTION}.deployment to {properties['owner']}"
        )
    return True
