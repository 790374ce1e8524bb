"""The events of the gateway, one after the other: what was said, where, and what was missed during a break."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from bots.discord.connection import Pace, RetryLater, TokenRefused, Unreachable, outage_of
from bots.discord.convert import PRIVATE_KINDS, Identity, Ignored, Place, id_at, place_of, to_message
from core.errors import KimasError, PlatformError
from core.observability.logs import logger
from core.runtime.tasks import task_group
from core.types import Message

if TYPE_CHECKING:
    from bots.discord.client import Client
    from core.ports import Receive

# Where messages are written; the others hold threads, or nothing.
READABLE_KINDS = (0, 2, 5, 10, 11, 12, 13)


class Positions(Protocol):
    """Numbers by name, kept across restarts."""

    async def load(self, name: str) -> int | None:
        """Return a number, or None when it was never saved."""
        ...

    async def save(self, name: str, position: int) -> None:
        """Keep a number durably."""
        ...


class Places:
    """Channels, threads and own roles as the gateway tells them; reading positions, kept under the bot's id.

    `catch_up_hours` bounds how old a message may be that is still read after a break.
    """

    def __init__(
        self, positions: Positions, bot: str, catch_up_hours: float, now: Callable[[], datetime] | None = None
    ) -> None:
        self._positions = positions
        self._bot = bot
        self._longest = timedelta(hours=catch_up_hours)
        self._now = now or (lambda: datetime.now(UTC))
        self._known: dict[str, Place] = {}
        self._roles: dict[str, frozenset[str]] = {}
        self._read: dict[str, int] = {}
        self._private: set[str] = set()
        self._since = 0

    async def open(self) -> None:
        """Note when the bot first ran: nothing older than that is read."""
        since = await self._positions.load(f"{self._bot}:since")
        if since is None:
            since = id_at(self._now())
            await self._positions.save(f"{self._bot}:since", since)
        self._since = since

    def learn(self, channel: Mapping[str, Any], guild: str = "") -> Place:
        """Note a channel or thread and return its place. Raises `KeyError` for what is no channel."""
        place = place_of({"guild_id": guild, **channel})
        self._known[place.channel] = place
        return place

    def forget(self, channel: str) -> None:
        """Note that a channel or thread is gone."""
        self._known.pop(channel, None)

    def enter(self, guild: Mapping[str, Any]) -> list[tuple[Place, int]]:
        """Note a server with what is in it; return where somebody may have written, with the last message's id."""
        number = str(guild["id"])
        own = (role for role in guild.get("roles") or () if (role.get("tags") or {}).get("bot_id") == self._bot)
        self._roles[number] = frozenset(str(role["id"]) for role in own)
        written: list[tuple[Place, int]] = []
        for channel in (*(guild.get("channels") or ()), *(guild.get("threads") or ())):
            place = self.learn(channel, number)
            if channel.get("type") in READABLE_KINDS and channel.get("last_message_id"):
                written.append((place, int(channel["last_message_id"])))
        return written

    def roles(self, guild: str) -> frozenset[str]:
        """Return the bot's own roles in a server."""
        return self._roles.get(guild, frozenset())

    def find(self, channel: str, event: Mapping[str, Any]) -> Place | None:
        """Return the place of a message event, or None when its channel is unknown."""
        if channel in self._known:
            return self._known[channel]
        if not event.get("guild_id") and event.get("channel_type") in (None, *PRIVATE_KINDS):
            return Place(channel, channel)
        return None

    async def unread_from(self, channel: str, joined_at: str | None = None) -> int:
        """Return the id after which to read a channel."""
        position = self._read.get(channel) or await self._positions.load(f"{self._bot}:{channel}") or self._since
        joined = id_at(datetime.fromisoformat(joined_at)) if joined_at else 0
        return max(position, joined, id_at(self._now() - self._longest))

    def read_to(self, channel: str) -> int:
        """Return the id up to which this process has read a channel, 0 where it has read nothing there."""
        return self._read.get(channel, 0)

    async def read(self, place: Place, message: str) -> None:
        """Note that everything up to a message is safe. Private chats are remembered: nobody else can list them."""
        number = int(message)
        if number > self._read.get(place.channel, 0):
            await self._positions.save(f"{self._bot}:{place.channel}", number)
            self._read[place.channel] = number
        if place.private and place.channel not in self._private:
            await self._remember(place.channel)

    async def private(self) -> list[str]:
        """Return the private chats in which somebody has written."""
        count = await self._positions.load(f"{self._bot}:private") or 0
        found = [await self._positions.load(name) for name in self._names(count)]
        self._private.update(str(one) for one in found if one)
        return sorted(self._private)

    def is_new(self, place: Place) -> bool:
        """Say whether a place is a private chat in which nobody has written yet, as far as is known."""
        return place.private and place.channel not in self._private

    async def _remember(self, channel: str) -> None:
        await self.private()
        if channel not in self._private:
            count = await self._positions.load(f"{self._bot}:private") or 0
            await self._positions.save(f"{self._bot}:private:{count}", int(channel))
            await self._positions.save(f"{self._bot}:private", count + 1)
            self._private.add(channel)

    def _names(self, count: int) -> Iterator[str]:
        return (f"{self._bot}:private:{number}" for number in range(count))


Json = Mapping[str, Any]
PAGE = 100
AT_ONCE = 8


class Reader:
    """Turns events into messages, and fetches those that were written while nobody listened.

    A message counts as read once `receive` returned. The next event waits for that, so that after a crash reading
    begins where it ended, in every channel. `follow` says whether threads where the bot has answered may be followed,
    `deleted` is told the ids of deleted messages, `skipped` counts what became no message, by reason. In the chats
    `counted`, what other bots write is delivered too.
    """

    def __init__(
        self,
        client: Client,
        me: Identity,
        places: Places,
        pace: Pace,
        *,
        deleted: Callable[[str], None],
        skipped: Counter[str],
        follow: bool,
        counted: Collection[str] = (),
    ) -> None:
        self._client = client
        self._me = me
        self._places = places
        self._pace = pace
        self._deleted = deleted
        self._skipped = skipped
        self._follow = follow
        self._counted = counted
        self._hidden: set[str] = set()

    async def run(self, events: asyncio.Queue[tuple[str, Json]], receive: Receive) -> None:
        """Handle events until cancelled; what fails for now is tried again. Raises `TokenRefused`."""
        while True:
            kind, event = await events.get()
            outage = outage_of("reading", self._pace)
            while True:
                try:
                    await self._handle(kind, event, receive)
                except TokenRefused:
                    raise
                except KimasError as failure:
                    await outage.wait(failure)
                    continue
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    self._skip(Ignored("malformed", expected=False), kind, error=repr(error)[:300])
                outage.over()
                break

    async def _handle(self, kind: str, event: Json, receive: Receive) -> None:
        match kind:
            case "READY":
                await self._read_private(receive)
            case "GUILD_CREATE":
                if not event.get("unavailable"):
                    await self._read_server(event, receive)
            case "THREAD_CREATE" | "THREAD_UPDATE" | "CHANNEL_CREATE" | "CHANNEL_UPDATE":
                self._places.learn(event)
                self._hidden.discard(str(event["id"]))
            case "THREAD_LIST_SYNC":
                for thread in event["threads"]:
                    self._places.learn(thread, str(event["guild_id"]))
            case "THREAD_DELETE" | "CHANNEL_DELETE":
                self._places.forget(str(event["id"]))
            case "MESSAGE_CREATE":
                await self._hear_new(event, await self._place(event), receive)
            case "MESSAGE_UPDATE":
                await self._note_edit(event, receive)
            case "MESSAGE_DELETE":
                self._deleted(str(event["id"]))
            case "MESSAGE_DELETE_BULK":
                for number in event["ids"]:
                    self._deleted(str(number))

    async def _place(self, event: Json) -> Place:
        channel = str(event["channel_id"])
        place = self._places.find(channel, event)
        if place is not None:
            return place
        guild = str(event.get("guild_id") or "")
        try:
            return self._places.learn(await self._client.channel(channel), guild)
        except (RetryLater, Unreachable, TokenRefused):
            raise
        except PlatformError as failure:
            logger(__name__).debug("discord.channel_unknown", channel=channel, error=str(failure))
            return Place(channel, channel, "", guild)

    async def _hear_new(self, event: Json, place: Place, receive: Receive) -> None:
        """Take a message; in a private chat that is new to us, first what was written there while we were away."""
        if self._places.is_new(place):
            await self._read_on(place, await self._places.unread_from(place.channel), receive)
            if self._places.read_to(place.channel) >= int(event["id"]):
                return
        await self._hear(event, place, receive)

    async def _hear(self, event: Json, place: Place, receive: Receive) -> None:
        number = str(int(event["id"]))
        message = await self._converted(event, place)
        if isinstance(message, Message):
            await deliver(receive, message, self._pace)
        else:
            self._skip(message, "MESSAGE_CREATE", message=number)
        await self._places.read(place, number)

    async def _note_edit(self, event: Json, receive: Receive) -> None:
        # Links that unfold arrive as changes too, without a time of editing.
        if not event.get("edited_timestamp") or not event.get("author"):
            return
        message = await self._converted(event, await self._place(event), edited=True)
        if isinstance(message, Message):
            await deliver(receive, message, self._pace)

    async def _converted(self, event: Json, place: Place, *, edited: bool = False) -> Message | Ignored:
        roles = self._places.roles(place.guild)
        try:
            counted = place.chat in self._counted
            return to_message(event, self._me, place, roles=roles, follow=self._follow, edited=edited, counted=counted)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            logger(__name__).warning("discord.message_malformed", message=event.get("id"), error=repr(error)[:300])
            return Ignored("malformed", expected=False)

    async def _read_server(self, guild: Json, receive: Receive) -> None:
        """Read what was written in a server since the last time."""
        unread = []
        for place, last in self._places.enter(guild):
            after = await self._places.unread_from(place.channel, guild.get("joined_at"))
            # Discord names all channels, hidden ones too, and counts what is asked in vain.
            if last > after and place.channel not in self._hidden:
                unread.append((place, after))
        await self._read_all(unread, receive)

    async def _read_private(self, receive: Receive) -> None:
        chats = await self._places.private()
        unread = [(Place(chat, chat), await self._places.unread_from(chat)) for chat in chats]
        await self._read_all(unread, receive)

    async def _read_all(self, unread: Sequence[tuple[Place, int]], receive: Receive) -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def read(place: Place, after: int) -> None:
            async with slots:
                await self._read_on(place, after, receive)

        async with task_group() as tasks:
            for place, after in unread:
                tasks.create_task(read(place, after))

    async def _read_on(self, place: Place, after: int, receive: Receive) -> None:
        count = 0
        while True:
            page = await self._page(place.channel, after)
            for event in page:
                await self._hear(event, place, receive)
            count += len(page)
            following = int(page[-1]["id"]) if page else after
            if len(page) < PAGE or following <= after:
                break
            after = following
        if count:
            logger(__name__).info("discord.caught_up", channel=place.channel, messages=count)

    async def _page(self, channel: str, after: int) -> Sequence[Json]:
        outage = outage_of("reading", self._pace)
        while True:
            try:
                page = await self._client.history(channel, after, PAGE)
            except (RetryLater, Unreachable) as failure:
                await outage.wait(failure)
            except TokenRefused:
                raise
            except PlatformError as failure:
                logger(__name__).debug("discord.history_refused", channel=channel, error=str(failure))
                self._hidden.add(channel)
                return ()
            else:
                outage.over()
                return page

    def _skip(self, ignored: Ignored, kind: str, **about: object) -> None:
        self._skipped[ignored.reason] += 1
        tell = logger(__name__).debug if ignored.expected else logger(__name__).warning
        tell("discord.event_skipped", kind=kind, reason=ignored.reason, **about)


async def deliver(receive: Receive, message: Message, pace: Pace) -> None:
    """Hand a message on until it is safe: Discord delivers nothing twice."""
    outage = outage_of("receiving", pace)
    while True:
        try:
            await receive(message)
        except Exception as fault:
            # Whatever it is: what comes after must not be taken as read before this.
            await outage.wait(fault)
        else:
            outage.over()
            return
