from __future__ import annotations

from dataclasses import replace

import pytest

from core.settings import SearchSettings
from core.types import Passage
from knowledge.reranking.rerankers import make_reranker


def passage(name: str, similarity: float, lexical: float, score: float) -> Passage:
    return Passage(
        name,
        "docs",
        "a.md",
        "Title",
        "text",
        similarity=similarity,
        lexical=lexical,
        score=score,
        lexical_share=lexical / 20,
    )


async def test_the_scores_of_two_agents_become_comparable() -> None:
    # The second agent's best is weak, though its own search had to score it 1.
    strong = [passage("a", 0.9, 20, 1.0), passage("b", 0.7, 15, 0.0)]
    weak = [passage("c", 0.2, 2, 1.0), passage("d", 0.1, 0, 0.0)]
    ranked_passages = await make_reranker(SearchSettings()).rerank("question", [*weak, *strong])
    assert [item.id for item in ranked_passages] == ["a", "b", "c", "d"]


async def test_the_settings_weight_the_sides() -> None:
    passages = [passage("near", 0.9, 0, 0), passage("worded", 0.1, 9, 0)]
    for alpha, best_id in ((0.9, "near"), (0.1, "worded")):
        assert (await make_reranker(SearchSettings(alpha=alpha)).rerank("question", passages))[0].id == best_id


async def test_none_keeps_the_order() -> None:
    passages = [passage("b", 0.1, 1, 0.4), passage("a", 0.9, 9, 0.9), passage("c", 0.5, 5, 0.1)]
    ranked_passages = await make_reranker(SearchSettings(rerank="none")).rerank("question", passages)
    assert [item.id for item in ranked_passages] == ["b", "a", "c"]


async def test_kinds_are_weighed_after_the_order_was_made() -> None:
    passages = [
        replace(passage("code", 0.9, 20, 0), kind="rust"),
        replace(passage("snake", 0.88, 20, 0), kind="python"),
        replace(passage("prose", 0.87, 8.7, 0), kind="markdown"),
        passage("none", 0.1, 0, 0),
    ]
    plain_passages = await make_reranker(SearchSettings()).rerank("question", passages)
    assert [item.id for item in plain_passages] == ["code", "snake", "prose", "none"]
    weighed = await make_reranker(SearchSettings(kind_weights={"code": 0.5, "python": 1.2})).rerank(
        "question", passages
    )
    assert [item.id for item in weighed] == ["snake", "prose", "code", "none"]
    assert weighed[0].score == 1.0, "no score goes above 1"
    assert weighed[2].score == pytest.approx(plain_passages[0].score * 0.5)
