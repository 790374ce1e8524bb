"""Reranking by a cross-encoder on this machine: a folder with an ONNX model, or a model's name in fastembed.

The only module that knows onnxruntime, and the only one for reranking that knows fastembed: both come with an extra.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from core.errors import ConfigurationError, ServiceError
from core.evidence.ranking import fuse
from core.install_hints import format_install_hint
from core.settings.knowledge import RerankerSettings
from core.types import Passage
from knowledge.reranking.api import order_by_scores, rerank_input

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
TOKENIZER_FILE = "tokenizer.json"
# A question and a passage: what is longer adds time and hardly changes the score.
MAX_TOKENS = 384
BATCH_SIZE = 8
THREADS = 2


class CrossEncoderReranker:
    """Scores the best passages with the query, one pair at a time; the others follow. Call `close` at the end.

    The model is loaded for the first question. Raises `ConfigurationError` when it cannot be used at all.
    """

    def __init__(self, settings: RerankerSettings, alpha: float, models_dir: Path | None = None) -> None:
        self._top_n = settings.top_n
        self._alpha = alpha
        if settings.path:
            model_file = _find_model_file(settings.path)
            tokenizer_file = settings.path / TOKENIZER_FILE
            self._load: Callable[[], _Scorer] = lambda: _load_model(model_file, tokenizer_file)
        else:
            _require_package("fastembed")
            self._load = lambda: _load_named_model(settings.model, models_dir)
        self._load_task: asyncio.Task[_Scorer] | None = None
        # One question at a time: in parallel all of them would be late.
        self._lock = asyncio.Lock()

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages best first. Raises `ServiceError` when the model cannot be loaded or run."""
        fused_passages = fuse(passages, self._alpha)
        if len(fused_passages) < 2 or not query.strip():
            return fused_passages
        if self._load_task is None or (self._load_task.done() and self._load_task.exception()):
            self._load_task = asyncio.create_task(asyncio.to_thread(self._load))
        # A question that runs out of time makes way for the next.
        model = await asyncio.shield(self._load_task)
        texts = [rerank_input(passage) for passage in fused_passages[: self._top_n]]
        cancel_event = threading.Event()
        try:
            async with self._lock:
                return order_by_scores(fused_passages, await asyncio.to_thread(model.score, query, texts, cancel_event))
        finally:
            cancel_event.set()

    async def close(self) -> None:
        """Let go of the model. Idempotent."""
        if self._load_task is not None:
            await asyncio.gather(self._load_task, return_exceptions=True)
            self._load_task = None


class _Scorer(Protocol):
    def score(self, query: str, texts: Sequence[str], cancel_event: threading.Event) -> Mapping[int, float]:
        """Return a raw score per text, by position; fewer when it is given up. Blocking."""
        ...


@dataclass(frozen=True, slots=True)
class _NamedModel:
    """A model of fastembed."""

    encoder: Any

    def score(self, query: str, texts: Sequence[str], cancel_event: threading.Event) -> Mapping[int, float]:
        """Return a raw score per text, by position; fewer when it is given up. Blocking."""
        scores: dict[int, float] = {}
        for start in range(0, len(texts), BATCH_SIZE):
            if cancel_event.is_set():
                break
            batch = texts[start : start + BATCH_SIZE]
            try:
                batch_scores = [float(score) for score in self.encoder.rerank(query, batch, batch_size=BATCH_SIZE)]
            except Exception as error:  # The runtime's exceptions have no root of their own.
                raise ServiceError(f"the cross-encoder failed: {error}") from error
            scores.update(enumerate(batch_scores, start))
        return _check_finite(scores)


@dataclass(frozen=True, slots=True)
class _Model:
    session: Any
    tokenizer: Tokenizer

    def score(self, query: str, texts: Sequence[str], cancel_event: threading.Event) -> Mapping[int, float]:
        """Return a raw score per text, by position; fewer when it is given up. Blocking."""
        input_names = {model_input.name for model_input in self.session.get_inputs()}
        encodings = self.tokenizer.encode_batch([(query, text) for text in texts])
        # Texts of a like length side by side: less of a batch is padding.
        order = sorted(range(len(texts)), key=lambda position: sum(encodings[position].attention_mask))
        scores: dict[int, float] = {}
        for start in range(0, len(order), BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            if cancel_event.is_set():
                break
            length = max(sum(encodings[position].attention_mask) for position in batch)
            rows = {
                "input_ids": [encodings[position].ids[:length] for position in batch],
                "attention_mask": [encodings[position].attention_mask[:length] for position in batch],
                "token_type_ids": [encodings[position].type_ids[:length] for position in batch],
            }
            inputs = {name: np.array(values, np.int64) for name, values in rows.items() if name in input_names}
            scores.update(zip(batch, self._run(inputs, len(batch)), strict=True))
        return scores

    def _run(self, inputs: Mapping[str, Any], count: int) -> Sequence[float]:
        try:
            logits = np.asarray(self.session.run(None, inputs)[0], np.float64).reshape(count, -1)
        except Exception as error:  # The runtime's exceptions have no root of their own.
            raise ServiceError(f"the cross-encoder failed: {error}") from error
        # Two classes are no and yes.
        scores = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        return list(_check_finite({position: float(score) for position, score in enumerate(scores)}).values())


def _check_finite(scores: Mapping[int, float]) -> Mapping[int, float]:
    if not all(map(math.isfinite, scores.values())):
        raise ServiceError("the cross-encoder failed: its scores are no numbers")
    return scores


def _find_model_file(folder: Path) -> Path:
    """Return the model's file. Raises `ConfigurationError` for what is missing."""
    setting = "knowledge.search.reranker.path"
    model_file = next((folder / name for name in MODEL_FILES if (folder / name).is_file()), None)
    if model_file is None:
        raise ConfigurationError([f"{setting}: {folder} holds none of {', '.join(MODEL_FILES)}"])
    if not (folder / TOKENIZER_FILE).is_file():
        raise ConfigurationError([f"{setting}: {folder} holds no {TOKENIZER_FILE}"])
    _require_package("onnxruntime")
    return model_file


def _require_package(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        hint = format_install_hint("fastembed")
        raise ConfigurationError([f"knowledge.search.rerank: a cross-encoder needs the package {name}: {hint}"])


def _load_named_model(name: str, models_dir: Path | None) -> _Scorer:
    try:
        library: Any = importlib.import_module("fastembed.rerank.cross_encoder")
        cache_dir = str(models_dir / "fastembed") if models_dir else None
        return _NamedModel(library.TextCrossEncoder(name, cache_dir=cache_dir, threads=THREADS, cuda=False))
    except Exception as error:  # Its exceptions have no root of their own.
        raise ServiceError(
            f"the cross-encoder {name} cannot be loaded: {error}; fastembed has to know it and to download it once; "
            "knowledge.search.reranker.path names a folder with the files of a model instead"
        ) from error


def _load_model(model_file: Path, tokenizer_file: Path) -> _Model:
    try:
        # Not installed everywhere, so that nothing may import it by name.
        runtime: Any = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = runtime.InferenceSession(str(model_file), options, providers=["CPUExecutionProvider"])
        from tokenizers import Tokenizer

        fast_tokenizer = Tokenizer.from_file(str(tokenizer_file))
        fast_tokenizer.enable_truncation(MAX_TOKENS, strategy="only_second")
        fast_tokenizer.enable_padding()
    except Exception as error:  # Neither library's exceptions have a root of their own.
        raise ServiceError(f"the cross-encoder {model_file} cannot be loaded: {error}") from error
    return _Model(session, fast_tokenizer)
