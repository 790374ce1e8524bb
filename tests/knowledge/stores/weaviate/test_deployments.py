"""Deployments that meet on one Weaviate server: whose passages they are, and whose collections.

The server is a real one, see tests/support/weaviate.py.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from weaviate.classes.config import Configure, DataType, Property, StopwordsPreset, Tokenization, VectorDistances
from weaviate.classes.query import Filter

from core.errors import StoreError, StoreMismatch, StoreUnreachable
from core.settings import WeaviateSettings
from knowledge.ports import StoredDocument, StoreOwner
from knowledge.stores.weaviate import check_weaviate, open_weaviate
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.schema import (
    DOCUMENTS,
    LATER_PROPERTIES,
    OWNER_KEY,
    PASSAGES,
    Commit,
    NewObject,
    commit_key,
    document_key,
    make_collection_config,
    make_document_objects,
)
from tests.support.deployment import Deployment
from tests.support.stores import DIMENSION, forget, put, row, unit
from tests.support.weaviate import connect_cluster, name_collections, opened, serve_bytes

pytestmark = pytest.mark.slow

OURS = StoreOwner("ours", frozenset({"docs"}))
THEIRS = StoreOwner("theirs", frozenset({"docs"}))


@pytest.fixture
def settings(weaviate_settings: WeaviateSettings) -> WeaviateSettings:
    return weaviate_settings


def deploy(folder: Path, settings: WeaviateSettings, page: str, **changes: Any) -> Deployment:
    """Return a deployment with one page, whose passages go to this server."""
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / f"{page}.md").write_text(f"# The {page}\n\nThe {page} stands in the harbour.\n", "utf-8")
    server = settings.model_dump(mode="json", exclude_none=True) | changes
    store = {"provider": "weaviate", "weaviate": server}
    sources = {"docs": {"kind": "files", "path": str(folder / "docs")}}
    return Deployment(folder, {"sources": sources, "knowledge": {"store": store}})


async def call_json(deployment: Deployment, *arguments: str) -> Any:
    """Run a command on the only source, and return what its `--json` says of it."""
    (source,) = (await asyncio.to_thread(deployment.json, *arguments))["sources"]
    return source


async def call(deployment: Deployment, *arguments: str, code: int = 0) -> str:
    """Run a command and return all of its output."""
    return (await asyncio.to_thread(deployment.call, *arguments, code=code)).output


class TestOwners:
    async def test_two_deployments_do_not_share_their_passages(
        self, tmp_path: Path, settings: WeaviateSettings
    ) -> None:
        first = deploy(tmp_path / "first", settings, "gearbox")
        second = deploy(tmp_path / "second", settings, "lantern")
        await call(first, "ingest")
        for arguments in (("ingest",), ("ingest", "--rebuild"), ("search", "gearbox"), ("check", "--live")):
            output = await call(second, *arguments, code=1)
            assert "belongs to another deployment: set tenant or collection" in output
            assert "The gearbox stands" not in output
        assert "unchanged" in await call(first, "ingest")
        assert "gearbox.md" in await call(first, "search", "gearbox")
        assert "another deployment" not in await call(first, "check", "--live")

    async def test_one_journal_is_one_deployment_and_so_is_one_name(
        self, tmp_path: Path, settings: WeaviateSettings
    ) -> None:
        first = deploy(tmp_path / "first", settings, "gearbox")
        await call(first, "ingest")
        async with connect_cluster(settings) as cluster:
            deployment_id = (await cluster.get([OWNER_KEY]))[OWNER_KEY]["owner"]
        second = deploy(tmp_path / "second", settings, "gearbox", deployment=deployment_id)
        assert "gearbox.md" in await call(second, "search", "gearbox")
        await call(first, "ingest", "--rebuild")
        await call(first, "store", "copy", "--to", "sqlite")
        await call(first, "store", "copy", "--to", "weaviate")
        assert "gearbox.md" in await call(second, "search", "gearbox")

    async def test_daemons_of_one_deployment_may_start_at_once(self, weaviate_server: WeaviateSettings) -> None:
        """A server that has just made a collection refuses to read it for a moment."""
        for delay_s in (0.02, 0.04, 0.08, 0.12):
            settings = name_collections(weaviate_server)

            async def open_later(delay_s: float, settings: WeaviateSettings = settings) -> None:
                await asyncio.sleep(delay_s)
                await (await open_weaviate(settings, "test", DIMENSION, owner=OURS)).close()

            await asyncio.gather(*(open_later(delay_s * number) for number in range(3)))
            await forget(settings)

    async def test_a_deployment_that_is_faster_has_them(self, settings: WeaviateSettings) -> None:
        results = await asyncio.gather(
            *(open_weaviate(settings, "test", DIMENSION, owner=owner) for owner in (OURS, THEIRS)),
            return_exceptions=True,
        )
        (store,) = (result for result in results if not isinstance(result, BaseException))
        (error,) = (result for result in results if isinstance(result, BaseException))
        await store.close()
        assert isinstance(error, StoreError)
        assert "belongs to another deployment" in str(error)


class TestStoresOfEarlierVersions:
    """They have no owner."""

    async def test_belong_to_the_first_deployment_that_knows_their_sources(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store:
            await put(store, [row("a", "a.md")])
        for _ in range(2):
            store = await open_weaviate(settings, "test", DIMENSION, owner=OURS)
            assert set(await store.manifest("docs")) == {"a.md"}
            await store.close()
        with pytest.raises(StoreError, match=r"belongs to another deployment.*deployment to ours"):
            await open_weaviate(settings, "test", DIMENSION, owner=THEIRS)

    async def test_with_unknown_sources_are_refused(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store:
            await put(store, [row("a", "a.md")])
            await put(store, [row("b", "b.md", source="manual")], "manual")
            for rebuild in (False, True):
                with pytest.raises(StoreError, match=r"another deployment, it seems: .*\(manual\): set tenant or"):
                    await open_weaviate(settings, "test", DIMENSION, owner=OURS, rebuild=rebuild)
            assert set(await store.manifest("manual")) == {"b.md"}
        named = StoreOwner("by-name", frozenset({"docs"}), is_named=True)
        await (await open_weaviate(settings, "test", DIMENSION, owner=named)).close()
        with pytest.raises(StoreError, match=r"deployment to by-name"):
            await open_weaviate(settings, "test", DIMENSION, owner=OURS)

    async def test_take_passages_without_vectors(self, settings: WeaviateSettings) -> None:
        """Their documents do not say how many of their passages have none."""
        properties = make_collection_config(DOCUMENTS, settings)["properties"]
        old_properties = [item for item in properties if item.name not in LATER_PROPERTIES]
        async with connect_cluster(settings) as cluster:
            await make_collection(cluster, settings, DOCUMENTS, properties=old_properties)
            await make_collection(cluster, settings, PASSAGES)
            assert await cluster.has_collections()
            earlier = NewObject(commit_key("docs"), Commit(1, "earlier").to_properties())
            await cluster.put(DOCUMENTS, [earlier])
            (document,) = make_document_objects([], {"old.md": "1"}, "docs", Commit(1, "earlier"))
            known = {name: value for name, value in document.properties.items() if name not in LATER_PROPERTIES}
            await cluster.put(DOCUMENTS, [NewObject(document.id, known)])
            async with opened(settings) as store:
                await put(store, [replace(row("a", "a.md", tokens="apple"), vector=None)])
                manifest = await store.manifest("docs")
                assert [passage.id for passage in await store.search("apple", unit(1), ["docs"], 5)] == ["a"]
            documents = await cluster._client.collections.use(settings.collection + DOCUMENTS).config.get()
        assert manifest == {"old.md": StoredDocument("1", 0), "a.md": StoredDocument("1", 1, 1)}
        assert {item.name: item.data_type for item in documents.properties}["unfilled"] == DataType.INT


async def make_collection(cluster: Cluster, settings: WeaviateSettings, name: str, **changes: Any) -> None:
    """Create a collection as we do, but for these changes."""
    await cluster._client.collections.create(**make_collection_config(name, settings) | changes)


class TestCollectionsOfOthers:
    async def test_another_program_keeps_them(self, tmp_path: Path, settings: WeaviateSettings) -> None:
        name = settings.collection + DOCUMENTS
        deployment = deploy(tmp_path, settings, "gearbox")
        async with connect_cluster(settings) as cluster:
            theirs = await cluster._client.collections.create(
                name, properties=[Property(name="source", data_type=DataType.TEXT)]
            )
            await theirs.data.insert({"source": "theirs"})
            for arguments in (("check", "--live"), ("ingest",), ("ingest", "--rebuild")):
                assert f"{name} belongs to another program" in await call(deployment, *arguments, code=1)
            with pytest.raises(StoreError, match="belongs to another program"):
                await cluster.drop()
            assert (await theirs.aggregate.over_all(total_count=True)).total_count == 1
            assert [entry.name for entry in (await theirs.config.get()).properties] == ["source"]
            assert not await cluster._client.collections.exists(settings.collection + PASSAGES), "nothing was made"
            await cluster._client.collections.delete(name)

    @pytest.mark.parametrize(
        ("changes", "difference"),
        [
            (
                {
                    "vector_config": Configure.Vectors.self_provided(
                        vector_index_config=Configure.VectorIndex.hnsw(
                            distance_metric=VectorDistances.DOT, quantizer=Configure.VectorIndex.Quantizer.none()
                        )
                    )
                },
                "distance of the vectors is dot instead of cosine",
            ),
            ({"sharding_config": Configure.sharding(desired_count=3)}, "number of shards is 3 instead of 1"),
            (
                {
                    "inverted_index_config": Configure.inverted_index(
                        bm25_k1=1.2, bm25_b=0.75, stopwords_preset=StopwordsPreset.EN
                    )
                },
                "preset of stop words is en instead of none",
            ),
            (
                {
                    "inverted_index_config": Configure.inverted_index(
                        bm25_k1=1.5, bm25_b=0.75, stopwords_preset=StopwordsPreset.NONE
                    )
                },
                "k1 of BM25 is 1.5 instead of 1.2",
            ),
        ],
    )
    async def test_other_settings_are_named(
        self, settings: WeaviateSettings, changes: dict[str, Any], difference: str
    ) -> None:
        async with connect_cluster(settings) as cluster:
            await make_collection(cluster, settings, PASSAGES, **changes)
            await self._check(cluster, settings, difference)

    async def test_another_tokenization_is_named(self, settings: WeaviateSettings) -> None:
        properties = make_collection_config(PASSAGES, settings)["properties"]
        properties[0].tokenization = Tokenization.WORD
        async with connect_cluster(settings) as cluster:
            await make_collection(cluster, settings, PASSAGES, properties=properties)
            await self._check(cluster, settings, "tokenization of property source is word instead of field")

    async def _check(self, cluster: Cluster, settings: WeaviateSettings, difference: str) -> None:
        with pytest.raises(StoreError, match=f"made or changed by somebody else: {difference}"):
            await open_weaviate(settings, "test", DIMENSION)
        with pytest.raises(StoreError, match=difference):
            await check_weaviate(settings, OURS)
        assert not await cluster._client.collections.exists(settings.collection + DOCUMENTS), "nothing was made"
        await (await open_weaviate(settings, "test", DIMENSION, owner=OURS, rebuild=True)).close()
        await check_weaviate(settings, OURS)


class TestCheck:
    """`kimas check --live` says what would fail, and where."""

    async def test_what_is_there_can_be_used(self, settings: WeaviateSettings) -> None:
        assert re.fullmatch(r"Weaviate 1\.\S+ at .* answers; nothing is stored there yet", await check(settings))
        async with opened(settings):
            assert (await check(settings)).endswith(" answers")

    @pytest.mark.parametrize("reply", [None, b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"])
    async def test_grpc_is_named_with_its_port(self, settings: WeaviateSettings, reply: bytes | None) -> None:
        """Something else listens there: a proxy without HTTP/2 may never answer."""
        async with serve_bytes(reply) as port:
            await self._check_refusal(settings.model_copy(update={"grpc_port": port}))
        await self._check_refusal(settings.model_copy(update={"grpc_port": port}))

    async def _check_refusal(self, settings: WeaviateSettings) -> None:
        for use in (check(settings), open_weaviate(settings, "test", DIMENSION)):
            refusal = rf"host and ports in .* right\? \(gRPC, \S+:{settings.grpc_port}: "
            started_at = time.monotonic()
            with pytest.raises(StoreUnreachable, match=refusal):
                await use
            assert time.monotonic() - started_at < 15

    async def test_another_model_is_named(self, settings: WeaviateSettings) -> None:
        async with opened(settings):
            with pytest.raises(StoreMismatch, match=rf"was built with test \(dimension {DIMENSION}"):
                await check(settings, ("other", DIMENSION))

    async def test_a_tenant_that_is_not_named_or_switched_off(self, settings: WeaviateSettings) -> None:
        tenant = settings.model_copy(update={"tenant": "one"})
        async with opened(tenant) as store, connect_cluster(tenant) as cluster:
            await put(store, [row("a", "a.md")])
            with pytest.raises(StoreError, match="is shared by tenants"):
                await check(settings)
            for name in (PASSAGES, DOCUMENTS):
                await cluster._collections[name].tenants.deactivate("one")
            with pytest.raises(StoreError, match=r"the tenant is switched off.*\.tenant"):
                await store.search("a", None, ["docs"], 5)
            with pytest.raises(StoreError, match=r"the tenant is switched off.*INACTIVE"):
                await check(tenant)
            await cluster._client.collections.delete(settings.collection + PASSAGES)
            await cluster._client.collections.delete(settings.collection + DOCUMENTS)

    async def test_a_shard_that_takes_nothing(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            await put(store, [row("a", "a.md")])
            for name in (PASSAGES, DOCUMENTS):
                await cluster._collections[name].config.update_shards(status="READONLY")
            with pytest.raises(StoreError, match=r"takes nothing more, .*READONLY"):
                await check(settings)
            with pytest.raises(StoreError, match=r"takes nothing more"):
                await cluster.delete_older("docs", 9, [document_key("a.md")])


async def check(settings: WeaviateSettings, model: tuple[str, int] = ("test", DIMENSION)) -> str:
    return await check_weaviate(settings, OURS, model)


async def lose_passages(cluster: Cluster, path: str) -> None:
    """Delete the passages of a document on the server."""
    path_filter = Filter.by_property("document").equal(document_key(path))
    await cluster._collections[PASSAGES].data.delete_many(path_filter)


class TestLostPassages:
    """Whatever a server loses, the next refresh reads it again and says so."""

    async def test_deleted_passages(self, tmp_path: Path, settings: WeaviateSettings) -> None:
        deployment = deploy(tmp_path, settings, "gearbox")
        (tmp_path / "docs" / "lantern.md").write_text("# The lantern\n\nThe lantern shines.\n", "utf-8")
        await call(deployment, "ingest")
        async with connect_cluster(settings) as cluster:
            await lose_passages(cluster, "gearbox.md")
        await self._check_repair(deployment, 1)
        assert "lantern.md" in await call(deployment, "search", "lantern")

    @pytest.mark.parametrize("name", [PASSAGES, DOCUMENTS])
    async def test_a_deleted_collection(self, tmp_path: Path, settings: WeaviateSettings, name: str) -> None:
        deployment = deploy(tmp_path, settings, "gearbox")
        await call(deployment, "ingest")
        async with connect_cluster(settings) as cluster:
            await cluster._client.collections.delete(settings.collection + name)
        if name == PASSAGES:
            await self._check_repair(deployment, 1)
        else:
            # The documents are unknown as well: they are all new.
            assert (await call_json(deployment, "ingest"))["added"] == 1
        assert "gearbox.md" in await call(deployment, "search", "gearbox")

    async def _check_repair(self, deployment: Deployment, count: int) -> None:
        line = f"the store had lost passages of {count} document, which were read again"
        assert line in await call(deployment, "ingest")
        assert line in await call(deployment, "sources")
        assert "gearbox.md" in await call(deployment, "search", "gearbox")
        assert (await call_json(deployment, "ingest"))["repaired"] == 0
        assert line not in await call(deployment, "sources")

    async def test_a_server_that_came_back_empty_is_filled_by_who_has_it_open(self, settings: WeaviateSettings) -> None:
        store = await open_weaviate(settings, "test", DIMENSION, owner=OURS)
        try:
            await put(store, [row("a", "a.md", tokens="word")])
            assert await store.filled(["docs", "other"]) == {"docs"}
            await forget(settings)
            with pytest.raises(StoreUnreachable):
                await store.search("word", None, ["docs"], 5)
            assert await store.filled(["docs"]) == set()
            assert await store.manifest("docs") == {}
            # It is about to be read again: that nothing was found would not be true.
            with pytest.raises(StoreUnreachable, match="came back without source docs"):
                await store.search("word", None, ["docs"], 5)
            assert await store.search("word", None, ["other"], 5) == []
            await put(store, [row("a", "a.md", tokens="word")])
            assert [passage.id for passage in await store.search("word", None, ["docs"], 5)] == ["a"]
        finally:
            await store.close()
        with pytest.raises(StoreError, match="belongs to another deployment"):
            await open_weaviate(settings, "test", DIMENSION, owner=THEIRS)

    async def test_the_manifest_counts_what_is_there(self, settings: WeaviateSettings) -> None:
        async with opened(settings) as store, connect_cluster(settings) as cluster:
            await put(store, [row("a", "a.md"), row("b", "b.md")])
            await lose_passages(cluster, "a.md")
            manifest = await store.manifest("docs")
            assert {path for path, document in manifest.items() if document.is_damaged} == {"a.md"}
            assert {path: document.passage_count for path, document in manifest.items()} == {"a.md": 0, "b.md": 1}


async def test_collections_with_another_graph_of_the_vectors_are_usable(settings: WeaviateSettings) -> None:
    """How many connections it has is the server's choice, or that of who runs it."""
    index = Configure.VectorIndex.hnsw(
        distance_metric=VectorDistances.COSINE,
        max_connections=16,
        ef_construction=64,
        quantizer=Configure.VectorIndex.Quantizer.none(),
    )
    async with connect_cluster(settings) as cluster:
        vectors = Configure.Vectors.self_provided(vector_index_config=index)
        await make_collection(cluster, settings, PASSAGES, vector_config=vectors)
    async with opened(settings) as store:
        await put(store, [row("a", "a.md")])
        assert [passage.id for passage in await store.search("", unit(2), ["docs"], 5)] == ["a"]
