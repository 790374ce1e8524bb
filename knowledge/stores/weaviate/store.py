"""The passage store on Weaviate: atomic replacement by generations, hybrid search with both true scores.

A write claims the next generation of its source and puts new objects beside the old ones, and then one object: the
commit, which tells readers which generations they may see. Then the old objects are deleted. A reader compares the
commits before and after its queries and reads again when they differ, so it never sees a mix, nor half of what is
deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import numpy as np

from core.errors import StoreError, StoreUnreachable
from core.observability.logs import get_logger
from core.runtime.tasks import task_group
from core.settings import WeaviateSettings
from core.types import Passage
from knowledge.ports import LABEL_SUFFIX, MAX_SAMPLED_VECTORS, PassageRow, StoredDocument, StoreOwner, Vectors
from knowledge.stores.vectors import compute_cosines, require_labels, validate_vectors
from knowledge.stores.weaviate.catching_up import ReplicaWatch, StoreCatchingUp
from knowledge.stores.weaviate.client import Cluster, connect
from knowledge.stores.weaviate.errors import StoreStarting
from knowledge.stores.weaviate.filters import MAX_FILTER_VALUES
from knowledge.stores.weaviate.ownership import claim_ownership, require_ownership
from knowledge.stores.weaviate.schema import (
    DOCUMENTS,
    LABEL_KEY,
    PASSAGES,
    SCHEMA_VERSION,
    Commit,
    NewObject,
    StoredObject,
    Visibility,
    affected_documents,
    commit_key,
    document_key,
    make_document_objects,
    make_passage_objects,
    to_document,
    to_passage,
)
from knowledge.stores.weaviate.word_weights import WordWeights
from knowledge.stores.weaviate.writer_lease import WriterLease, hold_lease

_log = get_logger(__name__)

T = TypeVar("T")

# Reading a whole source, page by page, may take so many times longer than a search.
FULL_READ_FACTOR = 15
# A server that is starting, or lacks something, is asked again, at most for so long: an answer waits for it.
STARTING_S = 3.0
STARTING_RETRY_S = 0.25
# A refresh waits so long between two looks whether a machine that was away has caught up.
CATCHING_UP_RETRY_S = 2.0
# Passages that have not changed are counted again after so long: an index of the server may have lost some.
RECOUNT_S = 3600.0
# Objects are written again when some of them cannot be found, so many times in all.
WRITE_ATTEMPTS = 3
# Objects that were written are looked for after each of these times.
FIND_DELAYS_S = (0.0, 0.5, 2.0)
# Bytes and objects in one request: a proxy may refuse long ones, and the event loop waits while one is put together.
MAX_BATCH_BYTES = 1 << 20
MAX_BATCH_SIZE = 64
# Requests on the way at once: the server works while the next ones are put together.
BATCHES_AT_ONCE = 4


async def check_weaviate(settings: WeaviateSettings, owner: StoreOwner, model: tuple[str, int] | None = None) -> str:
    """Return what a server can do for this deployment, in a few words. Nothing is changed.

    Raises the `StoreError` of one that is not usable: gRPC, the key, collections of others, the owner, the state of the
    tenant and the shards, the embedding `model` (name and dimension; None where it is not known yet).
    """
    cluster = await connect(settings)
    try:
        if not await cluster.has_collections():
            return f"{cluster.server} answers; nothing is stored there yet"
        if obstacle := await cluster.find_obstacle():
            raise StoreError(f"{cluster.store_name}: {obstacle}")
        await require_ownership(cluster, owner)
        label = (await cluster.get([LABEL_KEY])).get(LABEL_KEY)
        if model and label:
            _require_model(cluster, label, _make_labels(*model))
        if await cluster.may_write():
            return f"{cluster.server} answers"
        return f"{cluster.server} answers; the key may read only: searches work, refreshes do not"
    finally:
        await cluster.close()


def _make_labels(embedder_name: str, dimension: int) -> dict[str, str]:
    return {"embedder": embedder_name, "dimension": str(dimension), "format": SCHEMA_VERSION}


def _require_model(cluster: Cluster, label: Mapping[str, Any], labels: Mapping[str, str]) -> None:
    """Raise `StoreMismatch` where the label of a store names another model."""
    require_labels(cluster.store_name, {name: str(label[name]) for name in labels}, labels)


class WeaviateStore:
    """A `Store` in two collections of a Weaviate server. Any number of readers; writers of one source take turns."""

    def __init__(
        self,
        cluster: Cluster,
        settings: WeaviateSettings,
        embedder_name: str,
        dimension: int,
        *,
        lease_duration_s: float,
        owner: StoreOwner | None = None,
    ) -> None:
        self._cluster = cluster
        self._owner = owner
        self._labels = _make_labels(embedder_name, dimension)
        self._dimension = dimension
        self._read_timeout_s = settings.read_timeout_s
        self._lease_duration_s = lease_duration_s
        self._commit_cache: dict[str, Commit] = {}
        # Sources that had a commit, and have none any more: somebody deleted the collections.
        self._lost_sources: set[str] = set()
        # With the id of the commit that they are of; "" where none was ever written.
        self._known_labels: dict[str, tuple[str, Mapping[str, StoredDocument]]] = {}
        self._replica_watch = ReplicaWatch(cluster)
        # By source: its commit and the objects of the collection when all passages were there, and when that was.
        self._last_counts: dict[str, tuple[tuple[str, int], float]] = {}
        # By source and path: the objects of damaged documents, when the manifest was last read.
        self._damaged_objects: dict[str, Mapping[str, Sequence[tuple[str, UUID]]]] = {}
        self._word_weights = WordWeights(cluster)
        self._write_lock = asyncio.Lock()

    async def prepare(self, *, rebuild: bool = False) -> None:
        """Create what is missing: collections, tenant, owner, and the label that says which model makes the vectors.

        Where all is there, nothing is written: a key that may only read is enough. `rebuild` empties the store first.
        Raises `StoreError` as `open_weaviate` does.
        """
        await self._cluster.ensure_collections(may_differ=rebuild)
        await self._try_for_a_moment(self._claim_ownership)
        if rebuild:
            await self._cluster.drop()
            await self.prepare()
        else:
            await self._try_for_a_moment(self._ensure_label)

    async def _claim_ownership(self) -> None:
        if self._owner:
            await claim_ownership(self._cluster, self._owner)

    async def _ensure_label(self) -> None:
        if LABEL_KEY not in await self._cluster.get([LABEL_KEY]):
            await self._cluster.create(NewObject(LABEL_KEY, self._labels))
        await self._load_commits(())

    async def manifest(self, source: str) -> Mapping[str, StoredDocument]:
        """Return what is held of a source, by path."""
        return await (self._read_label(source) if source.endswith(LABEL_SUFFIX) else self._read_manifest(source))

    async def _read_label(self, name: str) -> Mapping[str, StoredDocument]:
        """Return a label, which every search asks for: as long as its commit is the same, it takes one request."""
        try:
            commit_id = (await self._load_commits([name]))[name].id
        except StoreStarting:
            return await self._read_manifest(name)
        if self._known_labels.get(name, ("", {}))[0] != commit_id:
            self._known_labels[name] = (commit_id, await self._read_manifest(name))
        return self._known_labels.get(name, ("", {}))[1]

    async def _read_manifest(self, source: str) -> Mapping[str, StoredDocument]:
        manifest = await self._when_caught_up(
            partial(self._read_or_create, [source], self._manifest, FULL_READ_FACTOR), source
        )
        damaged_count = sum(document.is_damaged for document in manifest.values())
        if damaged_count:
            _log.warning("store.passages_missing", source=source, documents=damaged_count)
        return manifest

    async def filled(self, sources: Collection[str]) -> set[str]:
        """Return those of these sources that have passages."""
        return await self._read_or_create(sources, self._filled) if sources else set()

    async def replace(
        self, source: str, paths: Collection[str], rows: Sequence[PassageRow], empty: Mapping[str, str] | None = None
    ) -> None:
        """In one commit: these paths now consist of exactly these rows; `empty` keeps fingerprints of paths without.

        Raises `StoreError`, `StoreLocked` when another process writes the same source. When only the deletion of
        old objects fails after the commit, the new rows are there; the next write deletes the old ones.
        """
        empty = empty or {}
        documents = affected_documents(paths, rows, empty)
        if not documents:
            return
        validate_vectors(self._cluster.store_name, self._dimension, source, rows)
        async with self._write_lock, hold_lease(self._cluster, source, self._lease_duration_s) as lease:
            # Nobody has rebuilt the store meanwhile for another model.
            await self._load_commits([source])
            await self._try_for_a_moment(partial(self._replica_watch.require_whole, {source: lease.previous}))
            await self._purge_replaced(source, lease.previous)
            new_commit = await self._write_objects(lease, documents, rows, empty)
            # What damaged documents have left is deleted after the commit: it must not be promised.
            if self._cluster.has_replicas and not self._find_damaged(source, paths):
                passage_counts = await self._cluster.count_recent_passages(source, new_commit)
                new_commit = replace(new_commit, passage_counts=passage_counts)
            await lease.renew(force=True)
            await self._write_commit(source, new_commit)
            await self._purge_replaced(source, new_commit)
            await self._delete_damaged(source, paths)

    async def _write_objects(
        self, lease: WriterLease, documents: tuple[str, ...], rows: Sequence[PassageRow], empty: Mapping[str, str]
    ) -> Commit:
        """Write the objects of a new commit until all of them can be found, and return the commit, not yet written.

        A server that is killed meanwhile and comes back may have lost some. Raises `StoreError`.
        """
        source = lease.source
        missing = 0
        for _ in range(WRITE_ATTEMPTS):
            await self._cluster.delete_unfinished(source, lease.previous, lease.generation)
            commit = lease.previous.make_next(lease.generation, documents)
            new_objects = await asyncio.to_thread(_make_objects, source, commit, rows, empty)
            for name, objects in new_objects.items():
                await self._send(lease, name, objects)
            written_counts = {name: len({obj.id for obj in objects}) for name, objects in new_objects.items()}
            missing = await self._count_missing(source, commit.generation, written_counts)
            if not missing:
                return commit
            _log.warning("store.objects_missing", source=source, missing=missing, written=sum(written_counts.values()))
        raise StoreError(
            f"{self._cluster.store_name} does not find {missing} of the objects that it took for source {source}, "
            f"after {WRITE_ATTEMPTS} tries: look at the server's log; the source keeps its earlier passages"
        )

    async def _send(self, lease: WriterLease, name: str, objects: Sequence[NewObject]) -> None:
        batches = _cut_into_batches(objects)

        async def send_next() -> None:
            for batch in batches:
                await lease.renew()
                await self._cluster.put(name, batch)

        async with task_group() as tasks:
            for _ in range(BATCHES_AT_ONCE):
                tasks.create_task(send_next())

    async def _count_missing(self, source: str, generation: int, written_counts: Mapping[str, int]) -> int:
        """Return how many of the objects that were written cannot be found; a replica that lags gets some time."""
        missing = 0
        for delay_s in FIND_DELAYS_S:
            await asyncio.sleep(delay_s)
            counts = {name: await self._cluster.count_newest(name, source, generation) for name in written_counts}
            missing = sum(abs(written_counts[name] - count) for name, count in counts.items())
            if not missing:
                break
        return missing

    async def optimize(self) -> None:
        """Do nothing: the server keeps its indexes up to date by itself."""

    async def search(
        self, tokens: str, vector: Vectors | None, sources: Collection[str], limit: int
    ) -> Sequence[Passage]:
        """Return the union of the `limit` best by BM25 and the `limit` nearest by cosine, each with both true scores.

        BM25 counts words over all sources of the collection, or of the tenant.
        """
        if not sources or not (tokens or vector is not None) or limit < 1:
            return []
        return await self._read(sources, lambda visibility: self._search(tokens, vector, visibility, limit))

    async def term_weights(self, tokens: str, sources: Collection[str] | None = None) -> Mapping[str, float]:
        """Return the IDF of each token over all passages, as near as the scores of some tell it."""
        if sources is not None and not sources:
            return {}
        return await self._try_for_a_moment(partial(self._word_weights.get, tokens.split(), sources))

    async def vectors(self, source: str) -> Vectors:
        """Return the vectors of a source, or a sample, shape (passages with one, dimension), float32."""
        return await self._read([source], self._vectors, FULL_READ_FACTOR)

    async def rows(self, source: str, paths: Collection[str]) -> Sequence[PassageRow]:
        """Return the rows of these paths of a source, for another store."""
        return await self._read([source], lambda visibility: self._rows(visibility, set(paths)), FULL_READ_FACTOR)

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        await self._cluster.close()

    async def _load_commits(self, sources: Iterable[str]) -> dict[str, Commit]:
        """Return the newest commits of sources. Raises `StoreMismatch` when the store was rebuilt for another model."""
        keys = {source: commit_key(source) for source in sources}
        properties_by_key = await self._cluster.get([LABEL_KEY, *keys.values()])
        if LABEL_KEY not in properties_by_key:
            raise StoreStarting(f"{self._cluster.store_name} is being rebuilt, or was deleted")
        _require_model(self._cluster, properties_by_key[LABEL_KEY], self._labels)
        commits = {source: Commit.from_properties(properties_by_key.get(key)) for source, key in keys.items()}
        for source, commit in commits.items():
            if commit.id:
                self._lost_sources.discard(source)
            elif self._commit_cache.get(source, commit).id:
                self._lost_sources.add(source)
        self._commit_cache |= commits
        return commits

    async def _read_or_create(
        self, sources: Collection[str], read: Callable[[Visibility], Awaitable[T]], timeout_factor: int = 1
    ) -> T:
        """Read; where the server came back empty, or somebody deleted the collections, make them again and read."""
        try:
            return await self._read(sources, read, timeout_factor)
        except StoreStarting:
            if not await self._cluster.is_ready():
                raise
        await self.prepare()
        _log.warning("store.created_again", store=self._cluster.store_name, reason="its collections were not there")
        return await self._read(sources, read, timeout_factor)

    async def _read(
        self, sources: Iterable[str], read: Callable[[Visibility], Awaitable[T]], timeout_factor: int = 1
    ) -> T:
        """Read until no commit came in between."""
        names = tuple(dict.fromkeys(sources))
        return await self._try_for_a_moment(partial(self._read_at_one_commit, names, read, timeout_factor))

    async def _when_caught_up(self, call: Callable[[], Awaitable[T]], source: str) -> T:
        """Call until the machine that is asked has caught up, or what it lacks is lost."""
        has_warned = False
        while True:
            try:
                return await call()
            except StoreCatchingUp as error:
                if not has_warned:
                    _log.warning("store.waiting", source=source, reason=str(error))
                    has_warned = True
            await asyncio.sleep(CATCHING_UP_RETRY_S)

    async def _try_for_a_moment(self, call: Callable[[], Awaitable[T]]) -> T:
        """Try until a server that is starting knows its collections, and a replica has what was written just now."""
        began_at = time.monotonic()
        while True:
            try:
                return await call()
            except (StoreStarting, StoreCatchingUp):
                if time.monotonic() - began_at > STARTING_S:
                    raise
            await asyncio.sleep(STARTING_RETRY_S)

    async def _read_at_one_commit(
        self, names: Collection[str], read: Callable[[Visibility], Awaitable[T]], timeout_factor: int
    ) -> T:
        """Read until no commit came in between. A failure is tried once more: the store may have been rebuilt."""
        timeout_s = self._read_timeout_s * timeout_factor
        has_failed = False
        try:
            async with asyncio.timeout(timeout_s):
                is_cached = all(name in self._commit_cache for name in names)
                visibility = (
                    {name: self._commit_cache[name] for name in names} if is_cached else await self._load_commits(names)
                )
                while True:
                    try:
                        await self._replica_watch.require_whole(visibility)
                        results = [await read(visibility)]
                    except StoreError:
                        if has_failed:
                            raise
                        has_failed = True
                        results = []
                    previous = visibility
                    visibility = await self._load_commits(names)
                    if results and all(previous[name].id == visibility[name].id for name in names):
                        return results[0]
        except TimeoutError as error:
            reason = f"no answer within {timeout_s:g} seconds"
            raise StoreUnreachable(f"{self._cluster.store_name} could not be read: {reason}") from error

    async def _search(self, tokens: str, vector: Vectors | None, visibility: Visibility, limit: int) -> list[Passage]:
        if not any(commit.id for commit in visibility.values()):
            if lost_sources := self._lost_sources & visibility.keys():
                raise StoreStarting(f"{self._cluster.store_name} came back without source {', '.join(lost_sources)}")
            return []
        async with task_group() as tasks:
            bm25_task = tasks.create_task(self._search_bm25(tokens, visibility, limit))
            nearest_task = tasks.create_task(self._search_nearest(vector, visibility, limit))
        bm25_objects = {obj.id: obj for obj in bm25_task.result()}
        nearest_objects = {obj.id: obj for obj in nearest_task.result()}
        # What only one of the two has found has a score of the other kind as well.
        async with task_group() as tasks:
            scores_task = tasks.create_task(self._score_bm25(tokens, nearest_objects.keys() - bm25_objects.keys()))
            cosines_task = tasks.create_task(self._score_nearest(vector, bm25_objects.keys() - nearest_objects.keys()))
        lexical_scores = {obj.id: obj.score for obj in (*bm25_objects.values(), *scores_task.result())}
        cosines = {obj.id: obj.score for obj in nearest_objects.values()} | cosines_task.result()
        return [
            to_passage(obj.properties, min(1.0, max(-1.0, cosines.get(key, 0.0))), lexical_scores.get(key, 0.0))
            for key, obj in (bm25_objects | nearest_objects).items()
        ]

    async def _search_bm25(self, tokens: str, visibility: Visibility, limit: int) -> list[StoredObject]:
        return await self._cluster.search_bm25(tokens, visibility, limit) if tokens else []

    async def _search_nearest(self, vector: Vectors | None, visibility: Visibility, limit: int) -> list[StoredObject]:
        return [] if vector is None else await self._cluster.search_nearest(vector, visibility, limit)

    async def _score_bm25(self, tokens: str, identifiers: Collection[UUID]) -> list[StoredObject]:
        return await self._cluster.score_bm25(tokens, list(identifiers)) if tokens and identifiers else []

    async def _score_nearest(self, vector: Vectors | None, identifiers: Collection[UUID]) -> dict[UUID, float]:
        """Return the cosines of these passages, by key; those without a vector have none.

        The server reckons them, which saves the vectors' way. Those that its index does not know yet are left to us.
        """
        if vector is None or not identifiers:
            return {}
        cosines = {obj.id: obj.score for obj in await self._cluster.score_nearest(vector, list(identifiers))}
        if unknown := [key for key in identifiers if key not in cosines]:
            objects = [obj for obj in await self._cluster.get_vectors(unknown) if obj.vector]
            rows = np.array([obj.vector for obj in objects], np.float32).reshape(-1, self._dimension)
            cosines |= zip((obj.id for obj in objects), compute_cosines(rows, vector), strict=True)
        return cosines

    async def _manifest(self, visibility: Visibility) -> Mapping[str, StoredDocument]:
        """Return the documents of a source, the newest first.

        Those of which too few passages are there, or too many, are damaged.
        """
        manifest = dict[str, StoredDocument]()
        objects = defaultdict[str, list[tuple[str, UUID]]](list)
        promised_count = 0
        stored_objects = [obj async for page in self._cluster.pages(DOCUMENTS, visibility) for obj in page]
        for obj in sorted(stored_objects, key=lambda obj: -int(obj.properties["generation"])):
            path = obj.properties["path"]
            objects[path].append((DOCUMENTS, obj.id))
            document = to_document(obj.properties)
            promised_count += document.passage_count
            # The second object of a path: one of them is too many.
            manifest[path] = replace(document, fingerprint="") if path in manifest else document
        if await self._has_all_passages(visibility, promised_count):
            return manifest
        found_counts = Counter[str]()
        async for page in self._cluster.pages(PASSAGES, visibility):
            for obj in page:
                path = obj.properties["path"]
                objects[path].append((PASSAGES, obj.id))
                found_counts[path] += 1
        for path in objects:
            document = manifest.get(path, StoredDocument("", 0))
            if document.passage_count != found_counts[path]:
                manifest[path] = StoredDocument("", found_counts[path])
        (source,) = visibility
        self._damaged_objects[source] = {path: objects[path] for path in objects if manifest[path].is_damaged}
        return manifest

    async def _has_all_passages(self, visibility: Visibility, promised_count: int) -> bool:
        """Return whether as many passages are there as the documents of a source promise.

        The server reads all of them to count those of one source. So they are not counted again for a while as long as
        nobody has written to the source, and the collection has as many objects as before.
        """
        ((source, commit),) = visibility.items()
        seen = commit.id, await self._cluster.count_all(PASSAGES)
        last_seen, counted_at = self._last_counts.get(source, (("", 0), 0.0))
        if seen == last_seen and time.monotonic() - counted_at < RECOUNT_S:
            return True
        if await self._cluster.count_visible(PASSAGES, visibility) != promised_count:
            return False
        self._last_counts[source] = seen, time.monotonic()
        return True

    async def _delete_damaged(self, source: str, paths: Collection[str]) -> None:
        """Delete what was found of damaged documents that are replaced now, object by object.

        A server that was killed while it deleted may still show objects that its index of documents does not know.
        """
        for name, identifier in self._find_damaged(source, paths):
            await self._cluster.delete_object(name, identifier)

    def _find_damaged(self, source: str, paths: Collection[str]) -> list[tuple[str, UUID]]:
        """Return the objects of damaged documents among these, by collection."""
        damaged_objects = self._damaged_objects.get(source, {})
        return [found for path in damaged_objects.keys() & set(paths) for found in damaged_objects[path]]

    async def _filled(self, visibility: Visibility) -> set[str]:
        return await self._cluster.visible_sources(PASSAGES, visibility)

    async def _vectors(self, visibility: Visibility) -> Vectors:
        parts = [np.empty((0, self._dimension), np.float32)]
        # Pages go by slots, which are spread evenly over all passages: so the first ones are an even sample.
        wanted_count = MAX_SAMPLED_VECTORS
        async for page in self._cluster.pages(PASSAGES, visibility, with_vectors=True, with_properties=False):
            vectors = [obj.vector for obj in sorted(page, key=lambda obj: obj.id) if obj.vector][:wanted_count]
            parts.append(np.array(vectors, np.float32).reshape(-1, self._dimension))
            wanted_count -= len(vectors)
            if not wanted_count:
                break
        return np.concatenate(parts)

    async def _rows(self, visibility: Visibility, paths: Collection[str]) -> list[PassageRow]:
        keys = sorted({document_key(path) for path in paths})
        stored_documents = list[tuple[str, StoredDocument]]()
        rows = list[PassageRow]()
        for start in range(0, len(keys), MAX_FILTER_VALUES):
            documents = keys[start : start + MAX_FILTER_VALUES]
            async for page in self._cluster.pages(DOCUMENTS, visibility, documents=documents):
                stored_documents += ((obj.properties["path"], to_document(obj.properties)) for obj in page)
            async for page in self._cluster.pages(PASSAGES, visibility, documents=documents, with_vectors=True):
                rows += map(_to_row, page)
        found_counts = Counter(row.passage.path for row in rows)
        object_counts = Counter(path for path, _ in stored_documents)
        # As in the manifest, those that are damaged have none.
        fingerprints = {
            path: document.fingerprint
            for path, document in stored_documents
            if document.passage_count == found_counts[path] and object_counts[path] == 1
        }
        return [replace(row, fingerprint=fingerprints.get(row.passage.path, "")) for row in rows]

    async def _write_commit(self, source: str, commit: Commit) -> None:
        await self._cluster.put(DOCUMENTS, [NewObject(commit_key(source), commit.to_properties())])
        # Otherwise the next read would be one of the old state, and then made again.
        self._commit_cache[source] = commit
        self._word_weights.forget()

    async def _purge_replaced(self, source: str, commit: Commit) -> None:
        """Delete what a commit has replaced, and say so: readers need not look out for it any more."""
        if commit.replaced_documents:
            await self._cluster.delete_older(source, commit.generation, commit.replaced_documents)
            await self._write_commit(source, replace(commit, replaced_documents=()))


def _make_objects(
    source: str, commit: Commit, rows: Sequence[PassageRow], empty: Mapping[str, str]
) -> Mapping[str, Sequence[NewObject]]:
    """Return the objects that a commit makes visible, by collection. Documents come first: they are few."""
    return {
        DOCUMENTS: list(make_document_objects(rows, empty, source, commit)),
        PASSAGES: list(make_passage_objects(rows, source, commit)),
    }


def _to_row(obj: StoredObject) -> PassageRow:
    """Return the row of a passage's object, without the fingerprint of its document."""
    vector = np.array(obj.vector, np.float32) if obj.vector else None
    return PassageRow(to_passage(obj.properties), "", obj.properties["tokens"], vector)


def _cut_into_batches(objects: Sequence[NewObject]) -> Iterator[Sequence[NewObject]]:
    """Yield objects in batches of at most `MAX_BATCH_SIZE`, and of `MAX_BATCH_BYTES` unless one alone has more."""
    start = 0
    size = 0
    for end, new_object in enumerate(objects):
        size += new_object.size
        if end > start and (end - start == MAX_BATCH_SIZE or size > MAX_BATCH_BYTES):
            yield objects[start:end]
            start = end
            size = new_object.size
    if start < len(objects):
        yield objects[start:]
