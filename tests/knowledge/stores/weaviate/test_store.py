"""The Weaviate store beyond its contract: what it says when a server fails, tenants, leftovers of dead writers, copies.

Tests that take `settings` need a real server, see tests/support/weaviate.py; the others are always run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from pydantic import ValidationError

from core.errors import StoreError, StoreLocked, StoreMismatch
from core.settings import Secret, StoreSettings, WeaviateSettings
from core.settings.yaml_file import read_yaml
from knowledge.ports import PassageRow, Store, StoredDocument
from knowledge.stores import open_store
from knowledge.stores.copying import copy_source
from knowledge.stores.sqlite.store import SqliteStore, open_sqlite
from knowledge.stores.weaviate import open_weaviate, store as weaviate_store, writer_lease
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.errors import explain_error
from knowledge.stores.weaviate.schema import (
    DOCUMENTS,
    PASSAGES,
    SLOT_COUNT,
    Commit,
    NewObject,
    affected_documents,
    commit_key,
    document_key,
    lease_key,
    make_document_objects,
    make_passage_objects,
    slot_ranges,
)
from knowledge.stores.weaviate.versions import RECOMMENDED_VERSION
from knowledge.stores.weaviate.writer_lease import WriterLease, hold_lease
from tests.support.stores import DIMENSION, forget, put, random_rows, row, unit
from tests.support.weaviate import connect_cluster, name_collections, opened


@pytest.fixture
def settings(weaviate_settings: WeaviateSettings) -> WeaviateSettings:
    return weaviate_settings


@asynccontextmanager
async def peer(status: str, body: str) -> AsyncIterator[WeaviateSettings]:
    """A server on a real socket that gives every HTTP request the same answer; without a status it never answers."""
    event = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (await reader.readline()).strip():
                pass
            if not status:
                await event.wait()
            content = body.encode()
            head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + content)
            await writer.drain()
        except ConnectionError:
            assert not status, "the client went away before it had its answer"
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield WeaviateSettings(host="127.0.0.1", http_port=port, grpc_port=1)
    finally:
        event.set()
        server.close()
        await server.wait_closed()


class TestWithoutServer:
    async def test_nobody_listens(self, unused_tcp_port: int) -> None:
        settings = WeaviateSettings(host="127.0.0.1", http_port=unused_tcp_port, grpc_port=1)
        with pytest.raises(
            StoreError, match=r"Weaviate at 127\.0\.0\.1:\d+ could not be opened: is it running"
        ) as error_info:
            await open_weaviate(settings, "test", DIMENSION)
        assert error_info.value.__cause__ is not None

    @pytest.mark.parametrize("port", [40163, 14030])
    def test_a_port_is_no_status(self, port: int) -> None:
        output = explain_error("Weaviate", "opened", f"Connection to Weaviate failed at 127.0.0.1:{port}")
        assert "is it running" in output

    async def test_a_server_that_never_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("knowledge.stores.weaviate.client.CONNECT_TIMEOUT_S", 0.5)
        async with peer("", "") as settings:
            started_at = time.monotonic()
            with pytest.raises(StoreError, match=r"no answer within 0\.5 seconds"):
                await open_weaviate(settings, "test", DIMENSION)
            assert time.monotonic() - started_at < 30

    async def test_a_refused_key_is_not_repeated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WEAVIATE_KEY_FOR_TESTS", "very-secret-key")
        async with peer("401 Unauthorized", '{"error": "unauthorized: invalid api key"}') as settings:
            keyed = settings.model_copy(update={"api_key": Secret(env="WEAVIATE_KEY_FOR_TESTS")})
            with pytest.raises(
                StoreError, match=r"refuses the API key, see knowledge\.store\.weaviate\.api_key"
            ) as error_info:
                await open_weaviate(keyed, "test", DIMENSION)
        assert "very-secret-key" not in str(error_info.value)

    @pytest.mark.parametrize("body", ["<html>hello</html>", "{}", "[]", '{"version": ""}'])
    async def test_something_else_listens(self, body: str) -> None:
        async with peer("200 OK", body) as settings:
            with pytest.raises(StoreError, match="could not be opened"):
                await open_weaviate(settings, "test", DIMENSION)

    @pytest.mark.parametrize("version", ["1.30.4", "1.20.0"])
    async def test_an_old_server(self, version: str) -> None:
        """The client refuses the second one itself, and names another version."""
        async with peer("200 OK", f'{{"version": "{version}"}}') as settings:
            with pytest.raises(StoreError, match=r"it needs version 1\.33 or newer"):
                await open_weaviate(settings, "test", DIMENSION)

    @pytest.mark.parametrize(
        "invalid_settings", [{"collection": "small"}, {"tenant": "a b"}, {"batch": 0}, {"grpc_port": 8080}]
    )
    def test_wrong_settings(self, invalid_settings: dict[str, object]) -> None:
        with pytest.raises(ValidationError):
            WeaviateSettings.model_validate(invalid_settings)

    async def test_files_are_the_default(self, tmp_path: Path) -> None:
        store = await open_store(StoreSettings(), tmp_path, "test", DIMENSION)
        await put(store, [row("a", "a.md")])
        await store.close()
        assert (tmp_path / "passages").is_dir()


class TestCompose:
    """config/compose.yaml starts a server that is safe by itself and fits the settings' defaults."""

    @pytest.fixture
    def service(self) -> dict[str, Any]:
        compose = read_yaml(Path(__file__).parents[4] / "config" / "compose.yaml").data
        assert set(compose) == {"services", "volumes"}
        service: dict[str, Any] = compose["services"]["weaviate"]
        assert {mount.split(":")[0] for mount in service["volumes"]} == set(compose["volumes"])
        return service

    def test_ports_are_those_of_the_settings_and_of_this_machine(self, service: dict[str, Any]) -> None:
        default = WeaviateSettings()
        ports = [f"127.0.0.1:{default.http_port}:8080", f"127.0.0.1:{default.grpc_port}:50051"]
        assert service["ports"] == ports

    def test_the_version_is_pinned_and_sound(self, service: dict[str, Any]) -> None:
        name, _, version = service["image"].rpartition(":")
        assert name == "semitechnologies/weaviate"
        assert tuple(map(int, version.split("."))) >= RECOMMENDED_VERSION

    def test_nobody_comes_in_without_the_key(self, service: dict[str, Any]) -> None:
        environment = service["environment"]
        assert environment["AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED"] == "false"
        assert environment["AUTHENTICATION_APIKEY_ALLOWED_KEYS"].startswith("${WEAVIATE_KEY:?")
        assert environment["AUTHENTICATION_APIKEY_USERS"] == environment["AUTHORIZATION_ADMINLIST_USERS"]
        assert all(isinstance(value, str) for value in environment.values()), "Compose takes texts, no booleans"

    def test_its_data_outlives_it_and_its_health_is_watched(self, service: dict[str, Any]) -> None:
        (mount,) = service["volumes"]
        assert mount.split(":")[1] == service["environment"]["PERSISTENCE_DATA_PATH"]
        assert service["healthcheck"]["test"][-1].endswith("/v1/.well-known/ready")
        assert service["restart"] == "unless-stopped"


class TestRows:
    @pytest.mark.parametrize("total", [1, 499, 500, 501, 100_000])
    def test_ranges_hold_every_slot_once(self, total: int) -> None:
        results = list(slot_ranges(total, 500))
        assert results[0][0] == 0
        assert results[-1][1] == SLOT_COUNT
        assert all(earlier_result[1] == later_result[0] for earlier_result, later_result in pairwise(results))
        assert len(results) == -(-total // 500)

    def test_slots_are_spread_evenly(self) -> None:
        rows = random_rows(4000)
        slots = [int(entry.properties["slot"]) for entry in make_passage_objects(rows, "docs", Commit(1, "a"))]
        counts, _ = np.histogram(slots, bins=8, range=(0, SLOT_COUNT))
        assert counts.sum() == 4000
        assert 400 < counts.min() <= counts.max() < 600

    def test_every_try_has_objects_of_its_own(self) -> None:
        """A server that was killed may hold objects of the earlier try that it does not find, and would leave so."""
        rows = random_rows(20)
        commits = (Commit(1, "a"), Commit(1, "b"), Commit(2, "c"))
        keys = {entry.id for commit in commits for entry in make_passage_objects(rows, "docs", commit)}
        assert len(keys) == 60

    def test_documents_count_their_passages(self) -> None:
        entries = list(
            make_document_objects([row("a", "a.md"), row("b", "a.md")], {"e.md": "9"}, "docs", Commit(3, "a"))
        )
        results = {
            entry.properties["path"]: (entry.properties["fingerprint"], entry.properties["passages"])
            for entry in entries
        }
        assert results == {"a.md": ("1", 2), "e.md": ("9", 0)}

    def test_paths_that_differ_in_spaces_differ(self) -> None:
        assert len({document_key(path) for path in ("a.md", "a.md ", " a.md", "A.md")}) == 4

    def test_a_commit_survives_its_object(self) -> None:
        commit = Commit(7, "x", ("a", "b"), ((2, 3),), (4, 9))
        assert Commit.from_properties(json.loads(json.dumps(commit.to_properties()))) == commit
        assert Commit.from_properties(None) == Commit()


class TestTenants:
    async def test_know_nothing_of_each_other(self, weaviate_server: WeaviateSettings) -> None:
        first = name_collections(weaviate_server, tenant="first")
        second = first.model_copy(update={"tenant": "second"})
        try:
            async with opened(first) as item, opened(second, embedder="other", dimension=8) as two:
                await put(item, [row("a", "a.md", tokens="apple", seed=1)])
                small = row("b", "b.md", tokens="apple")
                await put(two, [PassageRow(small.passage, "1", "apple", unit(3, 8))])
                assert [passage.id for passage in await item.search("apple", unit(1), ["docs"], 9)] == ["a"]
                assert [passage.id for passage in await two.search("apple", unit(1, 8), ["docs"], 9)] == ["b"]
            async with opened(second, embedder="other", dimension=8, rebuild=True) as two:
                assert await two.manifest("docs") == {}
            async with opened(first) as weaviate_store:
                assert set(await weaviate_store.manifest("docs")) == {"a.md"}
            with pytest.raises(StoreError, match="is shared by tenants"):
                await open_weaviate(first.model_copy(update={"tenant": ""}), "test", DIMENSION)
        finally:
            await forget(first.model_copy(update={"tenant": "first"}))
            await _forget_collections(first)

    async def test_need_collections_made_for_them(self, settings: WeaviateSettings) -> None:
        async with opened(settings):
            pass
        with pytest.raises(StoreError, match="is not shared"):
            await open_weaviate(settings.model_copy(update={"tenant": "one"}), "test", DIMENSION)


async def _forget_collections(settings: WeaviateSettings) -> None:
    async with connect_cluster(settings) as cluster:
        for name in (PASSAGES, DOCUMENTS):
            await cluster._client.collections.delete(settings.collection + name)


class TestWriters:
    async def test_what_a_dead_writer_left_is_not_seen_and_goes(self, settings: WeaviateSettings) -> None:
        rows = [row("a", "a.md", tokens="apple", seed=1), row("b", "b.md", tokens="apple", seed=2)]
        half = [row("new", "a.md", tokens="apple", seed=3, print_="2")]
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            await put(store, rows)
            await cluster.put(PASSAGES, list(make_passage_objects(half, "docs", Commit(2, "try"))))
            await cluster.put(DOCUMENTS, list(make_document_objects(half, {}, "docs", Commit(2, "try"))))
            assert {result.id for result in await store.search("apple", unit(3), ["docs"], 9)} == {"a", "b"}
            assert (await store.manifest("docs"))["a.md"].fingerprint == "1"
            await put(store, [row("c", "c.md", tokens="apple", seed=4)])
            assert {result.id for result in await store.search("apple", unit(3), ["docs"], 9)} == {"a", "b", "c"}
            assert len(await store.vectors("docs")) == 3

    async def test_what_was_replaced_is_not_seen_before_it_is_deleted(self, settings: WeaviateSettings) -> None:
        newer = [row("a", "a.md", tokens="newer", seed=5, print_="2")]
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            await put(store, [row("a", "a.md", tokens="older"), row("a2", "a.md"), row("b", "b.md", tokens="older")])
            # The same as `replace` until it is killed right behind its commit.
            await cluster.put(PASSAGES, list(make_passage_objects(newer, "docs", Commit(2, "try"))))
            await cluster.put(DOCUMENTS, list(make_document_objects(newer, {}, "docs", Commit(2, "try"))))
            commit = Commit(2, "second", affected_documents(["a.md"], newer, ()))
            await cluster.put(DOCUMENTS, [NewObject(commit_key("docs"), commit.to_properties())])
            for _ in range(2):
                passages = await store.search("older newer a2", unit(1), ["docs"], 9)
                assert sorted(passage.text for passage in passages) == ["Text of a", "Text of b"]
                assert await store.manifest("docs") == {"a.md": StoredDocument("2", 1), "b.md": StoredDocument("1", 1)}
                assert len(await store.vectors("docs")) == 2
                await store.replace("docs", ["nothing.md"], [])
            objects = [
                stored_object async for page in cluster.pages(PASSAGES, {"docs": Commit(9)}) for stored_object in page
            ]
            assert len(objects) == 2

    async def test_what_a_server_loses_during_a_write_is_written_again(
        self, settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As after a kill: some objects of batches that were confirmed cannot be found before the commit."""
        monkeypatch.setattr(weaviate_store, "MAX_BATCH_SIZE", 20)
        rows = random_rows(300)
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            losing = asyncio.create_task(_lose_objects(cluster))
            await put(store, rows)
            assert await losing > 0
            assert len(await store.vectors("docs")) == len(rows)
            assert len(await store.rows("docs", {passage_row.passage.path for passage_row in rows})) == len(rows)

    async def test_bytes_and_objects_bound_a_request_and_one_alone_may_have_more(
        self, settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_objects = Cluster.put
        requests: list[list[int]] = []

        async def record(cluster: Cluster, name: str, new_objects: Sequence[NewObject]) -> None:
            if name == PASSAGES:
                requests.append([new_object.size for new_object in new_objects])
            await put_objects(cluster, name, new_objects)

        monkeypatch.setattr(Cluster, "put", record)
        rows = random_rows(300)
        long_texts = {150: 900_000, 151: 900_000, 152: 3_000_000}
        for number, length in long_texts.items():
            rows[number] = replace(rows[number], passage=replace(rows[number].passage, text="x" * length))
        async with opened(settings) as store:
            await put(store, rows)
            assert len(await store.vectors("docs")) == 300
        assert sum(map(len, requests)) == 300
        assert len(requests) >= 8
        assert max(map(len, requests)) == weaviate_store.MAX_BATCH_SIZE
        assert all(sum(sizes) <= weaviate_store.MAX_BATCH_BYTES or len(sizes) == 1 for sizes in requests)

    async def test_one_source_has_one_writer(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            async with hold_lease(cluster, "docs", 60) as lease:
                renewing = asyncio.create_task(_renew(lease))
                with pytest.raises(StoreLocked, match="another process is writing source docs"):
                    await put(store, [row("a", "a.md")])
                await put(store, [row("a", "a.md", source="other")], "other")
                renewing.cancel()
                await asyncio.gather(renewing, return_exceptions=True)
            await put(store, [row("a", "a.md")])
            assert len(await store.manifest("docs")) == 1

    async def test_the_claim_of_a_dead_writer_runs_out(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            expiry_ms = int((time.time() + 0.5) * 1000)
            assert await cluster.create(NewObject(lease_key("docs", 1), {"owner": "dead", "until": expiry_ms}))
            await put(store, [row("a", "a.md")])
            assert (await load_commit(cluster)).generation == 2
            assert await cluster.get([lease_key("docs", 1), lease_key("docs", 2)]) == {}

    async def test_a_writer_that_lost_its_claim_commits_nothing(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            async with hold_lease(cluster, "docs", 60) as claim:
                await cluster.put(DOCUMENTS, [NewObject(lease_key("docs", 2), {"owner": "new", "until": 1})])
                with pytest.raises(StoreLocked, match="took over"):
                    await claim.renew(force=True)
            assert (await cluster.get([lease_key("docs", 2)]))[lease_key("docs", 2)]["owner"] == "new"
            assert await store.manifest("docs") == {}

    async def test_what_a_paused_writer_sends_late_is_never_seen(self, settings: WeaviateSettings) -> None:
        """It was paused before it sent a batch, and another one has committed meanwhile, more than once."""
        late_rows = [row(f"late{number}", "late.md", tokens="apple") for number in range(3)]
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            paused = WriterLease(cluster, "docs", "paused", 0.1)
            await paused.acquire()
            for name in ("a", "b"):
                await put(store, [row(name, f"{name}.md", tokens="apple")])
                late_objects = make_passage_objects(late_rows, "docs", Commit(paused.generation, f"late {name}"))
                await cluster.put(PASSAGES, list(late_objects))
                with pytest.raises(StoreLocked, match="took over"):
                    await paused.renew(force=True)
                assert {result.id for result in await store.search("apple", unit(3), ["docs"], 9)} <= {"a", "b"}
            assert set(await store.manifest("docs")) == {"a.md", "b.md"}
            await paused.release()
            await put(store, [row("c", "c.md")])
            assert await cluster.count_newest(PASSAGES, "docs", paused.generation) == 0, "the next write deletes it"
            assert (await load_commit(cluster)).unfinished == ((1, 1),)

    @pytest.mark.parametrize("waiting_count", [3, 12])
    async def test_one_of_many_has_the_claim_of_a_dead_writer(
        self, settings: WeaviateSettings, waiting_count: int
    ) -> None:
        async with opened(settings), connect_cluster(settings) as cluster:
            for number in range(2):
                await WriterLease(cluster, f"docs{number}", "dead", 0.3).acquire()
            holders = dict.fromkeys((f"docs{number}" for number in range(2)), 0)

            async def write(source: str, delay_s: float) -> None:
                await asyncio.sleep(delay_s)
                async with hold_lease(cluster, source, 20) as claim:
                    holders[source] += 1
                    assert holders[source] == 1, "two hold it at once"
                    await asyncio.sleep(0.1)
                    await claim.renew(force=True)
                    holders[source] -= 1

            waiting = ((source, 0.013 * number) for source in holders for number in range(waiting_count))
            await asyncio.gather(*(write(source, delay_s) for source, delay_s in waiting))

    async def test_a_claim_of_a_clock_that_was_ahead_ends(self, settings: WeaviateSettings) -> None:
        async with opened(settings), connect_cluster(settings) as cluster:
            claim = {"owner": "dead", "until": int((time.time() + 86_400) * 1000)}
            await cluster.put(DOCUMENTS, [NewObject(lease_key("docs", 1), claim)])
            async with asyncio.timeout(20), hold_lease(cluster, "docs", 0.5) as lease:
                assert lease.generation == 2

    async def test_failed_writes_leave_claims_that_the_next_one_clears(
        self, settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(writer_lease, "PAGE_SIZE", 2)
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            for _ in range(5):
                async with hold_lease(cluster, "docs", 60):
                    pass
            await put(store, [row("a", "a.md")])
            assert await load_commit(cluster) == Commit(6, ANY, (), ((1, 5),))
            assert await cluster.get([lease_key("docs", number) for number in range(8)]) == {}
            assert set(await store.manifest("docs")) == {"a.md"}

    async def test_commits_of_an_earlier_version_are_read(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            await put(store, [row("a", "a.md")])
            old = {"generation": 1, "commit": "old", "replaced": json.dumps(affected_documents(["b.md"], [], ()))}
            await cluster.put(DOCUMENTS, [NewObject(commit_key("docs"), old)])
            assert set(await store.manifest("docs")) == {"a.md"}
            await put(store, [row("b", "b.md")])
            assert set(await store.manifest("docs")) == {"a.md", "b.md"}

    async def test_passages_that_are_there_twice_are_read_again(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            await put(store, [row("a", "a.md"), row("b", "b.md")])
            twice = make_passage_objects([row("a", "a.md"), row("x", "x.md")], "docs", Commit(1, "again"))
            # As a server that was killed while it deleted: it shows them, but does not find them by their document.
            lost = [replace(obj, properties={**obj.properties, "document": "lost"}) for obj in twice]
            await cluster.put(PASSAGES, lost)
            manifest = await store.manifest("docs")
            assert {path for path, document in manifest.items() if document.is_damaged} == {"a.md", "x.md"}
            await store.replace("docs", ["a.md", "x.md"], [row("a", "a.md")])
            assert await store.manifest("docs") == {"a.md": StoredDocument("1", 1), "b.md": StoredDocument("1", 1)}
            assert len(await store.vectors("docs")) == 2

    async def test_refused_objects_are_counted(self, settings: WeaviateSettings) -> None:
        async with opened(settings), connect_cluster(settings) as cluster:
            valid_commit, invalid_commit = (
                NewObject(commit_key(name), {"passages": value}) for name, value in (("x", 1), ("y", "many"))
            )
            with pytest.raises(StoreError, match=r"refused 1 of 2 objects, the first: .*passages"):
                await cluster.put(DOCUMENTS, [valid_commit, invalid_commit])
            with pytest.raises(StoreError, match="refused all of 1 objects"):
                await cluster.put(DOCUMENTS, [invalid_commit])

    async def test_a_server_that_takes_nothing_more(self, settings: WeaviateSettings) -> None:
        """What a server does whose disk is nearly full: it makes its shards read-only."""
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            await put(store, [row("a", "a.md", tokens="apple")])
            for name in (PASSAGES, DOCUMENTS):
                await cluster._collections[name].config.update_shards(status="READONLY")
            with pytest.raises(StoreError, match="takes nothing more, look at its disk"):
                await put(store, [row("b", "b.md", tokens="apple")])
            assert [result.id for result in await store.search("apple", unit(1), ["docs"], 9)] == ["a"]
            for name in (PASSAGES, DOCUMENTS):
                await cluster._collections[name].config.update_shards(status="READY")
            await put(store, [row("b", "b.md", tokens="apple")])
            assert len(await store.search("apple", unit(1), ["docs"], 9)) == 2

    async def test_more_replicas_than_machines(self, settings: WeaviateSettings) -> None:
        with pytest.raises(StoreError, match=r"too few of its machines are up for .*replicas"):
            await open_weaviate(settings.model_copy(update={"replicas": 2}), "test", DIMENSION)

    async def test_a_source_longer_than_a_page(self, settings: WeaviateSettings) -> None:
        rows = random_rows(1200, per_document=1)
        async with opened(settings) as store:
            await put(store, rows)
            assert len(await store.manifest("docs")) == 1200
            vectors = await store.vectors("docs")
        expected = np.array([passage_row.vector for passage_row in rows])
        np.testing.assert_allclose(np.sort(vectors, axis=0), np.sort(expected, axis=0), rtol=1e-6)


async def _renew(lease: WriterLease) -> None:
    """Renew a claim as a writer does that is at work."""
    while True:
        await lease.renew(force=True)
        await asyncio.sleep(0.1)


async def _lose_objects(cluster: Cluster) -> int:
    """Delete what there is of the first write as soon as there is something, and return how many objects that were."""
    while not (lost := await cluster.count_newest(PASSAGES, "docs", 1)):
        await asyncio.sleep(0.01)
    await cluster.delete_unfinished("docs", Commit(), 1)
    return lost


async def load_commit(cluster: Cluster) -> Commit:
    """Return the newest commit of the source "docs"."""
    return Commit.from_properties((await cluster.get([commit_key("docs")]))[commit_key("docs")])


async def test_what_was_written_last_gets_its_vectors_first(settings: WeaviateSettings) -> None:
    async with opened(settings) as store:
        for number in range(5):
            await put(store, [row(f"n{number}", f"{number}.md")])
        assert list(await store.manifest("docs")) == ["4.md", "3.md", "2.md", "1.md", "0.md"]


async def test_a_rebuild_with_the_same_model_is_noticed(settings: WeaviateSettings) -> None:
    async with opened(settings) as store:
        await put(store, [row("old", "a.md", tokens="word")])
        assert [result.id for result in await store.search("word", unit(1), ["docs"], 5)] == ["old"]
        async with opened(settings, rebuild=True) as other:
            await put(other, [row("new", "a.md", tokens="word")])
        assert [result.id for result in await store.search("word", unit(1), ["docs"], 5)] == ["new"]


async def test_a_closed_store_says_so(settings: WeaviateSettings) -> None:
    async with opened(settings) as store:
        pass
    with pytest.raises(StoreError, match="could not be read"):
        await store.search("word", unit(1), ["docs"], 5)


class TestCopying:
    async def test_takes_rows_with_their_vectors(self, tmp_path: Path) -> None:
        origin = await sqlite(tmp_path / "one")
        target = await sqlite(tmp_path / "two")
        await fill(origin)
        copy_report = await copy_source(origin, target, "docs")
        assert (copy_report.copied, copy_report.deleted, copy_report.unchanged, copy_report.passages) == (21, 0, 0, 100)
        await same(origin, target)
        second_report = await copy_source(origin, target, "docs")
        assert (second_report.copied, second_report.deleted, second_report.unchanged, second_report.passages) == (
            0,
            0,
            21,
            0,
        )
        await origin.replace("docs", ["p0.md", "p1.md"], [row("new", "p0.md", print_="2")])
        report = await copy_source(origin, target, "docs")
        assert (report.copied, report.deleted, report.unchanged, report.passages) == (1, 1, 19, 1)
        await same(origin, target)
        await origin.close()
        await target.close()

    async def test_goes_to_weaviate_and_back(self, tmp_path: Path, settings: WeaviateSettings) -> None:
        origin = await sqlite(tmp_path / "one")
        back = await sqlite(tmp_path / "two")
        await fill(origin)
        async with opened(settings) as server:
            await copy_source(origin, server, "docs")
            await same(origin, server)
            await copy_source(server, back, "docs")
            await same(origin, back)
        assert await back.manifest("docs") == await origin.manifest("docs") != {}
        await origin.close()
        await back.close()

    async def test_takes_what_has_no_vector_yet(self, tmp_path: Path, settings: WeaviateSettings) -> None:
        rows = random_rows(10)
        rows[0] = replace(rows[0], vector=None)
        origin = await sqlite(tmp_path / "one")
        await put(origin, rows)
        async with opened(settings) as server:
            await copy_source(origin, server, "docs")
            assert (await copy_source(origin, server, "docs")).copied == 0
            assert await server.manifest("docs") == await origin.manifest("docs")
            copied_vectors = [copied_row.vector for copied_row in await server.rows("docs", ["p0.md"])]
        await origin.close()
        assert sum(vector is None for vector in copied_vectors) == 1

    async def test_only_between_stores_of_one_model(self, tmp_path: Path) -> None:
        origin = await sqlite(tmp_path / "one")
        target = await open_sqlite(tmp_path / "two", "other", 8)
        await fill(origin)
        with pytest.raises(StoreMismatch):
            await copy_source(origin, target, "docs")
        assert await target.manifest("docs") == {}
        await origin.close()
        await target.close()


async def sqlite(folder: Path) -> SqliteStore:
    return await open_sqlite(folder, "test", DIMENSION)


async def fill(store: Store) -> None:
    rows = random_rows(100)
    await store.replace("docs", {passage_row.passage.path for passage_row in rows}, rows, {"empty.md": "e"})


async def same(item: Store, other: Store) -> None:
    """Check that two stores hold the same: documents, passages, words, vectors."""
    assert await item.manifest("docs") == await other.manifest("docs")
    result = []
    for store in (item, other):
        await store.optimize()
        passages = await store.search("word1 word5 word9", unit(4), ["docs"], 100)
        values_by_id = {
            passage.id: (passage.text, passage.title, passage.url, passage.start_line) for passage in passages
        }
        scores = {passage.id: (passage.similarity, passage.lexical) for passage in passages}
        result.append((values_by_id, scores))
    assert result[0][0] == result[1][0]
    for name, pair in result[0][1].items():
        assert pair == pytest.approx(result[1][1][name], rel=1e-4, abs=1e-6)
