"""Which objects a query is about: by generation, key, property, and by what a reader may see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from knowledge.stores.weaviate.schema import Visibility

# Values in one filter.
MAX_FILTER_VALUES = 1000


def range_filter(first: int, last: int) -> Any:
    """Return the filter for these generations, both included."""
    return property_filter("generation").greater_or_equal(first) & property_filter("generation").less_or_equal(last)


def generation_filter(source: str, generation: int) -> Any:
    """Return the filter for what one write of a source has made, as far as it can be read in pages."""
    newest = property_filter("source").equal(source) & property_filter("generation").equal(generation)
    return newest & property_filter("slot").greater_or_equal(0)


def visibility_filter(visibility: Visibility) -> Any:
    """Return the filter for what a reader may see."""
    source_filters = []
    for source, commit in visibility.items():
        source_filter = property_filter("source").equal(source) & property_filter("generation").less_or_equal(
            commit.generation
        )
        for first, last in commit.unfinished:
            source_filter &= property_filter("generation").less_than(first) | property_filter(
                "generation"
            ).greater_than(last)
        for start in range(0, len(commit.replaced_documents), MAX_FILTER_VALUES):
            not_replaced = property_filter("document").contains_none(
                list(commit.replaced_documents[start : start + MAX_FILTER_VALUES])
            )
            source_filter &= not_replaced | property_filter("generation").equal(commit.generation)
        source_filters.append(source_filter)
    return reduce(or_, source_filters)


def id_filter(identifiers: Sequence[UUID]) -> Any:
    """Return the filter for these keys."""
    from weaviate.classes.query import Filter

    return Filter.by_id().contains_any(list(identifiers))


def property_filter(name: str) -> Any:
    """Return what makes filters of a property."""
    from weaviate.classes.query import Filter

    return Filter.by_property(name)
