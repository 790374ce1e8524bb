"""The two collections as Weaviate is told about them. What is only read is not indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.settings import WeaviateSettings

if TYPE_CHECKING:
    from weaviate.classes.config import Property

PASSAGES, DOCUMENTS = "Passages", "Documents"
# BM25 as everywhere else in this program.
SATURATION, LENGTH_SHARE = 1.2, 0.75


def collection(name: str, settings: WeaviateSettings) -> dict[str, Any]:
    """Return the arguments that create a collection, PASSAGES or DOCUMENTS."""
    from weaviate.classes.config import Configure, StopwordsPreset, VectorDistances

    index = Configure.VectorIndex.hnsw(
        distance_metric=VectorDistances.COSINE,
        # Some versions compress by default; then distances are no true cosines any more.
        quantizer=Configure.VectorIndex.Quantizer.none(),
    )
    shared = bool(settings.tenant)
    return {
        "name": settings.collection + name,
        "description": f"KIMAs: {name.lower()}",
        "properties": _passages() if name == PASSAGES else _documents(),
        "vector_config": Configure.Vectors.self_provided(vector_index_config=index if name == PASSAGES else None),
        "inverted_index_config": Configure.inverted_index(
            bm25_k1=SATURATION, bm25_b=LENGTH_SHARE, stopwords_preset=StopwordsPreset.NONE
        ),
        "replication_config": _replication(settings.replicas),
        "multi_tenancy_config": Configure.multi_tenancy(enabled=shared),
        # Words are counted per shard. A tenant is one shard by itself.
        "sharding_config": None if shared else Configure.sharding(desired_count=1),
    }


def _replication(replicas: int) -> Any:
    """Return how replicas are kept alike.

    One that was away catches up by itself, and deletes what was deleted meanwhile: otherwise it would bring old
    passages back.
    """
    from weaviate.classes.config import Configure, ReplicationDeletionStrategy

    if replicas == 1:
        return Configure.replication(factor=1)
    return Configure.replication(
        factor=replicas,
        async_enabled=True,
        deletion_strategy=ReplicationDeletionStrategy.TIME_BASED_RESOLUTION,
    )


def _passages() -> list[Property]:
    from weaviate.classes.config import DataType, Property, Tokenization

    tokens = Property(
        name="tokens",
        data_type=DataType.TEXT,
        tokenization=Tokenization.WHITESPACE,
        index_filterable=False,
        index_searchable=True,
    )
    texts = ("name", "path", "title", "text", "url", "kind")
    return [*_places(), tokens, *map(_text, texts), _number("start_line"), _number("end_line")]


def _documents() -> list[Property]:
    texts = ("path", "fingerprint", "commit", "replaced", "owner", "embedder", "dimension", "format")
    return [*_places(), *map(_text, texts), _number("passages"), _number("until")]


def _places() -> list[Property]:
    """Return what objects are filtered by."""
    from weaviate.classes.config import DataType, Property, Tokenization

    def exact(name: str) -> Property:
        return Property(
            name=name,
            data_type=DataType.TEXT,
            tokenization=Tokenization.FIELD,
            index_filterable=True,
            index_searchable=False,
        )

    return [exact("source"), exact("document"), _number("generation", ranged=True), _number("slot", ranged=True)]


def _text(name: str) -> Property:
    from weaviate.classes.config import DataType, Property

    return Property(name=name, data_type=DataType.TEXT, index_filterable=False, index_searchable=False)


def _number(name: str, *, ranged: bool = False) -> Property:
    from weaviate.classes.config import DataType, Property

    return Property(name=name, data_type=DataType.INT, index_filterable=False, index_range_filters=ranged)
