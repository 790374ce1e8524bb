"""A Weaviate server or cluster as the store uses it: connection, collections, writes, deletions and queries."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import reduce
from http import HTTPStatus
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from core.errors import StoreError, StoreUnreachable
from core.runtime.tasks import task_group
from core.settings import WeaviateSettings
from knowledge.ports import LABEL_SUFFIX, Vectors
from knowledge.stores.weaviate.errors import FULL_HINT, INACTIVE_HINT, SETTINGS_SECTION, explain_error, map_errors
from knowledge.stores.weaviate.filters import (
    MAX_FILTER_VALUES,
    generation_filter,
    id_filter,
    property_filter,
    range_filter,
    visibility_filter,
)
from knowledge.stores.weaviate.schema import (
    BM25_K1,
    DOCUMENTS,
    LATER_PROPERTIES,
    OWNER_KEY,
    PASSAGE_PROPERTIES,
    PASSAGES,
    Commit,
    NewObject,
    StoredObject,
    Visibility,
    get_vector,
    make_collection_config,
    make_int_property,
    slot_ranges,
)
from knowledge.stores.weaviate.schema_check import find_difference, is_ours
from knowledge.stores.weaviate.versions import require_version

if TYPE_CHECKING:
    from weaviate import WeaviateAsyncClient
    from weaviate.collections import CollectionAsync
    from weaviate.collections.classes.config import CollectionConfig

PAGE_SIZE = 500
# What a search shows of a passage. Its tokens, which the server alone needs, are as long as its text.
SHOWN_PROPERTIES = (*PASSAGE_PROPERTIES, "name")
CONNECT_TIMEOUT_S = 8.0
# Shorter than the time for opening: what is said then names the port.
GRPC_TIMEOUT_S = 4.0
# The health service of gRPC: an empty message asks for the whole server, and this is the answer of one that serves.
HEALTH_METHOD = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"
# A page is never twenty times longer than expected; the server's own limit is 10,000.
MAX_PAGE_SIZE = 20 * PAGE_SIZE
MAX_SOURCES = 1000
# So many recent passages tell whether a machine has what was written last.
ENOUGH_COUNTED = 5000
MAX_GENERATION = 1 << 52
# Where OpenSSL is told of certificates of one's own. The client takes them for HTTP, but for gRPC it has to be told.
CERTIFICATES_VARIABLE = "SSL_CERT_FILE"


class Cluster:
    """An open connection. Every call raises `StoreError`, also when it takes longer than the settings allow."""

    def __init__(self, client: WeaviateAsyncClient, settings: WeaviateSettings, store_name: str, version: str) -> None:
        from weaviate.classes.config import ConsistencyLevel

        self._client = client
        self._settings = settings
        tenant_suffix = f", tenant {settings.tenant}" if settings.tenant else ""
        self.server = f"Weaviate {version} at {settings.host}:{settings.http_port}"
        self.store_name = f"{store_name} ({settings.collection}{tenant_suffix})"
        self._replica_count = settings.replicas
        consistency = ConsistencyLevel(settings.consistency.upper())
        tenant = settings.tenant or None
        self._collections: Mapping[str, CollectionAsync[Any, Any]] = {
            name: client.collections.use(settings.collection + name)
            .with_tenant(tenant)
            .with_consistency_level(consistency)
            for name in (PASSAGES, DOCUMENTS)
        }
        # At a higher level the server compares what one replica has found with others, and nobody looks at the outcome.
        self._searched = self._collections[PASSAGES].with_consistency_level(ConsistencyLevel.ONE)

    async def ensure_collections(self, *, may_differ: bool = False) -> None:
        """Create what is missing: the collections, and the tenant in them.

        Raises `StoreError` for collections of another program, and for those that were made otherwise than ours unless
        they `may_differ` (as they are about to be rebuilt). Nothing is created then.
        """
        if not await self.has_collections(may_differ=may_differ):
            await self._create_missing()
        await self._add_later_properties()

    async def _create_missing(self) -> None:
        from weaviate.exceptions import UnexpectedStatusCodeError

        tenant = self._settings.tenant
        async with map_errors(self.store_name, "opened", self._settings.write_timeout_s):
            for name, remote_collection in self._collections.items():
                if not await remote_collection.exists():
                    try:
                        await self._client.collections.create(**make_collection_config(name, self._settings))
                    except UnexpectedStatusCodeError:
                        # Another process may have been faster.
                        if not await remote_collection.exists():
                            raise
                if tenant and not await remote_collection.tenants.exists(tenant):
                    await remote_collection.tenants.create(tenant)

    async def _add_later_properties(self) -> None:
        """Add what collections of an earlier version lack. A key that may only read needs none of it."""
        from weaviate.exceptions import InsufficientPermissionsError, UnexpectedStatusCodeError

        config = self._collections[DOCUMENTS].config
        async with map_errors(self.store_name, "opened", self._settings.write_timeout_s):
            known_names = {stored.name for stored in (await config.get()).properties}
            for name in LATER_PROPERTIES:
                if name not in known_names:
                    try:
                        await config.add_property(make_int_property(name))
                    except InsufficientPermissionsError:
                        return
                    except UnexpectedStatusCodeError:
                        # Another process may have been faster.
                        if name not in {stored.name for stored in (await config.get()).properties}:
                            raise

    async def has_collections(self, *, may_differ: bool = False) -> bool:
        """Return whether the collections are there, with the tenant. Nothing is changed.

        Raises `StoreError` as `ensure_collections` does.
        """
        tenant = self._settings.tenant
        has_all = True
        async with map_errors(self.store_name, "opened", self._settings.read_timeout_s):
            for name, remote_collection in self._collections.items():
                if not await remote_collection.exists():
                    has_all = False
                    continue
                config = await remote_collection.config.get()
                self._require_usable(name, config, may_differ=may_differ)
                # What the setting says may have changed since they were created.
                self._replica_count = config.replication_config.factor
                has_all = has_all and (not tenant or await remote_collection.tenants.exists(tenant))
        return has_all

    def _require_usable(self, name: str, config: CollectionConfig, *, may_differ: bool) -> None:
        """Raise `StoreError` for a collection that cannot be the one of these settings."""
        if not is_ours(name, config):
            raise StoreError(
                f"{self.store_name}: collection {config.name} belongs to another program: "
                f"choose another name with {SETTINGS_SECTION}.collection"
            )
        if config.multi_tenancy_config.enabled != bool(self._settings.tenant):
            mismatch = "is not shared" if self._settings.tenant else "is shared by tenants"
            raise StoreError(f"{self.store_name} {mismatch}: choose another collection, or change the tenant")
        difference = find_difference(name, config, self._settings)
        # A rebuild makes a collection anew, but not one that others share.
        if difference and not (may_differ and not self._settings.tenant):
            rebuild_hint = "" if self._settings.tenant else ", or run `kimas ingest --rebuild`"
            raise StoreError(
                f"{self.store_name}: collection {config.name} was made or changed by somebody else: {difference}; "
                f"choose another name with {SETTINGS_SECTION}.collection{rebuild_hint}"
            )

    async def drop(self) -> None:
        """Delete everything that is held: of the own tenant, or the collections themselves.

        Raises `StoreError` for collections of another program; nothing of them is deleted.
        """
        await self.has_collections(may_differ=True)
        tenant = self._settings.tenant
        async with map_errors(self.store_name, "rebuilt", self._settings.write_timeout_s):
            for remote_collection in self._collections.values():
                if not await remote_collection.exists():
                    continue
                if tenant:
                    await remote_collection.tenants.remove(tenant)
                else:
                    await self._client.collections.delete(remote_collection.name)

    async def put(self, name: str, new_objects: Sequence[NewObject]) -> None:
        """Write objects in one request. An error names the first reason of the server."""
        from weaviate.classes.data import DataObject
        from weaviate.exceptions import WeaviateInsertManyAllFailedError

        data_objects = [
            DataObject(obj.properties, obj.id, None if obj.vector is None else obj.vector.tolist())
            for obj in new_objects
        ]
        async with self._map_write_errors():
            try:
                result = await self._collections[name].data.insert_many(data_objects)
            except WeaviateInsertManyAllFailedError as error:
                raise StoreError(f"{self.store_name} refused all of {len(new_objects)} objects: {error}") from error
        if result.errors:
            first_message = next(iter(result.errors.values())).message
            raise StoreError(
                f"{self.store_name} refused {len(result.errors)} of {len(new_objects)} objects, "
                f"the first: {first_message}"
            )

    async def create(self, new_object: NewObject) -> bool:
        """Write an object among the documents unless it is there; false when it is."""
        from weaviate.exceptions import UnexpectedStatusCodeError

        async with self._map_write_errors():
            try:
                await self._collections[DOCUMENTS].data.insert(dict(new_object.properties), uuid=new_object.id)
            except UnexpectedStatusCodeError as error:
                if error.status_code == HTTPStatus.UNPROCESSABLE_ENTITY and "already exists" in str(error):
                    return False
                raise
        return True

    async def get(self, identifiers: Sequence[UUID]) -> dict[UUID, Mapping[str, Any]]:
        """Return the properties of those of these objects among the documents that exist.

        Whatever was written with `consistency` before is seen: a replica that was down does not decide alone.
        """
        # What all replicas have confirmed, each of them knows.
        if self._replica_count > 1 and self._settings.consistency == "quorum":
            return await self._get_from_quorum(identifiers)
        async with self._map_read_errors():
            query = self._collections[DOCUMENTS].query
            response = await query.fetch_objects_by_ids(identifiers, limit=len(identifiers))
        return {obj.uuid: obj.properties for obj in response.objects}

    async def _get_from_quorum(self, identifiers: Sequence[UUID]) -> dict[UUID, Mapping[str, Any]]:
        """Return the properties of objects as more than half of the replicas know them.

        All queries of the client look for objects on one replica, whatever the level.
        """
        from weaviate.connect.v4 import _ExpectedStatusCodes

        collection = self._collections[DOCUMENTS].name
        parameters = {"consistency_level": "QUORUM"}
        if self._settings.tenant:
            parameters["tenant"] = self._settings.tenant
        expected = _ExpectedStatusCodes([HTTPStatus.OK, HTTPStatus.NOT_FOUND], "object")

        async def get_one(identifier: UUID) -> tuple[UUID, Mapping[str, Any] | None]:
            # The client has no public call for it; a connection of our own would need its keys, TLS and time limits.
            reply: Any = self._client._connection.get(
                f"/objects/{collection}/{identifier}", parameters, "the object could not be read", expected
            )
            response = await reply
            is_there = response.status_code == HTTPStatus.OK
            return identifier, response.json()["properties"] if is_there else None

        async with self._map_read_errors(), task_group() as tasks:
            reads = [tasks.create_task(get_one(identifier)) for identifier in identifiers]
        found = dict(read.result() for read in reads)
        return {identifier: properties for identifier, properties in found.items() if properties is not None}

    async def remove(self, identifiers: Sequence[UUID]) -> None:
        """Delete those of these objects among the documents that are there."""
        await self._delete(DOCUMENTS, id_filter(identifiers))

    async def delete_object(self, name: str, identifier: UUID) -> None:
        """Delete an object by its key alone, if it is there: no index has to know it."""
        async with self._map_write_errors():
            await self._collections[name].data.delete_by_id(identifier)

    async def count_newest(self, name: str, source: str, generation: int) -> int:
        """Return how many objects of a generation of a source can be found."""
        return await self._count(name, generation_filter(source, generation))

    async def count_all(self, name: str) -> int:
        """Return how many objects a collection, or the own tenant, has: the server need not read them."""
        return await self._count(name, None)

    async def count_visible(self, name: str, visibility: Visibility) -> int:
        """Return how many objects of a collection a reader may see."""
        return await self._count(name, visibility_filter(visibility))

    async def sources(self) -> set[str]:
        """Return the names of all sources of which something is stored, in whatever state."""
        names = {name for collection in self._collections for name in await self._group_sources(collection)}
        return {name.removesuffix(LABEL_SUFFIX) for name in names}

    async def count_recent_passages(self, source: str, commit: Commit) -> tuple[int, ...]:
        """Return how many passages of the last 1, 2, 4, 8... generations of a source a reader may see.

        It ends with the first number that is large enough: the server reads each object to count it. A label has no
        passages: its documents count.
        """
        name = DOCUMENTS if source.endswith(LABEL_SUFFIX) else PASSAGES
        counts: list[int] = []
        for first in commit.recent_generations:
            recent = property_filter("generation").greater_or_equal(first)
            counts.append(await self._count(name, visibility_filter({source: commit}) & recent))
            if counts[-1] >= ENOUGH_COUNTED:
                break
        return tuple(counts)

    async def visible_sources(self, name: str, visibility: Visibility) -> set[str]:
        """Return the sources of which a reader may see an object of a collection."""
        async with task_group() as tasks:
            looks = {
                source: tasks.create_task(self._has_visible(name, {source: commit}))
                for source, commit in visibility.items()
            }
        return {source for source, look in looks.items() if look.result()}

    async def _has_visible(self, name: str, visibility: Visibility) -> bool:
        """Return whether a reader may see any object: one is looked for, because counting reads them all."""
        async with self._map_read_errors():
            response = await self._collections[name].query.fetch_objects(
                filters=visibility_filter(visibility), limit=1, return_properties=[]
            )
        return bool(response.objects)

    async def _group_sources(self, name: str) -> set[str]:
        from weaviate.classes.aggregate import GroupByAggregate

        async with self._map_read_errors():
            result = await self._collections[name].aggregate.over_all(
                group_by=GroupByAggregate(prop="source", limit=MAX_SOURCES), total_count=True
            )
        return {str(group.grouped_by.value) for group in result.groups}

    @property
    def has_replicas(self) -> bool:
        """Return whether several machines hold each object."""
        return self._replica_count > 1

    async def find_obstacle(self) -> str:
        """Return why the collections cannot be used, although they are there, or "". Nothing is changed."""
        tenant = self._settings.tenant
        async with map_errors(self.store_name, "opened", self._settings.read_timeout_s):
            for remote_collection in self._collections.values():
                stored_tenant = await remote_collection.tenants.get_by_name(tenant) if tenant else None
                if stored_tenant and stored_tenant.activity_status != "ACTIVE":
                    return f"{INACTIVE_HINT} ({remote_collection.name}, {stored_tenant.activity_status.value})"
                for shard in await remote_collection.config.get_shards():
                    if shard.status == "READONLY":
                        return f"{FULL_HINT} ({remote_collection.name}, {shard.status})"
        return ""

    async def may_write(self) -> bool:
        """Return whether the key may write. Nothing is changed."""
        from weaviate.exceptions import InsufficientPermissionsError

        nothing = id_filter([OWNER_KEY])
        async with self._map_read_errors():
            try:
                await self._collections[DOCUMENTS].data.delete_many(nothing, dry_run=True)
            except InsufficientPermissionsError:
                return False
        return True

    async def is_ready(self) -> bool:
        """Return whether the server says that it has read which collections it holds."""
        async with self._map_read_errors():
            return await self._client.is_ready()

    async def delete_unfinished(self, source: str, commit: Commit, generation: int) -> None:
        """Delete what writers have left that never committed: those after `commit` up to this generation."""
        # Without any commit everything is a remainder, of collections that were half deleted.
        ranges = [*commit.unfinished, (commit.generation + 1, generation if commit.id else MAX_GENERATION)]
        generation_filter = reduce(or_, (range_filter(first, last) for first, last in ranges))
        for name in (PASSAGES, DOCUMENTS):
            await self._delete(name, property_filter("source").equal(source) & generation_filter)

    async def delete_older(self, source: str, generation: int, documents: Sequence[str]) -> None:
        """Delete everything of these documents (their keys) that is older than this generation."""
        older_filter = property_filter("source").equal(source) & property_filter("generation").less_than(generation)
        for start in range(0, len(documents), MAX_FILTER_VALUES):
            for name in (PASSAGES, DOCUMENTS):
                await self._delete(
                    name,
                    older_filter
                    & property_filter("document").contains_any(list(documents[start : start + MAX_FILTER_VALUES])),
                )

    async def search_bm25(self, tokens: str, visibility: Visibility, limit: int) -> list[StoredObject]:
        """Return the passages with the highest BM25 scores; words count over everything that the collection holds."""
        return await self._query_bm25(tokens, visibility_filter(visibility), limit, SHOWN_PROPERTIES)

    async def score_bm25(self, tokens: str, identifiers: Sequence[UUID]) -> list[StoredObject]:
        """Return the BM25 scores of these passages; those without any of the words are left out."""
        return await self._query_bm25(tokens, id_filter(identifiers), len(identifiers), ())

    async def find_word(self, word: str, sources: Collection[str] | None) -> StoredObject | None:
        """Return the passage with the highest BM25 score for a word, with its tokens; None where none has it."""
        source_filter = None if sources is None else property_filter("source").contains_any(list(sources))
        return next(iter(await self._query_bm25(word, source_filter, 1, ("tokens",))), None)

    async def sample_tokens(self) -> tuple[int, list[str]]:
        """Return how many passages there are, and the tokens of about `PAGE_SIZE` of them, spread evenly."""
        count = await self.count_all(PASSAGES)
        _, end = next(slot_ranges(count, PAGE_SIZE))
        async with self._map_read_errors():
            response = await self._searched.query.fetch_objects(
                filters=property_filter("slot").less_than(end), limit=MAX_PAGE_SIZE, return_properties=["tokens"]
            )
        return count, [str(obj.properties["tokens"]) for obj in response.objects]

    async def search_nearest(self, vector: Vectors, visibility: Visibility, limit: int) -> list[StoredObject]:
        """Return the passages nearest by cosine; their score is the cosine (-1 to 1)."""
        return await self._query_nearest(vector, visibility_filter(visibility), limit, SHOWN_PROPERTIES)

    async def score_nearest(self, vector: Vectors, identifiers: Sequence[UUID]) -> list[StoredObject]:
        """Return the cosines of these passages; those without a vector, or not yet in the index, are left out."""
        return await self._query_nearest(vector, id_filter(identifiers), len(identifiers), ())

    async def get_vectors(self, identifiers: Sequence[UUID]) -> list[StoredObject]:
        """Return those of these passages that are there, with nothing but their vectors."""
        async with self._map_read_errors():
            response = await self._collections[PASSAGES].query.fetch_objects_by_ids(
                identifiers, limit=len(identifiers), include_vector=True, return_properties=[]
            )
        return [StoredObject(obj.uuid, {}, vector=get_vector(obj.vector)) for obj in response.objects]

    async def pages(
        self,
        name: str,
        visibility: Visibility,
        *,
        documents: Collection[str] | None = None,
        with_vectors: bool = False,
        with_properties: bool = True,
    ) -> AsyncIterator[list[StoredObject]]:
        """Yield all visible objects of a collection, or of these documents (at most 1000 keys), page by page."""
        object_filter = visibility_filter(visibility)
        if documents is not None:
            object_filter &= property_filter("document").contains_any(list(documents))
        remote_collection = self._collections[name]
        total = await self._count(name, object_filter)
        for first, end in slot_ranges(total, PAGE_SIZE) if total else ():
            slot_filter = property_filter("slot").greater_or_equal(first) & property_filter("slot").less_than(end)
            async with self._map_read_errors():
                response = await remote_collection.query.fetch_objects(
                    filters=object_filter & slot_filter,
                    limit=MAX_PAGE_SIZE,
                    include_vector=with_vectors,
                    return_properties=None if with_properties else [],
                )
            yield [StoredObject(obj.uuid, obj.properties, vector=get_vector(obj.vector)) for obj in response.objects]

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        await self._client.close()

    async def _query_bm25(
        self, tokens: str, object_filter: Any, limit: int, properties: Sequence[str]
    ) -> list[StoredObject]:
        from weaviate.classes.query import MetadataQuery

        async with self._map_read_errors():
            response = await self._searched.query.bm25(
                tokens,
                query_properties=["tokens"],
                filters=object_filter,
                limit=limit,
                return_metadata=MetadataQuery(score=True),
                return_properties=list(properties),
            )
        # Weaviate leaves out the factor that makes BM25 of one occurrence in an average text the word's rarity.
        factor = BM25_K1 + 1
        return [
            StoredObject(obj.uuid, obj.properties, (obj.metadata.score or 0.0) * factor) for obj in response.objects
        ]

    async def _query_nearest(
        self, vector: Vectors, object_filter: Any, limit: int, properties: Sequence[str]
    ) -> list[StoredObject]:
        from weaviate.classes.query import MetadataQuery

        async with self._map_read_errors():
            response = await self._searched.query.near_vector(
                vector.tolist(),
                filters=object_filter,
                limit=limit,
                return_metadata=MetadataQuery(distance=True),
                return_properties=list(properties),
            )
        return [StoredObject(obj.uuid, obj.properties, 1 - (obj.metadata.distance or 0.0)) for obj in response.objects]

    async def _count(self, name: str, object_filter: Any) -> int:
        async with self._map_read_errors():
            result = await self._collections[name].aggregate.over_all(filters=object_filter, total_count=True)
        return result.total_count or 0

    async def _delete(self, name: str, object_filter: Any) -> None:
        # One request deletes as many as one query may find.
        while True:
            async with self._map_write_errors():
                result = await self._collections[name].data.delete_many(object_filter)
            if result.failed:
                reason = await self.find_obstacle()
                count = f"{result.failed} of {result.matches} objects"
                raise StoreError(f"{self.store_name} could not delete {count}{reason and ': '}{reason}")
            if result.matches == 0:
                return

    def _map_read_errors(self) -> AbstractAsyncContextManager[None]:
        return map_errors(self.store_name, "read", self._settings.read_timeout_s)

    def _map_write_errors(self) -> AbstractAsyncContextManager[None]:
        return map_errors(self.store_name, "written", self._settings.write_timeout_s)


async def connect(settings: WeaviateSettings) -> Cluster:
    """Connect to the server.

    Raises `StoreError` when the server cannot be reached, refuses the key, or is too old.
    """
    store_name = f"the passage store in Weaviate at {settings.host}:{settings.http_port}"
    await asyncio.to_thread(_import_weaviate)
    async with map_errors(store_name, "opened", CONNECT_TIMEOUT_S):
        certificates = await asyncio.to_thread(_read_certificates) if settings.secure else None
        client = _make_client(settings, certificates)
        try:
            await client.connect()
            version = str((await client.get_meta())["version"])
            require_version(version, store_name)
            await _require_grpc(settings, certificates, store_name)
        except BaseException:
            await client.close()
            raise
    return Cluster(client, settings, store_name, version)


async def _require_grpc(settings: WeaviateSettings, certificates: bytes | None, store_name: str) -> None:
    """Ask gRPC's own health service. Raises `StoreUnreachable`, which names the port.

    The client would look at it as well, together with the package index. Later its retries would hide the reason.
    """
    import grpc  # type: ignore[import-untyped]

    address = f"{settings.host}:{settings.grpc_port}"
    if settings.secure:
        channel = grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(certificates))
    else:
        channel = grpc.aio.insecure_channel(address)
    async with channel:
        try:
            check = channel.unary_unary(HEALTH_METHOD)
            response = await check(b"", timeout=GRPC_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            reason = f"gRPC, {address}: {error.details() or error.code().name}"
            raise StoreUnreachable(explain_error(store_name, "opened", reason)) from error
    if response != SERVING:
        raise StoreUnreachable(explain_error(store_name, "opened", f"gRPC, {address}: it is not reachable yet"))


def _make_client(settings: WeaviateSettings, certificates: bytes | None) -> WeaviateAsyncClient:
    import weaviate
    from grpc import ssl_channel_credentials
    from weaviate.classes.init import AdditionalConfig, Auth, GrpcConfig, Proxies, Timeout

    key = settings.api_key.value() if settings.api_key else ""
    return weaviate.use_async_with_custom(
        http_host=settings.host,
        http_port=settings.http_port,
        http_secure=settings.secure,
        grpc_host=settings.host,
        grpc_port=settings.grpc_port,
        grpc_secure=settings.secure,
        auth_credentials=Auth.api_key(key) if key else None,
        additional_config=AdditionalConfig(
            timeout=Timeout(init=CONNECT_TIMEOUT_S, query=settings.read_timeout_s, insert=settings.write_timeout_s),
            # Certificates of one's own are read from the environment; that alone: no proxies in front of both ports.
            trust_env=certificates is not None,
            proxies=Proxies(),
            grpc_config=GrpcConfig(
                credentials=ssl_channel_credentials(root_certificates=certificates) if certificates else None
            ),
        ),
        # They ask the package index for a newer version of the client.
        skip_init_checks=True,
    )


def _read_certificates() -> bytes | None:
    """Return the certificates of authorities that the environment names, None for those that everybody trusts."""
    path = os.environ.get(CERTIFICATES_VARIABLE, "")
    return Path(path).read_bytes() if path else None


def _import_weaviate() -> None:
    import weaviate
    import weaviate.classes.query  # noqa: F401

    # It logs refused objects as a whole, passages and all; a `StoreError` says what there is to say.
    logging.getLogger("weaviate-client").setLevel(logging.CRITICAL)
