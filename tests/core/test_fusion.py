from __future__ import annotations

import pytest

from core.grounding.fusion import fuse
from core.types import Passage


def passage(name: str, similarity: float, lexical: float) -> Passage:
    return Passage(name, "docs", "a.md", "Title", "text", similarity=similarity, lexical=lexical)


def scores(*passages: Passage, alpha: float = 0.5) -> dict[str, float]:
    return {item.id: pytest.approx(item.score) for item in fuse(passages, alpha)}


def test_both_sides_are_scaled_and_weighted() -> None:
    three = passage("a", 0.8, 0), passage("b", 0.5, 12), passage("c", 0.3, 3)
    assert scores(*three) == {"b": 0.5 * 0.4 + 0.5 * 1, "a": 0.5, "c": 0.5 * 0.25}
    assert list(scores(*three)) == ["b", "a", "c"]
    assert scores(*three, alpha=0.9) == {"a": 0.9, "b": 0.9 * 0.4 + 0.1, "c": 0.1 * 0.25}
    assert scores(*three, alpha=1) == {"a": 1, "b": 0.4, "c": 0}
    assert scores(*three, alpha=0) == {"b": 1, "c": 0.25, "a": 0}


def test_nothing_in_nothing_out() -> None:
    assert fuse([], 0.5) == []


@pytest.mark.parametrize(
    ("similarity", "lexical", "score"), [(0.8, 3, 1), (0.8, 0, 0.5), (0, 3, 0.5), (0, 0, 0), (-0.2, 0, 0)]
)
def test_all_equal(similarity: float, lexical: float, score: float) -> None:
    assert scores(passage("a", similarity, lexical)) == {"a": score}
    assert scores(passage("b", similarity, lexical), passage("a", similarity, lexical)) == {"a": score, "b": score}


def test_ties_are_ordered_by_id_whatever_the_order_given() -> None:
    three = [passage("c", 0.5, 1), passage("a", 0.5, 1), passage("b", 0.9, 1)]
    assert [item.id for item in fuse(three, 0.5)] == [item.id for item in fuse(three[::-1], 0.5)] == ["b", "a", "c"]


def test_duplicates_keep_the_higher_scores() -> None:
    passages = fuse([passage("a", 0.2, 9), passage("b", 0.1, 1), passage("a", 0.7, 4)], 0.5)
    assert [(item.id, item.similarity, item.lexical) for item in passages] == [("a", 0.7, 9), ("b", 0.1, 1)]


def test_scores_stay_between_0_and_1_and_the_rest_is_untouched() -> None:
    values = [passage(str(n), (n * 37 % 11) / 11 - 0.3, n * 53 % 17) for n in range(50)]
    passages = fuse(values, 0.37)
    assert all(0 <= item.score <= 1 for item in passages)
    assert [item.score for item in passages] == sorted((item.score for item in passages), reverse=True)
    by_id = {item.id: item for item in values}
    assert all(
        (item.similarity, item.lexical) == (by_id[item.id].similarity, by_id[item.id].lexical) for item in passages
    )
