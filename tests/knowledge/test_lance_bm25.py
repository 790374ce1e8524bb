from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from knowledge.stores.lance.segment import BM25Scorer, InvertedIndex


def scored(texts: list[str], tokens: str, alive: list[bool] | None = None) -> list[float]:
    words = InvertedIndex.from_tokens(pa.array(texts, pa.string()))
    results: list[float] = BM25Scorer([words], None if alive is None else np.array(alive)).scores(tokens).tolist()
    return results


def test_scores_are_bm25_and_a_repeated_word_counts_as_often() -> None:
    texts = ["cat cat dog", "dog", "bird"]
    rarity = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    cat = rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / (5 / 3)))
    assert scored(texts, "cat unknown") == [pytest.approx(cat), 0.0, 0.0]
    assert scored(texts, "cat cat") == [pytest.approx(2 * cat), 0.0, 0.0]
    assert scored(texts, "") == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["  ", " x ", ""]])
def test_passages_without_words_score_nothing(texts: list[str]) -> None:
    assert scored(texts, "cat") == [0.0] * len(texts)


def test_dead_passages_count_for_nothing() -> None:
    left = scored(["cat cat dog", "bird"], "cat bird")
    assert scored(["cat cat dog", "cat bird cat", "bird"], "cat bird", [True, False, True]) == pytest.approx(
        [left[0], 0.0, left[1]]
    )


def test_blocks_count_as_one() -> None:
    texts = ["cat cat dog", "dog fish", "bird cat", "fish", "cow cat"]
    blocks = [InvertedIndex.from_tokens(pa.array(part, pa.string())) for part in (texts[:2], texts[2:3], [], texts[3:])]
    for alive in (None, [True, True, False, True, True]):
        apart = BM25Scorer(blocks, None if alive is None else np.array(alive)).scores("cat fish cat nowhere")
        assert apart.tolist() == pytest.approx(scored(texts, "cat fish cat nowhere", alive))
