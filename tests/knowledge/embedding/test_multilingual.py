"""The multilingual encoder, beyond the contract: languages, the file's hash, what is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.errors import EmbeddingError
from core.settings import EmbeddingSettings
from knowledge.embedding import get_known_languages, name_model, open_embedder
from knowledge.embedding.multilingual import MODEL_FILE, find_unusable_reason
from knowledge.ports import Embedder

SETTINGS = EmbeddingSettings(provider="multilingual")
PASSAGES = [
    "Change the signing key with `rocket keys rotate`. Old tokens stay valid for a day.",
    "Install Rocket with pip. It needs Python 3.11 or newer.",
    "The launcher reads its configuration from a YAML file in the home directory.",
    "Behind a proxy, set the address of the proxy in the environment.",
]
QUESTIONS = [
    (0, "怎么更换签名密钥？"),
    (0, "Wie wechsle ich den Signaturschlüssel?"),
    (0, "署名鍵を変更するにはどうすればよいですか？"),
    (1, "¿Cómo se instala el programa?"),
    (1, "Как установить программу?"),
    (2, "Où se trouve le fichier de configuration ?"),
    (2, "설정 파일은 어디에 있습니까?"),
    (3, "公司网络里要走代理，怎么设置？"),
    (3, "Como usar um proxy?"),
]


@pytest.fixture
async def embedder(tmp_path: Path) -> AsyncIterator[Embedder]:
    embedder = await open_embedder(SETTINGS, tmp_path)
    yield embedder
    await embedder.close()


async def test_a_question_finds_its_passage_in_another_language(embedder: Embedder) -> None:
    passages = await embedder.embed(PASSAGES)
    found = [int((passages @ (await embedder.embed([question], "query"))[0]).argmax()) for _, question in QUESTIONS]
    assert found == [right for right, _ in QUESTIONS]


def test_its_label_and_languages_are_known_before_it_is_loaded() -> None:
    assert name_model(SETTINGS) == ("use-multilingual-3-int8", 513)
    assert {"zh", "de", "ja", "es", "ru"} <= set(get_known_languages(SETTINGS))


@pytest.mark.parametrize("content", [None, b"", b"another model"])
async def test_a_folder_without_the_model_is_named(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / MODEL_FILE).write_bytes(content)
    with pytest.raises(EmbeddingError, match=str(tmp_path)):
        await open_embedder(EmbeddingSettings(provider="multilingual", path=tmp_path), tmp_path)


def test_a_missing_package_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "onnxruntime" in find_unusable_reason(None)
    assert "kimas[multilingual]" in find_unusable_reason(None)
