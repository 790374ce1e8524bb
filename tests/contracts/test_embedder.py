"""What every `Embedder` keeps, run over each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from core.settings import EmbeddingSettings
from knowledge.embedding import open_embedder
from knowledge.ports import Embedder
from tests.support.peers.language_model import LanguageModelPeer


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(params=["local", "multilingual", "openai"])
async def embedder(request: pytest.FixtureRequest, cache_dir: Path) -> AsyncIterator[Embedder]:
    async with LanguageModelPeer(dimension=16) as peer:
        settings = EmbeddingSettings(provider="multilingual" if request.param == "multilingual" else "local")
        if request.param == "openai":
            settings = EmbeddingSettings(
                provider="openai", base_url=peer.base_url, model="vectors", dimension=16, batch=3
            )
        embedder = await open_embedder(settings, cache_dir)
        yield embedder
        await embedder.close()


async def test_returns_a_unit_vector_for_every_text_with_words(embedder: Embedder) -> None:
    vectors = await embedder.embed(["one text", "", " \n", "检索代理", "a half pair \ud83d", "long " * 20_000])
    assert vectors.shape == (6, embedder.dimension)
    assert vectors.dtype == np.float32
    blank = [1, 2]
    np.testing.assert_allclose(np.linalg.norm(np.delete(vectors, blank, axis=0), axis=1), 1, rtol=1e-5)
    # An endpoint is not asked for these.
    assert all(np.isnan(vector).all() or np.isclose(np.linalg.norm(vector), 1) for vector in vectors[blank])


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert (await embedder.embed([])).shape == (0, embedder.dimension)


async def test_a_vector_belongs_to_its_text_whatever_its_company(embedder: Embedder) -> None:
    texts = [f"{word} " * length for length in (1, 40, 3, 200, 9) for word in ("tree", "engine", "river", "code")]
    vectors = await embedder.embed(texts)
    for text, vector in zip(texts, vectors, strict=True):
        single_vector = (await embedder.embed([text]))[0]
        assert float(single_vector @ vector) > 0.999
    assert float(vectors[0] @ vectors[1]) < 0.9


async def test_answers_many_callers_at_once(embedder: Embedder) -> None:
    texts = [f"question number {number}" for number in range(40)]
    one_by_one = await embedder.embed(texts)
    at_once = await asyncio.gather(*(embedder.embed([text]) for text in texts))
    assert np.allclose(np.sum(one_by_one * np.concatenate(at_once), axis=1), 1, atol=1e-3)


async def test_known_share_is_a_share(embedder: Embedder) -> None:
    for text in ("How do agents exchange messages?", "检索代理如何交换消息", "", "\ud83d", "x" * 100_000):
        assert 0 <= embedder.vocabulary_coverage(text) <= 1


async def test_names_its_model_and_closes_twice(embedder: Embedder) -> None:
    assert embedder.name
    await embedder.close()
    await embedder.close()
