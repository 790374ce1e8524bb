"""What every compared system is: documents are indexed, then questions are answered as streams of text.

This module and `worker` run in the environments of the frameworks as well, so they import the standard library alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

MODEL = "peer"
EMBEDDING_MODEL = "minilm"
DIMENSION = 384
API_KEY = "none"
# What the model peer does: milliseconds to the first token, tokens a second after it, tokens of an answer.
TTFT_MS = 300.0
RATE = 50.0
TOKENS = 80
# Within how many seconds a crowd arrives.
SPREAD_S = 2.0
# Passages for an answer: as many as an agent of KIMAs returns at most by default.
TOP_K = 12

# For the systems whose prompts are written by their users.
ANSWER_PROMPT = (
    "Answer the question of the user from the passages below, and say so when they do not contain the answer.\n\n"
    "Passages:\n\n"
)
REWRITE_PROMPT = (
    "Complete the last question of the conversation, so that it can be understood without the conversation. "
    "Do not answer it. Reply with the question alone."
)


@dataclass(frozen=True, slots=True)
class Document:
    """A text with an id; what is retrieved is compared by the id."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Query:
    """A question at the end of a conversation: (role, text), oldest first, with the roles user and assistant."""

    question: str
    history: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SystemConfig:
    """Where a system works: a folder of its own, and the addresses of the model and the embedder."""

    folder: Path
    model_url: str
    embedder_url: str
    # For KIMAs alone: whether an answer may begin while a model call before it runs.
    head_starts: bool = True


class System(Protocol):
    """One system. Every method runs in the same event loop; `answer` is called many times at once."""

    async def index(self, documents: Sequence[Document]) -> None:
        """Write the index into the folder of the system."""

    async def start(self) -> None:
        """Open the index that `index` wrote in another process, and whatever the first question needs."""

    def answer(self, query: Query) -> AsyncIterator[str]:
        """Yield the text of an answer piece by piece, as the model writes it."""

    async def retrieve(self, query: Query) -> list[str]:
        """Return the ids of the documents that an answer would be written from, best first."""

    async def close(self) -> None:
        """Release what `start` opened."""
