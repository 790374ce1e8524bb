"""Questions are grouped by what they mean, and by their words where the model does not know their language."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from core.settings import Settings
from knowledge.embedding import open_embedder
from knowledge.retrieval import grouping
from knowledge.retrieval.grouping import CACHE_SIZE, TextGrouper
from tests.support.knowledge import WordEmbedder

MEANINGS = [
    ["Can sessions be kept in Redis?", "Is there a Redis backend for sessions?", "How do I share sessions over Redis?"],
    ["How to reset my password?", "I forgot my password, what do I do?"],
    ["How do I restore a backup?", "Is there a way to recover from a backup after a crash?"],
    ["Docker container fails with conflict error", "I get error 409 when starting the container"],
    ["怎么配置代理？", "怎么配置代理服务器"],
    ["How do I run it in Kubernetes?"],
    ["Which port does the server use?"],
    [""],
    ["???"],
]
TEXTS = [text for meaning in MEANINGS for text in meaning]


def _to_texts(texts: Sequence[str], groups: Sequence[Sequence[int]]) -> set[frozenset[str]]:
    assert sorted(place for places in groups for place in places) == list(range(len(texts)))
    return {frozenset(texts[place] for place in places) for places in groups}


async def test_one_meaning_in_other_words_is_one_group(tmp_path: Path) -> None:
    embedder = await open_embedder(Settings().knowledge.embedding, tmp_path)
    grouper = TextGrouper(embedder)
    expected = {frozenset(meaning) for meaning in MEANINGS}
    groups = await grouper.group(TEXTS)
    assert _to_texts(TEXTS, groups) == expected
    assert sorted(groups[0]) == [0, 1, 2], "the largest comes first"
    backwards = TEXTS[::-1]
    assert _to_texts(backwards, await grouper.group(backwards)) == expected, "the order matters little"
    assert list(await grouper.group([])) == []
    await embedder.close()


async def test_each_text_is_embedded_once(embedder: WordEmbedder) -> None:
    grouper = TextGrouper(embedder)
    await grouper.group(["ripe pear", "sharp saw", "ripe pear"])
    assert sorted(embedder.embedded) == ["ripe pear", "sharp saw"]
    await grouper.group(["ripe pear", "new hammer"])
    assert embedder.embedded[2:] == ["new hammer"]
    assert "pear" not in repr(grouper._vectors), "what somebody wants to be forgotten is not kept"


async def test_what_is_kept_is_bounded(embedder: WordEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "CACHE_SIZE", 10)
    grouper = TextGrouper(embedder)
    texts = [f"text number{place}" for place in range(25)]
    assert sum(map(len, await grouper.group(texts))) == 25
    assert len(grouper._vectors) == 10 < CACHE_SIZE


async def test_words_stand_in_for_a_model_that_fails(embedder: WordEmbedder) -> None:
    embedder.broken = True
    texts = ["How do I set a proxy?", "Which licence?", "Does the proxy need a password?"]
    assert [sorted(places) for places in await TextGrouper(embedder).group(texts)] == [[0, 2], [1]]


async def test_a_text_that_the_model_refuses_is_grouped_alone() -> None:
    class Refusing(WordEmbedder):
        async def embed(self, texts: Sequence[str], kind: object = "passage") -> grouping.Vectors:
            vectors = await super().embed(texts)
            vectors[["refused" in text for text in texts]] = np.nan
            return vectors

    groups = await TextGrouper(Refusing()).group(["ripe pear", "refused words", "refused words too", "a ripe pear"])
    assert [sorted(places) for places in groups] == [[0, 3], [1], [2]]


async def test_hostile_texts_take_bounded_time(embedder: WordEmbedder) -> None:
    shared = "common shared thing "
    texts = [shared + " ".join(f"u{number}x{word}" for word in range(400)) for number in range(500)]
    embedder.broken = True
    start = time.process_time()
    assert await TextGrouper(embedder).group(texts)
    assert time.process_time() - start < 20, "it takes about one second"
