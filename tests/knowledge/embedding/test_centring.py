from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from knowledge.embedding.centring import SAMPLES, CentredEmbedder
from knowledge.ports import TextKind, Vectors
from tests.support.knowledge import WordEmbedder


class NarrowEmbedder(WordEmbedder):
    """Vectors that share a direction, another one for queries, as those of E5 do."""

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        vectors = await super().embed(texts)
        vectors[:, 0] += 3.0 if kind == "passage" else 2.0
        vectors[:, 1] += 0.0 if kind == "passage" else 1.0
        narrow: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return narrow


async def cosines(embedder: CentredEmbedder | NarrowEmbedder) -> tuple[float, float]:
    """Return the cosines of a query with a passage that answers it and with one about something else."""
    query = (await embedder.embed(["how is rocket installed"], "query"))[0]
    passages = await embedder.embed(["rocket is installed with apt", "penguins breed in colonies"])
    near, far = passages @ query
    return float(near), float(far)


async def test_unrelated_texts_have_low_scores_whatever_the_model(tmp_path: Path) -> None:
    raw_near, raw_far = await cosines(NarrowEmbedder())
    near, far = await cosines(CentredEmbedder(NarrowEmbedder(), tmp_path))
    assert raw_far > 0.7
    assert raw_near - raw_far < 0.2
    assert abs(far) < 0.3
    assert near - far > 0.3


async def test_a_model_whose_texts_share_little_is_left_as_it_is(tmp_path: Path) -> None:
    texts = ["rocket is installed with apt", "penguins breed in colonies"]
    plain = await WordEmbedder().embed(texts)
    assert np.allclose(await CentredEmbedder(WordEmbedder(), tmp_path).embed(texts), plain, atol=1e-6)


async def test_the_centres_are_computed_once(tmp_path: Path) -> None:
    models = [NarrowEmbedder(), NarrowEmbedder()]
    embedders = [CentredEmbedder(model, tmp_path / "models") for model in models]
    first, second = [await embedder.embed(["rocket"]) for embedder in embedders]
    assert np.array_equal(first, second)
    assert [len(model.embedded) for model in models] == [1 + 2 * len(SAMPLES["query"]), 1]


async def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    expected = await CentredEmbedder(NarrowEmbedder(), tmp_path).embed(["rocket"])
    (file,) = tmp_path.iterdir()
    file.write_bytes(b"damaged")
    assert np.array_equal(await CentredEmbedder(NarrowEmbedder(), tmp_path).embed(["rocket"]), expected)
    assert file.stat().st_size > 100
