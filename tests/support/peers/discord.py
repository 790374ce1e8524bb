"""A Discord server over real HTTP and WebSocket, as strict as Discord's own, with people who write to the bot.

Inside a test:

    async with DiscordPeer() as peer:
        ...  # the bot uses peer.token and peer.api_url
        channel_id = peer.channel()
        await peer.say(channel_id, f"{peer.mention} what is it?")
        reply = await peer.wait_for_reply(channel_id, 5)

As a process (the first line it prints is JSON with `api_url`, `token`, `channel`, `bot` and `control_url`):

    python -m tests.support.peers.discord --port 0
    curl --json '{"text": "<@1> hello"}' $control_url/say;  curl $control_url/messages
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from aiohttp import web

from tests.support.peers.discord_gateway import (
    DIRECT_MESSAGES,
    GUILD_MESSAGES,
    GUILD_TYPING,
    GUILDS,
    MESSAGE_CONTENT,
    Gateway,
)

Json = dict[str, Any]
Drop = Literal["", "before", "after"]

EPOCH_MS = 1_420_070_400_000
TEXT = 0
PRIVATE = 1
FORUM = 15
PUBLIC_THREAD = 11
LIMIT = 2000
NONCE = 25
SUPPRESS_EMBEDS = 1 << 2
EPHEMERAL = 1 << 6
# What a channel can take from the bot, by its names in `lacking`.
PERMISSIONS = {"view": 1 << 10, "send": 1 << 11, "history": 1 << 16, "threads": 1 << 38}
SEND = {"content", "nonce", "enforce_nonce", "allowed_mentions", "flags", "message_reference", "embeds", "tts"}
EDIT = {"content", "allowed_mentions", "flags", "embeds", "components"}
SEND |= {"components"}
ROW = 1
BUTTON = 2
PRESSED = 3
SELECT = 3
NOTE = 4
CHANGE = 7
COMMAND = {"name", "type", "description", "options", "contexts", "integration_types", "default_member_permissions"}
COMMAND |= {"name_localizations", "description_localizations"}
OPTION = {"name", "type", "description", "required", "choices", "autocomplete", "min_value", "max_value", "max_length"}
OPTION |= {"description_localizations"}
LOCALES = {"zh-CN", "zh-TW"}
STRING = 3
INTEGER = 4
NUMBER = 10
TYPING = 4
SUGGESTED = 8
ON_MESSAGES = 3
ON_USERS = 2
ADDRESS = re.compile(r"(?<![<\w])https?://[^\s>)]+")


@dataclass(frozen=True, slots=True)
class Author:
    """Somebody who writes."""

    id: str = "1001"
    username: str = "ann"
    global_name: str = "Ann"
    bot: bool = False

    def user(self) -> Json:
        """Return the author as the API shows them."""
        data = {"id": self.id, "username": self.username, "global_name": self.global_name, "discriminator": "0"}
        return {**data, "avatar": None, **({"bot": True} if self.bot else {})}


@dataclass(slots=True)
class PostedMessage:
    """A message as it stands. `history` holds every (time, text) it ever showed."""

    id: str
    channel: str
    content: str
    author: Author
    kind: int = 0
    flags: int = 0
    reply_to: str = ""
    webhook: bool = False
    edited: bool = False
    thinking: bool = False
    nonce: str = ""
    extra_fields: Json = field(default_factory=dict)
    components: list[Json] = field(default_factory=list)
    history: list[tuple[float, str]] = field(default_factory=list)


@dataclass(slots=True)
class Channel:
    """A channel, thread or private chat; `lacking` are permissions that the bot has not."""

    id: str
    guild: str = ""
    kind: int = TEXT
    parent: str = ""
    lacking: set[str] = field(default_factory=set)
    messages: dict[str, PostedMessage] = field(default_factory=dict)
    typed: list[float] = field(default_factory=list)

    def object(self) -> Json:
        """Return the channel as the API shows it."""
        data: Json = {"id": self.id, "type": self.kind, "name": f"room-{self.id[-4:]}"}
        data["last_message_id"] = max(self.messages, key=int) if self.messages else None
        if self.guild:
            data["guild_id"] = self.guild
            denied = sum(PERMISSIONS[name] for name in self.lacking)
            data["permission_overwrites"] = [{"id": self.guild, "type": 0, "allow": "0", "deny": str(denied)}]
        if self.parent:
            data.update(parent_id=self.parent, thread_metadata={"archived": False, "locked": False})
        return data


@dataclass(slots=True)
class Interaction:
    """A slash command: its token, when it was given, and what it shows."""

    id: str
    token: str
    channel: str
    at: float
    hidden: bool = False
    response_message: PostedMessage | None = None
    suggested: list[str] | None = None
    pressed: PostedMessage | None = None
    typing: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One request: `METHOD /path` with ids as `{}`, its body, the time, and its status (0: dropped)."""

    name: str
    body: Json
    at: float
    status: int


@dataclass(slots=True)
class InjectedError:
    """What `fail` has in store for a call."""

    name: str
    times: int
    status: int
    body: object
    headers: dict[str, str]
    drop: Drop
    delay_s: float


class Refusal(Exception):
    """An error answer."""

    def __init__(self, status: int, code: int, message: str, errors: Json | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"message": message, "code": code, **({"errors": errors} if errors else {})}


def form(field_: str, code: str, message: str) -> Refusal:
    """Return the refusal of a field."""
    return Refusal(400, 50035, "Invalid Form Body", {field_: {"_errors": [{"code": code, "message": message}]}})


class DiscordPeer:
    """The server. `limit` is (messages and edits, seconds) that one channel takes: more are answered with 429."""

    def __init__(
        self,
        token: str = "MTAwMDA.tests.a-token-for-tests",  # noqa: S107
        name: str = "kimas",
        *,
        port: int = 0,
        limit: tuple[int, float] = (50, 1.0),
        number: str = "5001",
        other_peer: DiscordPeer | None = None,
    ) -> None:
        self.token = token
        self.limit = limit
        self.me = Author(number, name, name.title(), bot=True)
        self.application = str(int(number) + 1)
        self.interactions_endpoint: str | None = None
        self.guild = "7001"
        self.role = "7002"
        self.api_url = ""
        self.control_url = ""
        # Servers `other_peer` each other are one, each as its own bot sees it.
        self.bots: list[DiscordPeer] = [*other_peer.bots, self] if other_peer else [self]
        for bot in self.bots:
            bot.bots = self.bots
        self.channels: dict[str, Channel] = other_peer.channels if other_peer else {}
        # Called with the method and "before" it is done or "after", before the answer: to wait, or to kill the bot.
        self.watch: Callable[[str, str], Awaitable[None]] | None = None
        self.files: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.calls: list[Call] = []
        self.commands: list[Json] = []
        self.interactions_by_token: dict[str, Interaction] = {}
        # For some minutes, Discord does.
        self.remembers_nonces = True
        self.notified: list[str] = []
        self.unfolded: list[str] = []
        # A word that no message may have.
        self.banned = ""
        self.exceeded: Counter[str] = Counter()
        self.acknowledge_s = 3.0
        self.token_s = 900.0
        self.sessions_left = 1000
        # While this is cleared, requests for history wait; `history_requests` counts those that have arrived.
        self.history_open = asyncio.Event()
        self.history_requests = 0
        self.history_open.set()
        self.gateway = Gateway(token, self._ready, self._welcome)
        self.joined_at = datetime.fromtimestamp(time.time() - 86400, UTC).isoformat()
        self._port = port
        self._counter = 0
        self._injected_errors: list[InjectedError] = []
        self._windows: dict[str, tuple[float, int]] = {}
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> DiscordPeer:
        application = web.Application()
        application.router.add_get("/", self.gateway.serve)
        application.router.add_route("*", "/api/v10/{path:.*}", self._answer)
        application.router.add_get("/attachments/{name}", self._hand_over)
        application.router.add_get("/control/messages", self._control_messages)
        application.router.add_post("/control/say", self._control_say)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        self.api_url = f"http://127.0.0.1:{self._port}/api/v10"
        self.control_url = f"http://127.0.0.1:{self._port}/control"
        self.gateway.url = f"ws://127.0.0.1:{self._port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gateway.drop()
        if self._runner is not None:
            await self._runner.cleanup()

    # What people do.

    @property
    def mention(self) -> str:
        """Return what mentions the bot."""
        return f"<@{self.me.id}>"

    def snowflake(self, at: float | None = None) -> str:
        """Return the next id, of now or of another time."""
        if self is not self.bots[0]:
            return self.bots[0].snowflake(at)
        self._counter = (self._counter + 1) % (1 << 22)
        return str((int((at or time.time()) * 1000) - EPOCH_MS) << 22 | self._counter)

    def channel(self, kind: int = TEXT, *, parent: str = "", private: bool = False, number: str = "") -> str:
        """Open a channel, a thread below a parent, or a private chat, and return its id."""
        number = number or self.snowflake()
        kind = PUBLIC_THREAD if parent else PRIVATE if private else kind
        self.channels[number] = Channel(number, "" if private else self.guild, kind, parent)
        return number

    async def thread(self, parent: str, below: str = "") -> str:
        """Open a thread and tell; `below` a message, it has the id of that."""
        number = self.channel(parent=parent, number=below)
        channel_object = {**self.channels[number].object(), "newly_created": True}
        await self.gateway.emit(
            "THREAD_CREATE", channel_object, lambda intents: channel_object if intents & GUILDS else None
        )
        return number

    async def say(
        self,
        channel: str,
        content: str,
        *,
        author: Author | None = None,
        reply_to: str = "",
        at: float | None = None,
        kind: int | None = None,
        webhook: bool = False,
        **extra_fields: Any,
    ) -> str:
        """Write a message and return its id. `more` goes into the message object as it is."""
        message = PostedMessage(
            self.snowflake(at), channel, content, author or Author(), reply_to=reply_to, webhook=webhook
        )
        message.kind = (19 if reply_to else 0) if kind is None else kind
        message.extra_fields = extra_fields
        self.channels[channel].messages[message.id] = message
        await self._tell("MESSAGE_CREATE", message)
        return message.id

    async def write(self, channel: str, author: Author | None = None) -> None:
        """Begin to write in a server's channel, as others see it; it fades after ten seconds."""
        person = author or Author()
        target_channel = self.channels[channel]
        event = {
            "channel_id": channel,
            "guild_id": target_channel.guild,
            "user_id": person.id,
            "timestamp": int(time.time()),
        }
        event["member"] = {"user": person.user(), "roles": []}
        await self.gateway.emit("TYPING_START", event, lambda intents: event if intents & GUILD_TYPING else None)

    async def edit(self, channel: str, message: str, content: str, *, silently: bool = False) -> None:
        """Edit a message; `silently` is what the server does itself, such as unfolding a link."""
        output = self.channels[channel].messages[message]
        output.content = content
        output.edited = not silently
        await self._tell("MESSAGE_UPDATE", output)

    async def delete(self, channel: str, message: str) -> None:
        """Delete a message and tell."""
        target_channel = self.channels[channel]
        del target_channel.messages[message]
        deletion = {
            "id": message,
            "channel_id": channel,
            **({"guild_id": target_channel.guild} if target_channel.guild else {}),
        }
        await self.gateway.emit("MESSAGE_DELETE", deletion)

    async def command(
        self, channel: str, name: str, author: Author | None = None, *, permissions: int = 0, **option_values: str
    ) -> Interaction:
        """Give a slash command that the bot has registered; `permissions` are the author's in the channel."""
        results = next((command for command in self.commands if command["name"] == name and command["type"] == 1), None)
        assert results is not None, f"/{name} is not registered"
        options = [_parse_option(results, key, value) for key, value in option_values.items()]
        assert {option["name"] for option in results["options"] if option.get("required")} <= set(option_values)
        return await self._ask(channel, {"name": name, "type": 1, "options": options}, author, permissions)

    async def choose(
        self, channel: str, message: str, name: str, author: Author | None = None, *, permissions: int = 0
    ) -> Interaction:
        """Choose an entry in the menu of a message; what it is about is delivered with it, without what that quotes."""
        assert any(command["name"] == name and command["type"] == ON_MESSAGES for command in self.commands), (
            f"{name} is missing"
        )
        body = self._object(self.channels[channel].messages[message])
        partial = {key: value for key, value in body.items() if key != "referenced_message"}
        data = {"name": name, "type": ON_MESSAGES, "target_id": message, "resolved": {"messages": {message: partial}}}
        return await self._ask(channel, data, author, permissions)

    async def _ask(self, channel: str, data: Json, author: Author | None, permissions: int) -> Interaction:
        target_channel = self.channels[channel]
        command = Interaction(
            self.snowflake(), f"aW50ZXJhY3Rpb246{len(self.interactions_by_token)}-secret", channel, time.monotonic()
        )
        self.interactions_by_token[command.token] = command
        user = (author or Author()).user()
        event: Json = {"id": command.id, "application_id": self.application, "type": 2, "token": command.token}
        event.update(channel_id=channel, channel=target_channel.object(), data={"id": "1", **data})
        event.update(
            {"guild_id": target_channel.guild, "member": {"user": user, "roles": [], "permissions": str(permissions)}}
            if target_channel.guild
            else {"user": user}
        )
        await self.gateway.emit("INTERACTION_CREATE", event)
        return command

    async def typing(self, channel: str, name: str, option: str, typed_text: str) -> Interaction:
        """Begin to type an option that is completed by the bot."""
        results = next(entry for entry in self.commands if entry["name"] == name)
        assert next(entry for entry in results["options"] if entry["name"] == option).get("autocomplete")
        command = Interaction(
            self.snowflake(), f"aW50ZXJhY3Rpb246{len(self.interactions_by_token)}-secret", channel, time.monotonic()
        )
        command.typing = True
        self.interactions_by_token[command.token] = command
        focused = {"name": option, "type": STRING, "value": typed_text, "focused": True}
        event: Json = {"id": command.id, "application_id": self.application, "type": TYPING, "token": command.token}
        event.update(channel_id=channel, channel=self.channels[channel].object(), user=Author().user())
        event["data"] = {"id": "1", "name": name, "type": 1, "options": [focused]}
        await self.gateway.emit("INTERACTION_CREATE", event)
        return command

    async def press(
        self, message: PostedMessage, data: str, author: Author | None = None, *, value: str = "", permissions: int = 0
    ) -> Interaction:
        """Press a button below a message of the bot; its answer will be in `response_message` of what is returned.

        The data need not be that of a button, as a client that was tampered with may send. With a `value` it is the
        list of this name where that is chosen. `permissions` are the person's in the channel.
        """
        target_channel = self.channels[message.channel]
        command = Interaction(
            self.snowflake(), f"cHJlc3M6{len(self.interactions_by_token)}-secret", message.channel, time.monotonic()
        )
        command.pressed = message
        self.interactions_by_token[command.token] = command
        user = (author or Author()).user()
        event: Json = {"id": command.id, "application_id": self.application, "type": PRESSED, "token": command.token}
        event.update(channel_id=target_channel.id, channel=target_channel.object(), message=self._object(message))
        component = {"component_type": SELECT, "values": [value]} if value else {"component_type": BUTTON}
        event["data"] = {"custom_id": data, **component}
        member = {"user": user, "roles": [], "permissions": str(permissions)}
        event.update({"guild_id": target_channel.guild, "member": member} if target_channel.guild else {"user": user})
        await self.gateway.emit("INTERACTION_CREATE", event)
        return command

    def fail(
        self,
        name: str,
        status: int = 500,
        *,
        times: int = 1,
        body: object = None,
        headers: dict[str, str] | None = None,
        drop: Drop = "",
        delay_s: float = 0.0,
    ) -> None:
        """Answer the next calls of a name with an error, late, or drop the connection before or after doing it."""
        self._injected_errors.append(InjectedError(name, times, status, body, headers or {}, drop, delay_s))

    def add_attachment(self, name: str, content: bytes, media_type: str = "image/png") -> Json:
        """Put a file on the server; return it as a message's attachment."""
        self.files[name] = content
        url = self.api_url.removesuffix("/api/v10") + f"/attachments/{name}"
        file_fields = {"filename": name, "size": len(content), "content_type": media_type, "url": url, "proxy_url": url}
        return {"id": self.snowflake(), **file_fields}

    # What can be observed.

    def messages(self, channel: str) -> list[PostedMessage]:
        """Return the bot's messages in a channel that show something."""
        results = self.channels[channel].messages.values()
        return [result for result in results if result.author.id == self.me.id and not result.thinking]

    def get_calls(self, name: str) -> list[Call]:
        """Return the calls of one name, `METHOD /path` with `{}` for every id."""
        return [call for call in self.calls if call.name == name]

    async def wait_for_reply(
        self, channel: str, timeout: float, *, containing: str = "", count: int = 1
    ) -> PostedMessage:
        """Wait until the bot shows `count` messages in a channel, the last with this text, and return that one."""
        await self.wait_until(
            lambda: len(self.messages(channel)) >= count and containing in self.messages(channel)[-1].content, timeout
        )
        return self.messages(channel)[-1]

    async def wait_until(self, true: Callable[[], bool], timeout: float) -> None:
        """Wait until something is true; it is looked at after every call. Raises `TimeoutError`."""
        try:
            async with asyncio.timeout(timeout):
                while not true():
                    self.gateway.changed.clear()
                    await self.gateway.changed.wait()
        except TimeoutError:
            recent = [(call.name, call.status, call.body) for call in self.calls[-8:]]
            raise TimeoutError(f"not within {timeout} s; the last calls: {recent}") from None

    async def connected(self, timeout: float = 60) -> None:
        """Wait until the bot has a session."""
        await self.wait_until(lambda: bool(self.gateway.live), timeout)

    # The server: events.

    def _ready(self) -> Json:
        guilds = [{"id": self.guild, "unavailable": True}]
        flags = 1 << 19 if self.gateway.granted & MESSAGE_CONTENT else 0
        return {"user": self.me.user(), "guilds": guilds, "application": {"id": self.application, "flags": flags}}

    def _welcome(self) -> list[tuple[str, Json]]:
        guild_channels = [channel for channel in self.channels.values() if channel.guild]
        own_role = {"id": self.role, "name": "KIMAs", "managed": True, "tags": {"bot_id": self.me.id}}
        guild: Json = {"id": self.guild, "name": "Team", "joined_at": self.joined_at, "unavailable": False}
        guild["roles"] = [{"id": self.guild, "name": "@everyone", "managed": False}, own_role]
        guild["channels"] = [
            {key: value for key, value in channel.object().items() if key != "guild_id"}
            for channel in guild_channels
            if not channel.parent
        ]
        guild["threads"] = [channel.object() for channel in guild_channels if channel.parent]
        return [("GUILD_CREATE", guild)]

    async def _tell(self, kind: str, message: PostedMessage) -> None:
        for bot in self.bots if self.channels[message.channel].guild else [self]:
            await bot.tell(kind, message)

    async def tell(self, kind: str, message: PostedMessage) -> None:
        """Tell this bot of a message."""
        target_channel = self.channels[message.channel]
        event = self._object(message)
        if target_channel.guild:
            event["guild_id"] = target_channel.guild
            if not message.webhook and message.author.id != self.me.id:
                event["member"] = {"nick": None, "roles": []}
        else:
            event["channel_type"] = target_channel.kind

        def to_event(intents: int) -> Json | None:
            if not intents & (GUILD_MESSAGES if target_channel.guild else DIRECT_MESSAGES):
                return None
            return event if self._readable(message, intents) else {**event, "content": "", "embeds": []}

        await self.gateway.emit(kind, event, to_event)
        self.gateway.changed.set()

    def _readable(self, message: PostedMessage, intents: int) -> bool:
        """Return whether the bot gets the text of a message."""
        mentioned = self.me.id in [mention["id"] for mention in self._object(message)["mentions"]]
        is_own = message.author.id == self.me.id
        return bool(intents & MESSAGE_CONTENT) or is_own or mentioned or not self.channels[message.channel].guild

    def _object(self, message: PostedMessage, *, deep: bool = True) -> Json:
        target_channel = self.channels[message.channel]
        names = {Author().id: Author(), **{bot.me.id: bot.me for bot in self.bots}}
        users = [
            names.get(item, Author(item, f"user{item}", f"User {item}"))
            for item in re.findall(r"<@!?(\d+)>", message.content)
        ]
        referenced_message = target_channel.messages.get(message.reply_to)
        if (
            referenced_message is not None
            and referenced_message.author.id == self.me.id
            and message.author.id != self.me.id
        ):
            users.append(self.me)
        number = (int(message.id) >> 22) + EPOCH_MS
        result: Json = {
            "id": message.id,
            "channel_id": message.channel,
            "content": message.content,
            "author": message.author.user(),
            "type": message.kind,
            "flags": message.flags,
            "timestamp": datetime.fromtimestamp(number / 1000, UTC).isoformat(),
            "edited_timestamp": datetime.now(UTC).isoformat() if message.edited else None,
            "mentions": [author.user() for author in {user.id: user for user in users}.values()],
            "mention_roles": re.findall(r"<@&(\d+)>", message.content),
            "attachments": [],
            "embeds": [],
            "components": message.components,
        }
        if message.webhook:
            result["webhook_id"] = "9001"
        if message.reply_to and deep:
            result["message_reference"] = {"message_id": message.reply_to, "channel_id": message.channel}
            result["referenced_message"] = (
                self._object(referenced_message, deep=False) if referenced_message is not None else None
            )
        return {**result, **message.extra_fields}

    # The server: requests.

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = "/" + request.match_info["path"]
        name = f"{request.method} {_shape(path)}"
        at = time.monotonic()
        text = await request.text()
        body: Json = {}
        headers: dict[str, str] = {}
        error = next((entry for entry in self._injected_errors if entry.name == name and entry.times > 0), None)
        if error is not None:
            error.times -= 1
            await asyncio.sleep(error.delay_s)
        if self.watch:
            await self.watch(name, "before")
        if error is not None and error.drop == "before":
            return self._dropped(request, Call(name, body, at, 0))
        try:
            body = self._read(request, text)
            if error is not None and not error.drop and not error.delay_s:
                self.calls.append(Call(name, body, at, error.status))
                self.gateway.changed.set()
                if isinstance(error.body, str):
                    return web.Response(status=error.status, text=error.body, headers=error.headers)
                return web.json_response(
                    error.body or {"message": "told to", "code": 0}, status=error.status, headers=error.headers
                )
            headers = self._limited(name, path)
            result: object = await self._call(name, path, body, request)
            status = 204 if result is None else 200
        except Refusal as rejection:
            result = rejection.body
            status = rejection.status
            if status == 429:
                headers = {
                    "Retry-After": str(rejection.body["retry_after"]),
                    "X-RateLimit-Scope": "user",
                    "Via": "1.1 google",
                }
        if error is not None and error.drop == "after":
            return self._dropped(request, Call(name, body, at, 0))
        if self.watch:
            await self.watch(name, "after")
        self.calls.append(Call(name, body, at, status))
        self.gateway.changed.set()
        if status == 204:
            return web.Response(status=204, headers=headers)
        return web.json_response(result, status=status, headers=headers)

    async def _hand_over(self, request: web.Request) -> web.Response:
        # The file servers belong to somebody else: a token must never get there.
        if "Authorization" in request.headers:
            return web.Response(status=400)
        self.fetched.append(request.match_info["name"])
        return web.Response(body=self.files[request.match_info["name"]])

    def _read(self, request: web.Request, text: str) -> Json:
        open_to_all = "/webhooks/" in request.path or "/interactions/" in request.path
        if not open_to_all and request.headers.get("Authorization") != f"Bot {self.token}":
            raise Refusal(401, 0, "401: Unauthorized")
        if not request.headers.get("User-Agent", "").startswith("DiscordBot ("):
            raise Refusal(403, 40333, "internal network error")
        if not text:
            return {}
        if request.content_type != "application/json":
            raise Refusal(400, 50109, "The request body contains invalid JSON.")
        data = json.loads(text)
        return data if isinstance(data, dict) else {"items": data}

    def _limited(self, name: str, path: str) -> dict[str, str]:
        """Count a request in its bucket. Raises a refusal when there were too many, and counts those."""
        if not name.endswith(("/messages", "/messages/{}")) or name.startswith("GET"):
            return {}
        count, seconds = self.limit
        bucket = path.split("/")[2]
        now = time.monotonic()
        window_start, call_count = self._windows.get(bucket, (now, 0))
        if window_start + seconds <= now:
            window_start = now
            call_count = 0
        reset_s = round(window_start + seconds - now, 3)
        if call_count >= count:
            self.exceeded[bucket] += 1
            error = Refusal(429, 0, "You are being rate limited.")
            error.body = {"message": "You are being rate limited.", "retry_after": reset_s, "global": False}
            raise error
        self._windows[bucket] = (window_start, call_count + 1)
        remaining = str(count - call_count - 1)
        limit = {"X-RateLimit-Limit": str(count), "X-RateLimit-Remaining": remaining, "X-RateLimit-Bucket": "messages"}
        return {**limit, "X-RateLimit-Reset-After": str(reset_s)}

    async def _call(self, name: str, path: str, body: Json, request: web.Request) -> object:
        steps = path.strip("/").split("/")
        match name:
            case "GET /users/@me":
                return self.me.user()
            case "GET /oauth2/applications/@me":
                flags = self._ready()["application"]["flags"]
                endpoint = self.interactions_endpoint
                return {"id": self.application, "name": "KIMAs", "flags": flags, "interactions_endpoint_url": endpoint}
            case "GET /gateway/bot":
                limit = {"total": 1000, "remaining": self.sessions_left, "reset_after": 1500, "max_concurrency": 1}
                return {"url": self.gateway.url, "shards": 1, "session_start_limit": limit}
            case "PUT /applications/{}/commands":
                return self._register(steps[1], body)
            case "GET /guilds/{}":
                everyone = {"id": steps[1], "name": "@everyone", "permissions": str(sum(PERMISSIONS.values()))}
                return {"id": steps[1], "name": "Rocket", "roles": [everyone]}
            case "GET /guilds/{}/members/{}":
                return {"user": self.me.user(), "roles": []}
            case "GET /channels/{}":
                return self._get_visible_channel(steps[1]).object()
            case "GET /channels/{}/messages/{}":
                message = self._get_visible_channel(steps[1], "history").messages.get(steps[3])
                if message is None:
                    raise Refusal(404, 10008, "Unknown Message")
                return self._object(message)
            case "GET /channels/{}/messages":
                self.history_requests += 1
                self.gateway.changed.set()
                await self.history_open.wait()
                return self._history(self._get_visible_channel(steps[1], "history"), request)
            case "POST /channels/{}/typing":
                self._get_visible_channel(steps[1], "send").typed.append(time.monotonic())
                return None
            case "POST /channels/{}/messages":
                return await self._send(self._get_visible_channel(steps[1], "send"), body)
            case "PATCH /channels/{}/messages/{}":
                return await self._edit(self._get_visible_channel(steps[1]), steps[3], body)
            case "DELETE /channels/{}/messages/{}":
                await self._delete_own(self._get_visible_channel(steps[1]), steps[3])
                return None
            case "POST /interactions/{}/{}/callback":
                return self._acknowledge(steps[1], steps[2], body)
            case "PATCH /webhooks/{}/{}/messages/@original" | "DELETE /webhooks/{}/{}/messages/@original":
                return await self._respond(steps[1], steps[2], body, remove=name.startswith("DELETE"))
            case "POST /webhooks/{}/{}":
                return await self._follow_up(steps[1], steps[2], body)
        raise Refusal(404, 0, "404: Not Found")

    async def _delete_own(self, channel: Channel, message: str) -> None:
        output = channel.messages.get(message)
        if output is None:
            raise Refusal(404, 10008, "Unknown Message")
        if output.author is not self.me:
            raise Refusal(403, 50013, "Missing Permissions")
        await self.delete(channel.id, message)

    def _register(self, application: str, body: Json) -> object:
        if application != self.application:
            raise Refusal(403, 20012, "You are not authorized to perform this action on this application")
        for command in body["items"]:
            unknown = set(command) - COMMAND
            if command["type"] in (ON_MESSAGES, ON_USERS):
                _check_entry(command)
                continue
            if unknown or not re.fullmatch(r"[a-z0-9_-]{1,32}", command["name"]):
                raise form("name", "APPLICATION_COMMAND_INVALID_NAME", f"Command name is invalid {unknown}")
            if not 1 <= len(command["description"]) <= 100:
                raise form("description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
            for option in command["options"]:
                _check_option(option)
            required = [bool(option.get("required")) for option in command["options"]]
            if required != sorted(required, reverse=True):
                raise form("options", "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", "Required options come first.")
            if not str(command.get("default_member_permissions", "0")).isdecimal():
                raise form("default_member_permissions", "NUMBER_TYPE_COERCE", "Value is not snowflake.")
        for command in body["items"]:
            _check_locales(command)
            for option in command.get("options", ()):
                _check_locales(option)
        self.commands = body["items"]
        return [{**command, "id": str(800 + number)} for number, command in enumerate(self.commands)]

    def _get_visible_channel(self, channel: str, *needed_permissions: str) -> Channel:
        results = self.channels.get(channel)
        if results is None:
            raise Refusal(404, 10003, "Unknown Channel")
        if "view" in results.lacking:
            raise Refusal(403, 50001, "Missing Access")
        if set(needed_permissions) - {"history"} & results.lacking:
            raise Refusal(403, 50013, "Missing Permissions")
        return results

    def _history(self, channel: Channel, request: web.Request) -> object:
        limit = int(request.query.get("limit", "50"))
        after_id = int(request.query.get("after", "0"))
        if not 1 <= limit <= 100:
            raise form("limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100.")
        if "history" in channel.lacking:
            return []
        messages = sorted(
            (message for message in channel.messages.values() if int(message.id) > after_id),
            key=lambda message: int(message.id),
        )
        intents = self.gateway.granted
        return [
            {**self._object(message), **({} if self._readable(message, intents) else {"content": ""})}
            for message in reversed(messages[:limit])
        ]

    def _checked(self, body: Json, allowed_fields: set[str]) -> str:
        if set(body) - allowed_fields:
            raise form("body", "UNKNOWN", f"unknown fields {set(body) - allowed_fields}")
        content = body.get("content", "")
        if not isinstance(content, str) or not content.strip():
            raise Refusal(400, 50006, "Cannot send an empty message")
        if self.banned and self.banned in content:
            raise Refusal(400, 200000, "Message was blocked by automatic moderation")
        if len(content.encode("utf-16-le", "surrogatepass")) // 2 > LIMIT:
            raise form("content", "BASE_TYPE_MAX_LENGTH", f"Must be {LIMIT} or fewer in length.")
        mentions = body.get("allowed_mentions", {"parse": ["users", "roles", "everyone"], "replied_user": True})
        mentioned = re.findall(r"<@!?(\d+)>", content)
        if "users" in mentions["parse"] and "users" in mentions:
            raise form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", "parse:users and users conflict")
        self.notified += (
            mentioned
            if "users" in mentions["parse"]
            else [item for item in mentioned if item in mentions.get("users", ())]
        )
        if "everyone" in mentions["parse"] and re.search(r"@(everyone|here)", content):
            self.notified.append("everyone")
        if not int(body.get("flags", 0)) & SUPPRESS_EMBEDS:
            self.unfolded += ADDRESS.findall(content)
        return content.strip()

    async def _send(self, channel: Channel, body: Json) -> object:
        content = self._checked(body, SEND)
        nonce = str(body.get("nonce", ""))
        if len(nonce) > NONCE:
            raise form("nonce", "NONCE_TYPE_TOO_LONG", "nonce too long")
        own_messages = (item for item in channel.messages.values() if item.author.id == self.me.id)
        twin = next((item for item in own_messages if nonce and item.nonce == nonce), None)
        if twin is not None and body.get("enforce_nonce") and self.remembers_nonces:
            return self._object(twin)
        reference = body.get("message_reference") or {}
        referenced_id = str(reference.get("message_id", ""))
        if referenced_id and "history" in channel.lacking:
            raise Refusal(400, 160002, "Cannot reply without permission to read message history")
        if referenced_id and referenced_id not in channel.messages and reference.get("fail_if_not_exists", True):
            raise form("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        if referenced_id and body.get("allowed_mentions", {"replied_user": True}).get("replied_user"):
            self.notified.append("replied")
        message = PostedMessage(
            self.snowflake(),
            channel.id,
            content,
            self.me,
            19 if referenced_id else 0,
            reply_to=referenced_id,
            nonce=nonce,
        )
        message.components = _components(body)
        return await self._show(channel, message, body)

    async def _show(self, channel: Channel, message: PostedMessage, body: Json) -> object:
        message.flags |= int(body.get("flags", 0))
        message.history.append((time.monotonic(), message.content))
        channel.messages[message.id] = message
        if not message.flags & EPHEMERAL:
            await self._tell("MESSAGE_CREATE", message)
        return self._object(message)

    async def _edit(self, channel: Channel, message: str, body: Json) -> object:
        output = channel.messages.get(message)
        if output is None or output.flags & EPHEMERAL:
            raise Refusal(404, 10008, "Unknown Message")
        if output.author.id != self.me.id:
            raise Refusal(403, 50005, "Cannot edit a message authored by another user")
        output.content = self._checked(body, EDIT)
        output.components = _components(body) if "components" in body else output.components
        output.edited = True
        output.history.append((time.monotonic(), output.content))
        await self._tell("MESSAGE_UPDATE", output)
        return self._object(output)

    def _acknowledge(self, interaction: str, token: str, body: Json) -> object:
        command = self.interactions_by_token.get(token)
        if command is None or command.id != interaction or time.monotonic() - command.at > self.acknowledge_s:
            raise Refusal(404, 10062, "Unknown interaction")
        if command.response_message is not None:
            raise Refusal(400, 40060, "Interaction has already been acknowledged.")
        if command.pressed is not None:
            self._note(command, body)
            return None
        if command.typing and body.get("type") == SUGGESTED:
            command.suggested = [str(choice["value"]) for choice in body["data"]["choices"]]
            if len(command.suggested) > 25:
                raise form("choices", "BASE_TYPE_BAD_LENGTH", "Must be 25 or fewer in length.")
            return None
        if command.typing or body.get("type") != 5:
            raise form("type", "BASE_TYPE_CHOICES", "Value must be one of {5}, or of {8} for autocomplete.")
        command.hidden = bool(body.get("data", {}).get("flags", 0) & EPHEMERAL)
        message = PostedMessage(self.snowflake(), command.channel, "", self.me, 20, thinking=True)
        message.flags = EPHEMERAL if command.hidden else 0
        command.response_message = self.channels[command.channel].messages[message.id] = message
        return None

    def _note(self, interaction: Interaction, body: Json) -> None:
        """Take the answer to the press of a button: a note for its presser, or a changed message above it."""
        data = body.get("data", {})
        content = self._checked(data, EDIT)
        if body.get("type") == NOTE:
            interaction.response_message = PostedMessage(
                self.snowflake(), interaction.channel, content, self.me, 19, int(data.get("flags", 0))
            )
            interaction.hidden = bool(interaction.response_message.flags & EPHEMERAL)
        elif body.get("type") == CHANGE and interaction.pressed is not None:
            interaction.response_message = interaction.pressed
            interaction.response_message.content = content
        else:
            raise form("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 5, 6, 7, 9, 10, 12}.")
        if "components" in data:
            interaction.response_message.components = _components(data)

    def _by_token(self, application: str, token: str) -> Interaction:
        command = self.interactions_by_token.get(token)
        if application != self.application or command is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if time.monotonic() - command.at > self.token_s:
            raise Refusal(401, 50027, "Invalid Webhook Token")
        return command

    async def _respond(self, application: str, token: str, body: Json, *, remove: bool) -> object:
        command = self._by_token(application, token)
        message = command.response_message
        if message is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if message.id not in self.channels[command.channel].messages:
            raise Refusal(404, 10008, "Unknown Message")
        if remove:
            del self.channels[command.channel].messages[message.id]
            return None
        message.content = self._checked(body, EDIT)
        message.thinking = False
        message.components = _components(body) if "components" in body else message.components
        message.flags |= int(body.get("flags", 0))
        message.history.append((time.monotonic(), message.content))
        return self._object(message)

    async def _follow_up(self, application: str, token: str, body: Json) -> object:
        command = self._by_token(application, token)
        if command.response_message is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        channel = self.channels[command.channel]
        message = PostedMessage(
            self.snowflake(), channel.id, self._checked(body, SEND), self.me, 19, reply_to=command.response_message.id
        )
        message.components = _components(body)
        return await self._show(channel, message, body)

    def _dropped(self, request: web.Request, call: Call) -> web.Response:
        self.calls.append(call)
        self.gateway.changed.set()
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    # As a process.

    async def _control_messages(self, request: web.Request) -> web.Response:
        return web.json_response(
            [
                {"channel": channel.id, "author": m.author.username, "content": m.content}
                for channel in self.channels.values()
                for m in channel.messages.values()
            ]
        )

    async def _control_say(self, request: web.Request) -> web.Response:
        body = await request.json()
        channel = body.get("channel") or next(iter(self.channels))
        return web.json_response({"id": await self.say(channel, body["text"], reply_to=body.get("reply_to", ""))})


def _components(body: Json) -> list[Json]:
    """Return the rows of buttons and lists of a body. Raises a refusal for what Discord does not take."""
    rows: list[Json] = body.get("components", [])
    if len(rows) > 5 or any(row.get("type") != ROW or not 1 <= len(row["components"]) <= 5 for row in rows):
        raise form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
    for row in rows:
        for item in row["components"]:
            if item.get("type") == SELECT and len(row["components"]) == 1:
                _check_list(item)
            elif set(item) != {"type", "style", "label", "custom_id"} or item["type"] != BUTTON:
                raise form("components", "UNION_TYPE_CHOICES", "Value of field type is not a button or a list.")
            if not 1 <= len(item["custom_id"]) <= 100 or not 1 <= len(item.get("label", "list")) <= 80:
                raise form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    names = [item["custom_id"] for row in rows for item in row["components"]]
    if len(set(names)) != len(names):
        raise form("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
    return rows


def _check_list(select: Json) -> None:
    """Refuse a list to choose from that Discord does not take."""
    options = select.get("options", [])
    if not set(select) <= {"type", "custom_id", "options", "placeholder", "min_values", "max_values", "disabled"}:
        raise form("components", "UNKNOWN_FIELD", "Unknown field of a select.")
    if not 1 <= len(options) <= 25 or len(select.get("placeholder", "")) > 150:
        raise form("options", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 25 in length.")
    for option in options:
        if not {"label", "value"} <= set(option) <= {"label", "value", "description", "emoji", "default"}:
            raise form("options", "BASE_TYPE_REQUIRED", "This field is required.")
        if not all(1 <= len(option[name]) <= 100 for name in ("label", "value")):
            raise form("options", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    values = [option["value"] for option in options]
    if len(set(values)) != len(values) or sum(option.get("default", False) for option in options) > 1:
        raise form("options", "SELECT_COMPONENT_OPTION_VALUE_DUPLICATED", "The specified option value is already used")


def _parse_option(command: Json, name: str, value: str) -> Json:
    """Return an option as Discord delivers it, once it has checked the value."""
    option = next(entry for entry in command["options"] if entry["name"] == name)
    kind = option["type"]
    number = float(value) if kind in (INTEGER, NUMBER) else 0.0
    assert option.get("min_value", number) <= number <= option.get("max_value", number)
    assert not option.get("choices") or value in [choice["value"] for choice in option["choices"]]
    return {"name": name, "type": kind, "value": {INTEGER: int(number), NUMBER: number}.get(kind, value)}


def _check_entry(command: Json) -> None:
    """Check an entry in the menu of a message or a person: a name that people read, and nothing that can be given."""
    if not 1 <= len(command["name"]) <= 32 or set(command) - (COMMAND - {"options"}):
        raise form("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    if command.get("description"):
        raise form("description", "APPLICATION_COMMAND_CONTEXT_MENU_DESCRIPTION_INVALID", "Must be empty.")


def _check_locales(item: Json) -> None:
    texts = {**item.get("description_localizations", {}), **item.get("name_localizations", {})}
    if set(texts) - LOCALES or not all(1 <= len(text) <= 100 for text in texts.values()):
        raise form("description_localizations", "DICT_TYPE_CONVERT", "Unknown locale, or a bad length.")


def _check_option(option: Json) -> None:
    if set(option) - OPTION or not re.fullmatch(r"[a-z0-9_-]{1,32}", option["name"]):
        raise form("options", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    if not 1 <= len(option["description"]) <= 100 or not 1 <= option.get("max_length", 1) <= 6000:
        raise form("options", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    choices = option.get("choices", [])
    if len(choices) > 25 or any(
        not 1 <= len(choice["name"]) <= 100 or set(choice) != {"name", "value"} for choice in choices
    ):
        raise form("choices", "BASE_TYPE_BAD_LENGTH", "Must be 25 or fewer in length.")
    if choices and option.get("autocomplete"):
        raise form("options", "APPLICATION_COMMAND_OPTIONS_AUTOCOMPLETE", "Choices exclude autocomplete.")
    bounded = {"min_value", "max_value"} & set(option)
    if option["type"] not in (STRING, INTEGER, NUMBER) or (bounded and option["type"] == STRING):
        raise form("options", "BASE_TYPE_CHOICES", "Value must be one of {3, 4, 10}.")


def _shape(path: str) -> str:
    """Return a path with `{}` for ids and tokens."""
    steps = path.split("/")
    return "/".join(
        "{}" if step.isdigit() or (number == 3 and steps[1] in ("webhooks", "interactions")) else step
        for number, step in enumerate(steps)
    )


async def _serve(arguments: argparse.Namespace) -> None:
    async with DiscordPeer(arguments.token, port=arguments.port) as peer:
        line = {"api_url": peer.api_url, "token": peer.token, "channel": peer.channel(), "bot": peer.me.id}
        print(json.dumps({**line, "control_url": peer.control_url}), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run the peer as a process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="MTAwMDA.tests.a-token-for-tests")
    try:
        asyncio.run(_serve(parser.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
