"""The Weaviate store and what happens to servers: keys, TLS, going away, replicas.

Each test starts servers of its own: KIMAS_TEST_WEAVIATE_BINARY names the program, in version 1.33 or newer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.errors import StoreError
from core.settings import Secret, WeaviateSettings
from knowledge.stores.weaviate import WeaviateStore, open_weaviate
from tests.contracts.test_store import DIMENSION, put, random_rows, row, unit
from tests.peers.tls import authority, forwarded
from tests.peers.weaviate_server import BINARY, Node, weaviate_servers

pytestmark = pytest.mark.skipif(
    not BINARY, reason="WEAVIATE SERVERS ARE NOT TESTED: set KIMAS_TEST_WEAVIATE_BINARY to the server's program"
)
KEY = "WEAVIATE_KEY_FOR_TESTS"


@asynccontextmanager
async def opened(settings: WeaviateSettings) -> AsyncIterator[WeaviateStore]:
    store = await open_weaviate(settings, "test", DIMENSION, claim_seconds=1)
    try:
        yield store
    finally:
        await store.close()


async def found(store: WeaviateStore) -> set[str]:
    return {one.id for one in await store.search("word1 word2 word3", unit(1), ["docs"], 200)}


async def test_keys_and_tls_and_going_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server for all of it: starting one takes seconds."""
    keys = {
        "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
        "AUTHENTICATION_APIKEY_ENABLED": "true",
        "AUTHENTICATION_APIKEY_ALLOWED_KEYS": "right-key",
        "AUTHENTICATION_APIKEY_USERS": "kimas",
        "AUTHORIZATION_ADMINLIST_ENABLED": "true",
        "AUTHORIZATION_ADMINLIST_USERS": "kimas",
    }
    monkeypatch.setenv(KEY, "right-key")
    async with weaviate_servers(tmp_path, 1, **keys) as cluster:
        (node,) = cluster.nodes
        await _check_keys(node, monkeypatch)
        await _check_tls(node, tmp_path, monkeypatch)
        await _check_going_away(node)


async def _check_keys(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"refuses the API key, see knowledge\.store\.weaviate\.api_key"):
        await open_weaviate(node.settings(), "test", DIMENSION)
    monkeypatch.setenv(KEY, "wrong-key")
    with pytest.raises(StoreError, match="refuses the API key") as told:
        await open_weaviate(node.settings(api_key=Secret(env=KEY)), "test", DIMENSION)
    assert "wrong-key" not in str(told.value)
    monkeypatch.setenv(KEY, "right-key")
    async with opened(node.settings(api_key=Secret(env=KEY))) as store:
        await put(store, random_rows(100))


async def _check_tls(node: Node, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted, context = authority(folder)
    async with forwarded(context, node.ports["http"]) as http, forwarded(context, node.ports["grpc"]) as grpc:
        secure = node.settings(api_key=Secret(env=KEY), secure=True).model_copy(
            update={"http_port": http, "grpc_port": grpc}
        )
        with pytest.raises(StoreError, match=r"TLS failed.*SSL_CERT_FILE"):
            await open_weaviate(secure, "test", DIMENSION)
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "not-there.pem"))
        with pytest.raises(StoreError, match=r"not-there\.pem"):
            await open_weaviate(secure, "test", DIMENSION)
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        async with opened(secure) as store:
            assert len(await found(store)) > 50
            await put(store, [row("a", "a.md", tokens="word1")])
            assert "a" in await found(store)
        with pytest.raises(StoreError, match="could not be opened"):
            await open_weaviate(secure.model_copy(update={"secure": False}), "test", DIMENSION)
    monkeypatch.delenv("SSL_CERT_FILE")


async def _check_going_away(node: Node) -> None:
    async with opened(node.settings(api_key=Secret(env=KEY), read_timeout_s=3)) as store:
        searches = [asyncio.create_task(found(store)) for _ in range(20)]
        await asyncio.sleep(0.02)
        await node.stop()
        for outcome in await asyncio.gather(*searches, return_exceptions=True):
            assert isinstance(outcome, StoreError | set), outcome
        began = time.monotonic()
        with pytest.raises(StoreError, match="could not be read"):
            await found(store)
        assert time.monotonic() - began < 5
        with pytest.raises(StoreError, match="could not be written"):
            await put(store, [row("b", "b.md")])
        await node.start()
        await node.ready()
        async with asyncio.timeout(20):
            while not await _answers(store):
                await asyncio.sleep(0.2)
        assert len(await found(store)) > 50
        await put(store, [row("b", "b.md", tokens="word1")])
        assert "b" in await found(store)


async def _answers(store: WeaviateStore) -> bool:
    try:
        await found(store)
    except StoreError:
        return False
    return True


async def test_replicas(tmp_path: Path) -> None:
    async with weaviate_servers(tmp_path, 3) as cluster:
        first, second, third = cluster.nodes
        with pytest.raises(
            StoreError, match=r"too few of its machines are up for knowledge\.store\.weaviate\.replicas"
        ):
            await open_weaviate(first.settings(replicas=4, collection="Four"), "test", DIMENSION)
        async with opened(first.settings(replicas=3, write_timeout_s=20)) as store:
            await put(store, random_rows(100))
            await third.stop()
            await put(store, random_rows(100, seed=2))
            assert {name.split("-")[1] for name in await found(store)} == {"2"}
            async with opened(second.settings(replicas=3)) as other:
                assert {name.split("-")[1] for name in await found(other)} == {"2"}
            await third.start()
            await third.ready()
            await _catches_up(third)
            await second.stop()
            await third.stop()
            began = time.monotonic()
            with pytest.raises(StoreError, match="could not be written"):
                await put(store, random_rows(100, seed=3))
            assert time.monotonic() - began < 45


async def _catches_up(node: Node) -> None:
    async with opened(node.settings(replicas=3, consistency="one")) as store, asyncio.timeout(90):
        while {name.split("-")[1] for name in await found(store)} != {"2"}:
            await asyncio.sleep(0.5)
