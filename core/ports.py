"""The interfaces that core needs from outside. Core owns them.

Every implementation passes the contract suite of its interface (`tests/contracts`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
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
from core.types.forms import SettingsForm

ModelRole = Literal["main", "light", "vision", "judge"]

NOT_CONNECTED = "is not connected"


class RequestBudget(Protocol):
    """The time that a call of a language model may take, and the count of its tokens and cost."""

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

    def add_usage(
        self,
        agent: str,
        prompt_tokens: int,
        completion_tokens: int,
        cost: float = 0.0,
        *,
        is_estimated: bool = False,
        model: str = "",
    ) -> None:
        """Add the tokens of one call of `model`, and its cost in the currency of the configured prices."""
        ...


class ChatModel(Protocol):
    """A language model behind named roles.

    Both calls end by the budget's deadline and add their tokens to the budget, under the name of the calling agent (or
    the role). Both raise `ModelError`.
    """

    def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply in chunks, without its reasoning; `core.llm.reasoning.append_visible` joins them.

        There is no retry after the first chunk.
        """
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


@dataclass(frozen=True, slots=True)
class WordMatch:
    """How the words of a query match the stored passages.

    `passages` are the best by BM25, best first. `weights` has the IDF of each token, empty where the store cannot count
    words; `unknown_weight` is the IDF of a word that no passage contains, 0 where there are no passages. `translation`
    is what was matched where that is not the text itself.
    """

    passages: tuple[Passage, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)
    unknown_weight: float = 0.0
    translation: str = ""


class Library(Protocol):
    """All knowledge, as the agents see it."""

    def restricted_to(self, sources: Collection[str]) -> Library:
        """Return a library of these sources alone, for one question; agents of other sources are missing from it."""
        ...

    async def route(self, query: str) -> Sequence[AgentScore]:
        """Return the retrieval agents to ask, best first (KIMAs 3.2.2)."""
        ...

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        """Return at most `limit` passages of one agent's sources, best first.

        `dense_query`, if not empty, replaces the query in the dense search; the lexical search always uses the query.
        Raises `UsageError` for an unknown agent.
        """
        ...

    async def match_words(self, query: str, limit: int) -> WordMatch:
        """Return the `limit` best stored passages by BM25 alone, and the words' weights. Raises `StoreError`."""
        ...

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine similarity of each text with the query (-1 to 1), to select sentences."""
        ...

    def languages(self) -> Mapping[str, Sequence[str]]:
        """Return the codes of the languages that each agent's sources are in, most frequent first, where known."""
        ...

    async def term_weights(self, query: str) -> Mapping[str, float]:
        """Return the IDF of each token of a query over all stored passages; empty where the store cannot count.

        A word that no passage contains weighs as much as one that a single passage contains.
        """
        ...


class SourceRefresher(Protocol):
    """Keeps the stored sources up to date, as the bot's administrators see it.

    `refresh`, `pause` and `resume` raise `UsageError` for an unknown source.
    """

    async def states(self) -> Sequence[SourceState]:
        """Return the state of every stored source, in the order of the configuration."""
        ...

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Request a refresh of these sources (by default all) as soon as possible, without waiting for it."""
        ...

    async def pause(self, name: str) -> None:
        """Refresh a source only on request until it is resumed, also after a restart."""
        ...

    async def resume(self, name: str) -> None:
        """Refresh a source by its schedule again; one refresh makes up for the missed ones."""
        ...


class Reranker(Protocol):
    """Orders the passages of several searches by relevance to one query."""

    async def rerank(self, query: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        """Return all passages, best first, with comparable scores."""
        ...


class Sink(Protocol):
    """Shows one reply while it is written. Implementations throttle their updates; callers need not.

    The order of calls is `open`, any number of `update`, then exactly one of `finish` or `fail`. All raise
    `PlatformError`; `MessageDeleted` when the question was deleted.
    """

    async def open(self) -> None:
        """Show that an answer is coming: a typing indicator or a placeholder."""
        ...

    async def update(self, text: str) -> None:
        """Show the reply so far, as Markdown: the whole text, not the increment."""
        ...

    async def finish(self, reply: Reply) -> None:
        """Show the final reply with its citations."""
        ...

    async def fail(self, text: str) -> None:
        """Show the asker that the answer failed, with this text."""
        ...


MessageHandler = Callable[[Message], Awaitable[None]]
# Answers a question; the sink shows the reply.
AnswerFunction = Callable[[Question, Sink], Awaitable[Reply]]


class Delivery(Protocol):
    """Receives what a sink reports about the first part of its reply, so that a crash leads to no second reply."""

    @property
    def is_in_doubt(self) -> bool:
        """Return whether the last run ended while posting the first part: it may be there, under an unknown id."""
        ...

    @property
    def parts(self) -> Mapping[int, str]:
        """The ids of the further parts, counted from 1; "" for one that may be posted or not."""
        ...

    async def mark_part(self, number: int, part_id: str) -> None:
        """Record that a further part is posted under an id; "": that it is about to be posted."""
        ...

    async def mark_posting(self) -> None:
        """Record that the first part is about to be posted."""
        ...

    async def mark_rejected(self) -> None:
        """Record that the platform rejected it; `mark_posting` is called again before a retry."""
        ...

    async def mark_posted(self, reply_id: str) -> None:
        """Record that the platform posted it with this id."""
        ...


class ConnectionStatus:
    """The connection to one platform. `outages` counts how often it was lost. `is_standby`: another daemon receives.

    While it is not connected, `problem` says why, to follow the platform's name.
    """

    def __init__(self) -> None:
        self.is_connected = False
        self.is_standby = False
        self.outages = 0
        self.problem = NOT_CONNECTED
        self._is_down = False

    def mark_connected(self) -> None:
        """Record that messages can arrive. Idempotent."""
        self.is_connected = True
        self._is_down = False

    def mark_reconnecting(self) -> None:
        """Record that the connection is being remade, which is an outage only if it fails."""
        self.is_connected = False
        self.problem = NOT_CONNECTED

    def mark_disconnected(self, problem: str = NOT_CONNECTED) -> None:
        """Record that no messages can arrive; repeated calls are one outage."""
        self.outages += not self._is_down
        self.is_connected = False
        self._is_down = True
        self.problem = problem


class Adapter(ABC):
    """One bot on one platform. Optional capabilities have default implementations.

    `name` is the platform's name in conversation keys. `connection` is None if messages arrive without a connection.
    With `can_take_over` the adapter may answer messages to a bot of its platform that is no longer configured. With
    `can_resolve_doubt` its sinks post no second answer where `Delivery.is_in_doubt`; without it, such a question is
    closed unanswered. With `needs_leader` only one process at a time may `listen` for a bot; all may answer,
    except where a message's reference has one of `binding_references`: then only the process that received it.
    """

    name: str
    connection: ConnectionStatus | None = None
    can_take_over: bool = True
    can_resolve_doubt: bool = False
    needs_leader: bool = True
    binding_references: frozenset[str] = frozenset()
    can_fetch_attachments: bool = False

    # Where people let the bot see all messages of a group, known once it is open; "" where it sees them.
    privacy_setting: str = ""

    def spell_command(self, usage: str) -> str:
        """Return how a command is given on this platform, as Markdown; `usage` begins with its name."""
        return f"`/{usage}`"

    @property
    def bot_id(self) -> str:
        """The `bot_id` of its messages once it is open; "" on a platform with only one bot."""
        return ""

    @property
    def label(self) -> str:
        """A name that is unique among the daemon's adapters, for example `telegram:support`."""
        return self.name

    @abstractmethod
    async def open(self) -> None:
        """Connect and look up the bot's identity. Raises `PlatformError` for a rejected credential."""

    @abstractmethod
    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. A message is acknowledged to the platform after `receive` returned."""

    @abstractmethod
    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return a sink that answers this message; called in the task that owns the answer.

        `delivery` records the first part before anything else is posted. After a crash `previous_reply_id` is the id
        that it recorded: the sink then edits that reply instead of posting a second one.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connection. Idempotent."""

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content. Raises `PlatformError` for more than `max_bytes` bytes, or when it cannot be fetched."""
        raise PlatformError(f"{self.label} cannot fetch files")

    async def is_admin(self, message: Message) -> bool:
        """Return whether the author is an administrator of the chat on the platform. Raises `PlatformError`."""
        return False

    def is_typing(self, key: ConversationKey) -> bool:
        """Return whether a person is typing there now, as far as the platform reports it."""
        return False

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show a form only to the author of a command; False if that is not possible. Raises `PlatformError`."""
        return False

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        """Suggest questions where an author begins to write; False if that is not possible. Raises `PlatformError`."""
        return False


class ForwardingAdapter(Adapter):
    """An adapter that forwards everything to another adapter: a base class for wrappers."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self.name = adapter.name
        self.connection = adapter.connection
        self.can_take_over = adapter.can_take_over
        self.can_fetch_attachments = adapter.can_fetch_attachments
        self.can_resolve_doubt = adapter.can_resolve_doubt
        self.needs_leader = adapter.needs_leader
        self.binding_references = adapter.binding_references

    @property
    def bot_id(self) -> str:
        """The adapter's `bot_id`."""
        return self._adapter.bot_id

    def spell_command(self, usage: str) -> str:
        """Spell a command as the adapter does."""
        return self._adapter.spell_command(usage)

    @property
    def label(self) -> str:
        """The adapter's `label`."""
        return self._adapter.label

    async def open(self) -> None:
        """Connect as the adapter does."""
        await self._adapter.open()
        self.privacy_setting = self._adapter.privacy_setting

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

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        """Suggest questions as the adapter does."""
        return await self._adapter.show_prompts(message, title, prompts)
