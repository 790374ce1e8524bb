"""The common part of all adapters: a client that is opened and closed, and waiting out outages."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import Generic, Protocol, TypeVar

from bots.common.connection import Intervals, RetryLoop, TokenRefused
from bots.common.dry_run import make_read_only
from bots.common.events import IgnoredEvent, record_ignored
from bots.common.reply_sink import SilentSink
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import read_reaction
from core.observability.logs import get_logger
from core.ports import Adapter, ConnectionStatus, Delivery, MessageHandler, Sink
from core.settings import Secret
from core.types import Message

_log = get_logger(__name__)

Result = TypeVar("Result")


class Client(Protocol):
    """The calls of a platform's API."""

    async def close(self) -> None:
        """Close the connections. Idempotent."""


ClientType = TypeVar("ClientType", bound=Client)


class ClientAdapter(Adapter, Generic[ClientType]):
    """An adapter that reaches its platform, called `title`, through a client.

    `skipped` counts events that became no message, by reason. With `read_only` nothing is ever shown: only the client's
    `read_only_calls` are made.
    """

    title: str
    can_fetch_attachments = True
    read_only_calls: Collection[str] = ("close",)

    def __init__(self, intervals: Intervals, *, read_only: bool) -> None:
        self._intervals = intervals
        self._read_only = read_only
        self._client: ClientType | None = None
        self.connection: ConnectionStatus = ConnectionStatus()
        self.skipped: Counter[str] = Counter()

    async def open(self) -> None:
        """Connect, and learn who the bot is.

        Outages are waited out. Raises `PlatformError` for a credential that is missing or refused.
        """
        client = await self._connect()
        self._client = client = make_read_only(client, self.read_only_calls) if self._read_only else client
        try:
            await self._set_up(client)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        client = self._client
        self._client = None
        if client is not None:
            await client.close()

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        """Return a sink that answers this message; `previous_reply_id` is that of a reply sent before a crash."""
        if read_reaction(message):
            return SilentSink()
        # Another bot's reply cannot be edited, and its id may be that of a message of ours.
        is_other_bots = self.bot_id and message.bot not in ("", self.bot_id)
        return self._make_sink(message, delivery, "" if is_other_bots else previous_reply_id)

    @abstractmethod
    def _make_sink(self, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        """Return a sink that answers this message, or goes on with our reply to it."""

    @abstractmethod
    async def _connect(self) -> ClientType:
        """Read the credentials, load the platform's library, and make a client."""

    async def _set_up(self, client: ClientType) -> None:
        """Make the first calls."""

    def _hint(self, error: Exception) -> str:
        """Return what happens to messages during an outage."""
        return "retrying"

    def _get_client(self) -> ClientType:
        if self._client is None:
            raise PlatformError(f"the {self.title} adapter is not open")
        return self._client

    def _make_retry_loop(self, activity: str, connection: ConnectionStatus | None = None) -> RetryLoop:
        return RetryLoop(self.name, activity, self._intervals, self._hint, connection)

    async def _retry_until_ok(self, call: Callable[[], Awaitable[Result]]) -> Result:
        return await self._make_retry_loop("opening").retry_until_ok(call)

    async def _check_token(self, get_identity: Callable[[], Awaitable[object]]) -> None:
        """Raise `TokenRefused` if the token is refused again: a single refusal may be a temporary fault."""
        try:
            await get_identity()
        except TokenRefused:
            raise
        except PlatformError as error:
            _log.debug(f"{self.name}.token_not_checked", error=str(error))

    def _try_convert(self, convert: Callable[[], Message | IgnoredEvent], kind: str) -> Message | IgnoredEvent:
        try:
            return convert()
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            # What breaks the conversion would come again for ever, and hold up all others behind it.
            _log.warning(f"{self.name}.event_malformed", kind=kind, error=repr(error)[:300])
            return IgnoredEvent("malformed", is_expected=False)

    async def _hand_on(self, message: Message | IgnoredEvent, receive: MessageHandler, kind: str) -> None:
        if isinstance(message, Message):
            await receive(message)
        else:
            record_ignored(self.skipped, f"{self.name}.event_skipped", message, kind=kind)


def read_secret(secret: Secret, message: str) -> str:
    """Return a credential. Raises `PlatformError` with the message, which says the `error`. Blocking."""
    try:
        return secret.value()
    except (KeyError, OSError, UnicodeDecodeError) as error:
        raise PlatformError(message.format(error=error)) from error


async def read_token(secret: Secret, message: str, setting: str, kind: str) -> str:
    """Return the token of a kind that a setting has. Raises `PlatformError` as `read_secret`, and for no token."""
    token = await asyncio.to_thread(read_secret, secret, message)
    if not token or any(character.isspace() for character in token):
        raise TokenRefused(f"{setting} is empty or has spaces in it: copy the {kind} anew")
    return token
