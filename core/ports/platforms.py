"""One bot on one platform, and its connection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence

from core.errors import PlatformError
from core.ports.delivery import Delivery, Sink
from core.types import Attachment, ConversationKey, Message, Skip
from core.types.forms import SettingsForm

NOT_CONNECTED = "is not connected"

MessageHandler = Callable[[Message], Awaitable[None]]


class ConnectionStatus:
    """The connection to one platform. `outages` counts how often it was lost. `is_standby`: another daemon receives.

    While it is not connected, `problem` says why, to follow the platform's name. `warning` says what is wrong although
    it is, or "".
    """

    def __init__(self) -> None:
        self.is_connected = False
        self.is_standby = False
        self.outages = 0
        self.problem = NOT_CONNECTED
        self.warning = ""
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
    def author_ids(self) -> frozenset[str]:
        """The ids of the bot itself, once it is open, in the form of those of people who are quoted."""
        return frozenset((self.bot_id,)) - {""}

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

    async def has_guests(self, chat: str) -> bool:
        """Return whether people read a chat now who are not of the platform's own. Raises `PlatformUnavailable`."""
        return False

    def is_typing(self, key: ConversationKey) -> bool:
        """Return whether a person is typing there now, as far as the platform reports it."""
        return False

    def refuse_comment(self, post: Message) -> Skip | None:
        """Return why the network's own rules forbid the bot a comment below a post, or None."""
        return None

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show a form only to the author of a command; False if that is not possible. Raises `PlatformError`."""
        return False

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        """Suggest questions where an author begins to write; False if that is not possible. Raises `PlatformError`."""
        return False
