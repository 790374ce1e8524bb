"""What the bot knows about where it is, and how far it has read in every channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from bots.discord.convert import PRIVATE_KINDS, Place, id_at, place_of

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
