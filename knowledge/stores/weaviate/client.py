"""One Weaviate server or cluster, as the store needs it: its collections, writing, deleting, and its queries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any
from uuid import UUID

from core.errors import StoreError
from core.settings import WeaviateSettings
from knowledge.ports import Vectors
from knowledge.stores.weaviate.errors import mapped
from knowledge.stores.weaviate.rows import Entry, Found, Sight, ranges
from knowledge.stores.weaviate.schema import DOCUMENTS, PASSAGES, SATURATION, collection

if TYPE_CHECKING:
    from weaviate import WeaviateAsyncClient
    from weaviate.collections import CollectionAsync

PAGE = 500
# A page is twenty times longer than expected never; the server's own limit is 10,000.
LONGEST_PAGE = 20 * PAGE
# Values in one filter.
VALUES = 1000
EXISTS = 422


class Cluster:
    """An open connection. Every call raises `StoreError`, also when it takes longer than the settings allow."""

    def __init__(self, client: WeaviateAsyncClient, settings: WeaviateSettings, where: str) -> None:
        from weaviate.classes.config import ConsistencyLevel

        self._client = client
        self._settings = settings
        shared = f", tenant {settings.tenant}" if settings.tenant else ""
        self.where = f"{where} ({settings.collection}{shared})"
        level = ConsistencyLevel(settings.consistency.upper())
        tenant = settings.tenant or None
        self._collections: Mapping[str, CollectionAsync[Any, Any]] = {
            name: client.collections.use(settings.collection + name).with_tenant(tenant).with_consistency_level(level)
            for name in (PASSAGES, DOCUMENTS)
        }

    async def ensure(self) -> None:
        """Create what is missing: the collections, and the tenant in them."""
        from weaviate.exceptions import UnexpectedStatusCodeError

        tenant = self._settings.tenant
        async with mapped(self.where, "opened", self._settings.write_timeout_s):
            for name, held in self._collections.items():
                if not await held.exists():
                    try:
                        await self._client.collections.create(**collection(name, self._settings))
                    except UnexpectedStatusCodeError:
                        # Another process may have been faster.
                        if not await held.exists():
                            raise
                config = await held.config.get()
                if config.multi_tenancy_config.enabled != bool(tenant):
                    kept = "is not shared" if tenant else "is shared by tenants"
                    raise StoreError(f"{self.where} {kept}: choose another collection, or change the tenant")
                if tenant and not await held.tenants.exists(tenant):
                    await held.tenants.create(tenant)

    async def drop(self) -> None:
        """Delete everything that is held: of the own tenant, or the collections themselves."""
        async with mapped(self.where, "rebuilt", self._settings.write_timeout_s):
            for held in self._collections.values():
                if not await held.exists():
                    continue
                if self._settings.tenant and (await held.config.get()).multi_tenancy_config.enabled:
                    await held.tenants.remove(self._settings.tenant)
                else:
                    await self._client.collections.delete(held.name)

    async def put(self, name: str, entries: Sequence[Entry]) -> None:
        """Write objects in one request. What the server refuses is told with its first reason."""
        from weaviate.classes.data import DataObject
        from weaviate.exceptions import WeaviateInsertManyAllFailedError

        objects = [
            DataObject(one.properties, one.id, None if one.vector is None else one.vector.tolist()) for one in entries
        ]
        async with self._writing():
            try:
                done = await self._collections[name].data.insert_many(objects)
            except WeaviateInsertManyAllFailedError as fault:
                raise StoreError(f"{self.where} refused all of {len(entries)} objects: {fault}") from fault
        if done.errors:
            first = next(iter(done.errors.values())).message
            raise StoreError(f"{self.where} refused {len(done.errors)} of {len(entries)} objects, the first: {first}")

    async def create(self, entry: Entry) -> bool:
        """Write an object among the documents unless it is there; false when it is."""
        from weaviate.exceptions import UnexpectedStatusCodeError

        async with self._writing():
            try:
                await self._collections[DOCUMENTS].data.insert(dict(entry.properties), uuid=entry.id)
            except UnexpectedStatusCodeError as fault:
                if fault.status_code == EXISTS and "already exists" in str(fault):
                    return False
                raise
        return True

    async def get(self, identifiers: Sequence[UUID]) -> dict[UUID, Mapping[str, Any]]:
        """Return the properties of those of these objects among the documents that exist."""
        async with self._reading():
            query = self._collections[DOCUMENTS].query
            found = await query.fetch_objects_by_ids(identifiers, limit=len(identifiers))
        return {one.uuid: one.properties for one in found.objects}

    async def remove(self, identifier: UUID) -> None:
        """Delete an object among the documents, if it is there."""
        async with self._writing():
            await self._collections[DOCUMENTS].data.delete_by_id(identifier)

    async def delete_above(self, source: str, generation: int) -> None:
        """Delete what an unfinished write has left: everything of a source that is younger than this generation."""
        for name in (PASSAGES, DOCUMENTS):
            await self._delete(name, _by("source").equal(source) & _by("generation").greater_than(generation))

    async def delete_below(self, source: str, generation: int, documents: Sequence[str]) -> None:
        """Delete everything of these documents (their keys) that is older than this generation."""
        old = _by("source").equal(source) & _by("generation").less_than(generation)
        for start in range(0, len(documents), VALUES):
            for name in (PASSAGES, DOCUMENTS):
                await self._delete(name, old & _by("document").contains_any(list(documents[start : start + VALUES])))

    async def best(self, tokens: str, sight: Sight, limit: int, *, vectors: bool) -> list[Found]:
        """Return the passages with the highest BM25 scores; words count over everything that the collection holds."""
        return await self._by_words(tokens, _visible(sight), limit, True, vectors)

    async def lexical(self, tokens: str, identifiers: Sequence[UUID]) -> list[Found]:
        """Return the BM25 scores of these passages; those without any of the words are left out."""
        from weaviate.classes.query import Filter

        return await self._by_words(
            tokens, Filter.by_id().contains_any(list(identifiers)), len(identifiers), False, False
        )

    async def nearest(self, vector: Vectors, sight: Sight, limit: int) -> list[Found]:
        """Return the passages nearest by cosine; their score is the cosine (-1 to 1)."""
        from weaviate.classes.query import MetadataQuery

        async with self._reading():
            found = await self._collections[PASSAGES].query.near_vector(
                vector.tolist(), filters=_visible(sight), limit=limit, return_metadata=MetadataQuery(distance=True)
            )
        return [Found(one.uuid, one.properties, 1 - (one.metadata.distance or 0.0)) for one in found.objects]

    async def pages(
        self, name: str, sight: Sight, *, documents: Collection[str] | None = None, vectors: bool = False
    ) -> AsyncIterator[list[Found]]:
        """Yield all visible objects of a collection, or of these documents (at most 1000 keys), page by page."""
        visible = _visible(sight)
        if documents is not None:
            visible &= _by("document").contains_any(list(documents))
        held = self._collections[name]
        async with self._reading():
            total = (await held.aggregate.over_all(filters=visible, total_count=True)).total_count or 0
        for first, end in ranges(total, PAGE) if total else ():
            place = _by("slot").greater_or_equal(first) & _by("slot").less_than(end)
            async with self._reading():
                read = await held.query.fetch_objects(
                    filters=visible & place, limit=LONGEST_PAGE, include_vector=vectors
                )
            yield [Found(one.uuid, one.properties, vector=_vector(one.vector)) for one in read.objects]

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        await self._client.close()

    async def _by_words(self, tokens: str, visible: Any, limit: int, properties: bool, vectors: bool) -> list[Found]:
        from weaviate.classes.query import MetadataQuery

        async with self._reading():
            found = await self._collections[PASSAGES].query.bm25(
                tokens,
                query_properties=["tokens"],
                filters=visible,
                limit=limit,
                return_metadata=MetadataQuery(score=True),
                return_properties=properties,
                include_vector=vectors,
            )
        # Weaviate leaves out the factor that makes BM25 of one occurrence in an average text the word's rarity.
        factor = SATURATION + 1
        return [
            Found(one.uuid, one.properties, (one.metadata.score or 0.0) * factor, _vector(one.vector))
            for one in found.objects
        ]

    async def _delete(self, name: str, where: Any) -> None:
        # One request deletes as many as one query may find.
        while True:
            async with self._writing():
                done = await self._collections[name].data.delete_many(where)
            if done.failed:
                raise StoreError(f"{self.where} could not delete {done.failed} of {done.matches} objects")
            if done.matches == 0:
                return

    def _reading(self) -> AbstractAsyncContextManager[None]:
        return mapped(self.where, "read", self._settings.read_timeout_s)

    def _writing(self) -> AbstractAsyncContextManager[None]:
        return mapped(self.where, "written", self._settings.write_timeout_s)


def _visible(sight: Sight) -> Any:
    """Return the filter for what a reader may see."""
    parts = []
    for source, commit in sight.items():
        seen = _by("source").equal(source) & _by("generation").less_or_equal(commit.generation)
        for start in range(0, len(commit.replaced), VALUES):
            gone = _by("document").contains_none(list(commit.replaced[start : start + VALUES]))
            seen &= gone | _by("generation").equal(commit.generation)
        parts.append(seen)
    return reduce(or_, parts)


def _by(name: str) -> Any:
    from weaviate.classes.query import Filter

    return Filter.by_property(name)


def _vector(vectors: Mapping[str, Any]) -> Sequence[float]:
    found: Sequence[float] = vectors.get("default", ())
    return found
