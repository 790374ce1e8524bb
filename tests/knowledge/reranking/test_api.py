"""Reranking by a service: every shape, and everything that can go wrong with one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from core.errors import ServiceError
from core.settings import SearchSettings
from core.types import Passage
from knowledge.reranking.api import ApiReranker
from tests.support.peers.reranker import KEY, PATHS, RerankPeer

PASSAGES = [
    Passage(f"n{number}", "docs", "a.md", f"Title {number}", f"text {number}", similarity=1 - number / 10)
    for number in range(6)
]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_KEY", KEY)


@pytest.fixture
async def peer() -> AsyncIterator[RerankPeer]:
    async with RerankPeer(lambda _, text: int(text[-1]) / 10) as peer:
        yield peer


@asynccontextmanager
async def reranker(peer: RerankPeer, service: str = "cohere", **changes: object) -> AsyncIterator[ApiReranker]:
    values: dict[str, object] = {"url": peer.address(service)}
    if service == "tei":
        values["texts_key"] = "texts"
    else:
        values |= {"model": "rerank-1", "api_key": {"env": "RERANK_KEY"}}
    search = SearchSettings.model_validate({"rerank": "api", "reranker": values | changes})
    client = ApiReranker(search.reranker, search.alpha)
    yield client
    await client.close()


def ids(passages: object) -> list[str]:
    return [passage.id for passage in passages]  # type: ignore[attr-defined]


@pytest.mark.parametrize("service", PATHS)
async def test_every_service_is_understood(peer: RerankPeer, service: str) -> None:
    async with reranker(peer, service) as client:
        ranked_passages = await client.rerank("why?", PASSAGES)
    assert ids(ranked_passages) == ["n5", "n4", "n3", "n2", "n1", "n0"]
    assert [passage.score for passage in ranked_passages] == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
    assert peer.bodies[0]["query"] == "why?"
    documents = peer.bodies[0].get("documents") or peer.bodies[0]["texts"]
    assert documents[0] == "Title 0\ntext 0", "the title belongs to what is judged"


async def test_only_the_best_are_sent_and_the_others_follow(peer: RerankPeer) -> None:
    async with reranker(peer, top_n=3) as client:
        ranked_passages = await client.rerank("why?", PASSAGES)
    assert ids(ranked_passages) == ["n2", "n1", "n0", "n3", "n4", "n5"]
    assert (len(peer.bodies[0]["documents"]), peer.bodies[0]["top_n"]) == (3, 3)
    scores = [passage.score for passage in ranked_passages]
    assert scores == sorted(scores, reverse=True)


async def test_raw_scores_become_comparable_ones(peer: RerankPeer) -> None:
    peer.score = lambda _, text: (int(text[-1]) - 3) * 400.0
    async with reranker(peer) as client:
        ranked_passages = await client.rerank("why?", PASSAGES)
    assert ids(ranked_passages)[:3] == ["n5", "n4", "n3"]
    assert ranked_passages[2].score == 0.5
    assert all(0 <= passage.score <= 1 for passage in ranked_passages)


async def test_passages_that_the_service_leaves_out_are_not_lost(peer: RerankPeer) -> None:
    peer.reply = json.dumps({"results": [{"index": 4, "relevance_score": 0.9}, {"index": 4, "relevance_score": 0.1}]})
    async with reranker(peer) as client:
        ranked_passages = await client.rerank("why?", PASSAGES)
    assert ids(ranked_passages) == ["n4", "n0", "n1", "n2", "n3", "n5"]
    assert ranked_passages[0].score == 0.9


@pytest.mark.parametrize(
    "reply",
    [
        "{}",
        "[]",
        "null",
        '"results"',
        '{"results": {}}',
        '{"results": [{"index": 99, "relevance_score": 1}]}',
        '{"results": [{"index": -1, "relevance_score": 1}]}',
        '{"results": [{"index": true, "relevance_score": 1}, {"index": 1, "relevance_score": "high"}]}',
        '{"results": [{"index": 0, "relevance_score": NaN}, {"index": 1, "relevance_score": Infinity}, 7, null]}',
        "[" * 100_000,
    ],
)
async def test_nonsense_is_a_failure(peer: RerankPeer, reply: str) -> None:
    peer.reply = reply
    async with reranker(peer) as client:
        with pytest.raises(ServiceError, match=r"the reranker failed: http://127\.0\.0\.1"):
            await client.rerank("why?", PASSAGES)


@pytest.mark.parametrize("failure_mode", ["slow", "html", "broken", "bomb", "drop", "short", "endless"])
async def test_a_service_that_misbehaves_is_a_failure(
    peer: RerankPeer, failure_mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.failure_mode = failure_mode
    monkeypatch.setattr("knowledge.reranking.api.TIMEOUT_S", 0.3 if failure_mode == "slow" else 5)
    async with reranker(peer) as client:
        with pytest.raises(ServiceError, match="the reranker failed"):
            await client.rerank("why?", PASSAGES)


async def test_a_refused_key_is_told_without_the_key(peer: RerankPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RERANK_KEY", "another-key")
    async with reranker(peer) as client:
        with pytest.raises(ServiceError, match="status 401") as error_info:
            await client.rerank("why?", PASSAGES)
    assert "another-key" not in str(error_info.value)


async def test_one_passage_or_none_costs_no_request(peer: RerankPeer) -> None:
    async with reranker(peer) as client:
        assert ids(await client.rerank("why?", PASSAGES[:1])) == ["n0"]
        assert ids(await client.rerank("why?", [])) == []
        assert ids(await client.rerank("  ", PASSAGES)) == ids(PASSAGES)
    assert peer.requests == []


def test_an_api_needs_its_address() -> None:
    with pytest.raises(ValueError, match=r"rerank api needs reranker\.url"):
        SearchSettings(rerank="api")


async def test_a_key_that_went_away_is_a_failure_of_the_service(
    peer: RerankPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reranker(peer) as client:
        monkeypatch.delenv("RERANK_KEY")
        with pytest.raises(
            ServiceError, match="the reranker failed: api_key: environment variable RERANK_KEY is not set"
        ):
            await client.rerank("why?", PASSAGES)
        assert peer.bodies == []
        monkeypatch.setenv("RERANK_KEY", KEY)
        assert ids(await client.rerank("why?", PASSAGES))[0] == "n5"
