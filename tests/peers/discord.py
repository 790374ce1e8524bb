"""A Discord server over real HTTP and WebSocket, as strict as Discord's own, with people who write to the bot.

Inside a test:

    async with DiscordPeer() as peer:
        ...  # the bot uses peer.token and peer.api_url
        room = peer.channel()
        await peer.say(room, f"{peer.mention} what is it?")
        reply = await peer.wait_for_reply(room, 5)

As a process (the first line it prints is JSON with `api_url`, `token`, `channel`, `bot` and `control_url`):

    python -m tests.peers.discord --port 0
    curl --json '{"text": "<@1> hello"}' $control_url/say;  curl $control_url/messages
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from aiohttp import web

from tests.peers.discord_gateway import DIRECT_MESSAGES, GUILD_MESSAGES, GUILD_TYPING, GUILDS, MESSAGE_CONTENT, Gateway

Json = dict[str, Any]
Drop = Literal["", "before", "after"]

EPOCH_MS = 1_420_070_400_000
TEXT, PRIVATE, FORUM, PUBLIC_THREAD = 0, 1, 15, 11
LIMIT, NONCE = 2000, 25
SUPPRESS_EMBEDS, EPHEMERAL = 1 << 2, 1 << 6
SEND = {"content", "nonce", "enforce_nonce", "allowed_mentions", "flags", "message_reference", "embeds", "tts"}
EDIT = {"content", "allowed_mentions", "flags", "embeds", "components"}
SEND |= {"components"}
ROW, BUTTON, PRESSED = 1, 2, 3
NOTE, CHANGE = 4, 7
COMMAND = {"name", "type", "description", "options", "contexts", "integration_types", "default_member_permissions"}
OPTION = {"name", "type", "description", "required", "choices", "autocomplete", "min_value", "max_value", "max_length"}
STRING, INTEGER, NUMBER = 3, 4, 10
TYPING, SUGGESTED = 4, 8
ON_MESSAGES, ON_USERS = 3, 2
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
        shown = {"id": self.id, "username": self.username, "global_name": self.global_name, "discriminator": "0"}
        return {**shown, "avatar": None, **({"bot": True} if self.bot else {})}


@dataclass(slots=True)
class Shown:
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
    more: Json = field(default_factory=dict)
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
    messages: dict[str, Shown] = field(default_factory=dict)
    typed: list[float] = field(default_factory=list)

    def object(self) -> Json:
        """Return the channel as the API shows it."""
        shown: Json = {"id": self.id, "type": self.kind, "name": f"room-{self.id[-4:]}"}
        shown["last_message_id"] = max(self.messages, key=int) if self.messages else None
        if self.guild:
            shown["guild_id"] = self.guild
        if self.parent:
            shown.update(parent_id=self.parent, thread_metadata={"archived": False, "locked": False})
        return shown


@dataclass(slots=True)
class Asked:
    """A slash command: its token, when it was given, and what it shows."""

    id: str
    token: str
    channel: str
    at: float
    hidden: bool = False
    shown: Shown | None = None
    suggested: list[str] | None = None
    pressed: Shown | None = None
    typing: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One request: `METHOD /path` with ids as `{}`, its body, the time, and its status (0: dropped)."""

    name: str
    body: Json
    at: float
    status: int


@dataclass(slots=True)
class Fault:
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
        beside: DiscordPeer | None = None,
    ) -> None:
        self.token = token
        self.limit = limit
        self.me = Author(number, name, name.title(), bot=True)
        self.application = str(int(number) + 1)
        self.guild = "7001"
        self.role = "7002"
        self.api_url = self.control_url = ""
        # Servers `beside` each other are one, each as its own bot sees it.
        self.bots: list[DiscordPeer] = [*beside.bots, self] if beside else [self]
        for bot in self.bots:
            bot.bots = self.bots
        self.channels: dict[str, Channel] = beside.channels if beside else {}
        self.files: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.calls: list[Call] = []
        self.commands: list[Json] = []
        self.asked: dict[str, Asked] = {}
        self.rung: list[str] = []
        self.unfolded: list[str] = []
        self.exceeded: Counter[str] = Counter()
        self.acknowledge_s, self.token_s = 3.0, 900.0
        self.sessions_left = 1000
        # While this is cleared, requests for history wait; `history_requests` counts those that have arrived.
        self.history_open, self.history_requests = asyncio.Event(), 0
        self.history_open.set()
        self.gateway = Gateway(token, self._ready, self._welcome)
        self.joined_at = datetime.fromtimestamp(time.time() - 86400, UTC).isoformat()
        self._port = port
        self._counter = 0
        self._faults: list[Fault] = []
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

    def channel(self, kind: int = TEXT, *, parent: str = "", private: bool = False) -> str:
        """Open a channel, a thread below a parent, or a private chat, and return its id."""
        number = self.snowflake()
        kind = PUBLIC_THREAD if parent else PRIVATE if private else kind
        self.channels[number] = Channel(number, "" if private else self.guild, kind, parent)
        return number

    async def thread(self, parent: str) -> str:
        """Open a thread and tell."""
        number = self.channel(parent=parent)
        opened = {**self.channels[number].object(), "newly_created": True}
        await self.gateway.emit("THREAD_CREATE", opened, lambda intents: opened if intents & GUILDS else None)
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
        **more: Any,
    ) -> str:
        """Write a message and return its id. `more` goes into the message object as it is."""
        shown = Shown(self.snowflake(at), channel, content, author or Author(), reply_to=reply_to, webhook=webhook)
        shown.kind = (19 if reply_to else 0) if kind is None else kind
        shown.more = more
        self.channels[channel].messages[shown.id] = shown
        await self._tell("MESSAGE_CREATE", shown)
        return shown.id

    async def write(self, channel: str, author: Author | None = None) -> None:
        """Begin to write in a server's channel, as others see it; it fades after ten seconds."""
        who, where = author or Author(), self.channels[channel]
        event = {"channel_id": channel, "guild_id": where.guild, "user_id": who.id, "timestamp": int(time.time())}
        event["member"] = {"user": who.user(), "roles": []}
        await self.gateway.emit("TYPING_START", event, lambda intents: event if intents & GUILD_TYPING else None)

    async def edit(self, channel: str, message: str, content: str, *, silently: bool = False) -> None:
        """Edit a message; `silently` is what the server does itself, such as unfolding a link."""
        shown = self.channels[channel].messages[message]
        shown.content, shown.edited = content, not silently
        await self._tell("MESSAGE_UPDATE", shown)

    async def delete(self, channel: str, message: str) -> None:
        """Delete a message and tell."""
        where = self.channels[channel]
        del where.messages[message]
        gone = {"id": message, "channel_id": channel, **({"guild_id": where.guild} if where.guild else {})}
        await self.gateway.emit("MESSAGE_DELETE", gone)

    async def command(
        self, channel: str, name: str, author: Author | None = None, *, permissions: int = 0, **given: str
    ) -> Asked:
        """Give a slash command that the bot has registered; `permissions` are the author's in the channel."""
        found = next((one for one in self.commands if one["name"] == name and one["type"] == 1), None)
        assert found is not None, f"/{name} is not registered"
        options = [_given(found, key, value) for key, value in given.items()]
        assert {one["name"] for one in found["options"] if one.get("required")} <= set(given)
        return await self._ask(channel, {"name": name, "type": 1, "options": options}, author, permissions)

    async def choose(
        self, channel: str, message: str, name: str, author: Author | None = None, *, permissions: int = 0
    ) -> Asked:
        """Choose an entry in the menu of a message; what it is about is delivered with it, without what that quotes."""
        assert any(one["name"] == name and one["type"] == ON_MESSAGES for one in self.commands), f"{name} is missing"
        shown = self._object(self.channels[channel].messages[message])
        partial = {key: value for key, value in shown.items() if key != "referenced_message"}
        data = {"name": name, "type": ON_MESSAGES, "target_id": message, "resolved": {"messages": {message: partial}}}
        return await self._ask(channel, data, author, permissions)

    async def _ask(self, channel: str, data: Json, author: Author | None, permissions: int) -> Asked:
        where = self.channels[channel]
        asked = Asked(self.snowflake(), f"aW50ZXJhY3Rpb246{len(self.asked)}-secret", channel, time.monotonic())
        self.asked[asked.token] = asked
        user = (author or Author()).user()
        event: Json = {"id": asked.id, "application_id": self.application, "type": 2, "token": asked.token}
        event.update(channel_id=channel, channel=where.object(), data={"id": "1", **data})
        event.update(
            {"guild_id": where.guild, "member": {"user": user, "roles": [], "permissions": str(permissions)}}
            if where.guild
            else {"user": user}
        )
        await self.gateway.emit("INTERACTION_CREATE", event)
        return asked

    async def typing(self, channel: str, name: str, option: str, typed: str) -> Asked:
        """Begin to type an option that is completed by the bot."""
        found = next(one for one in self.commands if one["name"] == name)
        assert next(one for one in found["options"] if one["name"] == option).get("autocomplete")
        asked = Asked(self.snowflake(), f"aW50ZXJhY3Rpb246{len(self.asked)}-secret", channel, time.monotonic())
        asked.typing = True
        self.asked[asked.token] = asked
        focused = {"name": option, "type": STRING, "value": typed, "focused": True}
        event: Json = {"id": asked.id, "application_id": self.application, "type": TYPING, "token": asked.token}
        event.update(channel_id=channel, channel=self.channels[channel].object(), user=Author().user())
        event["data"] = {"id": "1", "name": name, "type": 1, "options": [focused]}
        await self.gateway.emit("INTERACTION_CREATE", event)
        return asked

    async def press(self, shown: Shown, data: str, author: Author | None = None) -> Asked:
        """Press a button below a message of the bot; the answer is in `shown` of what is returned, once it is there.

        The data need not be that of a button, as a client that was tampered with may send.
        """
        where = self.channels[shown.channel]
        asked = Asked(self.snowflake(), f"cHJlc3M6{len(self.asked)}-secret", shown.channel, time.monotonic())
        asked.pressed = shown
        self.asked[asked.token] = asked
        user = (author or Author()).user()
        event: Json = {"id": asked.id, "application_id": self.application, "type": PRESSED, "token": asked.token}
        event.update(channel_id=where.id, channel=where.object(), message=self._object(shown))
        event["data"] = {"component_type": BUTTON, "custom_id": data}
        event.update(
            {"guild_id": where.guild, "member": {"user": user, "roles": []}} if where.guild else {"user": user}
        )
        await self.gateway.emit("INTERACTION_CREATE", event)
        return asked

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
        self._faults.append(Fault(name, times, status, body, headers or {}, drop, delay_s))

    def attached(self, name: str, content: bytes, media_type: str = "image/png") -> Json:
        """Put a file on the server; return it as a message's attachment."""
        self.files[name] = content
        url = self.api_url.removesuffix("/api/v10") + f"/attachments/{name}"
        about = {"filename": name, "size": len(content), "content_type": media_type, "url": url, "proxy_url": url}
        return {"id": self.snowflake(), **about}

    # What can be observed.

    def messages(self, channel: str) -> list[Shown]:
        """Return the bot's messages in a channel that show something."""
        found = self.channels[channel].messages.values()
        return [shown for shown in found if shown.author.id == self.me.id and not shown.thinking]

    def called(self, name: str) -> list[Call]:
        """Return the calls of one name, `METHOD /path` with `{}` for every id."""
        return [call for call in self.calls if call.name == name]

    async def wait_for_reply(self, channel: str, timeout: float, *, containing: str = "", count: int = 1) -> Shown:
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
        inside = [one for one in self.channels.values() if one.guild]
        own = {"id": self.role, "name": "KIMAs", "managed": True, "tags": {"bot_id": self.me.id}}
        guild: Json = {"id": self.guild, "name": "Team", "joined_at": self.joined_at, "unavailable": False}
        guild["roles"] = [{"id": self.guild, "name": "@everyone", "managed": False}, own]
        guild["channels"] = [
            {key: value for key, value in one.object().items() if key != "guild_id"} for one in inside if not one.parent
        ]
        guild["threads"] = [one.object() for one in inside if one.parent]
        return [("GUILD_CREATE", guild)]

    async def _tell(self, kind: str, shown: Shown) -> None:
        for bot in self.bots if self.channels[shown.channel].guild else [self]:
            await bot.tell(kind, shown)

    async def tell(self, kind: str, shown: Shown) -> None:
        """Tell this bot of a message."""
        where = self.channels[shown.channel]
        event = self._object(shown)
        if where.guild:
            event["guild_id"] = where.guild
            if not shown.webhook and shown.author.id != self.me.id:
                event["member"] = {"nick": None, "roles": []}

        def seen(intents: int) -> Json | None:
            if not intents & (GUILD_MESSAGES if where.guild else DIRECT_MESSAGES):
                return None
            return event if self._readable(shown, intents) else {**event, "content": "", "embeds": []}

        await self.gateway.emit(kind, event, seen)
        self.gateway.changed.set()

    def _readable(self, shown: Shown, intents: int) -> bool:
        """Say whether the bot gets the text of a message."""
        mentioned = self.me.id in [one["id"] for one in self._object(shown)["mentions"]]
        own = shown.author.id == self.me.id
        return bool(intents & MESSAGE_CONTENT) or own or mentioned or not self.channels[shown.channel].guild

    def _object(self, shown: Shown, *, deep: bool = True) -> Json:
        where = self.channels[shown.channel]
        names = {Author().id: Author(), **{bot.me.id: bot.me for bot in self.bots}}
        users = [
            names.get(one, Author(one, f"user{one}", f"User {one}")) for one in re.findall(r"<@!?(\d+)>", shown.content)
        ]
        answered = where.messages.get(shown.reply_to)
        if answered is not None and answered.author.id == self.me.id and shown.author.id != self.me.id:
            users.append(self.me)
        made = (int(shown.id) >> 22) + EPOCH_MS
        result: Json = {
            "id": shown.id,
            "channel_id": shown.channel,
            "content": shown.content,
            "author": shown.author.user(),
            "type": shown.kind,
            "flags": shown.flags,
            "timestamp": datetime.fromtimestamp(made / 1000, UTC).isoformat(),
            "edited_timestamp": datetime.now(UTC).isoformat() if shown.edited else None,
            "mentions": [one.user() for one in {one.id: one for one in users}.values()],
            "mention_roles": re.findall(r"<@&(\d+)>", shown.content),
            "attachments": [],
            "embeds": [],
            "components": shown.components,
        }
        if shown.webhook:
            result["webhook_id"] = "9001"
        if shown.reply_to and deep:
            result["message_reference"] = {"message_id": shown.reply_to, "channel_id": shown.channel}
            result["referenced_message"] = self._object(answered, deep=False) if answered is not None else None
        return {**result, **shown.more}

    # The server: requests.

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = "/" + request.match_info["path"]
        name = f"{request.method} {_shape(path)}"
        at = time.monotonic()
        text = await request.text()
        body: Json = {}
        headers: dict[str, str] = {}
        fault = next((one for one in self._faults if one.name == name and one.times > 0), None)
        if fault is not None:
            fault.times -= 1
            await asyncio.sleep(fault.delay_s)
        if fault is not None and fault.drop == "before":
            return self._dropped(request, Call(name, body, at, 0))
        try:
            body = self._read(request, text)
            if fault is not None and not fault.drop and not fault.delay_s:
                self.calls.append(Call(name, body, at, fault.status))
                self.gateway.changed.set()
                if isinstance(fault.body, str):
                    return web.Response(status=fault.status, text=fault.body, headers=fault.headers)
                return web.json_response(
                    fault.body or {"message": "told to", "code": 0}, status=fault.status, headers=fault.headers
                )
            headers = self._limited(name, path)
            result: object = await self._call(name, path, body, request)
            status = 204 if result is None else 200
        except Refusal as refusal:
            result, status = refusal.body, refusal.status
            if status == 429:
                headers = {
                    "Retry-After": str(refusal.body["retry_after"]),
                    "X-RateLimit-Scope": "user",
                    "Via": "1.1 google",
                }
        if fault is not None and fault.drop == "after":
            return self._dropped(request, Call(name, body, at, 0))
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
        given = json.loads(text)
        return given if isinstance(given, dict) else {"items": given}

    def _limited(self, name: str, path: str) -> dict[str, str]:
        """Count a request in its bucket. Raises a refusal when there were too many, and counts those."""
        if not name.endswith(("/messages", "/messages/{}")) or name.startswith("GET"):
            return {}
        count, seconds = self.limit
        bucket = path.split("/")[2]
        now = time.monotonic()
        begun, sent = self._windows.get(bucket, (now, 0))
        if begun + seconds <= now:
            begun, sent = now, 0
        reset_s = round(begun + seconds - now, 3)
        if sent >= count:
            self.exceeded[bucket] += 1
            refusal = Refusal(429, 0, "You are being rate limited.")
            refusal.body = {"message": "You are being rate limited.", "retry_after": reset_s, "global": False}
            raise refusal
        self._windows[bucket] = (begun, sent + 1)
        left = str(count - sent - 1)
        limit = {"X-RateLimit-Limit": str(count), "X-RateLimit-Remaining": left, "X-RateLimit-Bucket": "messages"}
        return {**limit, "X-RateLimit-Reset-After": str(reset_s)}

    async def _call(self, name: str, path: str, body: Json, request: web.Request) -> object:
        steps = path.strip("/").split("/")
        match name:
            case "GET /users/@me":
                return self.me.user()
            case "GET /oauth2/applications/@me":
                return {"id": self.application, "name": "KIMAs", "flags": self._ready()["application"]["flags"]}
            case "GET /gateway/bot":
                limit = {"total": 1000, "remaining": self.sessions_left, "reset_after": 1500, "max_concurrency": 1}
                return {"url": self.gateway.url, "shards": 1, "session_start_limit": limit}
            case "PUT /applications/{}/commands":
                return self._register(steps[1], body)
            case "GET /channels/{}":
                return self._seen(steps[1]).object()
            case "GET /channels/{}/messages/{}":
                shown = self._seen(steps[1], "history").messages.get(steps[3])
                if shown is None:
                    raise Refusal(404, 10008, "Unknown Message")
                return self._object(shown)
            case "GET /channels/{}/messages":
                self.history_requests += 1
                self.gateway.changed.set()
                await self.history_open.wait()
                return self._history(self._seen(steps[1], "history"), request)
            case "POST /channels/{}/typing":
                self._seen(steps[1], "send").typed.append(time.monotonic())
                return None
            case "POST /channels/{}/messages":
                return await self._send(self._seen(steps[1], "send"), body)
            case "PATCH /channels/{}/messages/{}":
                return await self._edit(self._seen(steps[1]), steps[3], body)
            case "POST /interactions/{}/{}/callback":
                return self._acknowledge(steps[1], steps[2], body)
            case "PATCH /webhooks/{}/{}/messages/@original" | "DELETE /webhooks/{}/{}/messages/@original":
                return await self._respond(steps[1], steps[2], body, remove=name.startswith("DELETE"))
            case "POST /webhooks/{}/{}":
                return await self._follow_up(steps[1], steps[2], body)
        raise Refusal(404, 0, "404: Not Found")

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
        self.commands = body["items"]
        return self.commands

    def _seen(self, channel: str, *needed: str) -> Channel:
        found = self.channels.get(channel)
        if found is None:
            raise Refusal(404, 10003, "Unknown Channel")
        if "view" in found.lacking:
            raise Refusal(403, 50001, "Missing Access")
        if set(needed) - {"history"} & found.lacking:
            raise Refusal(403, 50013, "Missing Permissions")
        return found

    def _history(self, channel: Channel, request: web.Request) -> object:
        limit, after = int(request.query.get("limit", "50")), int(request.query.get("after", "0"))
        if not 1 <= limit <= 100:
            raise form("limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100.")
        if "history" in channel.lacking:
            return []
        found = sorted((one for one in channel.messages.values() if int(one.id) > after), key=lambda one: int(one.id))
        intents = self.gateway.granted
        return [
            {**self._object(one), **({} if self._readable(one, intents) else {"content": ""})}
            for one in reversed(found[:limit])
        ]

    def _checked(self, body: Json, allowed: set[str]) -> str:
        if set(body) - allowed:
            raise form("body", "UNKNOWN", f"unknown fields {set(body) - allowed}")
        content = body.get("content", "")
        if not isinstance(content, str) or not content.strip():
            raise Refusal(400, 50006, "Cannot send an empty message")
        if len(content.encode("utf-16-le", "surrogatepass")) // 2 > LIMIT:
            raise form("content", "BASE_TYPE_MAX_LENGTH", f"Must be {LIMIT} or fewer in length.")
        mentions = body.get("allowed_mentions", {"parse": ["users", "roles", "everyone"], "replied_user": True})
        mentioned = re.findall(r"<@!?(\d+)>", content)
        if "users" in mentions["parse"] and "users" in mentions:
            raise form("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", "parse:users and users conflict")
        self.rung += (
            mentioned
            if "users" in mentions["parse"]
            else [one for one in mentioned if one in mentions.get("users", ())]
        )
        if "everyone" in mentions["parse"] and re.search(r"@(everyone|here)", content):
            self.rung.append("everyone")
        if not int(body.get("flags", 0)) & SUPPRESS_EMBEDS:
            self.unfolded += ADDRESS.findall(content)
        return content.strip()

    async def _send(self, channel: Channel, body: Json) -> object:
        content = self._checked(body, SEND)
        nonce = str(body.get("nonce", ""))
        if len(nonce) > NONCE:
            raise form("nonce", "NONCE_TYPE_TOO_LONG", "nonce too long")
        mine = (one for one in channel.messages.values() if one.author.id == self.me.id)
        twin = next((one for one in mine if nonce and one.nonce == nonce), None)
        if twin is not None and body.get("enforce_nonce"):
            return self._object(twin)
        reference = body.get("message_reference") or {}
        answered = str(reference.get("message_id", ""))
        if answered and "history" in channel.lacking:
            raise Refusal(400, 160002, "Cannot reply without permission to read message history")
        if answered and answered not in channel.messages and reference.get("fail_if_not_exists", True):
            raise form("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        if answered and body.get("allowed_mentions", {"replied_user": True}).get("replied_user"):
            self.rung.append("replied")
        shown = Shown(
            self.snowflake(), channel.id, content, self.me, 19 if answered else 0, reply_to=answered, nonce=nonce
        )
        shown.components = _components(body)
        return await self._show(channel, shown, body)

    async def _show(self, channel: Channel, shown: Shown, body: Json) -> object:
        shown.flags |= int(body.get("flags", 0))
        shown.history.append((time.monotonic(), shown.content))
        channel.messages[shown.id] = shown
        if not shown.flags & EPHEMERAL:
            await self._tell("MESSAGE_CREATE", shown)
        return self._object(shown)

    async def _edit(self, channel: Channel, message: str, body: Json) -> object:
        shown = channel.messages.get(message)
        if shown is None or shown.flags & EPHEMERAL:
            raise Refusal(404, 10008, "Unknown Message")
        if shown.author.id != self.me.id:
            raise Refusal(403, 50005, "Cannot edit a message authored by another user")
        shown.content = self._checked(body, EDIT)
        shown.components = _components(body) if "components" in body else shown.components
        shown.edited = True
        shown.history.append((time.monotonic(), shown.content))
        await self._tell("MESSAGE_UPDATE", shown)
        return self._object(shown)

    def _acknowledge(self, interaction: str, token: str, body: Json) -> object:
        asked = self.asked.get(token)
        if asked is None or asked.id != interaction or time.monotonic() - asked.at > self.acknowledge_s:
            raise Refusal(404, 10062, "Unknown interaction")
        if asked.shown is not None:
            raise Refusal(400, 40060, "Interaction has already been acknowledged.")
        if asked.pressed is not None:
            self._note(asked, body)
            return None
        if asked.typing and body.get("type") == SUGGESTED:
            asked.suggested = [str(one["value"]) for one in body["data"]["choices"]]
            if len(asked.suggested) > 25:
                raise form("choices", "BASE_TYPE_BAD_LENGTH", "Must be 25 or fewer in length.")
            return None
        if asked.typing or body.get("type") != 5:
            raise form("type", "BASE_TYPE_CHOICES", "Value must be one of {5}, or of {8} for autocomplete.")
        asked.hidden = bool(body.get("data", {}).get("flags", 0) & EPHEMERAL)
        shown = Shown(self.snowflake(), asked.channel, "", self.me, 20, thinking=True)
        shown.flags = EPHEMERAL if asked.hidden else 0
        asked.shown = self.channels[asked.channel].messages[shown.id] = shown
        return None

    def _note(self, asked: Asked, body: Json) -> None:
        """Take the answer to the press of a button: a note for who pressed it, or the message below it changed."""
        data = body.get("data", {})
        content = self._checked(data, EDIT)
        if body.get("type") == NOTE:
            asked.shown = Shown(self.snowflake(), asked.channel, content, self.me, 19, int(data.get("flags", 0)))
            asked.hidden = bool(asked.shown.flags & EPHEMERAL)
        elif body.get("type") == CHANGE and asked.pressed is not None:
            asked.shown = asked.pressed
            asked.shown.content = content
        else:
            raise form("type", "BASE_TYPE_CHOICES", "Value must be one of {4, 5, 6, 7, 9, 10, 12}.")
        asked.shown.components = _components(data)

    def _by_token(self, application: str, token: str) -> Asked:
        asked = self.asked.get(token)
        if application != self.application or asked is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if time.monotonic() - asked.at > self.token_s:
            raise Refusal(401, 50027, "Invalid Webhook Token")
        return asked

    async def _respond(self, application: str, token: str, body: Json, *, remove: bool) -> object:
        asked = self._by_token(application, token)
        shown = asked.shown
        if shown is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if shown.id not in self.channels[asked.channel].messages:
            raise Refusal(404, 10008, "Unknown Message")
        if remove:
            del self.channels[asked.channel].messages[shown.id]
            return None
        shown.content, shown.thinking = self._checked(body, EDIT), False
        shown.components = _components(body) if "components" in body else shown.components
        shown.flags |= int(body.get("flags", 0))
        shown.history.append((time.monotonic(), shown.content))
        return self._object(shown)

    async def _follow_up(self, application: str, token: str, body: Json) -> object:
        asked = self._by_token(application, token)
        if asked.shown is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        channel = self.channels[asked.channel]
        shown = Shown(self.snowflake(), channel.id, self._checked(body, SEND), self.me, 19, reply_to=asked.shown.id)
        shown.components = _components(body)
        return await self._show(channel, shown, body)

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
                {"channel": one.id, "author": m.author.username, "content": m.content}
                for one in self.channels.values()
                for m in one.messages.values()
            ]
        )

    async def _control_say(self, request: web.Request) -> web.Response:
        given = await request.json()
        channel = given.get("channel") or next(iter(self.channels))
        return web.json_response({"id": await self.say(channel, given["text"], reply_to=given.get("reply_to", ""))})


def _components(body: Json) -> list[Json]:
    """Return the rows of buttons of a body. Raises a refusal for what Discord does not take."""
    rows: list[Json] = body.get("components", [])
    if len(rows) > 5 or any(row.get("type") != ROW or not 1 <= len(row["components"]) <= 5 for row in rows):
        raise form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
    buttons = [button for row in rows for button in row["components"]]
    names = [button.get("custom_id", "") for button in buttons]
    for button in buttons:
        if set(button) != {"type", "style", "label", "custom_id"} or button["type"] != BUTTON:
            raise form("components", "UNION_TYPE_CHOICES", "Value of field type is not a button.")
        if not 1 <= len(button["custom_id"]) <= 100 or not 1 <= len(button["label"]) <= 80:
            raise form("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    if len(set(names)) != len(names):
        raise form("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
    return rows


def _given(command: Json, name: str, value: str) -> Json:
    """Return an option as Discord delivers it, once it has checked the value."""
    option = next(one for one in command["options"] if one["name"] == name)
    kind = option["type"]
    number = float(value) if kind in (INTEGER, NUMBER) else 0.0
    assert option.get("min_value", number) <= number <= option.get("max_value", number)
    assert not option.get("choices") or value in [one["value"] for one in option["choices"]]
    return {"name": name, "type": kind, "value": {INTEGER: int(number), NUMBER: number}.get(kind, value)}


def _check_entry(command: Json) -> None:
    """Check an entry in the menu of a message or a person: a name that people read, and nothing that can be given."""
    if not 1 <= len(command["name"]) <= 32 or set(command) - (COMMAND - {"options"}):
        raise form("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    if command.get("description"):
        raise form("description", "APPLICATION_COMMAND_CONTEXT_MENU_DESCRIPTION_INVALID", "Must be empty.")


def _check_option(option: Json) -> None:
    if set(option) - OPTION or not re.fullmatch(r"[a-z0-9_-]{1,32}", option["name"]):
        raise form("options", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    if not 1 <= len(option["description"]) <= 100 or not 1 <= option.get("max_length", 1) <= 6000:
        raise form("options", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    choices = option.get("choices", [])
    if len(choices) > 25 or any(not 1 <= len(one["name"]) <= 100 or set(one) != {"name", "value"} for one in choices):
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
