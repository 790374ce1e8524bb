"""The passage store on a server or a cluster: Weaviate through its async client, with our vectors and our tokens."""

from knowledge.stores.weaviate.store import WeaviateStore, check_weaviate, open_weaviate

__all__ = ["WeaviateStore", "check_weaviate", "open_weaviate"]
