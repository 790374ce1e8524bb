"""The Discord adapter: one gateway session after the other, and a sink for every answer."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from bots.common.adapter import ClientAdapter, read_secret
from bots.common.connection import RetryLater, TokenRefused
from bots.common.judged_client import judge_calls
from bots.common.positions import PositionStore
from bots.common.settings_menu import MENU_FIELD
from bots.discord.application_commands import build_message_commands, build_slash_commands, has_ephemeral_reply
from bots.discord.connection import INTERRUPTED, DiscordIntervals, GatewayRefused, IntentRefused, hint
from bots.discord.convert import Identity, to_welcome
from bots.discord.feedback import (
    MESSAGE_COMPONENT,
    REACTION_EVENTS,
    DiscordRatingSink,
    from_button_click,
    from_reaction,
    handle_press,
)
from bots.discord.history import ChannelState, EventReader, deliver
from bots.discord.interactions import InteractionHandler
from bots.discord.render import escape_markup
from bots.discord.settings_menu import DiscordMenuSink, from_menu_choice, is_menu_event, show_menu
from bots.discord.sink import ChannelTarget, DiscordSink, InteractionTarget
from core.errors import PlatformError
from core.messaging.feedback.handoff import mentioned_users
from core.messaging.feedback.rating_buttons import is_press
from core.messaging.policy.command_table import COMMANDS, Command, is_ask_command
from core.observability.logs import get_logger
from core.ports import Delivery, MessageHandler, Sink
from core.runtime.tasks import task_group
from core.settings import DiscordSettings
from core.types import Attachment, ConversationKey, Message
from core.types.forms import SettingsForm

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

_log = get_logger(__name__)

# For so long Discord takes the answer to a command.
INTERACTION_TIME = timedelta(minutes=15)
UNREADABLE_MESSAGE = (
    "discord.token cannot be read: {error}. Get the bot's token from https://discord.com/developers/applications"
)
MESSAGE_CONTENT_HINT = (
    "switch on Message Content Intent (developer portal, your application, Bot); until then the bot sees the text of "
    "mentions, replies to it, private chats and slash commands, and no follow-ups in threads"
)
MAX_QUESTION_CHARS = 300
# Several bots load at once, each in its own thread, and warning filters apply to all threads.
_LOAD_LOCK = threading.Lock()


async def suggest_nothing(_message: Message) -> Sequence[str]:
    """Return no names of sources: nobody said which may be told of."""
    return ()


class DiscordAdapter(ClientAdapter["DiscordClient"]):
    """One Discord bot.

    Discord delivers an event once, and what happens while nobody listens it never delivers. So events are handled in
    order, how far each channel was read is kept in `positions`, and every new session begins by reading what was
    missed. In `bot_message_chats` the messages of other bots are delivered as well, to be counted. `commands` are those
    that Discord offers.
    """

    name = "discord"
    title = "Discord"
    can_resolve_doubt = True
    # Who receives a slash command acknowledges it within three seconds.
    binding_references = frozenset({"interaction"})
    read_only_calls = (
        "get_identity",
        "get_gateway_info",
        "listen",
        "get_channel",
        "get_messages",
        "get_message",
        "download_file",
        "close",
    )
    _intervals: DiscordIntervals

    def __init__(
        self,
        settings: DiscordSettings,
        positions: PositionStore,
        intervals: DiscordIntervals | None = None,
        *,
        bot_message_chats: Collection[str] = (),
        get_sources: Callable[[Message], Awaitable[Sequence[str]]] = suggest_nothing,
        is_for_asker: Callable[[str], bool] = lambda _channel: False,
        commands: Sequence[Command] = COMMANDS,
        read_only: bool = False,
    ) -> None:
        super().__init__(intervals or DiscordIntervals(), read_only=read_only)
        self._get_sources = get_sources
        self._is_for_asker = is_for_asker
        self._commands = commands
        self._settings = settings
        self._bot_message_chats = bot_message_chats
        self._positions = positions
        self._me = Identity("", "", "")
        self._interactions: InteractionHandler | None = None
        self._typing_tracker: TypingTracker | None = None
        self._command_ids: dict[str, str] = {}
        self._guilds: set[str] = set()
        self._sinks: WeakValueDictionary[str, DiscordSink] = WeakValueDictionary()

    @property
    def bot_id(self) -> str:
        """The bot's own id, once it is open."""
        return self._me.id

    def spell_command(self, usage: str) -> str:
        """Return a command that is given by a click, once Discord has said its id."""
        name, _, arguments = usage.partition(" ")
        if name not in self._command_ids:
            return super().spell_command(usage)
        mention = f"</{name}:{self._command_ids[name]}>"
        return f"{mention} `{arguments}`" if arguments else mention

    async def _connect(self) -> DiscordClient:
        return await connect(self._settings, self._intervals)

    async def _set_up(self, client: DiscordClient) -> None:
        """Learn who the bot is and register its slash commands."""
        self._me = await self._retry_until_ok(client.get_identity)
        self.privacy_setting = "" if self._me.can_read_all else "Developer Portal, Bot, Message Content Intent"
        self._interactions = InteractionHandler(
            client, self._me, self._intervals, self._get_sources, self._is_for_asker
        )
        try:
            app_commands = [*build_slash_commands(self._commands), *build_message_commands()]
            self._command_ids = await client.register_commands(self._me.application_id, app_commands)
        except PlatformError as error:
            _log.warning("discord.commands_not_registered", error=str(error))
        _log.info("discord.open", bot=self._me.name, reads_all_messages=self._me.can_read_all)

    async def listen(self, receive: MessageHandler) -> None:
        """Deliver messages until cancelled. Outages are waited out; raises `PlatformError` for a revoked token."""
        client = self._get_client()
        interactions = self._interactions
        self._typing_tracker = typing_tracker = TypingTracker(self._me.id, self._intervals.typing_ttl_s)
        channel_state = ChannelState(self._positions, self._me, self._settings.catch_up_hours)
        await channel_state.open()
        reader = EventReader(
            client,
            channel_state,
            self._intervals,
            on_deleted=self._on_deleted,
            skipped=self.skipped,
            follow_threads=self._settings.follow_threads,
            bot_message_chats=self._bot_message_chats,
        )
        events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        async with task_group() as tasks:

            def on_event(kind: str, event: dict[str, Any]) -> None:
                self._note_connection(kind)
                if kind == "INTERACTION_CREATE" and event.get("type") == MESSAGE_COMPONENT:
                    convert = partial(from_menu_choice if is_menu_event(event) else from_button_click, event, self._me)
                    tasks.create_task(handle_press(convert, receive, self._intervals))
                elif kind == "INTERACTION_CREATE" and interactions is not None:
                    tasks.create_task(interactions.handle(event, receive))
                elif kind in REACTION_EVENTS:
                    location = channel_state.get_location(str(event.get("channel_id")), event)
                    convert = partial(from_reaction, kind, event, self._me, location)
                    tasks.create_task(handle_press(convert, receive, self._intervals))
                elif kind == "TYPING_START":
                    typing_tracker.on_typing(event)
                else:
                    if welcome := self._to_welcome(kind, event):
                        tasks.create_task(deliver(receive, welcome, self._intervals))
                    if kind == "MESSAGE_CREATE":
                        typing_tracker.on_message(event)
                    events.put_nowait((kind, event))

            tasks.create_task(reader.run(events, receive))
            await self._run_sessions(client, on_event)

    def _make_sink(self, message: Message, delivery: Delivery, previous_reply_id: str) -> Sink:
        client = self._get_client()
        if is_press(message):
            return DiscordRatingSink(client, message, self._intervals)
        client = judge_calls(client, delivery)
        if MENU_FIELD in message.reference:
            return DiscordMenuSink(client, message, self._intervals)
        make_sink = partial(
            DiscordSink,
            message=message,
            delivery=delivery,
            previous_reply_id=previous_reply_id,
            intervals=self._intervals,
        )
        if "interaction" in message.reference:
            # Nor can we answer another bot's slash command.
            is_own_message = message.bot in ("", self._me.id)
            return self._make_interaction_sink(client, message, make_sink, is_own_message=is_own_message)
        # In a private chat it is clear what is answered; only servers need the reply.
        question_id = "" if message.private else str(message.reference["message"])
        channel_id = message.reference["channel"]
        mentions = mentioned_users(message)
        sink = make_sink(ChannelTarget(client, channel_id, message.id, question_id, mentions=mentions))
        self._sinks[message.id] = sink
        return sink

    def _make_interaction_sink(
        self, client: DiscordClient, message: Message, make_sink: Callable[..., DiscordSink], *, is_own_message: bool
    ) -> DiscordSink:
        """Return the sink for a slash command: its response, or a message in the channel."""
        reference = message.reference
        mentions = mentioned_users(message)
        question = " ".join(f"/{'ask' if mentions else message.command} {message.text or message.quoted}".split())
        question = question[:MAX_QUESTION_CHARS]
        quote_prefix = f"> {escape_markup(message.author)}: {escape_markup(question)}\n"
        channel_target = ChannelTarget(
            client, reference["channel"], message.id, quote_prefix=quote_prefix, mentions=mentions
        )
        acknowledged = self._interactions.mark_answered(message) if self._interactions else None
        is_ephemeral = has_ephemeral_reply(message)
        interaction_target = InteractionTarget(
            client,
            self._me.application_id,
            reference["token"],
            acknowledged,
            location=(str(reference["channel"]), str(reference["interaction"])),
            is_ephemeral=is_ephemeral,
            # Discord says which command it answers, but not with which words.
            prefix=quote_prefix if is_ask_command(message.command) and not is_ephemeral else "",
        )
        if is_ephemeral:
            # Never into the channel, where everybody would read it.
            return make_sink(interaction_target)
        # A command is answered once in its place.
        if is_own_message and not message.origin.purpose:
            return make_sink(interaction_target, fallback=channel_target)
        return make_sink(channel_target)

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        """Show the settings as a menu that only the asker sees. Raises `PlatformError`."""
        if "interaction" not in message.reference:
            return False
        acknowledged = self._interactions.mark_answered(message) if self._interactions else None
        await show_menu(
            self._get_client(), self._me.application_id, message, form, self._intervals, acknowledged=acknowledged
        )
        return True

    async def fetch_attachment(self, attachment: Attachment, max_bytes: int) -> bytes:
        """Return the content of an attachment. Raises `PlatformError`."""
        reference = attachment.reference
        return await self._get_client().download_file(
            str(reference["channel"]), str(reference["message"]), str(reference["id"]), max_bytes
        )

    async def is_admin(self, message: Message) -> bool:
        """Return whether the author manages the server, as Discord told with the command.

        Not once that is so old that Discord takes no answer to it: they may have lost the right since.
        """
        is_told = message.reference.get("administrator") is True and not message.private
        return is_told and datetime.now(UTC) - message.sent_at < INTERACTION_TIME

    def is_typing(self, key: ConversationKey) -> bool:
        """Return whether a person is writing in a channel or thread right now, as Discord tells."""
        return self._typing_tracker is not None and self._typing_tracker.is_typing(key)

    def _hint(self, error: Exception) -> str:
        return hint(error)

    def _note_connection(self, kind: str) -> None:
        """Note what an event says about the connection."""
        if kind in ("READY", "RESUMED"):
            self.connection.mark_connected()
            _log.info("discord.connected", resumed=kind == "RESUMED")
        elif kind == INTERRUPTED:
            self.connection.mark_reconnecting()

    def _to_welcome(self, kind: str, event: Mapping[str, Any]) -> Message | None:
        """Return what the bot says first in a server that it was added to while it ran; None for other events."""
        if kind == "READY":
            self._guilds = {str(guild.get("id")) for guild in event.get("guilds") or ()}
        if kind != "GUILD_CREATE" or str(event.get("id")) in self._guilds:
            return None
        self._guilds.add(str(event.get("id")))
        return to_welcome(event, self._me)

    def _on_deleted(self, message_id: str) -> None:
        sink = self._sinks.get(message_id)
        if sink is not None:
            sink.mark_question_deleted()

    async def _run_sessions(self, client: DiscordClient, on_event: Callable[[str, dict[str, Any]], None]) -> None:
        """Begin a session whenever there is none. Raises `TokenRefused` and `GatewayRefused`."""
        retry_loop = self._make_retry_loop("gateway", self.connection)
        loop = asyncio.get_running_loop()
        can_read_all = self._me.can_read_all
        if not can_read_all:
            _log.warning("discord.message_content_off", hint=MESSAGE_CONTENT_HINT)
        while True:
            started_at = loop.time()
            try:
                gateway = await client.get_gateway_info()
                if gateway.remaining_sessions <= 0:
                    raise RetryLater("Discord allows no more sessions for now", max(gateway.reset_after_s, 1.0))
                await client.listen(gateway.url, on_event, can_read_all=can_read_all)
            except IntentRefused as error:
                _log.warning("discord.message_content_off", error=str(error), hint=MESSAGE_CONTENT_HINT)
                can_read_all = False
            except TokenRefused as error:
                await self._check_token(client.get_identity)
                await retry_loop.wait(error)
            except GatewayRefused:
                raise
            except PlatformError as error:
                # A session that broke at once is part of the same outage.
                if loop.time() - started_at > self._intervals.stable_after_s:
                    retry_loop.mark_recovered()
                await retry_loop.wait(error)


async def connect(settings: DiscordSettings, intervals: DiscordIntervals) -> DiscordClient:
    """Read the token and load discord.py in a worker thread, and make a client."""
    token = await asyncio.to_thread(read_secret, settings.token, UNREADABLE_MESSAGE)
    return (await asyncio.to_thread(load_client)).create(token, settings.api_url, intervals)


class TypingTracker:
    """People who are typing. A notice of Discord's counts for `ttl_s` seconds; those about `bot_id` are ignored."""

    def __init__(self, bot_id: str, ttl_s: float) -> None:
        self._bot_id = bot_id
        self._ttl_s = ttl_s
        self._expiry_times: dict[tuple[str, str], float] = {}

    def on_typing(self, event: Mapping[str, Any]) -> None:
        """Handle a notice that somebody is typing; those about bots do not count."""
        member = event.get("member")
        user = member.get("user") if isinstance(member, Mapping) else None
        is_bot = isinstance(user, Mapping) and bool(user.get("bot"))
        if is_bot or str(event.get("user_id") or self._bot_id) == self._bot_id:
            return
        now = time.monotonic()
        self._expiry_times = {key: expires_at for key, expires_at in self._expiry_times.items() if expires_at > now}
        self._expiry_times[str(event.get("channel_id")), str(event.get("user_id"))] = now + self._ttl_s

    def on_message(self, event: Mapping[str, Any]) -> None:
        """Handle a message: its author no longer types."""
        author = event.get("author")
        if isinstance(author, Mapping):
            self._expiry_times.pop((str(event.get("channel_id")), str(author.get("id"))), None)

    def is_typing(self, key: ConversationKey) -> bool:
        """Return whether somebody is typing in a channel or thread."""
        channel_id = key.thread or key.chat
        now = time.monotonic()
        return any(
            channel == channel_id and expires_at > now for (channel, _), expires_at in self._expiry_times.items()
        )


def load_client() -> type[DiscordClient]:
    """Return the client's class. Takes half a second the first time: for a worker thread."""
    with _LOAD_LOCK:
        if "discord" not in sys.modules:
            with warnings.catch_warnings():
                # The library's voice part, which is never used here, imports a deprecated module.
                warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
                import discord  # noqa: F401
        from bots.discord.client import DiscordClient

        return DiscordClient
