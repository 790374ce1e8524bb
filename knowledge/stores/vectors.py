"""The checks and computations of every store: vectors that fit, the model that made them, cosines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from core.errors import StoreError, StoreMismatch
from knowledge.ports import PassageRow, Vectors


def validate_vectors(store_name: str, dimension: int, source: str, rows: Sequence[PassageRow]) -> None:
    """Refuse vectors that the store cannot take. Raises `StoreMismatch`, `StoreError`."""
    for row in rows:
        if row.vector is None:
            continue
        if row.vector.shape != (dimension,):
            raise StoreMismatch(f"{store_name} takes vectors of {dimension}, not {row.vector.shape}")
        if not np.isfinite(row.vector).all():
            raise StoreError(f"the vector of a passage of {source}, {row.passage.path}, is no number: it is not stored")


def require_labels(store_name: str, stored_labels: Mapping[str, str], configured_labels: Mapping[str, str]) -> None:
    """Raise `StoreMismatch` for a store of another model; both labels are embedder, dimension and format."""
    if stored_labels == configured_labels:
        return
    stored_model, configured_model = (
        f"{labels['embedder']} (dimension {labels['dimension']}, format {labels['format']})"
        for labels in (stored_labels, configured_labels)
    )
    raise StoreMismatch(
        f"{store_name} was built with {stored_model}, but the configuration asks for {configured_model}; "
        "go back to that configuration, or run `kimas ingest --rebuild`"
    )


def compute_cosines(rows: Vectors, vector: Vectors) -> list[float]:
    """Return the cosine (-1 to 1) of each row, shape (rows, dimension), with a vector."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    cosines: list[float] = (rows @ vector / np.maximum(lengths, np.finfo(np.float32).tiny)).clip(-1, 1).tolist()
    return cosines
