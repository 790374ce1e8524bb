"""Reranking by a cross-encoder: a model of four nodes, which adds up the numbers of a passage's words."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import shutil
from pathlib import Path

import pytest
from fastembed.common.model_description import ModelSource
from fastembed.rerank.cross_encoder import TextCrossEncoder

from core.errors import ConfigurationError, ServiceError
from core.settings import SearchSettings
from core.types import Passage
from knowledge.reranking.cross_encoder import CrossEncoderReranker
from knowledge.reranking.rerankers import make_reranker

# ReduceSum(input_ids * attention_mask * token_type_ids), opset 17.
MODEL = base64.b64decode(
    "CAg6mgIKIwoJaW5wdXRfaWRzCg5hdHRlbnRpb25fbWFzaxIBbSIDTXVsChsKAW0KDnRva2VuX3R5cGVfaWRzEgFwIgNNdWwKFwoBcBIBZiIEQ2"
    "FzdCoJCgJ0bxgBoAECCisKAWYKAmF4EgZsb2dpdHMiCVJlZHVjZVN1bSoPCghrZWVwZGltcxgBoAECEgFnKgsIARAHOgEBQgJheFodCglpbnB1"
    "dF9pZHMSEAoOCAcSCgoDEgFiCgMSAXNaIgoOYXR0ZW50aW9uX21hc2sSEAoOCAcSCgoDEgFiCgMSAXNaIgoOdG9rZW5fdHlwZV9pZHMSEAoOCA"
    "cSCgoDEgFiCgMSAXNiGQoGbG9naXRzEg8KDQgBEgkKAxIBYgoCCAFCBAoAEBE="
)
SPECIAL = "special_tokens_map.json"
WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "low": 4, "middle": 20, "high": 40}
# The separator behind the passage counts too.
PASSAGES = [
    Passage(f"{word} {times}", "docs", "a.md", "", " ".join([word] * times), similarity=position / 10)
    for position, (word, times) in enumerate([("high", 1), ("low", 3), ("middle", 1), ("low", 1), ("high", 12)], 1)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(MODEL)
    words.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def open_reranker(folder: Path, **changes: object) -> CrossEncoderReranker:
    search = {"rerank": "cross_encoder", "reranker": {"path": folder, **changes}}
    reranker = make_reranker(SearchSettings.model_validate(search))
    assert isinstance(reranker, CrossEncoderReranker)
    return reranker


async def test_every_pair_is_scored_whatever_its_length(folder: Path) -> None:
    reranker = open_reranker(folder)
    ranked_passages = await reranker.rerank("low high high", PASSAGES)
    assert [passage.id for passage in ranked_passages] == ["high 12", "high 1", "middle 1", "low 3", "low 1"]
    scores = [passage.score for passage in ranked_passages]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    passages = [Passage(f"n{n}", "docs", "a.md", "", "low " * (n + 1)) for n in range(40)]
    ranked_passages = await reranker.rerank("low", passages)
    assert sorted(passage.id for passage in ranked_passages) == sorted(passage.id for passage in passages)
    best_number = max(int(passage.id[1:]) for passage in sorted(passages, key=lambda passage: passage.id)[:24])
    assert ranked_passages[0].id == f"n{best_number}", "among those that are scored the longest is first"
    assert [passage.id for passage in await reranker.rerank(" ", PASSAGES[:1])] == ["high 1"]
    await reranker.close()
    await reranker.close()


async def test_only_the_best_are_scored(folder: Path) -> None:
    reranker = open_reranker(folder, top_n=2)
    ranked_passages = await reranker.rerank("low", PASSAGES)
    assert [passage.id for passage in ranked_passages] == ["high 12", "low 1", "middle 1", "low 3", "high 1"]
    await reranker.close()


async def test_who_is_cut_off_leaves_the_model_to_the_next(folder: Path) -> None:
    reranker = open_reranker(folder)
    first = asyncio.create_task(reranker.rerank("low", PASSAGES))
    await asyncio.sleep(0)
    first.cancel()
    assert isinstance((await asyncio.gather(first, return_exceptions=True))[0], asyncio.CancelledError)
    assert (await reranker.rerank("low", PASSAGES))[0].id == "high 12"
    await reranker.close()


async def test_a_damaged_model_is_a_failure_of_its_service(folder: Path) -> None:
    (folder / "onnx" / "model.onnx").write_bytes(MODEL[:50])
    reranker = open_reranker(folder)
    for _ in range(2):
        with pytest.raises(ServiceError, match="cannot be loaded"):
            await reranker.rerank("low", PASSAGES)
    (folder / "onnx" / "model.onnx").write_bytes(MODEL)
    assert (await reranker.rerank("low", PASSAGES))[0].id == "high 12", "it is tried again"
    await reranker.close()


def test_what_has_to_be_installed_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    with pytest.raises(ConfigurationError, match=r"package onnxruntime: run `.*-m pip install 'kimas\[fastembed\]'`"):
        open_reranker(folder)


def test_what_is_missing_in_the_folder_is_named(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConfigurationError, match=r"holds no tokenizer\.json"):
        open_reranker(folder)
    (folder / "onnx" / "model.onnx").unlink()
    with pytest.raises(ConfigurationError, match=r"holds none of model\.onnx, onnx/model\.onnx"):
        open_reranker(folder)
    with pytest.raises(ValueError, match=r"rerank cross_encoder needs reranker\.path"):
        SearchSettings(rerank="cross_encoder")


async def test_a_model_of_fastembed_is_taken_from_its_cache(folder: Path, tmp_path: Path) -> None:
    """The files are where a download has put them: loading them again needs no network."""
    TextCrossEncoder.add_custom_model("tests/adder", ModelSource(hf="tests/adder"), model_file="onnx/model.onnx")
    cache = tmp_path / "models/fastembed/models--tests--adder"
    snapshot = cache / "snapshots/1"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs/main").write_text("1")
    shutil.copytree(folder, snapshot, ignore=shutil.ignore_patterns("models"))
    for name in ("config.json", "tokenizer_config.json", "special_tokens_map.json"):
        content = {"pad_token_id": 0, "pad_token": "[PAD]", "model_max_length": 64} if name != SPECIAL else {}
        (snapshot / name).write_text(json.dumps(content))
    search = {"rerank": "fastembed", "reranker": {"model": "tests/adder"}}
    reranker = make_reranker(SearchSettings.model_validate(search), tmp_path / "models")
    ranked_passages = await reranker.rerank("low high high", PASSAGES)
    assert [passage.id for passage in ranked_passages] == ["high 12", "high 1", "middle 1", "low 3", "low 1"]
    await reranker.close()
