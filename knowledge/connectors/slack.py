"""Channels of Slack as knowledge, where their description says so: threads and long messages, without anybody's name.

https://docs.slack.dev/reference/methods: `conversations.history` lists what is there, `conversations.replies` a thread.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from core.errors import SourceError, is_refusal
from core.settings.connectors import SlackOptions
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
from knowledge.connectors.source import Content, Item, ItemPage
from knowledge.sources.forge.api import StatusError, to_url
from knowledge.web.values import as_mappings, dig, get_int, to_line, to_text

# With this reaction, 🚫, a message is left out.
OPT_OUT = "no_entry_sign"
PER_REQUEST = 200
# What people wrote; all other kinds tell of the channel.
SPOKEN = (None, "file_share", "thread_broadcast", "me_message")
# The channel is gone, or its members have sent the bot away.
CLOSED_ERRORS = frozenset(("channel_not_found", "not_in_channel"))
# The token is none any more, whatever it is used for.
REVOKED_ERRORS = ("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive")
STATUSES = {"invalid_cursor": 400, "thread_not_found": 404, **dict.fromkeys(REVOKED_ERRORS, 401)}
# What Slack says while it is broken, or busy; all else says that it does not let us.
BROKEN_ERRORS = frozenset(
    ("internal_error", "fatal_error", "service_unavailable", "request_timeout", "ratelimited", "team_added_to_org")
)
HINTS = {
    "missing_scope": "the token lacks the scope {needed}",
    "invalid_auth": "the token is not accepted",
    "not_authed": "the token is not accepted",
    "token_revoked": "the token was revoked",
}
_TIMESTAMP = re.compile(r"\d{1,12}\.\d{1,8}")
_REFERENCE = re.compile(r"<([^<>\n]{1,3000})>")


class SlackChannels:
    """Implements `Service` for some channels."""

    max_age_s = MAX_EDIT_AGE_S
    says_what_is_gone = False

    def __init__(self, options: SlackOptions) -> None:
        self._options = options
        self._workspace = ""

    @property
    def display_name(self) -> str:
        """The service as messages may show it."""
        return "Slack"

    def open(self, seconds: float) -> AbstractAsyncContextManager[ConnectorApi]:
        """Return the API of Slack."""
        headers = {"Authorization": f"Bearer {self._options.token}"}
        return open_api(self._options, f"{self._options.base}/api", headers, seconds)

    async def list_page(self, api: ConnectorApi, cursor: str) -> ItemPage:
        """Return a part of a channel. The cursor is the number of the channel and Slack's own."""
        number, _, slack_cursor = cursor.partition(" ")
        index = int(number or 0)
        channel = self._options.channels[index]
        next_channel = f"{index + 1} " if index + 1 < len(self._options.channels) else ""
        try:
            reason = await self._find_skip_reason(api, channel)
            reply = {} if reason else await self._list_history(api, channel, slack_cursor)
        except _ChannelClosed as error:
            reason = str(error)
        except _MethodRefused as error:
            return ItemPage((), next_channel, channel, str(error), is_refusal(error))
        if reason:
            return ItemPage([Item(channel, "", reason, part=channel)], next_channel)
        items = [
            self._to_item(channel, message)
            for message in as_mappings(reply.get("messages"))
            if _is_of_person(message) and (get_int(message, "reply_count") or len(_read_text(message)) >= MIN_CHARS)
        ]
        slack_cursor = to_line(dig(reply, "response_metadata", "next_cursor"))
        return ItemPage(items, f"{index} {slack_cursor}" if slack_cursor else next_channel)

    async def _list_history(self, api: ConnectorApi, channel: str, cursor: str) -> Mapping[str, Any]:
        params = {"channel": channel, "limit": str(PER_REQUEST)}
        oldest = {"oldest": f"{time.time() - self._options.days * DAY_S:.6f}"}
        reply = await self._call(api, "conversations.history", {**params, **oldest, "cursor": cursor})
        if not isinstance(reply.get("messages"), list):
            raise SourceError("Slack answered with something else than a list of messages")
        return reply

    async def read(self, api: ConnectorApi, item: Item) -> Content:
        """Return a thread with its replies."""
        channel, _, timestamp = item.path.partition("/")
        messages: list[Mapping[str, Any]] = []
        cursor = ""
        while len(messages) < MAX_REPLIES:
            params = {"channel": channel, "ts": timestamp, "limit": str(PER_REQUEST), "cursor": cursor}
            reply = await self._call(api, "conversations.replies", params)
            messages += as_mappings(reply.get("messages"))
            cursor = to_line(dig(reply, "response_metadata", "next_cursor"))
            if not cursor:
                break
        texts = [_read_text(message) for message in messages if _is_spoken(message)]
        return await self._make_content(api, channel, timestamp, texts)

    async def probe(self, api: ConnectorApi) -> str:
        """Return that all channels can be read. Raises `SourceError` for one that cannot, with what to do."""
        for channel in self._options.channels:
            if reason := await self._find_skip_reason(api, channel):
                raise SourceError(f"channel {channel}: {reason}")
            await self._call(api, "conversations.history", {"channel": channel, "limit": "1"})
        return f"answers for {', '.join(self._options.channels)}"

    async def _find_skip_reason(self, api: ConnectorApi, channel: str) -> str:
        """Return why a channel is not read: the bot is not in it, or its members are not told."""
        try:
            info = (await self._call(api, "conversations.info", {"channel": channel})).get("channel")
        except _ChannelClosed as error:
            return str(error)
        if dig(info, "is_im") is True or dig(info, "is_mpim") is True:
            return "it is a private conversation"
        if dig(info, "is_member") is not True:
            return "the bot is not in it: invite it"
        if dig(info, "is_private") is True and channel not in self._options.private_channels:
            return PRIVATE
        words = f"{to_text(dig(info, 'topic', 'value'))} {to_text(dig(info, 'purpose', 'value'))}"
        return find_missing_consent(words)

    def _to_item(self, channel: str, message: Mapping[str, Any]) -> Item:
        marks = (message.get("reply_count"), message.get("latest_reply"), dig(message, "edited", "ts"))
        mark = " ".join(to_line(str(mark)) for mark in marks)
        return Item(f"{channel}/{message['ts']}", mark, OPTED_OUT if _is_opted_out(message) else "", part=channel)

    async def _make_content(self, api: ConnectorApi, channel: str, timestamp: str, texts: Sequence[str]) -> Content:
        if not self._workspace:
            self._workspace = to_url((await self._call(api, "auth.test", {})).get("url")).rstrip("/")
        url = f"{self._workspace}/archives/{channel}/p{timestamp.replace('.', '')}"
        return make_content("", url, texts)

    async def _call(self, api: ConnectorApi, method: str, params: Mapping[str, str]) -> Mapping[str, Any]:
        """Return what a method answers. Raises `SourceError` for what it refuses: its status is 200 all the same."""
        reply = await api.get(f"/{method}", {name: value for name, value in params.items() if value})
        if isinstance(reply, Mapping) and reply.get("ok") is True:
            return reply
        code = to_line(dig(reply, "error"), 60) or "nothing that can be understood"
        hint = HINTS.get(code, "").format(needed=to_line(dig(reply, "needed"), 60))
        text = f"Slack answered to {method} with {code}{': ' if hint else ''}{hint}"
        if code in CLOSED_ERRORS:
            raise _ChannelClosed(f"{text}: is the bot in the channel?")
        if code in STATUSES:
            raise StatusError(text, STATUSES[code], code)
        raise _MethodRefused(text, is_refused=isinstance(reply, Mapping) and code not in BROKEN_ERRORS)


class _ChannelClosed(SourceError):
    """The bot does not see the channel."""


class _MethodRefused(SourceError):
    """Slack refused a method, such as for a scope that one kind of channel needs."""


def _is_spoken(message: Mapping[str, Any]) -> bool:
    """Return whether a person wrote a message and leaves it to us."""
    return _is_of_person(message) and not _is_opted_out(message)


def _is_of_person(message: Mapping[str, Any]) -> bool:
    is_of_bot = bool(message.get("bot_id")) or message.get("subtype") not in SPOKEN
    return not is_of_bot and bool(_TIMESTAMP.fullmatch(to_text(message.get("ts"))))


def _is_opted_out(message: Mapping[str, Any]) -> bool:
    return OPT_OUT in {to_line(reaction.get("name")) for reaction in as_mappings(message.get("reactions"))}


def _read_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message as its readers see it, without the names of people."""
    return html.unescape(_REFERENCE.sub(_write_reference, to_text(message.get("text"))))


def _write_reference(match: re.Match[str]) -> str:
    target, _, label = match[1].partition("|")
    if target.startswith("@") or target.startswith("!subteam"):
        return "@somebody"
    if target.startswith(("#", "!")):
        return f"#{label}" if target.startswith("#") and label else ""
    if target.startswith("mailto:"):
        return "(an address)"
    return f"{label} ({target})" if label and label != target else target
