from __future__ import annotations

import math

import numpy as np
import pytest

from knowledge.stores.sqlite.words import BM25Scorer, InvertedIndex, WordCounter, hash_word


def inverted(texts: list[str]) -> InvertedIndex:
    counter = WordCounter()
    hashes = []
    counts = []
    for text in texts:
        word_hashes, word_counts = counter.count(text)
        hashes.append(word_hashes)
        counts.append(word_counts)
    return InvertedIndex.from_counts(hashes, counts)


def score_texts(texts: list[str], tokens: str, alive: list[bool] | None = None) -> list[float]:
    scorer = BM25Scorer([inverted(texts)], None if alive is None else np.array(alive))
    results: list[float] = scorer.scores(tokens).tolist()
    return results


def test_scores_are_bm25_and_a_repeated_word_counts_as_often() -> None:
    texts = ["cat cat dog", "dog", "bird"]
    rarity = math.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    cat = rarity * 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 3 / (5 / 3)))
    assert score_texts(texts, "cat unknown") == [pytest.approx(cat), 0.0, 0.0]
    assert score_texts(texts, "cat cat") == [pytest.approx(2 * cat), 0.0, 0.0]
    assert score_texts(texts, "") == [0.0, 0.0, 0.0]


def test_a_word_may_be_repeated_more_often_than_a_byte_can_count() -> None:
    often = score_texts(["cat " * 300, "dog " * 300], "cat")
    assert often[0] == pytest.approx(math.log(2) * 300 * 2.2 / (300 + 1.2), rel=1e-5)


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["  ", " x ", ""]])
def test_passages_without_words_score_nothing(texts: list[str]) -> None:
    assert score_texts(texts, "cat") == [0.0] * len(texts)


def test_dead_passages_count_for_nothing() -> None:
    scores = score_texts(["cat cat dog", "bird"], "cat bird")
    assert score_texts(["cat cat dog", "cat bird cat", "bird"], "cat bird", [True, False, True]) == pytest.approx(
        [scores[0], 0.0, scores[1]]
    )


def test_blocks_count_as_one() -> None:
    texts = ["cat cat dog", "dog fish", "bird cat", "fish", "cow cat"]
    blocks = [inverted(part) for part in (texts[:2], texts[2:3], [], texts[3:])]
    for alive in (None, [True, True, False, True, True]):
        split_scores = BM25Scorer(blocks, None if alive is None else np.array(alive)).scores("cat fish cat nowhere")
        assert split_scores.tolist() == pytest.approx(score_texts(texts, "cat fish cat nowhere", alive))


def test_a_word_has_the_same_hash_in_every_process() -> None:
    assert [hash_word(word) for word in ("cat", "漢字", "\ud800")] == [
        3429664268601861939,
        5337853739564262900,
        7497787021708494914,
    ]
