"""Fifteen languages in one space: the Universal Sentence Encoder (multilingual), on the processor through ONNX.

A question finds passages of another language: nothing has to translate it. Yang et al. 2019, arXiv:1907.04307. The
weights come with the package nanoranker, which is read as data and never imported.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import EmbeddingError
from core.install_hints import format_install_hint
from core.runtime.tuning import lower_thread_priority
from knowledge.embedding.batches import ThreadedEncoder
from knowledge.ports import TextKind, Vectors

MULTILINGUAL_NAME = "use-multilingual-3-int8"
MODEL_DIMENSION = 512
MULTILINGUAL_DIMENSION = MODEL_DIMENSION + 1
MULTILINGUAL_LANGUAGES = ("ar", "zh", "en", "fr", "de", "it", "ja", "ko", "nl", "pl", "pt", "es", "th", "tr", "ru")
MODEL_FILE = "universal-sentence-encoder-multilingual.onnx"
CHECKSUM = "b8b05b01f0861094f0475cb288ad1b303ae8aee2ebe96e650d210805d5ca70f7"
PACKAGE = "nanoranker"
# What all texts have in common: every cosine c becomes (c + 0.04) / 1.04. The thresholds were chosen by the cosines of
# the built-in model, and those of this one are lower: .46 (.54) for the best passage of a right question, .16 (.19) for
# that of a question about something else.
COMMON_PART = 0.2
# The time of a text grows faster than its length; passages are shorter.
MAX_CHARACTERS = 3000


class MultilingualEmbedder:
    """An `Embedder` for fifteen languages."""

    def __init__(self, session: Any) -> None:
        self.name = MULTILINGUAL_NAME
        self.dimension = MULTILINGUAL_DIMENSION
        self._session = session
        self._threads = ThreadedEncoder(MULTILINGUAL_NAME, MULTILINGUAL_DIMENSION, self._encode)

    @classmethod
    async def open(cls, folder: Path | None = None) -> MultilingualEmbedder:
        """Load the model from a folder, or from the installed package. Raises `EmbeddingError`."""
        # The model's own threads inherit the priority of the thread that loads it.
        with ThreadPoolExecutor(1, initializer=lower_thread_priority) as executor:
            return cls(await asyncio.get_running_loop().run_in_executor(executor, _load, folder))

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        """Return unit vectors, shape (len(texts), 513); a small job overtakes a big one. Raises `EmbeddingError`."""
        return await self._threads.embed(texts)

    async def warm_up(self) -> None:
        """Do nothing: an open model is loaded."""

    def vocabulary_coverage(self, text: str) -> float:
        """Return 1, or 0 for a text without words: what language a text is in is not looked at."""
        return float(any(character.isalnum() for character in text))

    async def close(self) -> None:
        """Finish the batches under way. Idempotent."""
        await self._threads.close()

    def _encode(self, texts: Sequence[str]) -> Vectors:
        # One by one: in a batch, each text costs what the longest one costs.
        vectors = np.full((len(texts), MULTILINGUAL_DIMENSION), COMMON_PART, np.float32)
        for row, text in zip(vectors, texts, strict=True):
            row[:MODEL_DIMENSION] = self._session.run(None, {"inputs": [text[:MAX_CHARACTERS]]})[0][0]
        return vectors


def find_unusable_reason(folder: Path | None) -> str:
    """Return why the model cannot be opened, as far as its files tell; empty where nothing is wrong."""
    missing_package = next((name for name in ("onnxruntime", "onnxruntime_extensions") if not _is_installed(name)), "")
    if missing_package or not (folder or _is_installed(PACKAGE)):
        missing_package = missing_package or PACKAGE
        return f"the package {missing_package} is missing: {format_install_hint('multilingual')}"
    file = _find_file(folder)
    return "" if file.is_file() else f"{file} is missing"


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _find_file(folder: Path | None) -> Path:
    if folder:
        return folder / MODEL_FILE
    # Finding a top-level package does not import it; its code would load its models.
    spec = importlib.util.find_spec(PACKAGE)
    return Path(spec.origin if spec and spec.origin else PACKAGE).parent / "resources" / MODEL_FILE


def _load(folder: Path | None) -> Any:
    if reason := find_unusable_reason(folder):
        raise EmbeddingError(f"knowledge.embedding.provider multilingual: {reason}")
    file = _find_file(folder)
    # Not installed everywhere, so that nothing may import them by name.
    runtime: Any = importlib.import_module("onnxruntime")
    extensions: Any = importlib.import_module("onnxruntime_extensions")
    try:
        data = file.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        if digest != CHECKSUM:
            raise EmbeddingError(f"{file}: SHA-256 is {digest}, expected {CHECKSUM}; install its package again")
        options = runtime.SessionOptions()
        # Texts are encoded beside one another.
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.register_custom_ops_library(extensions.get_library_path())
        return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except EmbeddingError:
        raise
    except Exception as error:  # The runtime's exceptions have no root of their own.
        raise EmbeddingError(f"{file}: the embedding model cannot be loaded: {error}") from error
