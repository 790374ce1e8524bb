"""The REST API through discord.py: the few calls we make, typed, with every failure mapped.

Get this module through `loading.load_client`, in a worker thread. Besides `http` and `gateway` no other
module here uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import discord
from discord.http import Route

from bots.discord.connection import (
    Acknowledged,
    Expired,
    NotAllowed,
    Pace,
    ReplyRefused,
    RetryLater,
    TokenRefused,
    Unreachable,
)
from bots.discord.convert import Identity, address_of
from bots.discord.gateway import Take, connect
from bots.discord.http import Http
from core.errors import MessageGone, PlatformError

Json = dict[str, Any]
Result = TypeVar("Result")

REFUSED = (
    "discord.token was refused: copy the bot's token from https://discord.com/developers/applications "
    "(your application, Bot, Reset Token), without the word Bot in front and without spaces"
)
TOKEN = re.compile(r"[\w-]{1,100}(?:\.[\w-]{1,100}){0,3}", re.ASCII)
# Nothing that an answer says rings at anybody, and no link unfolds.
SILENT = {"allowed_mentions": {"parse": [], "replied_user": False}, "flags": 1 << 2}
ONLY_FOR_THE_ASKER = 1 << 6
CONTENT_FLAGS = 1 << 18 | 1 << 19
NOTED, DEFERRED, CHANGED, SUGGESTED = 4, 5, 7, 8

# Discord's error codes, and what they mean.
_MEANINGS: dict[int, tuple[type[PlatformError], str]] = {
    10003: (MessageGone, "the channel of the question was deleted"),
    10008: (MessageGone, "the reply was deleted while it was written"),
    10015: (Expired, "the slash command can no longer be answered by its token"),
    10062: (Expired, "the slash command was not acknowledged in time"),
    40060: (Acknowledged, "the slash command was acknowledged before"),
    50001: (NotAllowed, "the bot cannot see this channel: give it View Channel there"),
    50007: (NotAllowed, "this person takes no messages from the bot"),
    50013: (NotAllowed, "the bot may not write in this channel: give it Send Messages, in threads too"),
    50027: (Expired, "the slash command can no longer be answered by its token"),
    50083: (NotAllowed, "the thread is archived"),
    160002: (ReplyRefused, "the bot may not reply here: give it Read Message History"),
    160005: (NotAllowed, "the thread is locked"),
}


@dataclass(frozen=True, slots=True)
class Door:
    """Where the gateway is, and how many sessions may still be begun before `wait_s` seconds have passed."""

    url: str
    sessions: int
    wait_s: float


class Client:
    """One bot's calls. Every one raises a `PlatformError` of `failures`, chained with discord.py's."""

    def __init__(self, http: Http, token: str, pace: Pace) -> None:
        self._http = http
        self._token = token
        self._pace = pace
        self._api_url = ""

    @classmethod
    def make(cls, token: str, api_url: str, pace: Pace) -> Client:
        """Make a client; nothing is sent yet. Raises `TokenRefused` for a text that cannot be a token."""
        if not TOKEN.fullmatch(token):
            raise TokenRefused(REFUSED)
        client = cls(Http(token, api_url, pace), token, pace)
        client._api_url = api_url
        return client

    async def identity(self) -> Identity:
        """Return who the bot is, and whether it may read what is not meant for it."""
        me = await self._call("GET", "/users/@me")
        about = await self._call("GET", "/oauth2/applications/@me")
        return _read(
            lambda: Identity(
                str(me["id"]),
                str(me["username"]),
                str(about["id"]),
                bool(int(about.get("flags") or 0) & CONTENT_FLAGS),
            ),
            "who the bot is",
        )

    async def offer_commands(self, application: str, commands: Sequence[Mapping[str, Any]]) -> None:
        """Set the application's slash commands, in all servers and in private chats."""
        where = {"application": application}
        await self._call("PUT", "/applications/{application}/commands", where, json=list(commands))

    async def door(self) -> Door:
        """Return where the gateway is."""
        found = await self._call("GET", "/gateway/bot")
        return _read(
            lambda: Door(
                str(found["url"]),
                int(found["session_start_limit"]["remaining"]),
                int(found["session_start_limit"]["reset_after"]) / 1000,
            ),
            "the gateway's address",
        )

    async def listen(self, url: str, take: Take, *, reads_all: bool) -> None:
        """Hold one gateway session and hand every event to `take`; ends only by an exception (see `gateway`)."""
        http = Http(self._token, self._api_url, self._pace, url)
        try:
            await connect(http, self._token, take, self._pace, reads_all=reads_all)
        finally:
            await http.close()

    async def channel(self, channel: str) -> Json:
        """Return a channel or thread."""
        found: Json = await self._call("GET", "/channels/{channel_id}", {"channel_id": channel})
        return found

    async def history(self, channel: str, after: int, limit: int) -> list[Json]:
        """Return the next messages of a channel after an id, oldest first."""
        given = {"after": str(after), "limit": str(limit)}
        found = await self._call("GET", "/channels/{channel_id}/messages", {"channel_id": channel}, params=given)
        return _read(lambda: sorted(list[Json](found), key=lambda one: int(one["id"])), "a channel's history")

    async def fetch(self, channel: str, message: str, number: str, most: int) -> bytes:
        """Return a file of a message. Raises `PlatformError` for one of more than `most` bytes."""
        where = {"channel_id": channel, "message_id": message}
        found = await self._call("GET", "/channels/{channel_id}/messages/{message_id}", where)
        url = _read(lambda: address_of(found, number, self._api_url), "a file")
        if not url:
            raise PlatformError("the file is gone, or not on Discord's servers")
        return await self._http.content(url, most)

    async def typing(self, channel: str) -> None:
        """Show for about 10 s that the bot is typing."""
        await self._call("POST", "/channels/{channel_id}/typing", {"channel_id": channel})

    async def send(
        self,
        channel: str,
        text: str,
        nonce: str,
        *,
        reply_to: str = "",
        below: Sequence[Mapping[str, Any]] = (),
        ring: Sequence[str] = (),
    ) -> str:
        """Send a message and return its id. The same nonce within some minutes makes no second one.

        `ring` are the users whom a mention in the text notifies.
        """
        body: Json = {**_shown(text, below), "nonce": nonce, "enforce_nonce": True}
        if ring:
            body["allowed_mentions"] = {"parse": [], "users": list(ring), "replied_user": False}
        if reply_to:
            body["message_reference"] = {"message_id": reply_to, "channel_id": channel, "fail_if_not_exists": True}
        sent = await self._call("POST", "/channels/{channel_id}/messages", {"channel_id": channel}, json=body)
        return _read(lambda: str(sent["id"]), "the message that was sent")

    async def edit(self, channel: str, message: str, text: str, *, below: Sequence[Mapping[str, Any]] = ()) -> None:
        """Replace the text of one of the bot's messages; `below` are the components that it gets."""
        where = {"channel_id": channel, "message_id": message}
        await self._call("PATCH", "/channels/{channel_id}/messages/{message_id}", where, json=_shown(text, below))

    async def defer(self, interaction: str, token: str, *, hidden: bool) -> None:
        """Acknowledge a slash command: Discord shows that the bot is thinking. `hidden`: only to who asked."""
        answer = {"type": DEFERRED, "data": {"flags": ONLY_FOR_THE_ASKER if hidden else 0}}
        where = {"interaction_id": interaction, "webhook_token": token}
        await self._call("POST", "/interactions/{interaction_id}/{webhook_token}/callback", where, json=answer)

    async def answer_press(
        self, interaction: str, token: str, text: str, below: Sequence[Mapping[str, Any]], *, instead: bool
    ) -> None:
        """Acknowledge the press of a button by a note for who pressed it, or by changing the note it stands below."""
        data = {"content": text, "components": list(below), "flags": ONLY_FOR_THE_ASKER}
        answer = {"type": CHANGED if instead else NOTED, "data": {**data, "allowed_mentions": {"parse": []}}}
        where = {"interaction_id": interaction, "webhook_token": token}
        await self._call("POST", "/interactions/{interaction_id}/{webhook_token}/callback", where, json=answer)

    async def suggest(self, interaction: str, token: str, choices: Sequence[Mapping[str, str]]) -> None:
        """Offer these choices for the option that somebody is typing."""
        where = {"interaction_id": interaction, "webhook_token": token}
        answer = {"type": SUGGESTED, "data": {"choices": list(choices)}}
        await self._call("POST", "/interactions/{interaction_id}/{webhook_token}/callback", where, json=answer)

    async def respond(self, application: str, token: str, text: str, *, below: Sequence[Mapping[str, Any]] = ()) -> str:
        """Put a text in the place of what an acknowledged slash command shows; return the message's id."""
        where = {"webhook_id": application, "webhook_token": token}
        path = "/webhooks/{webhook_id}/{webhook_token}/messages/@original"
        shown = await self._call("PATCH", path, where, json=_shown(text, below))
        return _read(lambda: str(shown["id"]), "the response")

    async def add(
        self,
        application: str,
        token: str,
        text: str,
        *,
        below: Sequence[Mapping[str, Any]] = (),
        hidden: bool = False,
    ) -> str:
        """Send a further message in answer to a slash command and return its id. `hidden`: only to who asked."""
        where = {"webhook_id": application, "webhook_token": token}
        body = _shown(text, below)
        if hidden:
            # Other than what stands in the place of the acknowledgement, it does not inherit that.
            body["flags"] |= ONLY_FOR_THE_ASKER
        sent = await self._call("POST", "/webhooks/{webhook_id}/{webhook_token}", where, json=body)
        return _read(lambda: str(sent["id"]), "the message that was sent")

    async def withdraw(self, application: str, token: str) -> None:
        """Remove what an acknowledged slash command shows."""
        where = {"webhook_id": application, "webhook_token": token}
        await self._call("DELETE", "/webhooks/{webhook_id}/{webhook_token}/messages/@original", where)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.close()

    async def _call(self, method: str, path: str, where: Mapping[str, str] | None = None, **given: Any) -> Any:
        call = f"{method} {path}"
        try:
            return await self._http.request(Route(method, path, **(where or {})), **given)
        except discord.RateLimited as error:
            wait_s = error.retry_after
            raise RetryLater(f"Discord asks to wait {wait_s:.1f} s before {call}", wait_s) from error
        except discord.HTTPException as error:
            raise _failure(error, call) from error
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            said = str(error) or type(error).__name__
            for secret in (self._token, (where or {}).get("webhook_token", "")):
                said = said.replace(secret, "<token>") if secret else said
            raise Unreachable(f"Discord cannot be reached for {call}: {said[:300]}") from error


def _failure(error: discord.HTTPException, call: str) -> PlatformError:
    """Return what a refusal means to us."""
    said = " ".join(error.text.split())[:300]
    if error.code in _MEANINGS:
        kind, meaning = _MEANINGS[error.code]
        return kind(f"{meaning} (Discord: {said})")
    if error.status >= 500:
        return Unreachable(f"Discord cannot be reached for {call}: {error.status} {said}")
    if error.status == 401:
        return TokenRefused(REFUSED)
    if error.status == 403:
        return NotAllowed(f"Discord does not allow {call}: {said}")
    if error.status == 400 and "message_reference" in error.text and "nknown message" in error.text:
        return MessageGone("the question was deleted")
    return PlatformError(f"Discord refused {call}: {error.status} {said}")


def _shown(text: str, below: Sequence[Mapping[str, Any]] = ()) -> Json:
    return {"content": text, **SILENT, **({"components": list(below)} if below else {})}


def _read(make: Callable[[], Result], what: str) -> Result:
    """Return what is made of an answer. Raises `Unreachable` for one that makes no sense."""
    try:
        return make()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreachable(f"Discord's answer about {what} makes no sense: {error!r}") from error
