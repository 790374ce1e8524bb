"""Discord as a platform: who the bot is, one gateway session after the other, and a sink for every answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from bots.common.connection import Line
from bots.common.proactive import muted
from bots.discord.application_commands import application_commands, is_hidden, message_commands
from bots.discord.connection import (
    INTERRUPTED,
    GatewayRefused,
    IntentRefused,
    Pace,
    RetryLater,
    TokenRefused,
    outage_of,
)
from bots.discord.convert import Identity
from bots.discord.feedback import PRESSED, PressSink, take_press
from bots.discord.history import Places, Positions, Reader
from bots.discord.interactions import Desk
from bots.discord.loading import load_client
from bots.discord.render import plain
from bots.discord.sink import ByCommand, DiscordSink, InChannel
from bots.discord.typing import Typing
from core.errors import PlatformError
from core.messaging.feedback.escalation import called
from core.messaging.feedback.rating_buttons import UNSATISFYING, is_press
from core.messaging.policy.command_table import COMMANDS
from core.observability.logs import logger
from core.runtime.tasks import task_group
from core.types import Attachment, ConversationKey, Message

if TYPE_CHECKING:
    from bots.discord.client import Client
    from core.ports import Delivery, Receive, Sink
    from core.settings import DiscordSettings

Result = TypeVar("Result")

UNREADABLE = (
    "discord.token cannot be read: {error}. Get the bot's token from https://discord.com/developers/applications"
)
NO_CONTENT = (
    "switch on Message Content Intent (developer portal, your application, Bot); until then the bot sees the text of "
    "mentions, replies to it, private chats and slash commands, and no follow-ups in threads"
)
SHOWN_QUESTION = 300
# The client's calls that show nothing to anybody.
READS = frozenset(("identity", "door", "listen", "channel", "history", "fetch", "close"))


class DiscordAdapter:
    """One Discord bot.

    Discord delivers an event once, and what happens while nobody listens it never delivers. So events are handled in
    order, how far each channel was read is kept in `positions`, and every new session begins by reading what was
    missed. `skipped` counts events that became no message, by reason. In the chats `counted`, other bots' messages are
    delivered as well, to be counted. With `mute` nothing is ever shown.
    """

    name = "discord"
    inherits = True

    def __init__(
        self,
        settings: DiscordSettings,
        positions: Positions,
        pace: Pace | None = None,
        *,
        counted: Collection[str] = (),
        sources: Sequence[str] = (),
        mute: bool = False,
    ) -> None:
        self._mute = mute
        self._sources = sources
        self._settings = settings
        self._counted = counted
        self._positions = positions
        self.line = Line()
        self._pace = pace or Pace()
        self._client: Client | None = None
        self._me = Identity("", "", "")
        self._desk: Desk | None = None
        self._typing: Typing | None = None
        self._sinks: WeakValueDictionary[str, DiscordSink] = WeakValueDictionary()
        self.skipped: Counter[str] = Counter()

    @property
    def bot(self) -> str:
        """The bot's own id, once it is open."""
        return self._me.id

    async def open(self) -> None:
        """Learn who the bot is and register its slash commands.

        Outages are waited out. Raises `PlatformError` for a token that is missing or refused.
        """
        client = (await asyncio.to_thread(_client, self._settings))(self._pace)
        self._client = client = muted(client, READS) if self._mute else client
        try:
            self._me = await self._reached(client.identity)
            self._desk = Desk(client, self._me, self._pace, self._sources)
            try:
                offered = [*application_commands(COMMANDS), *message_commands()]
                await client.offer_commands(self._me.application, offered)
            except PlatformError as failure:
                logger(__name__).warning("discord.commands_not_registered", error=str(failure))
        except BaseException:
            await self.close()
            raise
        logger(__name__).info("discord.open", bot=self._me.name, reads_all_messages=self._me.reads_all)

    async def listen(self, receive: Receive) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        client, desk = self._opened(), self._desk
        self._typing = typing = Typing(self._me.id, self._pace.typed_s)
        places = Places(self._positions, self._me.id, self._settings.catch_up_hours)
        await places.open()
        reader = Reader(
            client,
            self._me,
            places,
            self._pace,
            deleted=self._deleted,
            skipped=self.skipped,
            follow=self._settings.follow_threads,
            counted=self._counted,
        )
        events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        async with task_group() as tasks:

            def take(kind: str, event: dict[str, Any]) -> None:
                self._feel(kind)
                if kind == "INTERACTION_CREATE" and event.get("type") == PRESSED:
                    tasks.create_task(take_press(event, self._me, receive, self._pace))
                elif kind == "INTERACTION_CREATE" and desk is not None:
                    tasks.create_task(desk.take(event, receive))
                elif kind == "TYPING_START":
                    typing.note(event)
                else:
                    if kind == "MESSAGE_CREATE":
                        typing.sent(event)
                    events.put_nowait((kind, event))

            tasks.create_task(reader.run(events, receive))
            await self._hold_sessions(client, take)

    def sink(self, message: Message, delivery: Delivery, previous: str = "") -> Sink:
        """Return a sink that answers this message; `previous` is the id of a reply sent before a crash."""
        client = self._opened()
        if is_press(message):
            return PressSink(client, message, self._pace)
        reference = message.reference
        # Another bot's reply cannot be edited, nor its slash command answered by us.
        ours = message.bot in ("", self._me.id)
        previous = previous if ours else ""
        make = partial(DiscordSink, message=message, delivery=delivery, previous=previous, pace=self._pace)
        if "interaction" in reference:
            asked = " ".join(f"/{'ask' if called(message) else message.command} {message.text}".split())
            head = f"> {plain(message.author)}: {plain(asked[:SHOWN_QUESTION])}\n"
            channel = InChannel(client, reference["channel"], message.id, head=head, ring=called(message))
            acknowledged = self._desk.answered(message) if self._desk else None
            hidden = is_hidden(message.command)
            command = ByCommand(client, self._me.application, reference["token"], acknowledged, hidden=hidden)
            if hidden:
                # Never into the channel, where everybody would read it.
                return make(command)
            # A command is answered once in its place.
            first = ours and UNSATISFYING not in reference and not called(message)
            return make(command, otherwise=channel) if first else make(channel)
        # In a private chat it is plain what is answered; only servers need the reply.
        question = "" if message.private else str(reference["message"])
        sink = make(InChannel(client, reference["channel"], message.id, question, ring=called(message)))
        self._sinks[message.id] = sink
        return sink

    async def fetch(self, attachment: Attachment, most: int) -> bytes:
        """Return what is attached to a message. Raises `PlatformError`."""
        where = attachment.reference
        return await self._opened().fetch(str(where["channel"]), str(where["message"]), str(where["id"]), most)

    async def is_administrator(self, message: Message) -> bool:
        """Say whether the author manages the server, as Discord told with the command."""
        return message.reference.get("administrator") is True and not message.private

    def is_typing(self, key: ConversationKey) -> bool:
        """Say whether a person is writing in a channel or thread right now, as Discord tells."""
        return self._typing is not None and self._typing.in_place(key)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _opened(self) -> Client:
        if self._client is None:
            raise PlatformError("the Discord adapter is not open")
        return self._client

    def _feel(self, kind: str) -> None:
        """Note what an event says about the connection."""
        if kind in ("READY", "RESUMED"):
            self.line.up()
            logger(__name__).info("discord.connected", resumed=kind == "RESUMED")
        elif kind == INTERRUPTED:
            self.line.interrupted()

    def _deleted(self, message: str) -> None:
        sink = self._sinks.get(message)
        if sink is not None:
            sink.question_deleted()

    async def _hold_sessions(self, client: Client, take: Callable[[str, dict[str, Any]], None]) -> None:
        """Begin a session whenever there is none. Raises `TokenRefused` and `GatewayRefused`."""
        outage = outage_of("gateway", self._pace, self.line)
        loop = asyncio.get_running_loop()
        reads_all = self._me.reads_all
        if not reads_all:
            logger(__name__).warning("discord.message_content_off", hint=NO_CONTENT)
        while True:
            begun = loop.time()
            try:
                door = await client.door()
                if door.sessions <= 0:
                    raise RetryLater("Discord allows no more sessions for now", max(door.wait_s, 1.0))
                await client.listen(door.url, take, reads_all=reads_all)
            except IntentRefused as failure:
                logger(__name__).warning("discord.message_content_off", error=str(failure), hint=NO_CONTENT)
                reads_all = False
            except TokenRefused as failure:
                await self._check_token()
                await outage.wait(failure)
            except GatewayRefused:
                raise
            except PlatformError as failure:
                # A session that broke at once is part of the same outage.
                if loop.time() - begun > self._pace.steady_s:
                    outage.over()
                await outage.wait(failure)

    def _reached(self, call: Callable[[], Awaitable[Result]]) -> Awaitable[Result]:
        return outage_of("opening", self._pace).outlasted(call)

    async def _check_token(self) -> None:
        """Raise `TokenRefused` if the token is refused again: a single refusal may be a hiccup of Discord's."""
        try:
            await self._opened().identity()
        except TokenRefused:
            raise
        except PlatformError as failure:
            logger(__name__).debug("discord.token_not_checked", error=str(failure))


async def identify(settings: DiscordSettings) -> str:
    """Return the name of the bot that the token belongs to, changing nothing. Raises `PlatformError`."""
    client = (await asyncio.to_thread(_client, settings))(Pace())
    try:
        return (await client.identity()).name
    finally:
        await client.close()


def _client(settings: DiscordSettings) -> Callable[[Pace], Client]:
    """Read the token and load discord.py, which takes a moment: for a worker thread."""
    try:
        token = settings.token.value()
    except (KeyError, OSError, UnicodeDecodeError) as error:
        raise PlatformError(UNREADABLE.format(error=error)) from error
    return partial(load_client().make, token, settings.api_url)
