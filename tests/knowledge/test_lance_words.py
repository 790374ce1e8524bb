from __future__ import annotations

import math

import pytest

from knowledge.stores.lance_words import Words


def test_scores_are_bm25_and_a_repeated_word_counts_as_often() -> None:
    words = Words.of(["cat cat dog", "dog", "bird"])
    rarity = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    cat = rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / (5 / 3)))
    assert words.scores("cat unknown").tolist() == [pytest.approx(cat), 0.0, 0.0]
    assert words.scores("cat cat").tolist() == [pytest.approx(2 * cat), 0.0, 0.0]
    assert words.scores("").tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("texts", [[], [""], ["", ""]])
def test_passages_without_words_score_nothing(texts: list[str]) -> None:
    assert Words.of(texts).scores("cat").tolist() == [0.0] * len(texts)
