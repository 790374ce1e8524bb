"""The built-in embedding model, converted once per run and loaded once per process.

Converting it takes half a second, and loading it 60 ms: most tests only need that it is there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from knowledge.embedding import ctranslate2_model, local
from knowledge.ports import Vectors

# Where a process of this run finds the converted model, or makes it.
VARIABLE = "KIMAS_TEST_CONVERTED_MODEL"
convert_model = local._convert
load_model = local._load_converted


def share_model(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let this process, and every `kimas` that its tests fork, copy the converted model from a folder."""
    patch.setenv(VARIABLE, str(folder))
    copy_converted_model(patch)
    patch.setattr(local, "_load_converted", LoadedModels().load)


def copy_converted_model(patch: pytest.MonkeyPatch) -> None:
    """Copy the converted model in this process, if the environment says from where."""
    if os.environ.get(VARIABLE):
        patch.setattr(local, "_convert", _copy_converted)


def _copy_converted(runtime: local.Runtime, model_dir: Path, package_dir: Path, *hint: str) -> None:
    if runtime is ctranslate2_model and package_dir == local.find_package_dir():
        folder = Path(os.environ[VARIABLE])
        with FileLock(folder.with_suffix(".lock")):
            if not folder.is_dir():
                convert_model(runtime, folder, package_dir)
                # As `kimas` would make it, whatever the umask of this process: the copies have the same modes.
                for path in (folder, *folder.rglob("*")):
                    path.chmod(0o700 if path.is_dir() else 0o600)
        # A place where nothing can be is the business of the product.
        with suppress(OSError):
            shutil.copytree(folder, model_dir)
            return
    convert_model(runtime, model_dir, package_dir, *hint)


class LoadedModels:
    """What is loaded in this process. Files with the size and the time of others are copies of them."""

    def __init__(self) -> None:
        self._models: dict[tuple[object, ...], Any] = {}

    def load(self, runtime: local.Runtime, model_dir: Path) -> Any:
        """Load a converted model, unless a copy of it is loaded."""
        states = [(path.name, path.stat()) for path in sorted(model_dir.iterdir())]
        key = (runtime.get_format(), *((name, state.st_size, state.st_mtime_ns) for name, state in states))
        if key not in self._models:
            encoder, tokenizer = load_model(runtime, model_dir)
            self._models[key] = _KeptEncoder(encoder), tokenizer
        return self._models[key]


class _KeptEncoder:
    """An encoder that stays open: others use it, too."""

    def __init__(self, encoder: local.TokenEncoder) -> None:
        self._encoder = encoder

    def encode(self, token_ids: Sequence[Sequence[int]]) -> Vectors:
        return self._encoder.encode(token_ids)

    def close(self) -> None:
        return None
