"""What core needs from outside, as Protocols that core owns.

Every implementation runs the contract suite of its Protocol (`tests/contracts`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from core.types import AgentScore, Attachment, Message, Passage, Reply, SourceState, Turn

ModelRole = Literal["main", "light", "vision"]


@dataclass(frozen=True, slots=True)
class ResponseSchema:
    """The form that a reply should have, for endpoints that can be told.

    `schema` is the JSON Schema of an object. With `tool` it is the arguments of a tool of that name that the model may
    call; a call comes back as text, `name({"argument": "value"})`. A wish, no promise: read the reply tolerantly.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    is_tool: bool = False


class RequestBudget(Protocol):
    """What one call of a language model may take, and where its consumption is counted."""

    @property
    def tokens(self) -> Mapping[str, int]:
        """Tokens used so far, by "agent.prompt" and "agent.completion"."""
        ...

    @property
    def cost(self) -> Mapping[str, float]:
        """Cost so far by agent, in the currency of the configured prices."""
        ...

    def remaining(self) -> float:
        """Return the seconds left before the deadline, never below zero."""
        ...

    def add_usage(self, agent: str, prompt_tokens: int, completion_tokens: int, cost: float = 0.0) -> None:
        """Add what one call consumed: tokens, and the cost in the currency of the configured prices."""
        ...


class ChatModel(Protocol):
    """A language model behind named roles.

    Both calls end by the budget's deadline and add the tokens they used to it, under the name of the agent that asks
    (its role where it has none). Both raise `ModelError`.
    """

    def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply piece by piece; the pieces joined are the whole reply. Never retried after the first."""
        ...

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: ModelRole,
        budget: RequestBudget,
        response_schema: ResponseSchema | None = None,
        agent: str = "",
    ) -> str:
        """Return the whole reply."""
        ...


class Library(Protocol):
    """All knowledge, seen from the agents."""

    async def route(self, query: str) -> Sequence[AgentScore]:
        """Return the retrieval agents to ask, best first (KIMAs 3.2.2)."""
        ...

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        """Return at most `limit` passages of one agent's sources, best first.

        `dense` is what is compared by meaning in place of the query, whose words then count alone. Raises `UsageError`
        for an unknown agent.
        """
        ...

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return how close each text is to the query (cosine, -1 to 1), for picking sentences."""
        ...


class SourceRefresher(Protocol):
    """What keeps the stored sources up to date, seen from those who look after the bot.

    `refresh`, `pause` and `resume` raise `UsageError` for an unknown source.
    """

    async def states(self) -> Sequence[SourceState]:
        """Return how every stored source stands, in the order of the configuration."""
        ...

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Ask for a refresh of the named sources (all when none is named), as soon as may be; does not wait for it."""
        ...

    async def pause(self, name: str) -> None:
        """Refresh a source only when asked, until it is resumed; that survives a restart."""
        ...

    async def resume(self, name: str) -> None:
        """Refresh a source by its plan again; what was missed meanwhile is made up for once."""
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


MessageHandler = Callable[[Message], Awaitable[None]]


class Delivery(Protocol):
    """What a sink tells about the first part of its reply, so that a crash leads to no second one."""

    async def mark_posting(self) -> None:
        """Say that the first part is about to be posted."""
        ...

    async def mark_rejected(self) -> None:
        """Say that the platform took nothing of what was about to be posted; `posting` comes again before a retry."""
        ...

    async def mark_posted(self, reply_id: str) -> None:
        """Say that the platform has posted it under this id."""
        ...


@runtime_checkable
class SupportsAttachments(Protocol):
    """An adapter that can fetch what is attached to messages, through its platform and with its own credentials."""

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content, at most `most` bytes. Raises `PlatformError` for a longer one, or where it cannot."""
        ...


class Adapter(Protocol):
    """One bot on one platform. `name` is the platform's name in conversation keys."""

    name: str

    async def open(self) -> None:
        """Connect and learn who the bot is. Raises `PlatformError` for a refused credential."""
        ...

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. A message is confirmed to the platform only after `receive` returned."""
        ...

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return a sink that answers this message; called in the task that owns the answer.

        `delivery` is told around the posting of the first part, before anything else is posted. The id it was given,
        handed back as `previous` after a crash, makes the sink edit that reply instead of posting a second one.
        """
        ...

    async def close(self) -> None:
        """Let go of the connection. Idempotent."""
        ...
