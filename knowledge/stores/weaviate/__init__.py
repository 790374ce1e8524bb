"""The passage store on a server or a cluster: Weaviate through its async client, with our vectors and our tokens."""

from knowledge.stores.weaviate.store import WeaviateStore, open_weaviate

__all__ = ["WeaviateStore", "open_weaviate"]
