"""The contract of `Reranker`, run over every implementation."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from core.answering.agents.reranker import MIN_ORDERED, LLMReranker
from core.answering.context import AnswerDependencies
from core.answering.rewriting.rewrites import REWRITES
from core.llm.prompts import Prompts
from core.ports import Reranker
from core.runtime.budget import Budget
from core.settings import SearchSettings
from core.types import Passage
from knowledge.reranking.api import ApiReranker
from knowledge.reranking.rerankers import FusionReranker, NoOpReranker, WeightedReranker, make_reranker
from tests.support.fixtures import InMemoryLibrary, settings
from tests.support.peers.language_model import LanguageModelPeer
from tests.support.peers.reranker import KEY, RerankPeer
from tests.support.scripted import models

KINDS = ("markdown", "python", "faq")


def passages(count: int) -> list[Passage]:
    return [
        Passage(
            f"n{number}",
            "docs",
            f"{number}.md",
            "Title",
            f"Text {number}",
            kind=KINDS[number % 3],
            similarity=(number * 37 % 11) / 11,
            lexical=number * 53 % 17,
        )
        for number in range(count)
    ]


@pytest.fixture(params=["fusion", "lexical", "keep", "weighted", "api", "raw scores", "model", "silent model"])
async def reranker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Reranker]:
    monkeypatch.setenv("RERANK_KEY", KEY)
    rerankers: dict[str, Reranker] = {
        "fusion": FusionReranker(0.5),
        "lexical": FusionReranker(0.0),
        "keep": NoOpReranker(),
        "weighted": WeightedReranker(FusionReranker(0.5), {"code": 0.5, "faq": 3}),
    }
    if request.param in rerankers:
        yield rerankers[request.param]
    elif request.param in ("api", "raw scores"):
        factor = 0.01 if request.param == "api" else -7.5
        async with RerankPeer(lambda _, text: len(text) * factor + text.count("1") * factor) as peer:
            api_settings = {"url": peer.address("jina"), "model": "m", "api_key": {"env": "RERANK_KEY"}, "top_n": 24}
            client = make_reranker(SearchSettings.model_validate({"rerank": "api", "reranker": api_settings}))
            yield client
            await client.close()
    else:
        reply = '{"order": ["p2", "p1"]}' if request.param == "model" else "No."
        async with LanguageModelPeer(reply=reply) as language:
            model = models(language)
            configuration = settings()
            parts = AnswerDependencies(
                configuration, InMemoryLibrary(), NoOpReranker(), model, Prompts.read(), REWRITES
            )
            yield LLMReranker(parts, Budget(configuration.budget))
            await model.close()


@pytest.mark.parametrize("count", [0, 1, 2, 40])
async def test_the_same_passages_best_first(reranker: Reranker, request: pytest.FixtureRequest, count: int) -> None:
    ranked_passages = await reranker.rerank("a question", passages(count))
    texts = {passage.id: passage.text for passage in passages(count)}
    # A model that puts passages in order leaves out what it does not name, beyond the best few.
    kept_count = min(count, MIN_ORDERED) if request.node.callspec.params["reranker"] == "model" else count
    assert len(ranked_passages) == kept_count
    assert len({passage.id for passage in ranked_passages}) == kept_count
    assert all(texts[passage.id] == passage.text for passage in ranked_passages)
    scores = [passage.score for passage in ranked_passages]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


async def test_a_passage_of_two_agents_comes_once(reranker: Reranker) -> None:
    ranked_passages = await reranker.rerank("a question", [*passages(5), *passages(7)])
    assert sorted(passage.id for passage in ranked_passages) == [f"n{number}" for number in range(7)]


async def test_an_empty_question_is_no_problem(reranker: Reranker) -> None:
    assert len(await reranker.rerank("", passages(3))) == 3


async def test_the_settings_choose() -> None:
    assert isinstance(make_reranker(SearchSettings()), FusionReranker)
    assert isinstance(make_reranker(SearchSettings(rerank="none")), NoOpReranker)
    assert isinstance(make_reranker(SearchSettings(rerank="model")), FusionReranker), "what the model's falls back on"
    assert isinstance(make_reranker(SearchSettings(kind_weights={"faq": 2})), WeightedReranker)
    service = SearchSettings.model_validate({"rerank": "api", "reranker": {"url": "https://rerank.example.org"}})
    client = make_reranker(service)
    assert isinstance(client, ApiReranker)
    await client.close()
