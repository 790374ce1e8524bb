"""Vectors by a model that runs here, through ONNX: by its name in fastembed, or from a folder.

The only module for embedding that knows fastembed, which is an extra of the package: it is imported with the model.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from core.errors import EmbeddingError
from core.install_hints import format_install_hint
from core.runtime.tuning import lower_thread_priority
from core.settings import EmbeddingSettings
from knowledge.embedding.batches import WORKERS, ThreadedEncoder
from knowledge.embedding.families import Instructions, find_instructions
from knowledge.ports import TextKind, Vectors

DOWNLOAD_HINT = "fastembed has to know it, and downloads it once; `path` names a folder with a model's files instead"
MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
NEEDED_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
MAX_CHARACTERS = 8192
# How fastembed describes its models; those of many languages name none.
_LANGUAGE_NAME_CODES = {"English": "en", "Chinese": "zh", "German": "de", "Spanish": "es"}
_LANGUAGE_NAME = re.compile("|".join(_LANGUAGE_NAME_CODES))
UNKNOWN_TOKENS = ("[UNK]", "<unk>")


class _TextModel(Protocol):
    """The interface of a fastembed model."""

    @property
    def model(self) -> Any: ...

    def embed(self, documents: list[str], batch_size: int) -> Iterator[Vectors]: ...


class FastEmbedder:
    """An `Embedder` over fastembed. `name` has the model's name, or its folder's."""

    def __init__(self, model: _TextModel, name: str, dimension: int, instructions: Instructions) -> None:
        self.name = name + instructions.identity
        self._instructions = instructions
        self.dimension = dimension
        self._model = model
        self._tokenizer = model.model.tokenizer
        self._unknown_ids = {self._tokenizer.token_to_id(token) for token in UNKNOWN_TOKENS}
        self._threads = ThreadedEncoder(name, dimension, lambda texts: _encode(model, texts))

    @classmethod
    async def open(cls, settings: EmbeddingSettings, cache_dir: Path) -> FastEmbedder:
        """Load the model; one that is named is downloaded into `cache_dir` on first use. Raises `EmbeddingError`."""
        # The model's own threads inherit the priority of the thread that loads it.
        with ThreadPoolExecutor(1, initializer=lower_thread_priority) as executor:
            model = await asyncio.get_running_loop().run_in_executor(executor, _load, settings, cache_dir)
        return cls(*model, find_instructions(settings))

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        """Return unit vectors, shape (len(texts), dimension); a small job overtakes a big one.

        Raises `EmbeddingError`.
        """
        return await self._threads.embed([self._instructions.apply(text, kind) for text in texts])

    async def warm_up(self) -> None:
        """Do nothing: an open model is loaded."""

    def vocabulary_coverage(self, text: str) -> float:
        """Return which share of the tokens is not unknown (0 to 1); 0 for a text without tokens."""
        text = text[:MAX_CHARACTERS].encode("utf-8", "replace").decode()
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return 1 - sum(token_id in self._unknown_ids for token_id in ids) / len(ids) if ids else 0.0

    async def close(self) -> None:
        """Finish the batches under way. Idempotent."""
        await self._threads.close()


def _encode(model: _TextModel, texts: list[str]) -> Vectors:
    batch = [text[:MAX_CHARACTERS] or " " for text in texts]
    return np.stack(list(model.embed(batch, len(batch)))).astype(np.float32)


def _load(settings: EmbeddingSettings, cache_dir: Path) -> tuple[_TextModel, str, int]:
    if importlib.util.find_spec("fastembed") is None:
        hint = format_install_hint("fastembed")
        raise EmbeddingError(f"knowledge.embedding.provider fastembed needs the package fastembed: {hint}")
    # Its threads complain when the process forks.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    options: dict[str, Any] = {"cache_dir": str(cache_dir / "fastembed"), "threads": WORKERS, "cuda": False}
    if settings.path:
        _check_folder(settings.path)
        options["specific_model_path"] = str(settings.path)
    # Not installed everywhere, so that nothing may import it by name.
    library: Any = importlib.import_module("fastembed")
    name = settings.model or f"folder {settings.path}"
    try:
        if settings.path and not _is_known(library, settings.model):
            _register_folder(library, name, settings.path)
        model: _TextModel = library.TextEmbedding(name, **options)
        dimension = len(_encode(model, ["dimension"])[0])
    except Exception as error:  # Its exceptions have no root of their own.
        hint = "is the folder complete?" if settings.path else DOWNLOAD_HINT
        raise EmbeddingError(f"the embedding model {name} cannot be loaded: {error}; {hint}") from error
    label = settings.model or (settings.path or Path()).name
    return model, f"fastembed-{label}", dimension


def _is_known(library: Any, name: str) -> bool:
    return any(name.lower() == model["model"].lower() for model in library.TextEmbedding.list_supported_models())


def get_model_languages(name: str) -> tuple[str, ...]:
    """Return the languages that fastembed's description of a model names; empty where it names none or many."""
    if importlib.util.find_spec("fastembed") is None:
        return ()
    library: Any = importlib.import_module("fastembed")
    supported_models = library.TextEmbedding.list_supported_models()
    description = next(
        (model["description"] for model in supported_models if model["model"].lower() == name.lower()), ""
    )
    return tuple(dict.fromkeys(_LANGUAGE_NAME_CODES[name] for name in _LANGUAGE_NAME.findall(description)))


def unusable_reason(settings: EmbeddingSettings) -> str:
    """Return why a model cannot be opened, as far as its files tell; empty when nothing is wrong."""
    if importlib.util.find_spec("fastembed") is None:
        return f"the package fastembed is missing: {format_install_hint('fastembed')}"
    try:
        if settings.path:
            _check_folder(settings.path)
    except EmbeddingError as error:
        return str(error)
    return ""


def _check_folder(folder: Path) -> None:
    missing_files = [name for name in NEEDED_FILES if not (folder / name).is_file()]
    if not any((folder / name).is_file() for name in MODEL_FILES):
        missing_files.insert(0, MODEL_FILES[0])
    if missing_files:
        raise EmbeddingError(f"knowledge.embedding.path: {folder} holds no {', '.join(missing_files)}")


def _register_folder(library: Any, name: str, folder: Path) -> None:
    """Tell fastembed of a model that it does not know; pooling is as sentence-transformers' file says, or the mean."""
    description: Any = importlib.import_module("fastembed.common.model_description")
    pooling_file = folder / "1_Pooling/config.json"
    pooling = json.loads(pooling_file.read_text("utf-8")) if pooling_file.is_file() else {}
    is_first_token = pooling.get("pooling_mode_cls_token", False)
    if _is_known(library, name):
        return
    library.TextEmbedding.add_custom_model(
        model=name,
        pooling=description.PoolingType.CLS if is_first_token else description.PoolingType.MEAN,
        normalization=True,
        sources=description.ModelSource(hf=name),
        dim=json.loads((folder / "config.json").read_text("utf-8")).get("hidden_size", 0),
        model_file=next(file for file in MODEL_FILES if (folder / file).is_file()),
    )
