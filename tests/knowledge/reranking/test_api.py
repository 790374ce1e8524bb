"""Reranking by a service: every shape, and everything that can go wrong with one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from core.errors import ServiceError
from core.settings import SearchSettings
from core.types import Passage
from knowledge.reranking.api import ApiReranker
from tests.support.peers.reranker import KEY, PATHS, RerankPeer
from tests.support.provider import Response, replaying

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


TOO_MANY = {"error": "batch size 6 > maximum allowed batch size 4", "error_type": "Validation"}
TOO_LONG = {"error": {"code": 500, "message": "input is too large to process. increase the physical batch size"}}


@pytest.mark.parametrize(
    ("refusal", "max_texts", "max_characters"),
    [
        (Response(TOO_MANY, 422), 4, 9999),
        (Response(TOO_MANY, 200), 4, 9999),
        (Response("<html>Payload Too Large</html>", 413, content_type="text/html"), 4, 9999),
        (Response(TOO_LONG, 500), 99, 1000),
        (Response({"message": "`inputs` must have less than 512 tokens. Given: 534"}, 413), 99, 2000),
    ],
)
async def test_a_request_that_is_too_large_is_made_smaller_for_good(
    refusal: Response, max_texts: int, max_characters: int
) -> None:
    def answer(body: dict[str, Any]) -> Response:
        texts = body["documents"]
        if len(texts) > max_texts or any(len(text) > max_characters for text in texts):
            return refusal
        return Response([{"index": at, "score": int(text[6]) / 10} for at, text in enumerate(texts)])

    passages = [*PASSAGES[:-1], replace(PASSAGES[-1], text="long " * 700)]
    async with replaying(answer) as provider:
        search = SearchSettings.model_validate({"rerank": "api", "reranker": {"url": f"{provider.base_url}/rerank"}})
        client = ApiReranker(search.reranker, search.alpha)
        for _ in range(2):
            assert ids(await client.rerank("why?", passages)) == ["n5", "n4", "n3", "n2", "n1", "n0"]
            request_count = len(provider.requests)
        await client.rerank("why?", passages)
        await client.close()
    assert len(provider.requests) - request_count <= 2, "it is not asked again for what it refused"


@pytest.mark.parametrize(("status", "request_count"), [(200, 4), (422, 4), (404, 1), (429, 1)])
async def test_a_service_that_refuses_every_size_is_told_in_its_words(status: int, request_count: int) -> None:
    async with replaying(Response(TOO_MANY, status)) as provider:
        search = SearchSettings.model_validate({"rerank": "api", "reranker": {"url": f"{provider.base_url}/rerank"}})
        client = ApiReranker(search.reranker, search.alpha)
        with pytest.raises(ServiceError, match="maximum allowed batch size 4"):
            await client.rerank("why?", PASSAGES)
        await client.close()
    assert len(provider.requests) == request_count


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
