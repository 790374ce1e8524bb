"""Whether a collection on a server is one of ours, and made as we make them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from core.settings import WeaviateSettings
from knowledge.stores.weaviate.schema import (
    BM25_B,
    BM25_K1,
    LATER_PROPERTIES,
    PASSAGES,
    describe_collection,
    make_collection_config,
)

if TYPE_CHECKING:
    from weaviate.collections.classes.config import CollectionConfig

# Options of a property by the name that the client gives them when it reads one, and when it creates one.
PROPERTY_OPTIONS = {
    "data_type": "dataType",
    "tokenization": "tokenization",
    "index_filterable": "indexFilterable",
    "index_searchable": "indexSearchable",
    "index_range_filters": "indexRangeFilters",
}


def is_ours(name: str, config: CollectionConfig) -> bool:
    """Return whether this program made a collection, PASSAGES or DOCUMENTS."""
    return config.description == describe_collection(name)


def find_difference(name: str, config: CollectionConfig, settings: WeaviateSettings) -> str:
    """Return the first difference to a collection that these settings make, or "" where there is none.

    Replicas do not count, and neither do properties beyond ours.
    """
    from weaviate.classes.config import StopwordsPreset

    inverted_index = config.inverted_index_config
    checks = [
        *_compare_properties(name, config, settings),
        ("k1 of BM25", inverted_index.bm25.k1, BM25_K1),
        ("b of BM25", inverted_index.bm25.b, BM25_B),
        ("preset of stop words", inverted_index.stopwords.preset, StopwordsPreset.NONE),
        ("additional stop words", inverted_index.stopwords.additions or [], []),
    ]
    if not settings.tenant and config.sharding_config:
        checks.append(("number of shards", config.sharding_config.actual_count, 1))
    if name == PASSAGES:
        checks += _compare_vectors(config)
    return next((_describe(*check) for check in checks if check[1] != check[2]), "")


def _compare_properties(
    name: str, config: CollectionConfig, settings: WeaviateSettings
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is compared, as it is, and as it should be."""
    stored_properties = {stored_property.name: stored_property for stored_property in config.properties}
    for wanted in make_collection_config(name, settings)["properties"]:
        stored = stored_properties.get(wanted.name)
        if stored is None and wanted.name in LATER_PROPERTIES:
            continue
        if stored is None:
            yield f"property {wanted.name}", "missing", "there"
            continue
        for stored_name, wanted_name in PROPERTY_OPTIONS.items():
            wanted_value = getattr(wanted, wanted_name)
            # What we leave open is the server's choice.
            if wanted_value is not None:
                yield f"{stored_name} of property {wanted.name}", getattr(stored, stored_name), wanted_value


def _compare_vectors(config: CollectionConfig) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is compared, as it is, and as it should be."""
    from weaviate.classes.config import VectorDistances

    vector = (config.vector_config or {}).get("default")
    index = vector.vector_index_config if vector else None
    yield "distance of the vectors", getattr(index, "distance_metric", "missing"), VectorDistances.COSINE
    yield "compression of the vectors", getattr(index, "quantizer", None), None


def _describe(subject: str, stored: Any, wanted: Any) -> str:
    stored_text, wanted_text = (getattr(value, "value", value) for value in (stored, wanted))
    return f"{subject} is {stored_text} instead of {wanted_text}"
