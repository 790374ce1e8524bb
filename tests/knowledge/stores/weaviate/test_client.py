"""A Weaviate server that is not there, or only half: the daemon waits for it, so it has to be recognised."""

from __future__ import annotations

import pytest
from weaviate.exceptions import WeaviateQueryError

from core.errors import ServiceError, StoreError, StoreUnreachable
from core.settings import WeaviateSettings
from knowledge.stores.weaviate import open_weaviate, store
from knowledge.stores.weaviate.errors import map_errors
from knowledge.stores.weaviate.schema import LABEL_KEY, SCHEMA_VERSION, Commit, commit_key
from tests.support.weaviate import serve_bytes

REPLIES = {
    "closes": b"",
    "breaks off": b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n{",
    "no HTTP": b"\x00\x01\r\n\r\n",
    "502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
    "503": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    "504": b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n",
    "hangs": None,
}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
async def test_a_server_that_is_away_is_told_from_one_that_refuses(reply: bytes | None) -> None:
    async with serve_bytes(reply) as http_port, serve_bytes(reply) as grpc_port:
        settings = WeaviateSettings(
            host="127.0.0.1", http_port=http_port, grpc_port=grpc_port, read_timeout_s=1, write_timeout_s=1
        )
        with pytest.raises(StoreUnreachable, match="could not be opened"):
            await open_weaviate(settings, "test", 8)


class StartingCluster:
    """A server that answers, and says so many times that it does not know its collections."""

    store_name = "the passage store"

    def __init__(self, failure_count: int) -> None:
        self.remaining_failures = failure_count

    async def get(self, keys: object) -> dict[object, dict[str, object]]:
        async with map_errors(self.store_name, "read", 5):
            if self.remaining_failures:
                self.remaining_failures -= 1
                raise WeaviateQueryError("could not find class Kimas_passages in schema", "GRPC search")
        labels = {"embedder": "test", "dimension": "8", "format": SCHEMA_VERSION}
        return {LABEL_KEY: labels, commit_key("docs"): Commit().to_properties()}


def make_store(cluster: StartingCluster) -> store.WeaviateStore:
    settings = WeaviateSettings(read_timeout_s=30)
    return store.WeaviateStore(cluster, settings, "test", 8, lease_duration_s=1)  # type: ignore[arg-type]


async def test_a_server_that_is_starting_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "STARTING_RETRY_S", 0.01)
    cluster = StartingCluster(5)
    assert await make_store(cluster).search("word", None, ["docs"], 5) == []
    assert cluster.remaining_failures == 0


async def test_a_server_that_goes_on_starting_is_a_service_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the asker reads that something is not available right now, and not that something broke."""
    monkeypatch.setattr(store, "STARTING_RETRY_S", 0.01)
    monkeypatch.setattr(store, "STARTING_S", 0.1)
    with pytest.raises(StoreError, match="it is starting, or its collections were deleted") as error_info:
        await make_store(StartingCluster(10**9)).search("word", None, ["docs"], 5)
    assert isinstance(error_info.value, ServiceError)
