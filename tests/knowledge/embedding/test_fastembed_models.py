"""Models on this machine through fastembed: a model of one node, which looks up a vector for each word."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import threading
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from core.errors import ConfigurationError, EmbeddingError, ServiceError
from core.settings import EmbeddingSettings, SearchSettings
from core.types import Passage
from knowledge.embedding.fastembed_models import FastEmbedder
from knowledge.reranking.rerankers import make_reranker

# last_hidden_state = Gather(table, input_ids), a table of 16 words by 8 numbers, opset 17.
MODEL = zlib.decompress(
    base64.b64decode(
        "eNrj4LDaxsqly8VakpiUk8rFmZlXUFoSn5lSLCSYk1hcEp+RmZKSmhdfXJJYkqrE5p5YkpFaJMRSkplXqTWBhUOAg0OA0Qmi16uB"
        "hYGhwZ6BgQGE8YAGZHl7ItRgU2uPQw02cwjYh9MceyLUoLlnZPs/ShY5AQlw8XGwC3FxMQsxJoGI4iglLr7EkpLUvJLM/Lz43MTi"
        "bEw1SZpcmAlPSIRLiINRiA+hjIuJg8OJhYtBQBAATpo+HQ=="
    )
)
WORDS = {"[PAD]": 0, "[UNK]": 1, "apple": 2, "pear": 3, "苹果": 4, "plum": 5, "hammer": 6, "saw": 7}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "fruit-model"
    path.mkdir()
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Split("果", "isolated")]
    )
    tokenizer.save(str(path / "tokenizer.json"))
    files = {
        "config.json": {"hidden_size": 8, "pad_token_id": 0},
        "tokenizer_config.json": {"model_max_length": 64, "pad_token": "[PAD]"},
        "special_tokens_map.json": {"pad_token": "[PAD]", "unk_token": "[UNK]"},
    }
    for name, content in files.items():
        (path / name).write_text(json.dumps(content))
    (path / "model.onnx").write_bytes(MODEL)
    return path


def settings(**values: object) -> EmbeddingSettings:
    return EmbeddingSettings.model_validate({"provider": "fastembed", **values})


@pytest.fixture
async def embedder(folder: Path, tmp_path: Path) -> AsyncIterator[FastEmbedder]:
    embedder = await FastEmbedder.open(settings(path=folder), tmp_path / "models")
    assert isinstance(embedder, FastEmbedder)
    yield embedder
    await embedder.close()
    await embedder.close()


async def test_a_model_from_a_folder_makes_unit_vectors(embedder: FastEmbedder) -> None:
    assert (embedder.name, embedder.dimension) == ("fastembed-fruit-model", 8)
    vectors = await embedder.embed(["apple", "apple apple", "hammer saw", "", "apple \udcff"])
    assert vectors.shape == (5, 8)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1)[:3] == pytest.approx([1, 1, 1], abs=1e-5)
    assert vectors[0] == pytest.approx(vectors[1], abs=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert (await embedder.embed([])).shape == (0, 8)


async def test_the_order_of_texts_is_kept_in_batches(embedder: FastEmbedder) -> None:
    words = ["apple", "pear", "hammer", "saw"] * 20
    vectors = await embedder.embed([f"{word} " * (number % 7 + 1) for number, word in enumerate(words)])
    single = {word: (await embedder.embed([word]))[0] for word in set(words)}
    assert all(vector == pytest.approx(single[word], abs=1e-5) for word, vector in zip(words, vectors, strict=True))


async def test_what_the_model_does_not_know_is_told(embedder: FastEmbedder) -> None:
    assert embedder.vocabulary_coverage("apple pear") == 1
    assert embedder.vocabulary_coverage("apple xylophone") == 0.5
    assert embedder.vocabulary_coverage("") == 0


async def test_the_pooling_of_the_folder_counts(folder: Path, tmp_path: Path) -> None:
    mean = await FastEmbedder.open(settings(path=folder, model="mean"), tmp_path)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    first = await FastEmbedder.open(settings(path=folder, model="first"), tmp_path)
    assert first.name == "fastembed-first"
    [pooled], [of_first], [apple] = [
        await embedder.embed([text]) for embedder, text in ((mean, "apple saw"), (first, "apple saw"), (first, "apple"))
    ]
    assert of_first == pytest.approx(apple, abs=1e-5)
    assert pooled != pytest.approx(apple, abs=1e-2)
    await mean.close()
    await first.close()


async def test_inference_runs_on_other_threads(embedder: FastEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    run = embedder._model.embed

    def record(*arguments: Any) -> Any:
        threads.add(threading.current_thread().name)
        return run(*arguments)

    monkeypatch.setattr(embedder._model, "embed", record)
    await asyncio.gather(*(embedder.embed([word]) for word in ("apple", "pear")))
    assert threads
    assert threading.current_thread().name not in threads


async def test_a_broken_folder_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    (folder / "model.onnx").rename(folder / "other.onnx")
    with pytest.raises(EmbeddingError, match=r"knowledge.embedding.path: .*fruit-model holds no model.onnx$"):
        await FastEmbedder.open(settings(path=folder), tmp_path)
    (folder / "model.onnx").write_bytes(b"no model")
    with pytest.raises(EmbeddingError, match=r"cannot be loaded: .*is the folder complete"):
        await FastEmbedder.open(settings(path=folder), tmp_path)


async def test_an_unknown_model_says_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"fastembed has to know it.*`path` names a folder"):
        await FastEmbedder.open(settings(model="nobody/nothing"), tmp_path)


async def test_without_the_extra_the_way_out_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastembed" else find(name))
    with pytest.raises(EmbeddingError, match=r"pip install 'kimas\[fastembed\]'"):
        await FastEmbedder.open(settings(path=folder), tmp_path)
    search = SearchSettings.model_validate({"rerank": "fastembed", "reranker": {"model": "nobody/nothing"}})
    with pytest.raises(ConfigurationError, match=r"pip install 'kimas\[fastembed\]'"):
        make_reranker(search)


def test_the_settings_need_a_model() -> None:
    with pytest.raises(ValueError, match="provider fastembed needs model or path"):
        settings()
    with pytest.raises(ValueError, match=r"rerank fastembed needs reranker.model or reranker.path"):
        SearchSettings.model_validate({"rerank": "fastembed"})


async def test_a_named_reranker_that_is_unknown_leaves_the_fused_order(tmp_path: Path) -> None:
    search = SearchSettings.model_validate({"rerank": "fastembed", "reranker": {"model": "nobody/nothing"}})
    reranker = make_reranker(search, tmp_path)
    passages = [Passage(str(number), "docs", "a.md", "", "apple", similarity=number / 10) for number in range(3)]
    with pytest.raises(ServiceError, match="fastembed has to know it"):
        await reranker.rerank("apple", passages)
    await reranker.close()
