"""A real Weaviate server for all tests of a process; stores on it, and the cluster below them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from core.settings import WeaviateSettings
from knowledge.ports import Store
from knowledge.stores.weaviate import open_weaviate
from knowledge.stores.weaviate.client import Cluster, connect
from tests.support.peers.weaviate_server import BINARY, NO_BINARY, run_server
from tests.support.stores import DIMENSION, forget

# Somebody's own server, instead of one that is started here: host:http-port:grpc-port.
ADDRESS_VARIABLE = "KIMAS_TEST_WEAVIATE"


@pytest.fixture(scope="session")
def weaviate_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WeaviateSettings]:
    """How to reach the server. The test is skipped where there is none, and cannot be."""
    if address := os.environ.get(ADDRESS_VARIABLE, ""):
        host, http_port, grpc_port = address.rsplit(":", 2)
        yield WeaviateSettings(host=host, http_port=int(http_port), grpc_port=int(grpc_port))
    elif BINARY:
        with run_server(tmp_path_factory.mktemp("weaviate")) as settings:
            yield settings
    else:
        pytest.skip(NO_BINARY)


@pytest.fixture
async def weaviate_settings(weaviate_server: WeaviateSettings) -> AsyncIterator[WeaviateSettings]:
    """Settings for collections of one test, which are deleted afterwards."""
    settings = name_collections(weaviate_server)
    yield settings
    await forget(settings)


def name_collections(server: WeaviateSettings, **changes: object) -> WeaviateSettings:
    """Return settings for new collections on a server."""
    return server.model_copy(update={"collection": f"KimasTest{uuid4().hex}", **changes})


@asynccontextmanager
async def opened(
    settings: WeaviateSettings, *, embedder: str = "test", dimension: int = DIMENSION, rebuild: bool = False
) -> AsyncIterator[Store]:
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
