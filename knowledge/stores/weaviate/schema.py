"""The two collections as Weaviate is told about them. What is only read is not indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.settings import WeaviateSettings

if TYPE_CHECKING:
    from weaviate.classes.config import Property

PASSAGES, DOCUMENTS = "Passages", "Documents"
# BM25 as everywhere else in this program.
BM25_K1, BM25_B = 1.2, 0.75


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
        "description": f"KIMAs: {name.lower()}",
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


def _replication_config(replicas: int) -> Any:
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


def _passage_properties() -> list[Property]:
    from weaviate.classes.config import DataType, Property, Tokenization

    tokens = Property(
        name="tokens",
        data_type=DataType.TEXT,
        tokenization=Tokenization.WHITESPACE,
        index_filterable=False,
        index_searchable=True,
    )
    texts = ("name", "path", "title", "text", "url", "kind")
    return [
        *_filter_properties(),
        tokens,
        *map(_text_property, texts),
        _int_property("start_line"),
        _int_property("end_line"),
    ]


def _document_properties() -> list[Property]:
    texts = ("path", "fingerprint", "commit", "replaced", "owner", "embedder", "dimension", "format")
    return [*_filter_properties(), *map(_text_property, texts), _int_property("passages"), _int_property("until")]


def _filter_properties() -> list[Property]:
    """Return what objects are filtered by."""
    from weaviate.classes.config import DataType, Property, Tokenization

    def exact_property(name: str) -> Property:
        return Property(
            name=name,
            data_type=DataType.TEXT,
            tokenization=Tokenization.FIELD,
            index_filterable=True,
            index_searchable=False,
        )

    return [
        exact_property("source"),
        exact_property("document"),
        _int_property("generation", is_ranged=True),
        _int_property("slot", is_ranged=True),
    ]


def _text_property(name: str) -> Property:
    from weaviate.classes.config import DataType, Property

    return Property(name=name, data_type=DataType.TEXT, index_filterable=False, index_searchable=False)


def _int_property(name: str, *, is_ranged: bool = False) -> Property:
    from weaviate.classes.config import DataType, Property

    return Property(name=name, data_type=DataType.INT, index_filterable=False, index_range_filters=is_ranged)
