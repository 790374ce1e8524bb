"""What core needs from outside, as Protocols that core owns.

Every implementation runs the contract suite of its Protocol (`tests/contracts`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal, Protocol

from core.types import AgentScore, ConversationKey, Message, Passage, Reply, Turn

Role = Literal["main", "light"]


class ChatModel(Protocol):
    """A language model behind named roles. Both calls raise `ModelError`; neither retries after the first token."""

    def stream(self, system: str, turns: Sequence[Turn], *, role: Role) -> AsyncIterator[str]:
        """Yield the reply piece by piece; the pieces joined are the whole reply."""
        ...

    async def complete(self, system: str, turns: Sequence[Turn], *, role: Role) -> str:
        """Return the whole reply."""
        ...


class Library(Protocol):
    """All knowledge, seen from the agents."""

    async def route(self, query: str) -> Sequence[AgentScore]:
        """Return the retrieval agents to ask, best first (KIMAs 3.2.2)."""
        ...

    async def search(self, agent: str, query: str, limit: int) -> Sequence[Passage]:
        """Return at most `limit` passages of one agent's sources, best first.

        Raises `UsageError` for an unknown agent.
        """
        ...

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return how close each text is to the query (cosine, -1 to 1), for picking sentences."""
        ...


class Reranker(Protocol):
    """Orders passages of several searches by their use for one query."""

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return the same passages, best first, with comparable scores. Never loses one."""
        ...


class Sink(Protocol):
    """Where one reply is written, piece by piece. An implementation throttles; the caller just says what is new.

    The order of calls is `open`, any number of `update`, then exactly one of `finish` or `fail`. All raise
    `PlatformError`; `MessageGone` when the question was deleted.
    """

    async def open(self) -> None:
        """Show the first sign of life (typing, a placeholder)."""
        ...

    async def update(self, text: str) -> None:
        """Show the reply so far, as Markdown: the whole text, not the increment."""
        ...

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its citations."""
        ...

    async def fail(self, text: str) -> None:
        """Tell the asker plainly that it went wrong."""
        ...


Receive = Callable[[Message], Awaitable[None]]


class Adapter(Protocol):
    """One bot on one platform. `name` is the platform's name in conversation keys."""

    name: str

    async def open(self) -> None:
        """Connect and learn who the bot is. Raises `PlatformError` for a refused credential."""
        ...

    async def listen(self, receive: Receive) -> None:
        """Deliver messages until cancelled. A message is confirmed to the platform only after `receive` returned."""
        ...

    def sink(self, message: Message) -> Sink:
        """Return a sink that answers this message."""
        ...

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        ...


class Memory(Protocol):
    """What the line needs of the journal: earlier turns of a conversation."""

    async def conversation(self, key: ConversationKey, limit: int) -> Sequence[Turn]:
        """Return the last `limit` turns, oldest first."""
        ...
