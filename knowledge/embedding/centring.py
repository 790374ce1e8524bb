"""Vectors of any model on the scale of the built-in one, on which the thresholds of routing and of quoting stand.

The vectors of many models share a direction: two passages of E5 that have nothing to do with each other have a cosine
of 0.75 and more. So the mean vector of texts about everything is subtracted, one for queries and one for passages.
Nothing else needs to know whose scale a score has.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from knowledge.embedding.batches import normalize
from knowledge.ports import Embedder, TextKind, Vectors

# The mean cosine of two of the samples from which on it stands in the way of thresholds. Below, a mean of few texts
# takes more of their words away than of what all texts share.
MIN_SHARED_COSINE = 0.3
# What the direction is found by: as different as texts can be, in the form that each kind has.
SAMPLES: dict[TextKind, tuple[str, ...]] = {
    "query": (
        "How do I change the oil of a car?", "What is the capital of Mongolia?", "Why is the build failing?",
        "Who wrote this symphony?", "When does the next train to the coast leave?", "Is there a discount for students?",
        "How long must rice be boiled?", "Which port does the server listen on?", "What helps against a headache?",
        "Can I return the shoes?", "How are taxes on a house computed?", "What is a monad?",
        "Where do penguins breed?", "How do I reset my password?", "What happened in the war of 1812?",
        "Does the phone have a second camera?", "How can a list be sorted in place?", "How deep is the lake?",
        "What is the rule for offside?", "How do I cancel my subscription?", "Which vaccine is needed for a journey?",
        "How is steel made?", "What does this error mean?", "How do I train a puppy?",
    ),
    "passage": (
        "Drain the old oil while the engine is warm, and replace the filter.", "Ulaanbaatar lies in a wide valley.",
        "The compiler stops at the first missing header.", "The symphony has four movements and a choir.",
        "Trains to the coast leave every hour from platform 3.", "Students pay half of the price with a valid card.",
        "Boil the rice for twelve minutes, then let it rest.", "The server listens on port 8080 unless told otherwise.",
        "Rest, water and a mild painkiller help most people.", "Shoes may be returned within thirty days, unworn.",
        "The tax depends on the value of the house and the town.", "A monad wraps a value and chains functions.",
        "Penguins breed in colonies on the ice.", "Follow the link in the mail to choose a new password.",
        "The treaty ended the war without a victor.", "Both cameras can record at night.",
        "`items.sort()` changes the list and returns nothing.", "The lake is 120 metres deep at its northern end.",
        "A player is offside when nearer to the line than the ball.", "The subscription ends with the paid month.",
        "Travellers need a vaccine against yellow fever.", "Iron ore is melted with coke in a furnace.",
        "The disk is full: no space was left on the device.", "Reward the puppy at once when it sits.",
    ),
}  # fmt: skip


class CentredEmbedder:
    """An `Embedder` around another one, which it closes. The mean vectors are computed once, and kept in a folder."""

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self.name = get_centred_name(embedder.name)
        self.dimension = embedder.dimension
        self._embedder = embedder
        digest = hashlib.sha256(f"{self.name} {self.dimension} {MIN_SHARED_COSINE} {SAMPLES}".encode()).hexdigest()[:16]
        self._file = folder / f"centres-{digest}.npy"
        self._centres: dict[TextKind, Vectors] = {}
        self._lock = asyncio.Lock()

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        """Return unit vectors, shape (len(texts), dimension). Raises `EmbeddingError`."""
        async with self._lock:
            if not self._centres:
                self._centres = await self._find_centres()
        return normalize(await self._embedder.embed(texts, kind) - self._centres[kind])

    async def warm_up(self) -> None:
        """Load what the first query would otherwise wait for."""
        await self._embedder.warm_up()

    def vocabulary_coverage(self, text: str) -> float:
        """Return which share of the text's tokens the model knows (0 to 1)."""
        return self._embedder.vocabulary_coverage(text)

    async def close(self) -> None:
        """Close the embedder. Idempotent."""
        await self._embedder.close()

    async def _find_centres(self) -> dict[TextKind, Vectors]:
        centres = await asyncio.to_thread(_load, self._file, self.dimension)
        if centres is None:
            kinds: tuple[TextKind, ...] = ("query", "passage")
            centres = np.stack([_find_centre(await self._embedder.embed(SAMPLES[kind], kind)) for kind in kinds])
            await asyncio.to_thread(_save, self._file, centres)
        return {"query": centres[0], "passage": centres[1]}


def _find_centre(vectors: Vectors) -> Vectors:
    """Return the mean of unit vectors; zero where they share so little that the thresholds hold without it."""
    centre: Vectors = vectors.mean(axis=0)
    count = len(vectors)
    shared_cosine = (count * float(centre @ centre) - 1) / (count - 1)
    return centre if shared_cosine >= MIN_SHARED_COSINE else np.zeros_like(centre)


def get_centred_name(name: str) -> str:
    """Return how the vectors of a model are labelled in a store: not to meet those that are not centred."""
    return f"{name} (centred)"


def _load(file: Path, dimension: int) -> Vectors | None:
    try:
        centres: Vectors = np.load(file, allow_pickle=False)
    except (OSError, ValueError):
        return None
    return centres if centres.shape == (2, dimension) and np.isfinite(centres).all() else None


def _save(file: Path, centres: Vectors) -> None:
    """Write the centres in one step: several processes may do that at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as temp_file:
        np.save(temp_file, centres)
    os.replace(temp_file.name, file)
