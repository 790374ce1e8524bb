"""Telegram as a platform: who the bot is, and our own poll loop, which confirms an update only when it is safe."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from bots.common.connection import Line, Outage
from bots.common.proactive import muted
from bots.telegram.client import Conflict, Pace, TokenRefused
from bots.telegram.commands import Administrators, menus
from bots.telegram.convert import ALBUM_S, Identity, Ignored, ends_in_album, joined, to_message
from bots.telegram.feedback import PressSink, to_press
from bots.telegram.loading import load_client
from bots.telegram.sink import TelegramSink
from core.errors import PlatformError
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.policy.command_table import COMMANDS
from core.observability.logs import logger
from core.types import Attachment, Message

if TYPE_CHECKING:
    from bots.telegram.client import Client
    from core.ports import Delivery, Receive, Sink
    from core.settings import TelegramSettings

Result = TypeVar("Result")

UNREADABLE = "telegram.token cannot be read: {error}. Get the bot's token from @BotFather (/newbot, or /mybots)"
# The client's calls that show nothing to anybody.
READS = frozenset(("identity", "updates", "parse", "administrators", "fetch", "close"))


class UpdateOffsets(Protocol):
    """Where the stream of updates stands, kept across restarts: the id of the first update not taken yet."""

    async def load(self) -> int | None:
        """Return the saved offset, or None before the first."""
        ...

    async def save(self, offset: int) -> None:
        """Keep the offset durably."""
        ...


class TelegramAdapter:
    """One Telegram bot.

    Telegram forgets an update as soon as getUpdates asks for a later one. So every message of a batch is handed to
    `receive`, which makes it durable, then the offset is saved, and only then the next batch is asked for. `skipped`
    counts updates that became no message, by reason. With `mute` nothing is ever shown, and a webhook stays.
    """

    name = "telegram"
    inherits = True

    def __init__(
        self, settings: TelegramSettings, offsets: UpdateOffsets, pace: Pace | None = None, *, mute: bool = False
    ) -> None:
        self._mute = mute
        self._settings = settings
        self._offsets = offsets
        self._pace = pace or Pace()
        self.line = Line()
        self._client: Client | None = None
        self._me = Identity(0, "")
        self._administrators = Administrators()
        self.skipped: Counter[str] = Counter()

    @property
    def bot(self) -> str:
        """The bot's own id, once it is open."""
        return str(self._me.id)

    async def open(self) -> None:
        """Learn who the bot is, remove a webhook, set the command menu.

        Outages are waited out. Raises `PlatformError` for a token that is missing or refused.
        """
        client = await asyncio.to_thread(_connect, self._settings)
        self._client = client = muted(client, READS) if self._mute else client
        try:
            await self._set_up(client)
        except BaseException:
            await self.close()
            raise

    async def listen(self, receive: Receive) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        outage = Outage("telegram", "polling", self._pace, _hint, self.line)
        offset = await self._offsets.load()
        while True:
            try:
                batch = await self._batch(offset)
            except PlatformError as failure:
                if isinstance(failure, TokenRefused):
                    await self._check_token()
                await outage.wait(failure)
                continue
            following, fault = await self._take(batch, offset, receive)
            if fault is None:
                outage.over()
            offset = following
            if fault is not None:
                await outage.wait(fault)

    def sink(self, message: Message, delivery: Delivery, previous: str = "") -> Sink:
        """Return a sink that answers this message; `previous` is the id of a reply sent before a crash."""
        if is_press(message):
            return PressSink(self._opened(), message)
        # Another bot's reply cannot be edited, and its id may be that of a message of ours.
        ours = message.bot in ("", str(self._me.id))
        return TelegramSink(self._opened(), message, delivery, previous if ours else "", self._pace)

    async def is_administrator(self, message: Message) -> bool:
        """Say whether the author administers the chat, in person or anonymously. Raises `PlatformError`."""
        return await self._administrators.include(self._opened(), message)

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return what is attached to a message. Raises `PlatformError`."""
        return await self._opened().fetch(str(attachment.reference["file_id"]), most)

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _opened(self) -> Client:
        if self._client is None:
            raise PlatformError("the Telegram adapter is not open")
        return self._client

    async def _set_up(self, client: Client) -> None:
        self._me = await self._reached(client.identity)
        webhook = "" if self._mute else await self._reached(client.remove_webhook)
        if webhook:
            logger(__name__).warning("telegram.webhook_removed", url=webhook, why="it would keep all updates from us")
        try:
            await client.offer_commands(*menus(COMMANDS))
        except PlatformError as failure:
            logger(__name__).warning("telegram.command_menu_not_set", error=str(failure))
        logger(__name__).info("telegram.open", bot=self._me.username, reads_all_messages=self._me.reads_all)

    async def _batch(self, offset: int | None) -> list[Any]:
        """Return the next updates. Where the rest of an album may be on its way, they are asked for once more."""
        client = self._opened()
        # At first and after an outage there is no waiting for news: only a reply tells that it works.
        batch = await client.updates(offset, self._pace.poll_s if self.line.connected else 0)
        if not ends_in_album(batch):
            return batch
        await asyncio.sleep(ALBUM_S)
        return await client.updates(offset, 0)

    def _reached(self, call: Callable[[], Awaitable[Result]]) -> Awaitable[Result]:
        return Outage("telegram", "opening", self._pace, _hint).outlasted(call)

    async def _check_token(self) -> None:
        """Raise `TokenRefused` if the token is refused again: a single refusal may be a hiccup of Telegram's."""
        try:
            await self._opened().identity()
        except TokenRefused:
            raise
        except PlatformError as failure:
            logger(__name__).debug("telegram.token_not_checked", error=str(failure))

    async def _take(
        self, batch: list[Any], offset: int | None, receive: Receive
    ) -> tuple[int | None, Exception | None]:
        """Hand a batch on. Return the offset to ask for next, and what kept us from going further, if anything did."""
        # Not compared with the old offset: after a quiet week Telegram may begin again at a lower number.
        following = 0
        fault: Exception | None = None
        converted = joined([self._converted(raw) for raw in batch], Ignored("a further picture of an album"))
        for raw, message in zip(batch, converted, strict=True):
            try:
                await self._hand_on(raw, message, receive)
            except Exception as error:
                # Whatever it is: a message that is not safe must not be confirmed.
                fault = error
                break
            following = max(following, (_update_id(raw) or -1) + 1)
        if not following:
            unusable = PlatformError("Telegram delivers updates without a number") if batch else None
            return offset, fault or unusable
        try:
            await self._offsets.save(following)
        except Exception as error:
            return offset, error
        return following, fault

    async def _hand_on(self, raw: object, message: Message | Ignored, receive: Receive) -> None:
        if isinstance(message, Message):
            await receive(message)
            return
        self.skipped[message.reason] += 1
        tell = logger(__name__).debug if message.expected else logger(__name__).warning
        tell("telegram.update_skipped", update_id=_update_id(raw), reason=message.reason)

    def _converted(self, raw: object) -> Message | Ignored:
        try:
            update = self._opened().parse(raw)
            if update.callback_query is not None:
                return to_press(update.callback_query, self._me)
            return to_message(update, self._me)
        except Exception as error:
            # An update that breaks the conversion would come again for ever, and hold up all others behind it.
            logger(__name__).warning("telegram.update_malformed", update_id=_update_id(raw), error=str(error)[:500])
            return Ignored("malformed", expected=False)


async def identify(settings: TelegramSettings) -> str:
    """Return the username of the bot that the token belongs to, changing nothing. Raises `PlatformError`."""
    client = await asyncio.to_thread(_connect, settings)
    try:
        return (await client.identity()).username
    finally:
        await client.close()


def _hint(failure: Exception) -> str:
    if isinstance(failure, Conflict):
        return "stop the other program, or give this one its own bot; retrying until then"
    if isinstance(failure, PlatformError):
        return "retrying; messages wait on Telegram's servers for up to 24 hours"
    return "a message could not be made safe; Telegram keeps it until it can"


def _connect(settings: TelegramSettings) -> Client:
    """Read the token and load aiogram, which takes seconds: for a worker thread."""
    try:
        token = settings.token.value()
    except (KeyError, OSError, UnicodeDecodeError) as error:
        raise PlatformError(UNREADABLE.format(error=error)) from error
    return load_client().connect(token, settings.api_url)


def _update_id(raw: object) -> int | None:
    number = raw.get("update_id") if isinstance(raw, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None
