"""The contract of `Reranker`, run over every implementation."""

from __future__ import annotations

import pytest

from core.ports import Reranker
from core.settings import SearchSettings
from core.types import Passage
from knowledge.rerank import FusionReranker, KeepOrder, make_reranker


def passages(count: int) -> list[Passage]:
    return [
        Passage(
            f"n{number}",
            "docs",
            f"{number}.md",
            "Title",
            f"Text {number}",
            similarity=(number * 37 % 11) / 11,
            lexical=number * 53 % 17,
        )
        for number in range(count)
    ]


@pytest.fixture(params=[FusionReranker(0.5), FusionReranker(0.0), KeepOrder()], ids=["fusion", "lexical", "keep"])
def reranker(request: pytest.FixtureRequest) -> Reranker:
    reranker: Reranker = request.param
    return reranker


@pytest.mark.parametrize("count", [0, 1, 2, 40])
async def test_the_same_passages_best_first(reranker: Reranker, count: int) -> None:
    ranked = await reranker.rerank("a question", passages(count))
    assert sorted(passage.id for passage in ranked) == sorted(passage.id for passage in passages(count))
    scores = [passage.score for passage in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert {passage.text for passage in ranked} == {passage.text for passage in passages(count)}


async def test_a_passage_of_two_agents_comes_once(reranker: Reranker) -> None:
    ranked = await reranker.rerank("a question", [*passages(5), *passages(7)])
    assert sorted(passage.id for passage in ranked) == [f"n{number}" for number in range(7)]


async def test_an_empty_question_is_no_problem(reranker: Reranker) -> None:
    assert len(await reranker.rerank("", passages(3))) == 3


def test_the_settings_choose() -> None:
    assert isinstance(make_reranker(SearchSettings()), FusionReranker)
    assert isinstance(make_reranker(SearchSettings(rerank="none")), KeepOrder)
