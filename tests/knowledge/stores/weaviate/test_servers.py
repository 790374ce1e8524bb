"""The Weaviate store and what happens to servers: keys, TLS, going away, a full disk, replicas.

Each test starts servers of its own.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from core.errors import StoreError, StoreUnreachable
from core.language.tokens import query_tokens
from core.settings import Secret, WeaviateSettings
from core.settings.yaml_file import read_yaml
from knowledge.embedding.local import LOCAL_DIMENSION, LOCAL_NAME
from knowledge.ports import PassageRow, Store, StoreOwner
from knowledge.stores.weaviate import check_weaviate, open_weaviate
from knowledge.stores.weaviate.catching_up import StoreCatchingUp
from knowledge.stores.weaviate.schema import Commit, commit_key
from tests.support.deployment import ROOT, Deployment
from tests.support.peers.tls import authority, forwarded
from tests.support.peers.weaviate_server import BINARY, NO_BINARY, Node, weaviate_servers
from tests.support.stores import DIMENSION, put, random_rows, row, unit
from tests.support.weaviate import connect_cluster

pytestmark = [pytest.mark.skipif(not BINARY, reason=NO_BINARY), pytest.mark.slow]
KEY = "WEAVIATE_KEY_FOR_TESTS"
KILLS = 3
# What others may free of a full disk meanwhile: once that made the server write again.
FREED_MEANWHILE = 2 << 30


@asynccontextmanager
async def open_store(settings: WeaviateSettings) -> AsyncIterator[Store]:
    store = await open_weaviate(settings, "test", DIMENSION, lease_duration_s=1)
    try:
        yield store
    finally:
        await store.close()


async def search_ids(store: Store) -> set[str]:
    return {result.id for result in await store.search("word1 word2 word3", unit(1), ["docs"], 200)}


async def test_keys_and_tls_and_going_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server for all of it: starting one takes seconds."""
    monkeypatch.setenv(KEY, "right-key")
    keys = {
        "AUTHENTICATION_APIKEY_ALLOWED_KEYS": "right-key,reading-key",
        "AUTHENTICATION_APIKEY_USERS": "kimas,reader",
        "AUTHORIZATION_ADMINLIST_READONLY_USERS": "reader",
    }
    async with weaviate_servers(tmp_path, 1, **(dict(_composed("right-key")) | keys)) as cluster:
        (node,) = cluster.nodes
        await _check_keys(node, monkeypatch)
        await _check_reading_key(node, monkeypatch)
        await _check_tls(node, tmp_path, monkeypatch)
        assert {"a", "b"} <= await _check_going_away(node)


def _composed(key: str) -> Mapping[str, str]:
    """Return what config/compose.yaml tells a server, with this key, without what belongs to the container."""
    environment = read_yaml(ROOT / "config" / "compose.yaml").data["services"]["weaviate"]["environment"]
    variables = ("PERSISTENCE_DATA_PATH", "CLUSTER_HOSTNAME")
    return {name: value for name, value in environment.items() if name not in variables} | {
        "AUTHENTICATION_APIKEY_ALLOWED_KEYS": key
    }


async def _check_keys(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreError, match=r"refuses the API key, see knowledge\.store\.weaviate\.api_key"):
        await open_weaviate(node.settings(), "test", DIMENSION)
    monkeypatch.setenv(KEY, "wrong-key")
    with pytest.raises(StoreError, match="refuses the API key") as error_info:
        await open_weaviate(node.settings(api_key=Secret(env=KEY)), "test", DIMENSION)
    assert "wrong-key" not in str(error_info.value)
    monkeypatch.setenv(KEY, "right-key")
    async with open_store(node.settings(api_key=Secret(env=KEY))) as store:
        await put(store, random_rows(100))


async def _check_reading_key(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that may only read is enough to search, and `kimas check --live` tells the two apart."""
    settings = node.settings(api_key=Secret(env=KEY))
    owner = StoreOwner("ours", frozenset({"docs"}))
    await (await open_weaviate(settings, "test", DIMENSION, owner=owner)).close()
    assert (await check_weaviate(settings, owner)).endswith(" answers")
    monkeypatch.setenv(KEY, "reading-key\n")
    assert "the key may read only" in await check_weaviate(settings, owner)
    store = await open_weaviate(settings, "test", DIMENSION, owner=owner)
    assert len(await search_ids(store)) > 50
    with pytest.raises(StoreError, match="the API key has not the rights for it"):
        await put(store, [row("z", "z.md")])
    await store.close()
    monkeypatch.setenv(KEY, "right-key")


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
        async with open_store(secure) as store:
            assert len(await search_ids(store)) > 50
            await put(store, [row("a", "a.md", tokens="word1")])
            assert "a" in await search_ids(store)
        with pytest.raises(StoreError, match="could not be opened"):
            await open_weaviate(secure.model_copy(update={"secure": False}), "test", DIMENSION)
    monkeypatch.delenv("SSL_CERT_FILE")


async def _check_going_away(node: Node) -> set[str]:
    """Check what is said while the server is away; return what is found when it is back."""
    async with open_store(node.settings(api_key=Secret(env=KEY), read_timeout_s=3)) as store:
        searches = [asyncio.create_task(search_ids(store)) for _ in range(20)]
        await asyncio.sleep(0.02)
        await node.stop()
        for outcome in await asyncio.gather(*searches, return_exceptions=True):
            assert isinstance(outcome, StoreError | set), outcome
        started_at = time.monotonic()
        with pytest.raises(StoreError, match="could not be read"):
            await search_ids(store)
        assert time.monotonic() - started_at < 15
        with pytest.raises(StoreUnreachable):
            await put(store, [row("b", "b.md")])
        await node.start()
        await node.ready()
        async with asyncio.timeout(60):
            while not await _answers(store):
                await asyncio.sleep(0.2)
        assert len(await search_ids(store)) > 50
        await put(store, [row("b", "b.md", tokens="word1")])
        return await search_ids(store)


async def _answers(store: Store) -> bool:
    try:
        await search_ids(store)
    except StoreError:
        return False
    return True


@pytest.mark.timeout(400)
async def test_nothing_is_lost_when_a_killed_write_is_made_again(tmp_path: Path) -> None:
    """As the next refresh does. With the keys of the killed try, passages were lost every third time."""
    async with weaviate_servers(tmp_path, 1) as cluster:
        (node,) = cluster.nodes
        for number in range(KILLS):
            source = f"docs{number}"
            rows = random_rows(1500, source=source)
            async with open_store(node.settings(write_timeout_s=5)) as store:
                writing = asyncio.create_task(put(store, rows, source))
                await asyncio.sleep(0.3 + 0.5 * number / KILLS)
                await node.stop()
                with suppress(StoreError):
                    await writing
            await node.start()
            await node.ready()
            async with open_store(node.settings()) as store:
                await _put_when_serving(store, rows, source)
                assert len(await store.vectors(source)) == len(rows)


async def _put_when_serving(store: Store, rows: Sequence[PassageRow], source: str) -> None:
    """Write as soon as the server takes writes: it answers a moment earlier."""
    async with asyncio.timeout(60):
        while True:
            try:
                await put(store, rows, source)
            except StoreError:
                await asyncio.sleep(0.5)
            else:
                return


@pytest.mark.serial
async def test_a_full_disk(tmp_path: Path) -> None:
    """Its disk passes the limit while it runs: nothing is taken, everything known is served, and then it goes on."""
    # Others fill it meanwhile, too, by less than that.
    limit = int(_used(tmp_path)) + 2
    if _missing(tmp_path, limit) > os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize // 2:
        pytest.skip("A FULL DISK IS NOT TESTED: there is too little room to make it a hundredth fuller")
    async with weaviate_servers(tmp_path, 1, DISK_USE_READONLY_PERCENTAGE=str(limit)) as cluster:
        (node,) = cluster.nodes
        address = node.settings().model_dump(include={"host", "http_port", "grpc_port"})
        store = {"provider": "weaviate", "weaviate": address}
        sources = {"docs": {"kind": "files", "path": str(tmp_path / "docs")}}
        deployment = Deployment(tmp_path, {"sources": sources, "knowledge": {"store": store}})
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "rocket.md").write_text("# Rocket\n\nIt flies to the moon.\n", "utf-8")
        await asyncio.to_thread(deployment.call, "ingest")
        await _fill_disk(tmp_path, node, limit)
        (tmp_path / "docs" / "rocket.md").write_text("# Rocket\n\nIt flies to Mars.\n", "utf-8")
        (tmp_path / "docs" / "new.md").write_text("# New\n\nIt stays here.\n", "utf-8")
        result = await asyncio.to_thread(deployment.call, "ingest", code=1)
        assert "the server takes nothing more, look at its disk" in result.stderr
        await asyncio.to_thread(deployment.call, "search", "rocket")
        await _serves(node, {"rocket.md": "moon"})
        (tmp_path / "ballast").unlink()
        # From 1.36 on it notices by itself; an older one has to be started again.
        await node.stop(signal.SIGTERM)
        await node.start()
        await node.ready()
        await _serves(node, {"rocket.md": "moon"})
        await asyncio.to_thread(deployment.call, "ingest")
        await _serves(node, {"rocket.md": "Mars", "new.md": "stays"})


def _used(folder: Path) -> float:
    """Return how full the disk is, in percent, as the server reckons it."""
    disk = os.statvfs(folder)
    return 100 * (1 - disk.f_bfree / disk.f_blocks)


def _missing(folder: Path, limit: int) -> int:
    """Return how many bytes make the disk fuller than the limit, which is in percent, by what others may free."""
    disk = os.statvfs(folder)
    return max(0, int((limit - _used(folder)) / 100 * disk.f_blocks * disk.f_frsize) + FREED_MEANWHILE)


async def _fill_disk(folder: Path, node: Node, limit: int) -> None:
    """Fill the disk until the server takes nothing more. Others may free some of it meanwhile."""
    async with asyncio.timeout(90):
        while "Set READONLY" not in await asyncio.to_thread((node.folder / "log").read_text):
            if count := _missing(folder, limit):
                with (folder / "ballast").open("ab") as file:
                    await asyncio.to_thread(os.posix_fallocate, file.fileno(), file.tell(), count)
            await asyncio.sleep(1)


async def _serves(node: Node, words: Mapping[str, str]) -> None:
    """Check that somebody who comes now finds exactly these documents, each with its word."""
    store = await open_weaviate(node.settings(), LOCAL_NAME, LOCAL_DIMENSION)
    try:
        passages = await store.search(query_tokens(" ".join(words.values())), None, ["docs"], 9)
        assert (await store.manifest("docs")).keys() == words.keys()
    finally:
        await store.close()
    texts = {passage.path: passage.text for passage in passages}
    assert texts.keys() == words.keys()
    assert all(word in texts[path] for path, word in words.items()), texts


async def test_a_passage_that_its_index_does_not_know_yet_has_its_cosine(tmp_path: Path) -> None:
    """A server may be told to index vectors later; here: an hour later."""
    later = {"ASYNC_INDEXING": "true", "ASYNC_INDEXING_STALE_TIMEOUT": "1h"}
    async with weaviate_servers(tmp_path, 1, **later) as cluster, open_store(cluster.nodes[0].settings()) as store:
        await put(store, [row(f"n{number}", "a.md", tokens=f"w{number}", seed=number) for number in range(9)])
        (passage,) = await store.search("w3", unit(7), ["docs"], 1)
    assert passage.id == "n3"
    assert passage.similarity == pytest.approx(float(unit(3) @ unit(7)), abs=1e-5)


# Servers that share their processors with other tests take each other for dead; even alone that takes them minutes.
@pytest.mark.serial
@pytest.mark.timeout(480)
async def test_replicas(tmp_path: Path) -> None:
    async with weaviate_servers(tmp_path, 3) as cluster:
        first, second, third = cluster.nodes
        with pytest.raises(
            StoreError, match=r"too few of its machines are up for knowledge\.store\.weaviate\.replicas"
        ):
            await open_weaviate(first.settings(replicas=4, collection="Four"), "test", DIMENSION)
        # The others need up to half a minute to take a machine for dead.
        async with open_store(first.settings(replicas=3, write_timeout_s=60)) as store:
            await put(store, random_rows(100))
            await third.stop()
            await _put_again(store, random_rows(100, seed=2))
            assert {name.split("-")[1] for name in await search_ids(store)} == {"2"}
            async with open_store(second.settings(replicas=3)) as other:
                assert {name.split("-")[1] for name in await search_ids(other)} == {"2"}
            await third.start()
            await third.ready()
            # It knows nothing of the last write itself yet, but a writer there has to know whose turn it is.
            assert await _load_commit(third) == await _load_commit(first)
            refusals = await _catches_up(third)
            assert refusals, "it was never seen without what it had missed"
            assert re.search(
                r"is catching up, its machine was away: it has \d+ of the 100 newest passages", refusals[0]
            )
            await second.stop()
            await third.stop()
            started_at = time.monotonic()
            with pytest.raises(StoreError, match=r"could not be (read|written)"):
                await put(store, random_rows(100, seed=3))
            assert time.monotonic() - started_at < 180


async def _load_commit(node: Node) -> Commit:
    async with connect_cluster(node.settings(replicas=3)) as cluster:
        return Commit.from_properties((await cluster.get([commit_key("docs")]))[commit_key("docs")])


async def _put_again(store: Store, rows: Sequence[PassageRow]) -> None:
    """Write as refreshes do, which come again: a write fails whose connection to a machine ends in the middle."""
    async with asyncio.timeout(180):
        while True:
            with suppress(StoreUnreachable):
                return await put(store, rows)
            await asyncio.sleep(1)


async def _catches_up(node: Node) -> list[str]:
    """Search until all is found; return what the store said while its machine was not whole yet."""
    refusals = []
    async with open_store(node.settings(replicas=3)) as store, asyncio.timeout(90):
        while True:
            try:
                ids = await search_ids(store)
                # As the daemon does every two seconds.
                assert await store.filled(["docs"]) == {"docs"}
            except StoreCatchingUp as error:
                refusals.append(str(error))
                await asyncio.sleep(0.5)
            else:
                assert {name.split("-")[1] for name in ids} == {"2"}
                assert len(ids) == 100
                return refusals
