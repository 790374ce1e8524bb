"""Reading channels: the events of the gateway in order, and the history that was missed during a break."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from bots.common.attachments import select_readable
from bots.common.caches import BoundedDict
from bots.common.connection import RetryLater, TokenRefused, Unreachable
from bots.common.events import IgnoredEvent, record_ignored
from bots.common.positions import PositionStore
from bots.discord.connection import DiscordIntervals, make_retry_loop
from bots.discord.convert import (
    PRIVATE_KINDS,
    Identity,
    Location,
    get_attachments,
    time_snowflake,
    to_location,
    to_message,
)
from bots.discord.forwards import ForwardReader
from bots.discord.visible_text import Reader
from core.errors import KimasError, PlatformError
from core.observability.logs import get_logger
from core.ports import MessageHandler
from core.runtime.tasks import task_group
from core.types import Message
from knowledge.connectors.discord import find_view, shows_channels
from knowledge.web.values import as_mappings

if TYPE_CHECKING:
    from bots.discord.client import DiscordClient

_log = get_logger(__name__)

# Where messages are written; the others hold threads, or nothing.
READABLE_KINDS = (0, 2, 5, 10, 11, 12, 13)
Json = Mapping[str, Any]
PAGE_SIZE = 100
MAX_KNOWN_THREADS = 2000
MAX_CONCURRENT_CHANNELS = 8


class ChannelState:
    """The channels, threads and own roles that the gateway reports, and the reading position of every channel.

    `catch_up_hours` bounds the age of a message that is still read after a break.
    """

    def __init__(self, positions: PositionStore, me: Identity, catch_up_hours: float) -> None:
        self._positions = positions
        self.me = me
        self._bot_id = me.id
        self._max_age = timedelta(hours=catch_up_hours)
        self._locations: dict[str, Location] = {}
        self._roles: dict[str, frozenset[str]] = {}
        self._titles: dict[str, str] = {}
        # Of roles, and of the channels and threads that all members of a server see, by server and id.
        self._names = defaultdict[str, dict[str, str]](dict)
        self._shows_channels: dict[str, bool] = {}
        self._last_read: dict[str, int] = {}
        self._private_channels: set[str] = set()
        self._first_run_id = 0

    async def open(self) -> None:
        """Note when the bot first ran: nothing older is read."""
        first_run_id = await self._positions.load(f"{self._bot_id}:since")
        if first_run_id is None:
            first_run_id = time_snowflake(datetime.now(UTC))
            await self._positions.save(f"{self._bot_id}:since", first_run_id)
        self._first_run_id = first_run_id

    def update_channel(self, channel: Mapping[str, Any], guild_id: str = "") -> Location:
        """Note a channel or thread and return its location. Raises `KeyError` for a malformed channel."""
        location = to_location({"guild_id": guild_id, **channel})
        self._locations[location.channel] = location
        names = self._names[location.guild]
        names.pop(location.channel, None)
        if channel.get("name"):
            self._titles[location.channel] = str(channel["name"])
            if self._is_shown(channel, location):
                names[location.channel] = str(channel["name"])
        return location

    def _is_shown(self, channel: Mapping[str, Any], location: Location) -> bool:
        """Return whether all members of a server see a channel: Discord lists hidden ones to us as well."""
        if location.thread:
            return not location.is_private_thread and location.chat in self._names[location.guild]
        is_shown = find_view(channel, location.guild)
        return self._shows_channels.get(location.guild, True) if is_shown is None else is_shown

    def get_names(self, location: Location) -> Mapping[str, str]:
        """Return the names that may be told where a message was written, by id: its own chat's, and those for all."""
        own = {location.chat: self._titles[location.chat]} if location.chat in self._titles else {}
        return {**self._names[location.guild], **own}

    def remove_channel(self, channel_id: str) -> None:
        """Note that a channel or thread is gone."""
        location = self._locations.pop(channel_id, None)
        self._titles.pop(channel_id, None)
        if location:
            self._names[location.guild].pop(channel_id, None)

    def add_guild(self, guild: Mapping[str, Any]) -> list[tuple[Location, int]]:
        """Note a server with its channels; return those with messages, each with the id of the last message."""
        guild_id = str(guild["id"])
        own_roles = (
            role for role in guild.get("roles") or () if (role.get("tags") or {}).get("bot_id") == self._bot_id
        )
        self._roles[guild_id] = frozenset(str(role["id"]) for role in own_roles)
        self._shows_channels[guild_id] = shows_channels(as_mappings(guild.get("roles")), guild_id)
        for role in guild.get("roles") or ():
            self._names[guild_id][str(role["id"])] = str(role.get("name") or "role").removeprefix("@")
        last_messages: list[tuple[Location, int]] = []
        for channel in (*(guild.get("channels") or ()), *(guild.get("threads") or ())):
            location = self.update_channel(channel, guild_id)
            if channel.get("type") in READABLE_KINDS and channel.get("last_message_id"):
                last_messages.append((location, int(channel["last_message_id"])))
        return last_messages

    def get_roles(self, guild_id: str) -> frozenset[str]:
        """Return the bot's own roles in a server."""
        return self._roles.get(guild_id, frozenset())

    def get_location(self, channel_id: str, event: Mapping[str, Any]) -> Location | None:
        """Return the location of a message event, or None when its channel is unknown."""
        if channel_id in self._locations:
            return self._locations[channel_id]
        kind = event.get("channel_type")
        if event.get("guild_id") or kind not in PRIVATE_KINDS:
            return None
        # Later events of it need not say so.
        return self.update_channel({"id": channel_id, "type": kind})

    async def resume_position(self, channel_id: str, joined_at: str | None = None) -> int:
        """Return the id after which to read a channel."""
        position = (
            self._last_read.get(channel_id)
            or await self._positions.load(f"{self._bot_id}:{channel_id}")
            or self._first_run_id
        )
        joined_id = time_snowflake(datetime.fromisoformat(joined_at)) if joined_at else 0
        return max(position, joined_id, time_snowflake(datetime.now(UTC) - self._max_age))

    async def mark_read(self, location: Location, message_id: str) -> None:
        """Note that everything up to a message is safe. Private chats are remembered: Discord does not list them."""
        position = int(message_id)
        if position > self._last_read.get(location.channel, 0):
            await self._positions.save(f"{self._bot_id}:{location.channel}", position)
            self._last_read[location.channel] = position
        if location.is_private and location.channel not in self._private_channels:
            await self._save_private_channel(location.channel)

    async def get_private_channels(self) -> list[str]:
        """Return the private chats in which somebody has written."""
        count = await self._positions.load(f"{self._bot_id}:private") or 0
        channel_ids = [await self._positions.load(f"{self._bot_id}:private:{index}") for index in range(count)]
        self._private_channels.update(str(channel_id) for channel_id in channel_ids if channel_id)
        return sorted(self._private_channels)

    def is_new_private_chat(self, location: Location) -> bool:
        """Return whether a location is a private chat in which nobody has written yet, as far as is known."""
        return location.is_private and location.channel not in self._private_channels

    async def _save_private_channel(self, channel_id: str) -> None:
        await self.get_private_channels()
        if channel_id not in self._private_channels:
            count = await self._positions.load(f"{self._bot_id}:private") or 0
            await self._positions.save(f"{self._bot_id}:private:{count}", int(channel_id))
            await self._positions.save(f"{self._bot_id}:private", count + 1)
            self._private_channels.add(channel_id)


@dataclass(slots=True, eq=False)
class EventReader:
    """Turns events into messages, and fetches those that were written while nobody listened.

    A message counts as read once `receive` returned. The next event waits for that, so that after a crash reading
    goes on where it ended, in every channel. `follow_threads` says whether questions in a thread may be followed up,
    `on_deleted` is called with the ids of deleted messages, `skipped` counts ignored events by reason. In
    `bot_message_chats` the messages of other bots are delivered too.
    """

    client: DiscordClient
    channel_state: ChannelState
    intervals: DiscordIntervals
    _: KW_ONLY
    on_deleted: Callable[[str], None]
    skipped: Counter[str]
    follow_threads: bool
    bot_message_chats: Collection[str] = ()
    _unreadable_channels: set[str] = field(default_factory=set, init=False)
    # Where the bot was meant before.
    _known_threads: BoundedDict[str, None] = field(default_factory=partial(BoundedDict, MAX_KNOWN_THREADS), init=False)
    _forwards: ForwardReader = field(init=False)
    # Private chats that were new to this process: the id up to which their history was read, 0 until it has been.
    _history_ends: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._forwards = ForwardReader(self.client)

    async def run(self, events: asyncio.Queue[tuple[str, Json]], receive: MessageHandler) -> None:
        """Handle events until cancelled; temporary failures are retried. Raises `TokenRefused`."""
        while True:
            kind, event = await events.get()
            retry_loop = make_retry_loop("reading", self.intervals)
            while True:
                try:
                    await self._handle(kind, event, receive)
                except TokenRefused:
                    raise
                except KimasError as error:
                    await retry_loop.wait(error)
                    continue
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    self._skip(IgnoredEvent("malformed", is_expected=False), kind, error=repr(error)[:300])
                retry_loop.mark_recovered()
                break

    async def _handle(self, kind: str, event: Json, receive: MessageHandler) -> None:
        match kind:
            case "READY":
                await self._catch_up_private(receive)
            case "GUILD_CREATE":
                if not event.get("unavailable"):
                    await self._catch_up_server(event, receive)
            case "MESSAGE_CREATE":
                await self._handle_new_message(event, await self._get_location(event), receive)
            case "MESSAGE_UPDATE":
                await self._handle_edit(event, receive)
            case "MESSAGE_DELETE":
                self.on_deleted(str(event["id"]))
            case "MESSAGE_DELETE_BULK":
                for message_id in event["ids"]:
                    self.on_deleted(str(message_id))
            case _:
                self._update_channels(kind, event)

    def _update_channels(self, kind: str, event: Json) -> None:
        """Note which channels and threads there are."""
        match kind:
            case "THREAD_CREATE" | "THREAD_UPDATE" | "CHANNEL_CREATE" | "CHANNEL_UPDATE":
                self.channel_state.update_channel(event)
                self._unreadable_channels.discard(str(event["id"]))
            case "THREAD_LIST_SYNC":
                for thread in event["threads"]:
                    self.channel_state.update_channel(thread, str(event["guild_id"]))
            case "THREAD_DELETE" | "CHANNEL_DELETE":
                self.channel_state.remove_channel(str(event["id"]))

    async def _get_location(self, event: Json) -> Location:
        channel_id = str(event["channel_id"])
        location = self.channel_state.get_location(channel_id, event)
        if location is not None:
            return location
        guild_id = str(event.get("guild_id") or "")
        try:
            return self.channel_state.update_channel(await self.client.get_channel(channel_id), guild_id)
        except (RetryLater, Unreachable, TokenRefused):
            raise
        except PlatformError as error:
            _log.debug("discord.channel_unknown", channel=channel_id, error=str(error))
            return Location(channel_id, channel_id, "", guild_id)

    async def _handle_new_message(self, event: Json, location: Location, receive: MessageHandler) -> None:
        """Handle a message; in a private chat that is new, first what was written there while the bot was away."""
        channel = location.channel
        message_id = int(event["id"])
        if self.channel_state.is_new_private_chat(location):
            self._history_ends[channel] = 0
        if self._history_ends.get(channel) == 0:
            # Not after this message: another one may arrive while history is fetched, and would mark this one as read.
            after_id = min(await self.channel_state.resume_position(channel), message_id - 1)
            self._history_ends[channel] = await self._catch_up(location, after_id, receive)
        if message_id > self._history_ends.get(channel, 0):
            await self._handle_message(event, location, receive)

    async def _handle_message(self, event: Json, location: Location, receive: MessageHandler) -> None:
        message_id = str(int(event["id"]))
        message = await self._convert(event, location)
        if isinstance(message, Message):
            message = await self._forwards.with_origins(message, event, event.get("referenced_message"))
            await deliver(receive, await self._with_thread_start(message, location), self.intervals)
        else:
            self._skip(message, "MESSAGE_CREATE", message=message_id)
        await self.channel_state.mark_read(location, message_id)

    async def _with_thread_start(self, message: Message, location: Location) -> Message:
        """Return a message with what its thread was opened below, where it is the first for the bot there."""
        is_first = bool(location.thread) and message.addressed and location.thread not in self._known_threads
        if not is_first or message.quoted:
            return message
        self._known_threads[location.thread] = None
        try:
            # A thread has the id of the message below which it was opened, if it was below one.
            start = await self.client.get_message(location.chat, location.thread)
        except TokenRefused:
            raise
        except PlatformError as error:
            _log.debug("discord.thread_start_not_read", thread=location.thread, error=str(error))
            return message
        reader = Reader(self.channel_state.me.id, names=self.channel_state.get_names(location))
        author_id = str((start.get("author") or {}).get("id") or "")
        pictures = select_readable(get_attachments(start))
        message = replace(
            message,
            quoted=reader.get_visible_text(start),
            quoted_authors=() if author_id in ("", message.author_id) else (author_id,),
            attachments=message.attachments or pictures,
        )
        return await self._forwards.with_origins(message, start)

    async def _handle_edit(self, event: Json, receive: MessageHandler) -> None:
        # Previews of links arrive as edits too, without a time of editing.
        if not event.get("edited_timestamp") or not event.get("author"):
            return
        message = await self._convert(event, await self._get_location(event), edited=True)
        if isinstance(message, Message):
            await deliver(receive, message, self.intervals)

    async def _convert(self, event: Json, location: Location, *, edited: bool = False) -> Message | IgnoredEvent:
        roles = self.channel_state.get_roles(location.guild)
        try:
            include_bots = location.chat in self.bot_message_chats
            return to_message(
                event,
                self.channel_state.me,
                location,
                roles=roles,
                names=self.channel_state.get_names(location),
                follow_threads=self.follow_threads,
                edited=edited,
                include_bots=include_bots,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _log.warning("discord.message_malformed", message=event.get("id"), error=repr(error)[:300])
            return IgnoredEvent("malformed", is_expected=False)

    async def _catch_up_server(self, guild: Json, receive: MessageHandler) -> None:
        """Read the messages of a server that were written since the last time."""
        unread_channels = []
        for location, last_message_id in self.channel_state.add_guild(guild):
            after_id = await self.channel_state.resume_position(location.channel, guild.get("joined_at"))
            # Discord lists all channels, hidden ones too, and counts the requests that it refuses.
            if last_message_id > after_id and location.channel not in self._unreadable_channels:
                unread_channels.append((location, after_id))
        await self._catch_up_all(unread_channels, receive)

    async def _catch_up_private(self, receive: MessageHandler) -> None:
        chats = await self.channel_state.get_private_channels()
        unread = [
            (await self._get_location({"channel_id": chat}), await self.channel_state.resume_position(chat))
            for chat in chats
        ]
        await self._catch_up_all(unread, receive)

    async def _catch_up_all(self, unread_channels: Sequence[tuple[Location, int]], receive: MessageHandler) -> None:
        slots = asyncio.Semaphore(MAX_CONCURRENT_CHANNELS)

        async def catch_up(location: Location, after_id: int) -> None:
            async with slots:
                await self._catch_up(location, after_id, receive)

        async with task_group() as tasks:
            for location, after_id in unread_channels:
                tasks.create_task(catch_up(location, after_id))

    async def _catch_up(self, location: Location, after_id: int, receive: MessageHandler) -> int:
        """Handle the messages after an id; return the id of the last one."""
        count = 0
        while True:
            page = await self._get_page(location.channel, after_id)
            for event in page:
                await self._handle_message(event, location, receive)
            count += len(page)
            previous = after_id
            after_id = int(page[-1]["id"]) if page else after_id
            if len(page) < PAGE_SIZE or after_id <= previous:
                break
        if count:
            _log.info("discord.caught_up", channel=location.channel, messages=count)
        return after_id

    async def _get_page(self, channel_id: str, after_id: int) -> Sequence[Json]:
        try:
            return await make_retry_loop("reading", self.intervals).retry_until_ok(
                lambda: self.client.get_messages(channel_id, after_id, PAGE_SIZE)
            )
        except TokenRefused:
            raise
        except PlatformError as error:
            _log.debug("discord.history_refused", channel=channel_id, error=str(error))
            self._unreadable_channels.add(channel_id)
            return ()

    def _skip(self, ignored: IgnoredEvent, kind: str, **details: object) -> None:
        record_ignored(self.skipped, "discord.event_skipped", ignored, kind=kind, **details)


async def deliver(receive: MessageHandler, message: Message, intervals: DiscordIntervals) -> None:
    """Call `receive` until the message is safe: Discord delivers nothing twice."""
    # Any error: a later message must not count as read before this one.
    await make_retry_loop("receiving", intervals).retry_until_ok(lambda: receive(message), errors=(Exception,))
