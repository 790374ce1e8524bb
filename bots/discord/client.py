"""The REST API through discord.py: the few calls we make, typed, with every failure mapped.

Get this module through `loading.load_client`, in a worker thread. Besides `http` and `gateway` no other
module here uses discord.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import discord
from discord.http import Route

from bots.common.connection import NotAllowed, NotEditable, Refused, RetryLater, TokenRefused, Unreachable
from bots.discord.connection import AlreadyAcknowledged, DiscordIntervals, InteractionExpired, ReplyRefused
from bots.discord.convert import Identity, get_file_url
from bots.discord.gateway import OnEvent, run_session
from bots.discord.http import DiscordHttp
from core.errors import MessageDeleted, PlatformError

Json = dict[str, Any]
Result = TypeVar("Result")

REFUSED_MESSAGE = (
    "discord.token was refused: copy the bot's token from https://discord.com/developers/applications "
    "(your application, Bot, Reset Token), without the word Bot in front and without spaces"
)
TOKEN_PATTERN = re.compile(r"[\w-]++(?:\.[\w-]++){0,3}", re.ASCII)
# No answer notifies anybody, and no link shows a preview.
SILENT = {"allowed_mentions": {"parse": [], "replied_user": False}, "flags": 1 << 2}
EPHEMERAL = 1 << 6
MESSAGE_PATH = "/channels/{channel_id}/messages/{message_id}"
ORIGINAL_RESPONSE_PATH = "/webhooks/{webhook_id}/{webhook_token}/messages/@original"
MESSAGE_CONTENT_FLAGS = 1 << 18 | 1 << 19
CHANNEL_MESSAGE = 4
DEFERRED_CHANNEL_MESSAGE = 5
UPDATE_MESSAGE = 7
AUTOCOMPLETE_RESULT = 8

# Discord's error codes, and what they mean.
_ERROR_MAPPING: dict[int, tuple[type[PlatformError], str]] = {
    10003: (MessageDeleted, "the channel does not exist, or was deleted"),
    10008: (MessageDeleted, "the reply was deleted while it was written"),
    10015: (InteractionExpired, "the slash command can no longer be answered by its token"),
    10062: (InteractionExpired, "the slash command was not acknowledged in time"),
    40060: (AlreadyAcknowledged, "the slash command was acknowledged before"),
    20022: (NotEditable, "the reply can no longer be edited so soon"),
    30046: (NotEditable, "the reply was edited too often"),
    50001: (NotAllowed, "the bot cannot see this channel: give it View Channel there"),
    50005: (NotEditable, "the reply is not the bot's own"),
    50007: (NotAllowed, "this person takes no messages from the bot"),
    50013: (NotAllowed, "the bot may not write in this channel: give it Send Messages, in threads too"),
    50027: (InteractionExpired, "the slash command can no longer be answered by its token"),
    50083: (NotAllowed, "the thread is archived"),
    160002: (ReplyRefused, "the bot may not reply here: give it Read Message History"),
    160005: (NotAllowed, "the thread is locked"),
}


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """Where the gateway is, and how many sessions may still be begun before `wait_s` seconds have passed."""

    url: str
    remaining_sessions: int
    reset_after_s: float


class DiscordClient:
    """One bot's calls. Each raises a `PlatformError` of `bots/discord/connection.py`, chained with discord.py's."""

    def __init__(self, token: str, api_url: str, intervals: DiscordIntervals) -> None:
        self._http = DiscordHttp(token, api_url, intervals)
        self._token = token
        self._api_url = api_url
        self._intervals = intervals
        self._user_id = ""

    @classmethod
    def create(cls, token: str, api_url: str, intervals: DiscordIntervals) -> DiscordClient:
        """Make a client; nothing is sent yet. Raises `TokenRefused` for a text that cannot be a token."""
        if not TOKEN_PATTERN.fullmatch(token):
            raise TokenRefused(REFUSED_MESSAGE)
        return cls(token, api_url, intervals)

    async def get_identity(self) -> Identity:
        """Return who the bot is, and whether it may read what is not meant for it."""
        user = await self._call("GET", "/users/@me")
        self._user_id = str(user.get("id", ""))
        application = await self._call("GET", "/oauth2/applications/@me")
        return _parse_response(
            lambda: Identity(
                str(user["id"]),
                str(user["username"]),
                str(application["id"]),
                bool(int(application.get("flags") or 0) & MESSAGE_CONTENT_FLAGS),
            ),
            "who the bot is",
        )

    async def register_commands(self, application_id: str, commands: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Set the application's slash commands, in all servers and private chats. Return their ids by their names."""
        path = "/applications/{application}/commands"
        response = await self._call("PUT", path, json=list(commands), application=application_id)
        return _parse_response(
            lambda: {str(item["name"]): str(item["id"]) for item in response if "id" in item}, "the commands"
        )

    async def get_gateway_info(self) -> GatewayInfo:
        """Return where the gateway is."""
        response = await self._call("GET", "/gateway/bot")
        return _parse_response(
            lambda: GatewayInfo(
                str(response["url"]),
                int(response["session_start_limit"]["remaining"]),
                int(response["session_start_limit"]["reset_after"]) / 1000,
            ),
            "the gateway's address",
        )

    async def listen(self, url: str, on_event: OnEvent, *, can_read_all: bool) -> None:
        """Hold one gateway session and hand every event to `on_event`. Ends only by an exception."""
        http = DiscordHttp(self._token, self._api_url, self._intervals, url)
        try:
            await run_session(http, self._token, on_event, self._intervals, can_read_all=can_read_all)
        finally:
            await http.close()

    async def get_channel(self, channel_id: str) -> Json:
        """Return a channel or thread."""
        response: Json = await self._call("GET", "/channels/{channel_id}", channel_id=channel_id)
        return response

    async def get_application(self) -> Json:
        """Return the bot's application."""
        response: Json = await self._call("GET", "/oauth2/applications/@me")
        return response

    async def get_guild(self, guild_id: str) -> Json:
        """Return a server with its roles."""
        response: Json = await self._call("GET", "/guilds/{guild_id}", guild_id=guild_id)
        return response

    async def get_member(self, guild_id: str, user_id: str) -> Json:
        """Return a member of a server."""
        path = "/guilds/{guild_id}/members/{user_id}"
        response: Json = await self._call("GET", path, guild_id=guild_id, user_id=user_id)
        return response

    async def get_messages(self, channel_id: str, after_id: int, limit: int) -> list[Json]:
        """Return the next messages of a channel after an id, oldest first."""
        params = {"after": str(after_id), "limit": str(limit)}
        response = await self._call("GET", "/channels/{channel_id}/messages", params=params, channel_id=channel_id)
        return _parse_response(
            lambda: sorted(list[Json](response), key=lambda message: int(message["id"])), "a channel's history"
        )

    async def get_message(self, channel_id: str, message_id: str) -> Json:
        """Return one message of a channel."""
        response: Json = await self._call("GET", MESSAGE_PATH, channel_id=channel_id, message_id=message_id)
        return response

    def is_own(self, message: Mapping[str, Any]) -> bool:
        """Return whether the bot wrote a message, once `get_identity` returned."""
        return bool(self._user_id) and (message.get("author") or {}).get("id") == self._user_id

    async def download_file(self, channel_id: str, message_id: str, attachment_id: str, max_bytes: int) -> bytes:
        """Return a file of a message. Raises `PlatformError` for one of more than `max_bytes` bytes."""
        response = await self.get_message(channel_id, message_id)
        url = _parse_response(lambda: get_file_url(response, attachment_id, self._api_url), "a file")
        if not url:
            raise PlatformError("the file is gone, or not on Discord's servers")
        return await self._http.download(url, max_bytes)

    async def send_typing(self, channel_id: str) -> None:
        """Show for about 10 s that the bot is typing."""
        await self._call("POST", "/channels/{channel_id}/typing", channel_id=channel_id)

    async def send_message(
        self,
        channel_id: str,
        text: str,
        nonce: str,
        *,
        reply_to: str = "",
        components: Sequence[Mapping[str, Any]] = (),
        mentions: Sequence[str] = (),
    ) -> str:
        """Send a message and return its id. The same nonce within some minutes makes no second one.

        `mentions` are the users whom a mention in the text notifies.
        """
        body: Json = {**_to_message_body(text, components), "nonce": nonce, "enforce_nonce": True}
        if mentions:
            body["allowed_mentions"] = {"parse": [], "users": list(mentions), "replied_user": False}
        if reply_to:
            body["message_reference"] = {"message_id": reply_to, "channel_id": channel_id, "fail_if_not_exists": True}
        response = await self._call("POST", "/channels/{channel_id}/messages", json=body, channel_id=channel_id)
        return _parse_response(lambda: str(response["id"]), "the message that was sent")

    async def edit_message(
        self, channel_id: str, message_id: str, text: str, *, components: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Replace the text of one of the bot's messages, and its `components`."""
        body = {**_to_message_body(text), "components": list(components)}
        await self._call("PATCH", MESSAGE_PATH, json=body, channel_id=channel_id, message_id=message_id)

    async def delete_message(self, channel_id: str, message_id: str) -> None:
        """Delete one of the bot's messages."""
        await self._call("DELETE", MESSAGE_PATH, channel_id=channel_id, message_id=message_id)

    async def defer(self, interaction_id: str, token: str, *, is_ephemeral: bool) -> None:
        """Acknowledge a slash command: Discord shows that the bot is thinking. `is_ephemeral`: only to the asker."""
        data = {"flags": EPHEMERAL if is_ephemeral else 0}
        await self._respond(interaction_id, token, DEFERRED_CHANNEL_MESSAGE, data)

    async def respond_to_button(
        self,
        interaction_id: str,
        token: str,
        text: str,
        components: Sequence[Mapping[str, Any]] | None,
        *,
        replace_original: bool,
    ) -> None:
        """Acknowledge the press of a button by a note only its presser sees, or by changing the note above it.

        Without `components` those of the note stay.
        """
        data = {"content": text, "flags": EPHEMERAL, "allowed_mentions": {"parse": []}}
        if components is not None:
            data["components"] = list(components)
        await self._respond(interaction_id, token, UPDATE_MESSAGE if replace_original else CHANNEL_MESSAGE, data)

    async def respond_autocomplete(self, interaction_id: str, token: str, choices: Sequence[Mapping[str, str]]) -> None:
        """Offer these choices for the option that somebody is typing."""
        await self._respond(interaction_id, token, AUTOCOMPLETE_RESULT, {"choices": list(choices)})

    async def edit_original_response(
        self, application_id: str, token: str, text: str, *, components: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """Put a text in the place of what an acknowledged slash command shows; return the message's id."""
        body = {**_to_message_body(text), "components": list(components)}
        response = await self._call(
            "PATCH", ORIGINAL_RESPONSE_PATH, json=body, webhook_id=application_id, webhook_token=token
        )
        return _parse_response(lambda: str(response["id"]), "the response")

    async def send_followup(
        self,
        application_id: str,
        token: str,
        text: str,
        *,
        components: Sequence[Mapping[str, Any]] = (),
        is_ephemeral: bool = False,
    ) -> str:
        """Send a further message in answer to a slash command and return its id. `is_ephemeral`: only to the asker."""
        path = "/webhooks/{webhook_id}/{webhook_token}"
        body = _to_message_body(text, components)
        if is_ephemeral:
            # Other than what stands in the place of the acknowledgement, it does not inherit that.
            body["flags"] |= EPHEMERAL
        response = await self._call("POST", path, json=body, webhook_id=application_id, webhook_token=token)
        return _parse_response(lambda: str(response["id"]), "the message that was sent")

    async def delete_original_response(self, application_id: str, token: str) -> None:
        """Remove what an acknowledged slash command shows."""
        await self._call("DELETE", ORIGINAL_RESPONSE_PATH, webhook_id=application_id, webhook_token=token)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.close()

    async def _respond(self, interaction_id: str, token: str, response_type: int, data: Json) -> None:
        path = "/interactions/{interaction_id}/{webhook_token}/callback"
        body = {"type": response_type, "data": data}
        await self._call("POST", path, json=body, interaction_id=interaction_id, webhook_token=token)

    async def _call(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, json: Any = None, **path_params: str
    ) -> Any:
        call = f"{method} {path}"
        try:
            return await self._http.request(Route(method, path, **path_params), params=params, json=json)
        except discord.RateLimited as error:
            wait_s = error.retry_after
            raise RetryLater(f"Discord asks to wait {wait_s:.1f} s before {call}", wait_s) from error
        except discord.HTTPException as error:
            raise _to_platform_error(error, call) from error
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            detail = str(error) or type(error).__name__
            for secret in (self._token, path_params.get("webhook_token", "")):
                detail = detail.replace(secret, "<token>") if secret else detail
            raise Unreachable(f"Discord cannot be reached for {call}: {detail[:300]}") from error


def _to_platform_error(error: discord.HTTPException, call: str) -> PlatformError:
    """Return the error that a refusal means."""
    detail = " ".join(error.text.split())[:300]
    if error.code in _ERROR_MAPPING:
        error_class, meaning = _ERROR_MAPPING[error.code]
        return error_class(f"{meaning} (Discord: {detail})")
    if error.status >= 500:
        return Unreachable(f"Discord cannot be reached for {call}: {error.status} {detail}")
    if error.status == 401:
        return TokenRefused(REFUSED_MESSAGE)
    if error.status == 403 and not error.code:
        return NotAllowed(f"Discord does not allow {call}: {detail}")
    if error.status == 400 and "message_reference" in error.text and "nknown message" in error.text:
        return MessageDeleted("the question was deleted")
    return Refused(f"Discord refused {call}: {error.status} {detail}")


def _to_message_body(text: str, components: Sequence[Mapping[str, Any]] = ()) -> Json:
    return {"content": text, **SILENT, **({"components": list(components)} if components else {})}


def _parse_response(parse: Callable[[], Result], subject: str) -> Result:
    """Convert an answer. Raises `Unreachable` for one that makes no sense."""
    try:
        return parse()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unreachable(f"Discord's answer about {subject} makes no sense: {error!r}") from error
