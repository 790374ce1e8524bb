"""Weaviate stores, and the cluster below them, for tests with a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.settings import WeaviateSettings
from knowledge.stores.weaviate import WeaviateStore, open_weaviate
from knowledge.stores.weaviate.client import Cluster, connect
from tests.support.stores import DIMENSION


@asynccontextmanager
async def opened(
    settings: WeaviateSettings, *, embedder: str = "test", dimension: int = DIMENSION, rebuild: bool = False
) -> AsyncIterator[WeaviateStore]:
    store = await open_weaviate(settings, embedder, dimension, rebuild=rebuild, lease_duration_s=1)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connect_cluster(settings: WeaviateSettings) -> AsyncIterator[Cluster]:
    cluster = await connect(settings)
    try:
        yield cluster
    finally:
        await cluster.close()


@asynccontextmanager
async def serve_bytes(reply: bytes | None) -> AsyncIterator[int]:
    """Listen on a port: each connection gets these bytes and ends, or nothing ever."""
    writers = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.read(1000)
        if reply is not None:
            writer.write(reply)
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in writers:
            writer.transport.abort()
        server.close()
