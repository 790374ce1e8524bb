"""The schema of the Weaviate store: collections, names, keys, and what a reader may see.

Two collections: one with a passage per object, one with everything else: a document per object (path, fingerprint), a
commit and a claim per source, a label that says which model made the vectors, and an owner that says which deployment
they belong to. The keys of the last four are made from what they stand for, so that writing one again replaces it;
passages and documents have new keys in every write. Properties that are only read are not indexed.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.settings import WeaviateSettings
from core.types import Passage
from knowledge.ports import PassageRow, StoredDocument, Vectors

if TYPE_CHECKING:
    from weaviate.classes.config import Property

PASSAGES = "Passages"
DOCUMENTS = "Documents"
# BM25 as everywhere else in this program.
BM25_K1 = 1.2
BM25_B = 0.75
SCHEMA_VERSION = "1"
PASSAGE_PROPERTIES = ("source", "path", "title", "text", "url", "kind", "start_line", "end_line")
# Properties of the documents that stores of version 0.2.0 do not have: they are added to them.
LATER_PROPERTIES = ("unfilled",)
# Objects are read in pages by ranges of a number that is spread evenly: a cursor of Weaviate's knows no filter.
SLOT_COUNT = 1 << 31
# How many ranges of unfinished generations a commit remembers. What the oldest ones wrote was long deleted.
MAX_UNFINISHED = 20
KEY_NAMESPACE = uuid.UUID("6f0a5f0e-3c5f-5d0b-9a52-4d3c1f0c7b11")


def make_collection_config(name: str, settings: WeaviateSettings) -> dict[str, Any]:
    """Return the arguments that create a collection, PASSAGES or DOCUMENTS."""
    from weaviate.classes.config import Configure, StopwordsPreset, VectorDistances

    vector_index = Configure.VectorIndex.hnsw(
        distance_metric=VectorDistances.COSINE,
        # Some versions compress by default; then distances are no true cosines any more.
        quantizer=Configure.VectorIndex.Quantizer.none(),
    )
    is_shared = bool(settings.tenant)
    return {
        "name": settings.collection + name,
        "description": describe_collection(name),
        "properties": _passage_properties() if name == PASSAGES else _document_properties(),
        "vector_config": Configure.Vectors.self_provided(
            vector_index_config=vector_index if name == PASSAGES else None
        ),
        "inverted_index_config": Configure.inverted_index(
            bm25_k1=BM25_K1, bm25_b=BM25_B, stopwords_preset=StopwordsPreset.NONE
        ),
        "replication_config": _replication_config(settings.replicas),
        "multi_tenancy_config": Configure.multi_tenancy(enabled=is_shared),
        # Words are counted per shard. A tenant is one shard by itself.
        "sharding_config": None if is_shared else Configure.sharding(desired_count=1),
    }


def describe_collection(name: str) -> str:
    """Return the description by which a collection, PASSAGES or DOCUMENTS, is known as ours."""
    return f"KIMAs: {name.lower()}"


def _replication_config(replicas: int) -> Any:
    """Return how replicas are kept alike.

    One that was away catches up by itself, and deletes what was deleted meanwhile: otherwise it would bring old
    passages back.
    """
    from weaviate.classes.config import Configure, ReplicationDeletionStrategy

    if replicas == 1:
        return Configure.replication(factor=1)
    deletion = ReplicationDeletionStrategy.TIME_BASED_RESOLUTION
    return Configure.replication(factor=replicas, async_enabled=True, deletion_strategy=deletion)


def _passage_properties() -> list[Property]:
    from weaviate.classes.config import Tokenization

    tokens = _text_property("tokens", tokenization=Tokenization.WHITESPACE, index_searchable=True)
    texts = map(_text_property, ("name", "path", "title", "text", "url", "kind"))
    return [*_filter_properties(), tokens, *texts, *map(make_int_property, ("start_line", "end_line"))]


def _document_properties() -> list[Property]:
    texts = ("path", "fingerprint", "commit", "replaced", "owner", "embedder", "dimension", "format")
    return [
        *_filter_properties(),
        *map(_text_property, texts),
        *map(make_int_property, ("passages", "until", *LATER_PROPERTIES)),
    ]


def _filter_properties() -> list[Property]:
    """Return what objects are filtered by."""
    from weaviate.classes.config import Tokenization

    exact = {"tokenization": Tokenization.FIELD, "index_filterable": True}
    texts = (_text_property(name, **exact) for name in ("source", "document"))
    return [*texts, *(make_int_property(name, index_range_filters=True) for name in ("generation", "slot"))]


def _text_property(name: str, **options: Any) -> Property:
    from weaviate.classes.config import DataType, Property

    defaults = {"index_filterable": False, "index_searchable": False}
    return Property(name=name, data_type=DataType.TEXT, **defaults | options)


def make_int_property(name: str, *, index_range_filters: bool = False) -> Property:
    """Return a property that holds a number, indexed for filters by ranges or not at all."""
    from weaviate.classes.config import DataType, Property

    return Property(name=name, data_type=DataType.INT, index_filterable=False, index_range_filters=index_range_filters)


@dataclass(frozen=True, slots=True)
class Commit:
    """What readers of a source may see: objects up to this generation, except those of unfinished writes.

    Of the documents in `replaced_documents` (their keys) only the objects of this very generation count: older ones are
    about to be deleted. `id` is different for every commit; empty where a source was never written. `unfinished` are
    the generations, from and to, of writers that never committed: what they wrote may still arrive. `passage_counts`
    are how many passages the last 1, 2, 4, 8... generations have, as the writer counted them; empty where one machine
    alone holds them.
    """

    generation: int = 0
    id: str = ""
    replaced_documents: tuple[str, ...] = ()
    unfinished: tuple[tuple[int, int], ...] = ()
    passage_counts: tuple[int, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any] | None) -> Commit:
        """Read a commit from its object."""
        if properties is None:
            return cls()
        values = json.loads(properties["replaced"])
        # Version 0.2.0 wrote the documents alone.
        if isinstance(values, list):
            values = {"documents": values, "unfinished": ()}
        unfinished = tuple((first, last) for first, last in values["unfinished"])
        documents, counts = tuple(values["documents"]), tuple(values.get("passages", ()))
        return cls(int(properties["generation"]), properties["commit"], documents, unfinished, counts)

    def to_properties(self) -> dict[str, Any]:
        """Return the object that holds this commit. Its generation counts for no filter: it has no source."""
        values = {
            "documents": self.replaced_documents,
            "unfinished": self.unfinished,
            "passages": self.passage_counts,
        }
        return {"generation": self.generation, "commit": self.id, "replaced": json.dumps(values)}

    @property
    def recent_generations(self) -> list[int]:
        """Return the first ones of the last 1, 2, 4, 8... generations, and at the end the first of all."""
        counts = (1 << number for number in range(self.generation.bit_length()))
        return [*(self.generation - count + 1 for count in counts), 0]

    def make_next(self, generation: int, documents: tuple[str, ...]) -> Commit:
        """Return the commit of a writer with this generation; those between are of writers that did not finish."""
        unfinished = self.unfinished
        if generation > self.generation + 1:
            unfinished += ((self.generation + 1, generation - 1),)
        return Commit(generation, uuid.uuid4().hex, documents, unfinished[-MAX_UNFINISHED:])


Visibility = Mapping[str, Commit]


@dataclass(frozen=True, slots=True, eq=False)
class StoredObject:
    """An object as it was read. `score` is what the query asked for: BM25 or the cosine distance."""

    id: uuid.UUID
    properties: Mapping[str, Any]
    score: float = 0.0
    vector: Sequence[float] = ()


@dataclass(frozen=True, slots=True, eq=False)
class NewObject:
    """An object to be written."""

    id: uuid.UUID
    properties: Mapping[str, Any]
    vector: Vectors | None = None

    @property
    def size(self) -> int:
        """About how many bytes it has in a request."""
        texts = [value for value in self.properties.values() if isinstance(value, str)]
        vector_size = 0 if self.vector is None else self.vector.nbytes
        return len("".join(texts).encode("utf-8", "surrogatepass")) + vector_size


def make_key(*names: object) -> uuid.UUID:
    """Return the key of the object that these names stand for."""
    return uuid.uuid5(KEY_NAMESPACE, json.dumps([str(name) for name in names]))


LABEL_KEY = make_key("label")
OWNER_KEY = make_key("owner")


def commit_key(source: str) -> uuid.UUID:
    """Return the key of a source's commit."""
    return make_key("commit", source)


def lease_key(source: str, generation: int) -> uuid.UUID:
    """Return the key of the claim of the one writer that may write this generation of a source."""
    return make_key("claim", source, generation)


def document_key(path: str) -> str:
    """Return what stands for a path in filters: paths themselves would be trimmed there."""
    return hashlib.sha256(path.encode()).hexdigest()[:32]


def make_passage_objects(rows: Sequence[PassageRow], source: str, commit: Commit) -> Iterator[NewObject]:
    """Yield the objects of passages that a commit makes visible."""
    for row in rows:
        properties = {name: getattr(row.passage, name) for name in PASSAGE_PROPERTIES} | {
            "source": source,
            "name": row.passage.id,
            "tokens": row.tokens,
        }
        yield _make_object(properties, row.passage.id, commit, row.vector)


def make_document_objects(
    rows: Sequence[PassageRow], empty: Mapping[str, str], source: str, commit: Commit
) -> Iterator[NewObject]:
    """Yield an object per document that a commit makes visible: of the rows, and of those without a passage."""
    passage_counts = Counter(row.passage.path for row in rows)
    unfilled_counts = Counter(row.passage.path for row in rows if row.vector is None)
    fingerprints = dict(empty) | {row.passage.path: row.fingerprint for row in rows}
    for path, fingerprint in fingerprints.items():
        counts = {"passages": passage_counts[path], "unfilled": unfilled_counts[path]}
        properties = {"source": source, "path": path, "fingerprint": fingerprint} | counts
        yield _make_object(properties, path, commit, None)


def _make_object(properties: dict[str, Any], name: str, commit: Commit, vector: Vectors | None) -> NewObject:
    # A key of its own for every generation: the older object stays until nobody can see it any more. And one for every
    # try: a server that was killed may hold an object that none of its indexes has, and an equal object under the same
    # key is not indexed again.
    identifier = make_key(properties["source"], name, commit.generation, commit.id)
    index_properties = {
        "document": document_key(properties["path"]),
        "generation": commit.generation,
        "slot": identifier.int >> (128 - SLOT_COUNT.bit_length() + 1),
    }
    return NewObject(identifier, properties | index_properties, vector)


def to_passage(properties: Mapping[str, Any], similarity: float = 0.0, lexical: float = 0.0) -> Passage:
    """Return the passage of an object."""
    values = {name: properties[name] for name in PASSAGE_PROPERTIES}
    for name in ("start_line", "end_line"):
        values[name] = int(values[name])
    return Passage(id=properties["name"], similarity=similarity, lexical=lexical, **values)


def get_vector(vectors: Mapping[str, Any]) -> Sequence[float]:
    """Return the vector of an object that was read with it, or nothing."""
    vector: Sequence[float] = vectors.get("default", ())
    return vector


def to_document(properties: Mapping[str, Any]) -> StoredDocument:
    """Return the document of an object. One of version 0.2.0 lacks no vector."""
    counts = (int(properties["passages"]), int(properties.get("unfilled") or 0))
    return StoredDocument(properties["fingerprint"], *counts)


def slot_ranges(total: int, page_size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of slots, from and below, that hold about `page_size` of `total` objects each."""
    pages = max(1, -(-total // page_size))
    for number in range(pages):
        yield number * SLOT_COUNT // pages, (number + 1) * SLOT_COUNT // pages


def affected_documents(paths: Collection[str], rows: Iterable[PassageRow], empty: Iterable[str]) -> tuple[str, ...]:
    """Return the keys of all documents that a replacement is about."""
    return tuple(sorted(map(document_key, {*paths, *empty, *(row.passage.path for row in rows)})))
