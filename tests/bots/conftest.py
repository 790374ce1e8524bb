"""Fixtures of knowledge: small real implementations of its Protocols."""

from tests.support.knowledge import embedder, markdown, source, store

__all__ = ["embedder", "markdown", "source", "store"]
