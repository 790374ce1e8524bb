"""The events of the gateway, one after the other: what was said, where, and what was missed during a break."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bots.discord.convert import Identity, Ignored, Place, to_message
from bots.discord.failures import RetryLater, TokenRefused, Unreachable
from bots.discord.outage import outage_of
from bots.discord.pace import Pace
from bots.discord.places import Places
from core.errors import KimasError, PlatformError
from core.logs import logger
from core.tasks import task_group
from core.types import Message

if TYPE_CHECKING:
    from bots.discord.client import Client
    from core.ports import Receive

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
