"""What goes wrong in the LanceDB store, said plainly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from core.errors import StoreError, StoreMismatch
from knowledge.ports import Row

REBUILD = "`kimas ingest --rebuild` builds it anew from the sources"
# What operating systems say of a disk, a quota or a file size limit that is reached, and of missing rights.
FULL = ("No space left", "File too large", "quota exceeded", "os error 28", "os error 27", "os error 122")
FORBIDDEN = ("Permission denied", "Read-only file system", "Not a directory", "File exists", "os error 13")


@asynccontextmanager
async def mapped(
    directory: Path, doing: str, seconds: float, loading: Callable[[], bool] = lambda: False
) -> AsyncIterator[None]:
    """Turn LanceDB's failures into `StoreError`: it raises ValueError and RuntimeError for nearly everything.

    `doing` says what is tried (opened, read, written). What takes longer than `seconds` has failed as well; where it is
    `loading` that takes so long, that goes on.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except (ValueError, RuntimeError, OSError) as fault:
        if isinstance(fault, TimeoutError) and loading():
            raise StoreError(f"the passage store {directory} is still being read, ask again in a moment") from fault
        reason = f"no answer within {seconds:.0f} seconds" if isinstance(fault, TimeoutError) else str(fault)
        raise StoreError(explained(directory, doing, reason)) from fault


def refuse_unusable(directory: Path, dimension: int, source: str, rows: Sequence[Row]) -> None:
    """Refuse vectors that the store cannot take. Raises `StoreMismatch`, `StoreError`."""
    wrong = next((row.vector.shape for row in rows if row.vector.shape != (dimension,)), None)
    if wrong:
        raise StoreMismatch(f"the passage store {directory} takes vectors of {dimension}, not {wrong}")
    strange = next((row.passage for row in rows if not np.isfinite(row.vector).all()), None)
    if strange:
        raise StoreError(f"the vector of a passage of {source}, {strange.path}, is no number: it is not stored")


def explained(directory: Path, doing: str, reason: str) -> str:
    """Say what happened to the store and the way out. LanceDB's reasons end in places of its own source code."""
    short = reason.splitlines()[0].split(", /")[0][:300]
    if any(mark.lower() in reason.lower() for mark in FULL):
        return f"no space for the passage store {directory}: free some and try again; what it held is kept ({short})"
    if any(mark.lower() in reason.lower() for mark in FORBIDDEN):
        return f"the passage store {directory} could not be {doing}: check the folder and its permissions ({short})"
    return f"the passage store {directory} could not be {doing}, it may be damaged: {REBUILD} ({short})"


def differing(directory: Path, held: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """Say that the store was built for something else; both are given as embedder, dimension and format."""
    one, other = (f"{it['embedder']} (dimension {it['dimension']}, format {it['format']})" for it in (held, wanted))
    return (
        f"the passage store {directory} was built with {one}, but the configuration asks for {other}; "
        "go back to that configuration, or run `kimas ingest --rebuild`"
    )
