from __future__ import annotations

from dataclasses import replace

import pytest

from core.evidence.ranking import CODE_FACTOR, fuse, on_scale_of
from core.types import Passage


def passage(name: str, similarity: float, share: float) -> Passage:
    return Passage(
        name, "docs", "a.md", "Title", "text", similarity=similarity, lexical=20 * share, lexical_share=share
    )


def scores(*passages: Passage, alpha: float = 0.5) -> dict[str, float]:
    return {item.id: pytest.approx(item.score) for item in fuse(passages, alpha)}


def test_both_sides_are_weighted() -> None:
    three = passage("a", 0.8, 0), passage("b", 0.5, 0.9), passage("c", 0.3, 0.2)
    assert scores(*three) == {"b": 0.25 + 0.45, "a": 0.4, "c": 0.15 + 0.1}
    assert list(scores(*three)) == ["b", "a", "c"]
    assert scores(*three, alpha=1) == {"a": 0.8, "b": 0.5, "c": 0.3}
    assert scores(*three, alpha=0) == {"b": 0.9, "c": 0.2, "a": 0}


def test_a_score_does_not_depend_on_what_else_was_found() -> None:
    searched = [passage("a", 0.8, 0.3), passage("b", 0.5, 0.9), passage("c", -0.3, 0.2), passage("d", 0.1, 0)]
    assert scores(*searched[:2]).items() <= scores(*searched).items()
    fused_passages = fuse([*fuse(searched[:2], 0.5, 1), *fuse(searched[2:], 0.5)], 0.5)
    assert {item.id: item.score for item in fused_passages}.items() <= scores(*searched).items()


def test_without_vectors_words_count_alone() -> None:
    assert scores(passage("a", 0, 0.6), passage("b", 0, 0.2)) == {"a": 0.6, "b": 0.2}


def test_prose_goes_before_code_that_matches_as_well() -> None:
    prose = passage("z", 0.6, 0.5)
    code = replace(passage("a", 0.6, 0.5), kind="python")
    assert scores(code, prose) == {"z": 0.55, "a": 0.55 * CODE_FACTOR}


def test_nothing_in_nothing_out() -> None:
    assert fuse([], 0.5) == []


def test_ties_are_ordered_by_id_whatever_the_order_given() -> None:
    three = [passage("c", 0.5, 1), passage("a", 0.5, 1), passage("b", 0.9, 1)]
    assert [item.id for item in fuse(three, 0.5)] == [item.id for item in fuse(three[::-1], 0.5)] == ["b", "a", "c"]


def test_duplicates_keep_the_higher_scores() -> None:
    passages = fuse([passage("a", 0.2, 0.9), passage("b", 0.1, 0.1), passage("a", 0.7, 0.4)], 0.5)
    assert [(item.id, item.similarity, item.lexical, item.lexical_share) for item in passages] == [
        ("a", 0.7, 18, 0.9),
        ("b", 0.1, 2, 0.1),
    ]


def test_scores_stay_between_0_and_1_and_the_rest_is_untouched() -> None:
    values = [passage(str(n), (n * 37 % 11) / 11 - 0.3, n * 53 % 17 / 17) for n in range(50)]
    passages = fuse(values, 0.37)
    assert all(0 <= item.score <= 1 for item in passages)
    assert [item.score for item in passages] == sorted((item.score for item in passages), reverse=True)
    by_id = {item.id: item for item in values}
    assert all(
        (item.similarity, item.lexical) == (by_id[item.id].similarity, by_id[item.id].lexical) for item in passages
    )


def test_lexical_shares_take_the_place_of_those_of_the_passages() -> None:
    a = passage("a", 0.2, 0.9)
    b = passage("b", 0.2, 0.1)
    passages = fuse([a, b, a], 0.5, lexical_shares=[0.3, 0.5, 0.4])
    assert [(item.id, item.lexical_share) for item in passages] == [("b", 0.5), ("a", 0.4)]
    assert [item.score for item in passages] == pytest.approx([0.35, 0.3])
    assert a.lexical_share == 0.9, "the passages of a search are kept for the next one"


def test_what_is_fused_once_more_is_not_copied() -> None:
    (fused,) = fuse([passage("a", 0.2, 0.9)], 0.5)
    assert fuse([fused], 0.5)[0] is fused


def test_a_search_without_vectors_counts_as_much_as_one_with_them() -> None:
    own = [passage("a", 0.0, 0.9), passage("b", 0.0, 0.3)]
    foreign = [passage("c", 0.8, 0.4)]
    scaled = on_scale_of(own, foreign, 0.5)
    assert [(item.id, item.score) for item in fuse([*scaled, *foreign], 0.5)] == [
        ("a", pytest.approx(0.6)),
        ("b", pytest.approx(0.6)),
        ("c", pytest.approx(0.6)),
    ]
    assert on_scale_of(own, own, 0.5) == own
    assert on_scale_of(foreign, own, 0.5) == foreign
