"""Reranking by a cross-encoder on this machine: a folder with an ONNX model and its tokenizer.

The only module that knows onnxruntime, which is no dependency of KIMAs: it is needed for this alone.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import ConfigurationError, ServiceError
from core.grounding.fusion import fuse
from core.settings.knowledge import RerankerSettings
from core.types import Passage
from knowledge.reranking.scores import by_scores, judged_text

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MODELS = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
TOKENIZER = "tokenizer.json"
# A question and a passage: what is longer adds time and hardly changes the score.
MOST_TOKENS = 384
BATCH = 8
THREADS = 2


class CrossEncoderReranker:
    """Scores the best passages with the query, one pair at a time; the others follow. `close` it in the end.

    The model is loaded for the first question. Raises `ConfigurationError` when it cannot be used at all.
    """

    def __init__(self, settings: RerankerSettings, alpha: float) -> None:
        self._folder = settings.path or Path()
        self._top_n = settings.top_n
        self._alpha = alpha
        self._model_file = _usable(self._folder)
        self._loading: asyncio.Task[_Model] | None = None
        # One question after the other: side by side all of them would be late.
        self._turn = asyncio.Lock()

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the passages best first. Raises `ServiceError` when the model cannot be loaded or run."""
        fused = fuse(passages, self._alpha)
        if len(fused) < 2 or not query.strip():
            return fused
        if self._loading is None or (self._loading.done() and self._loading.exception()):
            self._loading = asyncio.create_task(asyncio.to_thread(_load, self._model_file, self._folder / TOKENIZER))
        # A question that is cut off leaves the model to those after it.
        model = await asyncio.shield(self._loading)
        texts = [judged_text(one) for one in fused[: self._top_n]]
        given_up = threading.Event()
        try:
            async with self._turn:
                return by_scores(fused, await asyncio.to_thread(model.scores, query, texts, given_up))
        finally:
            given_up.set()

    async def close(self) -> None:
        """Let go of the model. Idempotent."""
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)
            self._loading = None


@dataclass(frozen=True, slots=True)
class _Model:
    session: Any
    tokenizer: Tokenizer

    def scores(self, query: str, texts: Sequence[str], given_up: threading.Event) -> Mapping[int, float]:
        """Return a raw score per text, by position; fewer when it is given up. Blocking."""
        names = {one.name for one in self.session.get_inputs()}
        encoded = self.tokenizer.encode_batch([(query, text) for text in texts])
        # Texts of a like length side by side: less of a batch is padding.
        order = sorted(range(len(texts)), key=lambda position: sum(encoded[position].attention_mask))
        found: dict[int, float] = {}
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            if given_up.is_set():
                break
            length = max(sum(encoded[position].attention_mask) for position in batch)
            rows = {
                "input_ids": [encoded[position].ids[:length] for position in batch],
                "attention_mask": [encoded[position].attention_mask[:length] for position in batch],
                "token_type_ids": [encoded[position].type_ids[:length] for position in batch],
            }
            inputs = {name: np.array(values, np.int64) for name, values in rows.items() if name in names}
            found.update(zip(batch, self._run(inputs, len(batch)), strict=True))
        return found

    def _run(self, inputs: Mapping[str, Any], count: int) -> Sequence[float]:
        try:
            logits = np.asarray(self.session.run(None, inputs)[0], np.float64).reshape(count, -1)
        except Exception as fault:  # The runtime's exceptions have no root of their own.
            raise ServiceError(f"the cross-encoder failed: {fault}") from fault
        # Two classes are no and yes.
        raw = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
        if not np.isfinite(raw).all():
            raise ServiceError("the cross-encoder failed: its scores are no numbers")
        return [float(score) for score in raw]


def _usable(folder: Path) -> Path:
    """Return the model's file. Raises `ConfigurationError` for what is missing."""
    where = "knowledge.search.reranker.path"
    model = next((folder / name for name in MODELS if (folder / name).is_file()), None)
    if model is None:
        raise ConfigurationError([f"{where}: {folder} holds none of {', '.join(MODELS)}"])
    if not (folder / TOKENIZER).is_file():
        raise ConfigurationError([f"{where}: {folder} holds no {TOKENIZER}"])
    if importlib.util.find_spec("onnxruntime") is None:
        raise ConfigurationError(
            ["knowledge.search.rerank: cross_encoder needs the package onnxruntime: pip install onnxruntime"]
        )
    return model


def _load(model: Path, tokenizer: Path) -> _Model:
    try:
        # Not installed everywhere, so that nothing may import it by name.
        runtime: Any = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = THREADS
        session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        from tokenizers import Tokenizer

        words = Tokenizer.from_file(str(tokenizer))
        words.enable_truncation(MOST_TOKENS, strategy="only_second")
        words.enable_padding()
    except Exception as fault:  # Neither library's exceptions have a root of their own.
        raise ServiceError(f"the cross-encoder {model} cannot be loaded: {fault}") from fault
    return _Model(session, words)
