"""Rerankers: fused order, a rerank API, a local cross-encoder."""
