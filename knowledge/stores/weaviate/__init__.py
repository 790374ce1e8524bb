"""The passage store on a server or a cluster: Weaviate through its async client, with our vectors and our tokens.

It works in a thread with an event loop of its own. The client turns each reply into objects on the loop that asked for
it, some milliseconds for the passages of one search, and sixteen searches may get their replies in one turn of a loop.
"""

from __future__ import annotations

from core.runtime.loop_thread import LoopThread
from core.settings import WeaviateSettings
from knowledge.ports import Store, StoreOwner
from knowledge.stores.threaded_store import ThreadedStore
from knowledge.stores.weaviate.client import connect
from knowledge.stores.weaviate.store import WeaviateStore, check_weaviate

__all__ = ["check_weaviate", "open_weaviate"]

# A writer that was killed keeps others from its source for this long, in multiples of the longest request.
LEASE_FACTOR = 2.0


async def open_weaviate(
    settings: WeaviateSettings,
    embedder_name: str,
    dimension: int,
    *,
    owner: StoreOwner | None = None,
    rebuild: bool = False,
    lease_duration_s: float | None = None,
) -> Store:
    """Open the store on a server; its collections and its tenant are created where they are missing.

    It belongs to `owner` from then on; without one, whose it is does not matter. `rebuild` empties it first; of shared
    collections only the own tenant. A writer that died is waited for `lease_duration_s`. Raises `StoreMismatch` when it
    was built with another model (`embedder_name`, `dimension`) or format, `StoreError` when it belongs to another
    deployment, or when the server cannot be reached, refuses the key or is too old.
    """
    duration_s = LEASE_FACTOR * settings.write_timeout_s if lease_duration_s is None else lease_duration_s

    async def open_in_thread() -> WeaviateStore:
        cluster = await connect(settings)
        try:
            store = WeaviateStore(cluster, settings, embedder_name, dimension, owner=owner, lease_duration_s=duration_s)
            await store.prepare(rebuild=rebuild)
        except BaseException:
            await cluster.close()
            raise
        return store

    thread = LoopThread("weaviate")
    try:
        return ThreadedStore(await thread.run(open_in_thread()), thread)
    except BaseException:
        await thread.close()
        raise
