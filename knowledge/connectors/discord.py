"""Channels and forums of Discord as knowledge, where their topic says so: threads, posts and long messages.

https://docs.discord.com/developers/resources/channel: messages and threads of a channel are listed, names left out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from core.errors import SourceError
from core.settings.connectors import DiscordOptions
from knowledge.connectors.api import ConnectorApi, open_api
from knowledge.connectors.channels import (
    DAY_S,
    MAX_EDIT_AGE_S,
    MAX_REPLIES,
    MIN_CHARS,
    OPTED_OUT,
    PRIVATE,
    find_missing_consent,
    make_content,
)
from knowledge.connectors.source import GONE_STATUSES, Content, Item, ItemPage, is_of_part
from knowledge.sources.forge.api import StatusError, parse_timestamp
from knowledge.web.client import make_user_agent
from knowledge.web.values import as_mappings, dig, get_int, to_line, to_text

# With this reaction a message is left out.
OPT_OUT = "🚫"
PER_REQUEST = 100
EPOCH_S = 1_420_070_400.0
# Kinds of channels: text and announcements have messages, forums and media have posts alone.
TALKS = frozenset((0, 5))
FORUMS = frozenset((15, 16))
PUBLIC_THREADS = frozenset((10, 11))
# Kinds of messages: what people wrote, and the one that stands for the message from which a thread was made.
SPOKEN = frozenset((0, 19))
STARTER = 21
# Flags of an application: without one of them Discord leaves the text of all messages empty.
MESSAGE_CONTENT = 1 << 18 | 1 << 19
# The channel is gone, or the bot was sent away, or may not read what was written before. Others may be an outage.
CLOSED_REASONS = frozenset(("Unknown Channel", "Missing Access"))
NO_HISTORY_REASONS = frozenset((*CLOSED_REASONS, "Missing Permissions"))
NO_HISTORY = "the bot may not read its history: give it the right Read Message History there"
VIEW_CHANNEL = 1 << 10
MARKS = ("message_count", "total_message_sent", "last_message_id", "name")
_NUMBER = re.compile(r"\d{15,22}")
_PERSON = re.compile(r"<@[!&]?\d{1,22}>")
_CHANNEL = re.compile(r"<#\d{1,22}>")
_EMOJI = re.compile(r"<a?:(\w{1,40}):\d{1,22}>")


class DiscordChannels:
    """Implements `Service` for some channels."""

    max_age_s = MAX_EDIT_AGE_S
    says_what_is_gone = False

    def __init__(self, options: DiscordOptions) -> None:
        self._options = options

    @property
    def display_name(self) -> str:
        """The service as messages may show it."""
        return "Discord"

    def open(self, seconds: float) -> AbstractAsyncContextManager[ConnectorApi]:
        """Return the API of Discord."""
        # Discord turns away programs that do not call themselves so.
        headers = {"Authorization": f"Bot {self._options.token}", "User-Agent": f"DiscordBot ({make_user_agent()})"}
        return open_api(self._options, f"{self._options.base}/api/v10", headers, seconds)

    async def list_page(self, api: ConnectorApi, cursor: str) -> ItemPage:
        """Return a part of a channel. The cursor is the number of the channel, what is listed, and before when."""
        number, what, before = cursor.split(" ") if cursor else ("0", "active", "")
        if not cursor:
            await self._check_intent(api)
        channel = self._options.channels[int(number)]
        next_channel = self._make_next(int(number))
        try:
            return await self._list_part(api, number, what, before)
        except StatusError as error:
            if error.reason in NO_HISTORY_REASONS:
                return ItemPage([Item(channel, "", NO_HISTORY, part=channel)], next_channel)
            if not is_of_part(error):
                raise
            return ItemPage((), next_channel, channel, str(error), error.is_refused)

    async def _list_part(self, api: ConnectorApi, number: str, what: str, before: str) -> ItemPage:
        """Return a page of the channel of a number."""
        channel = self._options.channels[int(number)]
        next_channel = self._make_next(int(number))
        info, reason = await self._look_at(api, channel)
        if reason:
            return ItemPage([Item(channel, "", reason, part=channel)], next_channel)
        guild = to_line(info.get("guild_id"))
        if what == "active":
            reply = await api.get(f"/guilds/{guild}/threads/active")
            threads = _get_list(dig(reply, "threads"))
            return ItemPage(self._to_items(channel, threads), f"{number} archived ")
        if what == "archived":
            items, before = await self._list_archived(api, channel, before)
            then = f"{number} messages " if get_int(info, "type") in TALKS else next_channel
            return ItemPage(items, f"{number} archived {before}" if before else then)
        items, before = await self._list_messages(api, guild, channel, before)
        return ItemPage(items, f"{number} messages {before}" if before else next_channel)

    def _make_next(self, number: int) -> str:
        """Return the cursor of the channel after that of a number."""
        return f"{number + 1} active " if number + 1 < len(self._options.channels) else ""

    async def read(self, api: ConnectorApi, item: Item) -> Content:
        """Return a thread with its replies."""
        channel, _, number = item.path.partition("/")
        thread = await api.get(f"/channels/{number}")
        messages: list[Mapping[str, Any]] = []
        last = 0
        while len(messages) < MAX_REPLIES:
            params = {"limit": str(PER_REQUEST), "after": str(last)}
            part = _get_messages(await api.get(f"/channels/{number}/messages", params))
            messages += sorted(part, key=_get_number)
            if len(part) < PER_REQUEST or _get_number(messages[-1]) <= last:
                break
            last = _get_number(messages[-1])
        if any(get_int(message, "type") == STARTER for message in messages):
            messages = [*await self._find_starter(api, channel, number), *messages]
        texts = [_read_text(message) for message in messages if _is_spoken(message)]
        url = self._make_url(to_line(dig(thread, "guild_id")), number)
        return make_content(to_text(dig(thread, "name")), url, texts)

    async def probe(self, api: ConnectorApi) -> str:
        """Return that all channels can be read. Raises `SourceError` for one that cannot, with what to do."""
        await self._check_intent(api)
        for channel in self._options.channels:
            _, reason = await self._look_at(api, channel)
            if reason:
                raise SourceError(f"channel {channel}: {reason}")
            try:
                await self._list_archived(api, channel, "")
            except StatusError as error:
                reason = NO_HISTORY if error.reason in NO_HISTORY_REASONS else str(error)
                raise SourceError(f"channel {channel}: {reason}") from error
        return f"answers for {', '.join(self._options.channels)}"

    async def _find_starter(self, api: ConnectorApi, channel: str, thread: str) -> list[Mapping[str, Any]]:
        """Return the message from which a thread was made, as it is now, unless it is deleted."""
        try:
            return as_mappings([await api.get(f"/channels/{channel}/messages/{thread}")])
        except StatusError as error:
            if error.status in GONE_STATUSES:
                return []
            raise

    async def _check_intent(self, api: ConnectorApi) -> None:
        if not get_int(await api.get("/applications/@me"), "flags") & MESSAGE_CONTENT:
            raise SourceError("the bot may not read messages: switch on Message Content Intent in the Developer Portal")

    async def _look_at(self, api: ConnectorApi, channel: str) -> tuple[Mapping[str, Any], str]:
        """Return a channel, and why it is not read: the bot does not see it, or its members are not told."""
        try:
            info = await api.get(f"/channels/{channel}")
        except StatusError as error:
            if error.reason in CLOSED_REASONS:
                return {}, "the bot does not see it: is it there, and may the bot view it?"
            raise
        if not isinstance(info, Mapping) or get_int(info, "type") not in TALKS | FORUMS:
            return {}, "it is no text channel and no forum"
        if not _NUMBER.fullmatch(to_line(info.get("guild_id"))):
            return {}, "it is a private conversation"
        if channel not in self._options.private_channels and await _is_private(api, info):
            return {}, PRIVATE
        return info, find_missing_consent(to_text(info.get("topic")))

    async def _list_archived(self, api: ConnectorApi, channel: str, before: str) -> tuple[list[Item], str]:
        params = {"limit": str(PER_REQUEST), **({"before": before} if before else {})}
        reply = await api.get(f"/channels/{channel}/threads/archived/public", params)
        threads = _get_list(dig(reply, "threads"))
        archived_at = to_line(dig(threads[-1], "thread_metadata", "archive_timestamp")) if threads else ""
        # Whatever was archived earlier was silent even longer.
        goes_on = dig(reply, "has_more") is True and parse_timestamp(archived_at) > self._get_oldest()
        return self._to_items(channel, threads), archived_at.replace(" ", "") if goes_on else ""

    async def _list_messages(self, api: ConnectorApi, guild: str, channel: str, before: str) -> tuple[list[Item], str]:
        params = {"limit": str(PER_REQUEST), **({"before": before} if before else {})}
        messages = _get_messages(await api.get(f"/channels/{channel}/messages", params))
        recent = [message for message in messages if _get_time(_get_number(message)) >= self._get_oldest()]
        items = [
            self._to_message(guild, channel, message)
            for message in recent
            if _is_of_person(message) and not message.get("thread") and len(_read_text(message)) >= MIN_CHARS
        ]
        return items, str(min(map(_get_number, recent))) if recent and len(recent) == PER_REQUEST else ""

    def _to_message(self, guild: str, channel: str, message: Mapping[str, Any]) -> Item:
        number = str(_get_number(message))
        if _is_opted_out(message):
            return Item(f"{channel}/{number}", "", OPTED_OUT, part=channel)
        content = make_content("", self._make_url(guild, f"{channel}/{number}"), [_read_text(message)])
        return Item(f"{channel}/{number}", f"sent {to_line(message.get('edited_timestamp'))}", "", content, channel)

    def _to_items(self, channel: str, threads: list[Mapping[str, Any]]) -> list[Item]:
        """Return the threads of a channel in which anything was said of late. A deletion lowers their count."""
        return [
            Item(
                f"{channel}/{_get_number(thread)}",
                " ".join(to_line(str(thread.get(key))) for key in MARKS),
                part=channel,
            )
            for thread in threads
            if thread.get("parent_id") == channel and get_int(thread, "type") in PUBLIC_THREADS and _get_number(thread)
            if _get_time(_get_number(thread, "last_message_id") or _get_number(thread)) >= self._get_oldest()
        ]

    def _get_oldest(self) -> float:
        return time.time() - self._options.days * DAY_S

    def _make_url(self, guild: str, place: str) -> str:
        return f"{self._options.base}/channels/{guild}/{place}"


async def _is_private(api: ConnectorApi, info: Mapping[str, Any]) -> bool:
    """Return whether a channel hides from the members of its server as such: their role has the server's id.

    What the channel says of that role counts before what the server says.
    """
    guild = info["guild_id"]
    is_shown = find_view(info, guild)
    if is_shown is None:
        is_shown = shows_channels(_get_list(await api.get(f"/guilds/{guild}/roles")), guild)
    return not is_shown


def find_view(channel: Mapping[str, Any], guild: str) -> bool | None:
    """Return whether a channel itself lets the members of its server see it, or hides; None where it says neither."""
    overwrites = [each for each in as_mappings(channel.get("permission_overwrites")) if each.get("id") == guild]
    if any(_has_view(each, "deny", default=True) for each in overwrites):
        return False
    return True if any(_has_view(each, "allow") for each in overwrites) else None


def shows_channels(roles: Sequence[Mapping[str, Any]], guild: str) -> bool:
    """Return whether a server, by its roles, lets its members see the channels that do not say otherwise."""
    return any(_has_view(each, "permissions") for each in roles if each.get("id") == guild)


def _has_view(item: Mapping[str, Any], key: str, *, default: bool = False) -> bool:
    """Return whether the right to see channels is among those of a key; the default where these are unreadable."""
    rights = to_line(item.get(key))
    return bool(int(rights) & VIEW_CHANNEL) if rights.isdecimal() else default


def _get_list(data: Any) -> list[Mapping[str, Any]]:
    if not isinstance(data, list):
        raise SourceError("Discord answered with something else than a list")
    return as_mappings(data)


def _get_messages(data: Any) -> list[Mapping[str, Any]]:
    return [message for message in _get_list(data) if _get_number(message)]


def _get_number(data: Mapping[str, Any], key: str = "id") -> int:
    """Return an id, or 0."""
    text = to_line(data.get(key))
    return int(text) if _NUMBER.fullmatch(text) else 0


def _get_time(number: int) -> float:
    """Return when an id was made, in seconds since 1970."""
    return (number >> 22) / 1000 + EPOCH_S


def _is_spoken(message: Mapping[str, Any]) -> bool:
    """Return whether a person wrote a message and leaves it to us."""
    return _is_of_person(message) and not _is_opted_out(message)


def _is_of_person(message: Mapping[str, Any]) -> bool:
    is_of_bot = dig(message, "author", "bot") is True or bool(message.get("webhook_id"))
    return get_int(message, "type") in SPOKEN and not is_of_bot


def _is_opted_out(message: Mapping[str, Any]) -> bool:
    reactions = as_mappings(message.get("reactions"))
    return OPT_OUT in {to_line(dig(reaction, "emoji", "name")) for reaction in reactions}


def _read_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message as its readers see it, without the names of people."""
    text = _PERSON.sub("@somebody", to_text(message.get("content")))
    return _EMOJI.sub(r":\1:", _CHANNEL.sub("", text))
