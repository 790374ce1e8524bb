"""What core needs from outside, as Protocols that core owns.

Every implementation runs the contract suite of its Protocol (`tests/contracts`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from core.errors import PlatformError
from core.types import (
    AgentScore,
    Attachment,
    ConversationKey,
    Message,
    Passage,
    Question,
    Reply,
    ResponseSchema,
    SourceState,
    Turn,
)

ModelRole = Literal["main", "light", "vision"]


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
# Answers a question into its sink.
AnswerFunction = Callable[[Question, Sink], Awaitable[Reply]]


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


# In the command of a field: where its value goes.
VALUE_PLACEHOLDER = "{}"


@dataclass(frozen=True, slots=True)
class FormField:
    """One value: the command that sets it, with `VALUE_PLACEHOLDER` in the place of the value, and how it stands.

    `choices` are values with their labels; without any the value is written freely, and `hint` says how.
    """

    command: str
    label: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True)
class SettingsForm:
    """What its reader may change, and in `notes`, a line each, what they may only see. All of it is plain text.

    `language` is the code of the language in which it is written.
    """

    fields: tuple[FormField, ...]
    notes: tuple[str, ...] = ()
    language: str = "en"


class ConnectionStatus:
    """The connection to one platform. `outages` counts how often it was lost, or could not be made."""

    def __init__(self) -> None:
        self.is_connected = False
        self.outages = 0
        self._is_down = False

    def mark_connected(self) -> None:
        """Note that messages can arrive; again and again is once."""
        self.is_connected, self._is_down = True, False

    def mark_reconnecting(self) -> None:
        """Note that the connection is being made anew: an outage only where that fails."""
        self.is_connected = False

    def mark_disconnected(self) -> None:
        """Note that they cannot; again and again is one outage."""
        self.outages += not self._is_down
        self.is_connected, self._is_down = False, True


class Adapter(ABC):
    """One bot on one platform: what every adapter does, and what it may do besides, with what holds where it does not.

    `name` is the platform's name in conversation keys. `connection` is None where messages arrive without one.
    `can_take_over` says whether the adapter may answer what another bot of its platform received that is no longer
    configured.
    """

    name: str
    connection: ConnectionStatus | None = None
    can_take_over: bool = True
    can_fetch_attachments: bool = False

    @property
    def bot_id(self) -> str:
        """What its messages have as `bot` once it is open; "" where a platform has one bot only."""
        return ""

    @property
    def label(self) -> str:
        """What tells it from all other adapters of the daemon, for example `telegram:support`."""
        return self.name

    @abstractmethod
    async def open(self) -> None:
        """Connect and learn who the bot is. Raises `PlatformError` for a refused credential."""

    @abstractmethod
    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. A message is confirmed to the platform only after `receive` returned."""

    @abstractmethod
    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return a sink that answers this message; called in the task that owns the answer.

        `delivery` learns of the posting of the first part before anything else is posted. The reply's id that it got,
        handed back as `previous_reply_id` after a crash, makes the sink edit that reply instead of posting a second.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection. Idempotent."""

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content. Raises `PlatformError` for more than `max_bytes` bytes, or where it cannot."""
        raise PlatformError(f"{self.label} hands over no files")

    async def is_admin(self, message: Message) -> bool:
        """Say whether the platform has the author as an administrator of the chat. Raises `PlatformError`."""
        return False

    def is_typing(self, key: ConversationKey) -> bool:
        """Say whether somebody, not a bot, is writing there right now, as far as the platform tells."""
        return False

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show a form to the author of a command alone; False where that cannot be. Raises `PlatformError`."""
        return False


class ForwardingAdapter(Adapter):
    """An adapter that does all that another one does: the base of those that change some of it."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.name, self.connection = adapter.name, adapter.connection
        self.can_take_over, self.can_fetch_attachments = adapter.can_take_over, adapter.can_fetch_attachments

    @property
    def bot_id(self) -> str:
        """The adapter's `bot_id`."""
        return self._adapter.bot_id

    @property
    def label(self) -> str:
        """The adapter's `label`."""
        return self._adapter.label

    async def open(self) -> None:
        """Connect as the adapter does."""
        await self._adapter.open()

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver what the adapter delivers."""
        await self._adapter.listen(receive)

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return the adapter's sink."""
        return self._adapter.sink(message, delivery, previous_reply_id)

    async def close(self) -> None:
        """Close the adapter's connection."""
        await self._adapter.close()

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Fetch the attachment as the adapter does."""
        return await self._adapter.fetch_attachment(attachment, max_bytes)

    async def is_admin(self, message: Message) -> bool:
        """Ask the adapter."""
        return await self._adapter.is_admin(message)

    def is_typing(self, key: ConversationKey) -> bool:
        """Ask the adapter."""
        return self._adapter.is_typing(key)

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show the form as the adapter does."""
        return await self._adapter.show_form(message, form)
