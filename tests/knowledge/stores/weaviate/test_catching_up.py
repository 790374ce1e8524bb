"""Whether a machine has what a commit promises: a real server plays one of a cluster that was away.

That such machines catch up is in test_servers.py, with a real cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from unittest.mock import AsyncMock

import pytest

from core.errors import StoreUnreachable
from core.settings import WeaviateSettings
from knowledge.stores.weaviate import catching_up
from knowledge.stores.weaviate.catching_up import ReplicaWatch, StoreCatchingUp
from knowledge.stores.weaviate.client import Cluster
from knowledge.stores.weaviate.schema import (
    DOCUMENTS,
    PASSAGES,
    Commit,
    document_key,
    make_document_objects,
    make_passage_objects,
)
from tests.support.stores import row
from tests.support.weaviate import connect_cluster, opened

ROWS = [row(name, "a.md") for name in "abc"]
OLD = Commit(1, "old")
NEW = Commit(2, "new")


async def _put(cluster: Cluster, commit: Commit) -> None:
    await cluster.put(PASSAGES, list(make_passage_objects(ROWS, "docs", commit)))


async def test_what_was_deleted_meanwhile_does_not_stand_for_what_is_missing(
    weaviate_settings: WeaviateSettings,
) -> None:
    async with opened(weaviate_settings), connect_cluster(weaviate_settings) as cluster:
        watch = ReplicaWatch(cluster)
        promised = {"docs": replace(NEW, passage_counts=(3, 3, 3))}
        await _put(cluster, OLD)
        with pytest.raises(StoreCatchingUp, match="it has 0 of the 3 newest passages of source docs"):
            await watch.require_whole(promised)
        await _put(cluster, NEW)
        with pytest.raises(StoreCatchingUp):
            await watch.require_whole(promised)
        await cluster.delete_older("docs", NEW.generation, [document_key("a.md")])
        await watch.require_whole(promised)


async def test_what_does_not_come_is_lost_after_a_while(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catching_up, "CATCH_UP_S", 0.3)
    async with opened(weaviate_settings), connect_cluster(weaviate_settings) as cluster:
        watch = ReplicaWatch(cluster)
        promised = {"docs": replace(NEW, passage_counts=(3, 3, 3))}
        with pytest.raises(StoreCatchingUp):
            await watch.require_whole(promised)
        await asyncio.sleep(0.4)
        await _put(cluster, NEW)
        await cluster.delete_object(PASSAGES, next(make_passage_objects(ROWS, "docs", NEW)).id)
        with pytest.raises(StoreCatchingUp, match="it has 2 of the 3"):
            await watch.require_whole(promised)
        await asyncio.sleep(0.4)
        await watch.require_whole(promised)


async def test_a_machine_that_is_away_again_gets_its_time_anew(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catching_up, "CATCH_UP_S", 0.3)
    async with opened(weaviate_settings), connect_cluster(weaviate_settings) as cluster:
        watch = ReplicaWatch(cluster)
        promised = {"docs": replace(NEW, passage_counts=(3, 3, 3))}
        with pytest.raises(StoreCatchingUp):
            await watch.require_whole(promised)
        with monkeypatch.context() as patch:
            patch.setattr(cluster, "count_recent_passages", AsyncMock(side_effect=StoreUnreachable("away")))
            with pytest.raises(StoreUnreachable, match="away"):
                await watch.require_whole(promised)
        await asyncio.sleep(0.4)
        with pytest.raises(StoreCatchingUp):
            await watch.require_whole(promised)


async def test_a_label_that_is_still_to_come_is_missed(weaviate_settings: WeaviateSettings) -> None:
    async with opened(weaviate_settings), connect_cluster(weaviate_settings) as cluster:
        watch = ReplicaWatch(cluster)
        promised = {"docs#label": replace(NEW, passage_counts=(1, 1, 1))}
        with pytest.raises(StoreCatchingUp, match="0 of the 1"):
            await watch.require_whole(promised)
        await cluster.put(DOCUMENTS, list(make_document_objects((), {"a": "a"}, "docs#label", NEW)))
        await watch.require_whole(promised)


async def test_counting_ends_where_there_are_enough(
    weaviate_settings: WeaviateSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(weaviate_settings), connect_cluster(weaviate_settings) as cluster:
        await _put(cluster, OLD)
        await _put(cluster, NEW)
        assert await cluster.count_recent_passages("docs", NEW) == (3, 6, 6)
        monkeypatch.setattr("knowledge.stores.weaviate.client.ENOUGH_COUNTED", 3)
        assert await cluster.count_recent_passages("docs", NEW) == (3,)
