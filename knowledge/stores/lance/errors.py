"""Errors of the LanceDB store, in plain words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from core.errors import StoreError, StoreMismatch
from knowledge.ports import PassageRow

REBUILD_HINT = "`kimas ingest --rebuild` builds it anew from the sources"
# What operating systems say of a disk, a quota or a file size limit that is reached, and of missing rights.
DISK_FULL_MARKERS = ("No space left", "File too large", "quota exceeded", "os error 28", "os error 27", "os error 122")
PERMISSION_MARKERS = ("Permission denied", "Read-only file system", "Not a directory", "File exists", "os error 13")


@asynccontextmanager
async def map_errors(
    directory: Path, action: str, timeout_s: float, is_loading: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """Turn LanceDB's failures into `StoreError`: it raises ValueError and RuntimeError for nearly everything.

    `action` is what was tried (opened, read, written). Taking longer than `timeout_s` is a failure as well; while
    `is_loading` says so, loading goes on.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (ValueError, RuntimeError, OSError) as error:
        if isinstance(error, TimeoutError) and is_loading():
            raise StoreError(f"the passage store {directory} is still being read, ask again in a moment") from error
        reason = f"no answer within {timeout_s:.0f} seconds" if isinstance(error, TimeoutError) else str(error)
        raise StoreError(explain_error(directory, action, reason)) from error


def validate_vectors(directory: Path, dimension: int, source: str, rows: Sequence[PassageRow]) -> None:
    """Refuse vectors that the store cannot take. Raises `StoreMismatch`, `StoreError`."""
    wrong_shape = next((row.vector.shape for row in rows if row.vector.shape != (dimension,)), None)
    if wrong_shape:
        raise StoreMismatch(f"the passage store {directory} takes vectors of {dimension}, not {wrong_shape}")
    invalid_passage = next((row.passage for row in rows if not np.isfinite(row.vector).all()), None)
    if invalid_passage:
        raise StoreError(f"the vector of a passage of {source}, {invalid_passage.path}, is no number: it is not stored")


def explain_error(directory: Path, action: str, reason: str) -> str:
    """Say what happened to the store and the way out. LanceDB's reasons end in places of its own source code."""
    short_reason = reason.splitlines()[0].split(", /")[0][:300]
    if any(marker.lower() in reason.lower() for marker in DISK_FULL_MARKERS):
        return (
            f"no space for the passage store {directory}: free some and try again; what it held is "
            f"kept ({short_reason})"
        )
    if any(marker.lower() in reason.lower() for marker in PERMISSION_MARKERS):
        return (
            f"the passage store {directory} could not be {action}: check the folder and its "
            f"permissions ({short_reason})"
        )
    return f"the passage store {directory} could not be {action}, it may be damaged: {REBUILD_HINT} ({short_reason})"


def describe_mismatch(directory: Path, stored_labels: Mapping[str, str], configured_labels: Mapping[str, str]) -> str:
    """Say that the store was built for something else; both are given as embedder, dimension and format."""
    stored_model, configured_model = (
        f"{labels['embedder']} (dimension {labels['dimension']}, format {labels['format']})"
        for labels in (stored_labels, configured_labels)
    )
    return (
        f"the passage store {directory} was built with {stored_model}, but the configuration asks "
        f"for {configured_model}; "
        "go back to that configuration, or run `kimas ingest --rebuild`"
    )
