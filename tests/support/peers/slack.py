"""Slack over real HTTP and WebSocket, as strict as the original or stricter, with people who write to the bot.

    async with SlackPeer() as peer:
        ...  # the bot uses peer.bot_token, peer.app_token and peer.api_url
        ts = peer.say("C1", "<@UBOT> what is it?")
        reply = await peer.wait_for_reply("C1", 5)

Channels whose id begins with D are direct. A channel comes into being when somebody writes there. What the bot posts
comes back to it as an event, as Slack does.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from tests.support.peers.slack_events import Deliveries, Envelope
from tests.support.peers.slack_views import View, Views

Json = dict[str, Any]
BOT = "UBOT"
BOT_ID = "BBOT"
TEAM = "T1"
ANN = "U1ANN"

HISTORY: dict[str, type] = {
    "channel!": str,
    "oldest": str,
    "limit": str,
    "include_all_metadata": str,
    "cursor": str,
    "latest": str,
}
# Parameters of each method and their types; the required ones are marked with a "!".
SCOPES = (
    "app_mentions:read",
    "channels:history",
    "chat:write",
    "commands",
    "files:read",
    "groups:history",
    "im:history",
    "mpim:history",
    "reactions:write",
    "users:read",
)
METHODS: dict[str, dict[str, type]] = {
    "auth.test": {},
    "apps.connections.open": {},
    "files.info": {"file!": str},
    "chat.postMessage": {
        "channel!": str,
        "text!": str,
        "thread_ts": str,
        "unfurl_links": bool,
        "unfurl_media": bool,
        "blocks": list,
        "parse": str,
        "mrkdwn": bool,
        "link_names": bool,
        "reply_broadcast": bool,
        "metadata": dict,
    },
    "chat.update": {
        "channel!": str,
        "ts!": str,
        "text!": str,
        "blocks": list,
        "parse": str,
        "link_names": bool,
        "metadata": dict,
    },
    # Called by GET: everything is text.
    "conversations.history": HISTORY,
    "conversations.info": {"channel!": str},
    "conversations.replies": {**HISTORY, "ts!": str},
    "chat.delete": {"channel!": str, "ts!": str},
    "chat.postEphemeral": {"channel!": str, "user!": str, "text!": str, "thread_ts": str, "blocks": list},
    "chat.startStream": {
        "channel!": str,
        "thread_ts!": str,
        "markdown_text": str,
        "recipient_team_id": str,
        "recipient_user_id": str,
        "chunks": list,
    },
    "chat.appendStream": {"channel!": str, "ts!": str, "markdown_text!": str},
    "chat.stopStream": {"channel!": str, "ts!": str, "markdown_text": str},
    "assistant.threads.setStatus": {"channel_id!": str, "thread_ts!": str, "status!": str},
    "users.info": {"user!": str},
    "assistant.threads.setTitle": {"channel_id!": str, "thread_ts!": str, "title!": str},
    "assistant.threads.setSuggestedPrompts": {"channel_id!": str, "prompts!": list, "thread_ts": str, "title": str},
    "agents.sessions.setStatus": {"channel_id": str, "thread_ts": str, "status!": str, "title": str},
    "views.open": {"trigger_id!": str, "view!": dict},
    "views.publish": {"user_id!": str, "view!": dict, "hash": str},
    "reactions.add": {"channel!": str, "timestamp!": str, "name!": str},
    "reactions.remove": {"channel": str, "timestamp": str, "name!": str},
}


@dataclass(slots=True)
class PostedMessage:
    """A message as it stands. `history` holds every (time, text) it ever showed."""

    ts: str
    channel: str
    text: str
    user: str
    thread_ts: str = ""
    streaming: bool = False
    streamed: bool = False
    deleted: bool = False
    unfurls: bool = True
    reactions: set[str] = field(default_factory=set)
    history: list[tuple[float, str]] = field(default_factory=list)
    blocks: list[Json] = field(default_factory=list)
    metadata: Json = field(default_factory=dict)
    # What the platform says of it besides.
    extra_fields: Json = field(default_factory=dict)

    def buttons(self) -> list[Json]:
        """Return the buttons below the text, Slack's own thumbs as two of them."""
        return [
            button
            for block in self.blocks
            if block["type"] in ("actions", "context_actions")
            for element in block["elements"]
            for button in (
                [element] if "value" in element else [element["positive_button"], element["negative_button"]]
            )
        ]

    def links(self) -> list[str]:
        """Return the addresses behind the text, in order."""
        return [link.replace("&amp;", "&") for link in re.findall(r"<(https?://[^|>]*)", self.text)]

    def notifies(self) -> list[str]:
        """Return whom the text, at any time, would have notified."""
        return [results for _, text in self.history for results in re.findall(r"<([!@][^>]*)>", text)]


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its method, its parameters, the time, and the error it was answered with ("" for none)."""

    method: str
    parameters: Json
    at: float
    error: str


@dataclass(slots=True)
class InjectedError:
    """What `fail` has in store for a method."""

    method: str
    error: str
    times: int
    status: int
    retry_after: int
    drop: Literal["", "before", "after"]
    body: str


class Refusal(Exception):
    """An error answer."""

    def __init__(self, error: str, status: int = 200, retry_after: int = 0) -> None:
        super().__init__(error)
        self.error = error
        self.status = status
        self.headers = {"Retry-After": str(retry_after)} if retry_after else {}


class SlackPeer:
    """The server. `limits` maps a method to (calls, seconds): more are answered with 429.

    The `other_peer` is another app with a bot of its own in the same workspace.
    """

    def __init__(self, bot: str = BOT, *, other_peer: SlackPeer | None = None) -> None:
        self.bot = bot
        suffix = "" if bot == BOT else f"-{bot}"
        self.bot_id = f"{BOT_ID}{suffix}"
        self.bots: list[SlackPeer] = other_peer.bots if other_peer else []
        self.bots.append(self)
        self.bot_token, self.app_token, self.signing_secret = (
            f"{kind}{suffix}" for kind in ("xoxb-for-tests", "xapp-for-tests", "a-signing-secret")
        )
        self.api_url = ""
        self.lacking: set[str] = set()
        self.scopes = set(SCOPES)
        self.limits: dict[str, tuple[int, float]] = {}
        self.not_in: set[str] = set()
        self.administrators: set[str] = set()
        # The names of channels that are not called by their ids.
        # Those that another organization is in.
        self.shared_channels: set[str] = set()
        self.channel_names: dict[str, str] = {}
        # People of other workspaces, who are here in a shared channel.
        self.guests: set[str] = set()
        # Called with the method and "before" it is done or "after", before the answer: to wait, or to kill the bot.
        self.watch: Callable[[str, str], Awaitable[None]] | None = None
        self.files: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.calls: list[Call] = []
        self.statuses: dict[str, str] = {}
        self.status_log: list[tuple[float, str]] = []
        # As an agent the app has the agent view, or the older view of assistants.
        self.has_agent_view = True
        self.suggested: dict[tuple[str, str], tuple[str, list[str]]] = {}
        self.titles: dict[tuple[str, str], str] = {}
        self.sessions: dict[tuple[str, str], str] = {}
        self.responses: list[Json] = []
        # How many answers to commands are refused.
        self.refused_responses = 0
        # A word that no message may have.
        self.banned = ""
        # What one person alone saw: who and the text; and the calls that showed it.
        self.hidden: list[tuple[str, str]] = []
        self.hidden_parts: list[Json] = []
        # Who is in none of the channels.
        self.absent: set[str] = set()
        self.deliveries = Deliveries(self.signing_secret)
        self.views = Views()
        self._messages: dict[tuple[str, str], PostedMessage] = other_peer._messages if other_peer else {}
        self._public_responses: list[tuple[str, Json]] = []
        self._command_channels: dict[str, str] = {}
        self._clock = 1_700_000_000_000_000
        self._injected_errors: list[InjectedError] = []
        self._call_times: defaultdict[str, deque[float]] = defaultdict(deque)
        self._tickets: set[str] = set()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> SlackPeer:
        application = web.Application()
        application.router.add_post("/api/{method}", self._answer)
        application.router.add_get("/api/{method}", self._answer)
        application.router.add_get("/socket", self._connect)
        application.router.add_get("/files-pri/{file}", self._hand_over)
        application.router.add_post("/response/{trigger}", self._respond)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._root = f"127.0.0.1:{self._runner.addresses[0][1]}"
        self.api_url = f"http://{self._root}/api/"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.deliveries.close()
        if self._runner is not None:
            await self._runner.cleanup()

    # What people do.

    def say(self, channel: str, text: str, *, user: str = ANN, thread: str = "", **extra_fields: Any) -> str:
        """Write a message and return its timestamp. A mention in a channel is delivered twice, as Slack does."""
        message = self._add(channel, text, user, thread)
        message.extra_fields = extra_fields
        event = self._event(message)
        for app in self._who_is_in(channel):
            app.event(event)
            if f"<@{app.bot}>" in text and not channel.startswith("D"):
                mention = {name: value for name, value in event.items() if name != "channel_type"}
                app.event({**mention, "type": "app_mention"})
        return message.ts

    def write(self, channel: str, text: str, thread: str = "") -> PostedMessage:
        """Write a message where no bot is yet."""
        return self._add(channel, text, ANN, thread)

    def edit(self, channel: str, ts: str, text: str) -> None:
        """Edit somebody's message."""
        message = self._messages[channel, ts]
        message.text = text
        inner = {name: value for name, value in self._event(message).items() if not name.startswith("channel")}
        edit_mark = {"user": message.user, "ts": self._tick()}
        self._notice(channel, "message_changed", message={**inner, "edited": edit_mark}, ts=self._tick())

    def delete(self, channel: str, ts: str) -> None:
        """Delete a message."""
        self._messages[channel, ts].deleted = True
        self._notice(channel, "message_deleted", deleted_ts=ts, ts=self._tick())

    def command(self, text: str, *, channel: str = "C1", user: str = ANN) -> Envelope:
        """Use the slash command; the returned delivery holds the acknowledgement."""
        trigger = self.views.trigger(f"trigger.{self._tick()}", user)
        self._command_channels[trigger] = channel
        payload = {
            "command": "/kimas",
            "text": text,
            "user_id": user,
            "user_name": "ann",
            "channel_id": channel,
            "channel_name": "team",
            "team_id": TEAM,
            "trigger_id": trigger,
            "api_app_id": "A1",
            "token": "old",
            "response_url": f"http://{self._root}/response/{trigger}",
        }
        return self.deliveries.deliver("slash_commands", payload)

    def press(self, channel: str, value: str, *, user: str = ANN, ts: str = "", ephemeral: bool = False) -> Envelope:
        """Press a button below a message; the value need not be that of one, as no secret protects it."""
        trigger = self._trigger(user)
        container = {"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": ephemeral}
        if (message := self._messages.get((channel, ts))) and message.thread_ts:
            container["thread_ts"] = message.thread_ts
        kind = "feedback_buttons" if self._is_thumb(channel, value) else "button"
        action = {"type": kind, "action_id": "a", "block_id": "b", "value": value, "action_ts": self._tick()}
        payload = {
            "type": "block_actions",
            "team": {"id": TEAM, "domain": "rocket"},
            "trigger_id": trigger,
            "user": {"id": user, "username": "ann", "name": "ann", "team_id": TEAM},
            "api_app_id": "A1",
            "channel": {"id": channel, "name": "team"},
            "container": container,
            "actions": [action],
            "response_url": f"http://{self._root}/response/{trigger}",
            "token": "old",
        }
        return self.deliveries.deliver("interactive", payload)

    def _is_thumb(self, channel: str, value: str) -> bool:
        blocks = [block for message in self.messages(channel) for block in message.blocks]
        return any(block["type"] == "context_actions" and value in json.dumps(block) for block in blocks)

    def choose(self, channel: str, ts: str, callback: str, *, user: str = ANN) -> Envelope:
        """Choose a shortcut in the menu of a message, which is delivered with it."""
        trigger = self._trigger(user)
        output = self._messages[channel, ts]
        thread = {"thread_ts": output.thread_ts} if output.thread_ts else {}
        message = {"type": "message", "user": output.user, "text": output.text, "ts": ts, "team": TEAM, **thread}
        payload = {
            "type": "message_action",
            "callback_id": callback,
            "team": {"id": TEAM, "domain": "rocket"},
            "user": {"id": user, "username": "ann", "name": "ann", "team_id": TEAM},
            "api_app_id": "A1",
            "channel": {"id": channel, "name": "team"},
            "message_ts": ts,
            "message": message,
            "token": "old",
            "trigger_id": trigger,
            "action_ts": self._tick(),
            "is_enterprise_install": False,
            "enterprise": None,
            "response_url": f"http://{self._root}/response/{trigger}",
        }
        return self.deliveries.deliver("interactive", payload)

    def link(self, channel: str, ts: str) -> str:
        """Return the address of a message, as people copy it."""
        message = self._messages[channel, ts]
        thread = f"?thread_ts={message.thread_ts}&cid={channel}" if message.thread_ts else ""
        return f"https://rocket.slack.com/archives/{channel}/p{ts.replace('.', '')}{thread}"

    def submit(self, view: View, values: dict[str, str] | None = None, *, user: str = "") -> Envelope:
        """Fill in fields of a modal by their names and send it; it closes, or shows errors, when that is taken."""
        if not view.open:
            raise LookupError("the modal is closed")
        person = user or view.user
        payload = {
            "type": "view_submission",
            "team": {"id": TEAM, "domain": "rocket"},
            "api_app_id": "A1",
            "token": "old",
            "user": {"id": person, "username": "ann", "name": "ann", "team_id": TEAM},
            "trigger_id": self._trigger(person),
            "view": view.filled(values or {}),
            "response_urls": [],
        }
        return self.deliveries.deliver("interactive", payload, view.take)

    def _trigger(self, user: str) -> str:
        return self.views.trigger(f"{self._tick()}.{self._tick()}.0123456789abcdef0123456789abcdef", user)

    def open_home(self, user: str = ANN, *, tab: str = "home", channel: str = "D1") -> Envelope:
        """Open the app: its Home, or the conversation with it."""
        self._add(channel, "opened", user, "")
        event = {"type": "app_home_opened", "user": user, "channel": channel, "tab": tab, "event_ts": self._tick()}
        return self.event(event)

    def start_thread(self, user: str = ANN, *, channel: str = "D1", kind: str = "assistant_thread_started") -> str:
        """Begin a conversation in the older view of assistants; return its thread."""
        root = self._add(channel, "New Assistant Thread", self.bot, "")
        context = {"channel_id": "C1", "team_id": TEAM, "enterprise_id": None}
        thread = {"user_id": user, "context": context, "channel_id": channel, "thread_ts": root.ts}
        self.event({"type": kind, "assistant_thread": thread, "event_ts": self._tick()})
        return root.ts

    def stop_session(self, channel: str, thread: str, *, user: str = ANN) -> Envelope:
        """Press Slack's own stop button, which ends the streams of the thread."""
        streams = [message for message in self.messages(channel) if message.streaming and message.thread_ts == thread]
        for message in streams:
            message.streaming = False
        event = {"type": "agent_session_stopped", "channel": channel, "thread_ts": thread, "user": user}
        return self.event(
            {**event, "streaming_message_ts": [message.ts for message in streams], "event_ts": self._tick()}
        )

    def event(self, event: object, **extra_fields: Any) -> Envelope:
        """Deliver an event, whatever it is."""
        number = f"Ev{len(self.deliveries.envelopes)}"
        event_fields = event if isinstance(event, dict) else {}
        channel = event_fields.get("channel") or event_fields.get("assistant_thread", {}).get("channel_id")
        is_shared = channel in self.shared_channels if isinstance(channel, str) else False
        payload = {"type": "event_callback", "team_id": TEAM, "api_app_id": "A1", "event_id": number, "event": event}
        payload["is_ext_shared_channel"] = is_shared
        return self.deliveries.deliver("events_api", {**payload, **extra_fields})

    def fail(
        self,
        method: str,
        error: str = "internal_error",
        *,
        times: int = 1,
        status: int = 200,
        retry_after: int = 0,
        drop: Literal["", "before", "after"] = "",
        body: str = "",
    ) -> None:
        """Answer the next calls of a method with an error, or that text; or drop the connection before or after it."""
        self._injected_errors.append(InjectedError(method, error, times, status, retry_after, drop, body))

    def heal(self, method: str) -> None:
        """End the errors of a method."""
        self._injected_errors = [item for item in self._injected_errors if item.method != method]

    def end_streams(self) -> None:
        """Close all streams, as Slack does after some minutes."""
        for message in self._messages.values():
            message.streaming = False

    # What can be observed.

    def messages(self, channel: str) -> list[PostedMessage]:
        """Return the bot's messages in a channel, as they are shown now."""
        return [
            message
            for message in self._messages.values()
            if message.channel == channel and message.user == self.bot and not message.deleted
        ]

    def message(self, channel: str, ts: str) -> PostedMessage:
        """Return one message."""
        return self._messages[channel, ts]

    def get_calls(self, method: str) -> list[Call]:
        """Return the calls of one method."""
        return [call for call in self.calls if call.method == method]

    async def wait_for_reply(
        self, channel: str, timeout: float, *, containing: str = "", count: int = 1
    ) -> PostedMessage:
        """Wait until the bot shows `count` messages in a channel, the last of them with this text; return that one."""
        await self.wait_until(
            lambda: len(self.messages(channel)) >= count and containing in self.messages(channel)[-1].text, timeout
        )
        return self.messages(channel)[-1]

    async def wait_until(self, true: Callable[[], bool], timeout: float) -> None:
        """Wait until something is true. Raises `TimeoutError`."""
        deadline = time.monotonic() + timeout
        while not true():
            if time.monotonic() > deadline:
                recent = [(call.method, call.error, call.parameters) for call in self.calls[-8:]]
                raise TimeoutError(f"not within {timeout} s; the last calls: {recent}")
            await asyncio.sleep(0.01)

    # The server.

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        at = time.monotonic()
        query: Json = dict(request.query)
        query |= await request.json() if request.content_type == "application/json" else dict(await request.post())
        token = query.pop("token", "") or request.headers.get("Authorization", "").removeprefix("Bearer").strip()
        problem = next((item for item in self._injected_errors if item.method == method and item.times > 0), None)
        error = ""
        status = 200
        headers = {}
        body = {}
        if self.watch:
            await self.watch(method, "before")
        if problem is not None:
            problem.times -= 1
        if problem is None or problem.drop != "before":
            try:
                if problem is not None and not problem.drop:
                    raise Refusal(problem.error, problem.status, problem.retry_after)
                body = {"ok": True, **self._call(method, str(token), query)}
            except Refusal as rejection:
                error = rejection.error
                status = rejection.status
                headers = rejection.headers
                body = {"ok": False, "error": error}
        self.calls.append(Call(method, query, at, "dropped" if problem and problem.drop else error))
        if self.watch:
            await self.watch(method, "after")
        if problem is not None and problem.drop and request.transport is not None:
            request.transport.abort()
        if problem is not None and problem.body:
            return web.Response(status=status, text=problem.body, content_type="text/html")
        if method == "auth.test":
            headers = {**headers, "X-OAuth-Scopes": ",".join(sorted(self.scopes))}
        return web.json_response(body, status=status, headers=headers)

    def _call(self, method: str, token: str, params: Json) -> Json:
        if method not in METHODS or method in self.lacking:
            raise Refusal("unknown_method" if method.startswith("chat") else "missing_scope")
        if not token:
            raise Refusal("not_authed")
        if token != (self.app_token if method == "apps.connections.open" else self.bot_token):
            raise Refusal("invalid_auth")
        _check(METHODS[method], params)
        if self.banned and self.banned in json.dumps(params):
            raise Refusal("message_processing_failed")
        self._limit(method)
        calls: dict[str, Callable[[Json], Json]] = {
            "auth.test": lambda _: {
                "user_id": self.bot,
                "user": "kimas",
                "bot_id": self.bot_id,
                "team_id": TEAM,
                "team": "Rocket",
                "url": f"http://{self._root}/",
            },
            "apps.connections.open": self._open,
            "files.info": lambda values: {"file": self._file(values["file"])},
            "chat.postMessage": self._post,
            "chat.update": self._update,
            "chat.delete": self._delete,
            "chat.postEphemeral": self._post_ephemeral,
            "conversations.history": self._history,
            "conversations.info": self._channel,
            "conversations.replies": self._history,
            "chat.startStream": self._start,
            "chat.appendStream": self._append,
            "chat.stopStream": self._stop,
            "assistant.threads.setStatus": self._status,
            "users.info": self._user,
            "assistant.threads.setTitle": self._title,
            "assistant.threads.setSuggestedPrompts": self._suggest,
            "agents.sessions.setStatus": self._session,
            "views.open": self._open_view,
            "views.publish": self._publish,
            "reactions.add": self._react,
            "reactions.remove": self._unreact,
        }
        return calls[method](params)

    def add_attachment(self, file: str, content: bytes, media_type: str = "image/png") -> Json:
        """Put a file on the server; return it as a message's event shows it."""
        self.files[file] = content
        return {**self._file(file), "mimetype": media_type}

    def _file(self, file: str) -> Json:
        if file not in self.files:
            raise Refusal("file_not_found")
        url = f"http://{self._root}/files-pri/{file}"
        file_fields = {"name": f"{file}.png", "size": len(self.files[file]), "mode": "hosted", "url_private": url}
        return {"id": file, **file_fields, "url_private_download": url}

    async def _hand_over(self, request: web.Request) -> web.Response:
        # Without the token or its scope Slack shows a page to log in, with status 200.
        if request.headers.get("Authorization") != f"Bearer {self.bot_token}" or "files:read" in self.lacking:
            return web.Response(text="<!DOCTYPE html><html>Log in</html>", content_type="text/html")
        self.fetched.append(request.match_info["file"])
        return web.Response(body=self.files[request.match_info["file"]])

    def _user(self, params: Json) -> Json:
        user = params["user"]
        if not user.startswith("U"):
            raise Refusal("user_not_found")
        team = "T0999" if user in self.guests else TEAM
        profile = {"id": user, "team_id": team, "name": "ann", "is_bot": user == self.bot, "deleted": False}
        return {"user": {**profile, "is_admin": user in self.administrators}}

    def _channel(self, params: Json) -> Json:
        channel = params["channel"]
        name = self.channel_names.get(channel, channel.lower())
        is_shared = channel in self.shared_channels
        return {"channel": {"id": channel, "name": name, "is_channel": True, "is_ext_shared": is_shared}}

    def rename(self, channel: str, name: str) -> None:
        """Give a channel another name."""
        self.channel_names[channel] = name
        self.event({"type": "channel_rename", "channel": {"id": channel, "name": name}})

    def _limit(self, method: str) -> None:
        max_calls, seconds = self.limits.get(method, (1 << 30, 1.0))
        call_times = self._call_times[method]
        now = time.monotonic()
        while call_times and call_times[0] <= now - seconds:
            call_times.popleft()
        if len(call_times) >= max_calls:
            raise Refusal("ratelimited", 429, max(1, round(call_times[0] + seconds - now + 0.5)))
        call_times.append(now)

    def _open(self, _: Json) -> Json:
        ticket = self._tick()
        self._tickets.add(ticket)
        return {"url": f"ws://{self._root}/socket?ticket={ticket}"}

    async def _connect(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=403)
        self._tickets.remove(ticket)
        return await self.deliveries.connect(request)

    def expire_tickets(self) -> None:
        """Make all addresses given out for connections worthless."""
        self._tickets.clear()

    def _channel_id(self, params: Json) -> str:
        channel = str(params.get("channel") or params.get("channel_id"))
        if channel in self.not_in:
            raise Refusal("not_in_channel")
        if not any(known_channel == channel for known_channel, _ in self._messages):
            raise Refusal("channel_not_found")
        return channel

    def _thread(self, params: Json) -> str:
        thread = params.get("thread_ts", "")
        if thread and (self._channel_id(params), thread) not in self._messages:
            raise Refusal("invalid_thread_ts")
        return str(thread)

    def _post(self, params: Json) -> Json:
        channel = self._channel_id(params)
        text = params["text"][:40000]
        if not text.strip():
            raise Refusal("no_text")
        blocks = _blocks(params, self.lacking)
        message = self._add(channel, text, self.bot, self._thread(params))
        message.blocks = blocks
        message.metadata = params.get("metadata", {})
        message.unfurls = params.get("unfurl_links", True) or params.get("unfurl_media", True)
        self._posted(message)
        return {
            "channel": channel,
            "ts": message.ts,
            "message": {"text": text, "ts": message.ts, "bot_id": self.bot_id},
        }

    def _posted(self, message: PostedMessage) -> None:
        self.statuses.pop(message.thread_ts, None)
        for app in self._who_is_in(message.channel):
            app.event({**self._event(message), "bot_id": self.bot_id, "app_id": "A1"})

    def _who_is_in(self, channel: str) -> list[SlackPeer]:
        return [self] if channel.startswith("D") else self.bots

    def _own(self, params: Json) -> PostedMessage:
        message = self._messages.get((self._channel_id(params), params["ts"]))
        if message is None or message.deleted:
            raise Refusal("message_not_found")
        if message.user != self.bot:
            raise Refusal("cant_update_message")
        return message

    def _history(self, params: Json) -> Json:
        """Return one page of a thread, oldest first, or of a channel, newest first and without its threads."""
        channel = self._channel_id(params)
        thread = params.get("ts", "")
        if thread and (channel, thread) not in self._messages:
            raise Refusal("thread_not_found")
        messages = [
            {**self._event(message), **({"metadata": message.metadata} if message.metadata else {})}
            for (channel_id, ts), message in self._messages.items()
            if channel_id == channel and not message.deleted and (message.thread_ts or (thread and ts)) == thread
        ]
        if not thread:
            messages += [message for channel_id, message in self._public_responses if channel_id == channel]
        later_messages = [
            message for message in messages if message["ts"] > params.get("oldest", "0") or message["ts"] == thread
        ]
        if latest := params.get("latest"):
            later_messages = [
                message for message in later_messages if message["ts"] < latest or message["ts"] == thread
            ]
        ordered = sorted(later_messages, key=lambda message: str(message["ts"]), reverse=not thread)
        start = int(params.get("cursor") or 0)
        limit = int(params.get("limit", "100"))
        next_cursor = str(start + limit) if len(ordered) > start + limit else ""
        return {"messages": ordered[start : start + limit], "response_metadata": {"next_cursor": next_cursor}}

    def _update(self, params: Json) -> Json:
        message = self._own(params)
        text = params["text"]
        if message.streaming:
            raise Refusal("streaming_state_conflict")
        if len(text) > 4000:
            raise Refusal("msg_too_long")
        if not text.strip():
            raise Refusal("no_text")
        if message.streamed and "blocks" not in params:
            # The streamed blocks would stay and hide the text.
            text = message.text
        message.blocks = _blocks(params, self.lacking)
        message.metadata = params.get("metadata", message.metadata)
        if params.get("parse", "client") != "none":
            text = _linked(text)
        self._show(message, text)
        return {"channel": message.channel, "ts": message.ts, "text": text}

    def _delete(self, params: Json) -> Json:
        message = self._own(params)
        message.deleted = True
        message.streaming = False
        self._notice(message.channel, "message_deleted", deleted_ts=message.ts, ts=self._tick())
        return {"channel": message.channel, "ts": message.ts}

    def _post_ephemeral(self, params: Json) -> Json:
        channel = self._channel_id(params)
        if params["user"] in self.absent:
            raise Refusal("user_not_in_channel")
        # In a thread nobody sees it before there is one; nothing says so.
        thread_ts = params.get("thread_ts", "")
        if thread_ts and not any(
            message.thread_ts == thread_ts for message in self._messages.values() if message.channel == channel
        ):
            return {"message_ts": self._tick()}
        self.hidden.append((params["user"], params["text"]))
        self.hidden_parts.append(params)
        return {"message_ts": self._tick()}

    def _start(self, params: Json) -> Json:
        channel = self._channel_id(params)
        thread = self._thread(params)
        if not channel.startswith("D") and not params.get("recipient_user_id"):
            raise Refusal("missing_recipient_user_id")
        if not channel.startswith("D") and not params.get("recipient_team_id"):
            raise Refusal("missing_recipient_team_id")
        piece = _piece(params)
        blocks = _streamed_blocks(params, self.lacking)
        message = self._add(channel, piece, self.bot, thread)
        message.streaming = True
        message.streamed = True
        message.blocks = blocks
        self._posted(message)
        return {"channel": channel, "ts": message.ts}

    def _append(self, params: Json) -> Json:
        message = self._streamed(params)
        self._show(message, message.text + _piece(params))
        return {"channel": message.channel, "ts": message.ts}

    def _stop(self, params: Json) -> Json:
        message = self._streamed(params)
        message.streaming = False
        self._show(message, message.text + _piece(params))
        return {"channel": message.channel, "ts": message.ts, "message": {"text": message.text}}

    def _streamed(self, params: Json) -> PostedMessage:
        message = self._own(params)
        if not message.streaming:
            raise Refusal("message_not_in_streaming_state")
        return message

    def _status(self, params: Json) -> Json:
        thread = self._thread({**params, "channel": params["channel_id"]})
        self.statuses[thread] = params["status"]
        if not params["status"]:
            del self.statuses[thread]
        self.status_log.append((time.monotonic(), params["status"]))
        return {}

    def _require_agent(self, error: str) -> None:
        if "assistant:write" not in self.scopes:
            raise Refusal(error)

    def _title(self, params: Json) -> Json:
        self._require_agent("missing_scope")
        thread = self._thread({**params, "channel": params["channel_id"]})
        self.titles[params["channel_id"], thread] = params["title"]
        return {}

    def _suggest(self, params: Json) -> Json:
        self._require_agent("missing_scope")
        thread = self._thread({**params, "channel": params["channel_id"]})
        prompts = params["prompts"]
        if not 1 <= len(prompts) <= 4 or any(set(prompt) != {"title", "message"} for prompt in prompts):
            raise Refusal("invalid_arguments: prompts")
        if any(not isinstance(text, str) or not text.strip() for prompt in prompts for text in prompt.values()):
            raise Refusal("invalid_arguments: prompts")
        # In the agent view a thread makes the call fail without a word.
        if self.has_agent_view != bool(thread):
            messages = [prompt["message"] for prompt in prompts]
            self.suggested[params["channel_id"], thread] = (params.get("title", ""), messages)
        return {}

    def _session(self, params: Json) -> Json:
        self._require_agent("feature_not_enabled")
        if not self.has_agent_view:
            raise Refusal("feature_not_enabled")
        thread = self._thread({**params, "channel": params["channel_id"]})
        if params["status"] not in ("active", "processing", "suspended", "closed"):
            raise Refusal("invalid_arguments: status")
        key = params["channel_id"], thread
        if key not in self.sessions and len(params.get("title", "")) <= 200:
            self.titles[key] = params.get("title", "")
        self.sessions[key] = params["status"]
        return {"status": params["status"]}

    def _publish(self, params: Json) -> Json:
        if error := self.views.publish(params):
            raise Refusal(error)
        return {"view": params["view"]}

    def _open_view(self, params: Json) -> Json:
        error, view = self.views.open(params)
        if error:
            raise Refusal(error)
        return view

    def _reacted(self, params: Json) -> PostedMessage:
        message = self._messages.get((self._channel_id(params), params["timestamp"]))
        if message is None or message.deleted:
            raise Refusal("message_not_found")
        return message

    def _react(self, params: Json) -> Json:
        message = self._reacted(params)
        if params["name"] in message.reactions:
            raise Refusal("already_reacted")
        message.reactions.add(params["name"])
        return {}

    def _unreact(self, params: Json) -> Json:
        message = self._reacted(params)
        if params["name"] not in message.reactions:
            raise Refusal("no_reaction")
        message.reactions.remove(params["name"])
        return {}

    async def _respond(self, request: web.Request) -> web.Response:
        trigger = request.match_info["trigger"]
        body = await request.json()
        if self.refused_responses:
            self.refused_responses -= 1
            return web.Response(status=404, text="expired_url")
        if sum(response["trigger"] == trigger for response in self.responses) >= 5:
            return web.Response(status=404, text="used_url")
        known_fields = {
            "text",
            "response_type",
            "unfurl_links",
            "unfurl_media",
            "blocks",
            "replace_original",
            "thread_ts",
        }
        if set(body) - known_fields or not body.get("text", "").strip():
            return web.Response(status=400, text="invalid_payload")
        try:
            _blocks(body, self.lacking)
        except Refusal as error:
            return web.Response(status=400, text=error.error)
        refusal = next(
            (item for item in self._injected_errors if item.method == "response_url" and item.times > 0), None
        )
        if refusal:
            refusal.times -= 1
        if refusal and refusal.drop != "after":
            return web.Response(status=refusal.status, text=refusal.error)
        if self.watch:
            await self.watch("response_url", "before")
        self.responses.append({"trigger": trigger, **body})
        if body.get("response_type") == "in_channel":
            # Everybody sees it, and it names the app's bot alone.
            message = {"type": "message", "subtype": "bot_message", "text": body["text"], "bot_id": self.bot_id}
            self._public_responses.append((self._command_channels.get(trigger, ""), {**message, "ts": self._tick()}))
        if self.watch:
            await self.watch("response_url", "after")
        if refusal and request.transport is not None:
            request.transport.abort()
        return web.Response(text="ok")

    def _add(self, channel: str, text: str, user: str, thread: str) -> PostedMessage:
        message = PostedMessage(self._tick(), channel, text, user, thread, history=[(time.monotonic(), text)])
        self._messages[channel, message.ts] = message
        return message

    def _show(self, message: PostedMessage, text: str) -> None:
        message.text = text
        message.history.append((time.monotonic(), text))

    def _tick(self) -> str:
        if self is not self.bots[0]:
            return self.bots[0]._tick()
        self._clock += 1000
        return f"{self._clock // 1_000_000}.{self._clock % 1_000_000:06d}"

    def _event(self, message: PostedMessage) -> Json:
        thread = {}
        if message.thread_ts:
            root = self._messages.get((message.channel, message.thread_ts))
            thread = {"thread_ts": message.thread_ts, **({"parent_user_id": root.user} if root else {})}
        kind = "im" if message.channel.startswith("D") else "channel"
        channel_fields = {"channel": message.channel, "channel_type": kind}
        return {
            "type": "message",
            "user": message.user,
            "text": message.text,
            "ts": message.ts,
            "team": TEAM,
            **channel_fields,
            **thread,
            **message.extra_fields,
        }

    def _notice(self, channel: str, subtype: str, **extra_fields: Any) -> None:
        kind = "im" if channel.startswith("D") else "channel"
        self.event(
            {
                "type": "message",
                "subtype": subtype,
                "hidden": True,
                "channel": channel,
                "channel_type": kind,
                **extra_fields,
            }
        )


def _linked(text: str) -> str:
    """Make links of the names of people, groups and channels, as Slack does unless it is told not to."""
    everybody = re.sub(r"(?<![\w<])@(here|channel|everyone)\b", r"<!\1>", text)
    return re.sub(r"(?<![\w<&])([@#])(\w[\w.-]*)", r"<\1\2>", everybody)


def _piece(params: Json) -> str:
    chunks = params.get("chunks")
    if chunks is not None and "markdown_text" in params:
        raise Refusal("invalid_arguments: markdown_text and chunks")
    pieces = [params.get("markdown_text", "")] if chunks is None else []
    for chunk in chunks or ():
        if chunk.get("type") == "markdown_text" and set(chunk) == {"type", "text"}:
            pieces.append(chunk["text"])
        elif chunk.get("type") != "blocks" or set(chunk) != {"type", "blocks"}:
            raise Refusal("invalid_chunks")
    if any(len(piece) > 12000 for piece in pieces):
        raise Refusal("msg_too_long")
    return "".join(pieces)


def _streamed_blocks(params: Json, missing_methods: set[str]) -> list[Json]:
    """Return the blocks among the chunks of a stream."""
    blocks = [block for chunk in params.get("chunks") or () for block in chunk.get("blocks", ())]
    if blocks and "blocks in streams" in missing_methods:
        raise Refusal("invalid_blocks")
    _check_blocks(blocks, missing_methods)
    return blocks


def _blocks(params: Json, missing_methods: set[str]) -> list[Json]:
    """Return the blocks of a message, which are shown in the place of its text. Raises a refusal for bad ones."""
    blocks: list[Json] = params.get("blocks") or []
    _check_blocks(blocks, missing_methods)
    output = "".join(block["text"]["text"] for block in blocks if block["type"] == "section")
    # A code block that two sections share is closed and opened again.
    message, expected_text = (re.sub(r"[\s`]", "", text) for text in (output, str(params["text"])))
    if blocks and message != expected_text:
        raise Refusal("invalid_blocks")
    return blocks


def _check_blocks(blocks: list[Json], missing_methods: set[str]) -> None:
    names: list[str] = []
    for block in blocks:
        match block.get("type"):
            case "section":
                _hold(1 <= len(block["text"]["text"]) <= 3000 and block["text"]["type"] == "mrkdwn")
            case "actions":
                _hold(set(block) == {"type", "elements"} and 1 <= len(block["elements"]) <= 25)
                for button in block["elements"]:
                    _hold(set(button) == {"type", "text", "value", "action_id"} and button["type"] == "button")
                    _check_button(button)
            case "context_actions":
                _hold("feedback_buttons" not in missing_methods)
                _hold(set(block) == {"type", "elements"} and 1 <= len(block["elements"]) <= 5)
                for element in block["elements"]:
                    _hold(set(element) == {"type", "action_id", "positive_button", "negative_button"})
                    _hold(element["type"] == "feedback_buttons")
                    for name in ("positive_button", "negative_button"):
                        _hold({"text", "value"} <= set(element[name]) <= {"text", "value", "accessibility_label"})
                        _check_button(element[name])
            case _:
                raise Refusal("invalid_blocks")
        names += [element["action_id"] for element in block.get("elements", ())]
    _hold(len(set(names)) == len(names) and len(blocks) <= 50)
    _hold(all(1 <= len(name) <= 255 for name in names))


def _check_button(button: Json) -> None:
    _hold(set(button["text"]) <= {"type", "text", "emoji"} and button["text"]["type"] == "plain_text")
    _hold(1 <= len(button["text"]["text"]) <= 75 and 1 <= len(button["value"]) <= 2000)


def _hold(true: bool) -> None:
    if not true:
        raise Refusal("invalid_blocks")


def _check(known_fields: dict[str, type], params: Json) -> None:
    """Check the names and the types of a request's parameters."""
    types = {name.rstrip("!"): kind for name, kind in known_fields.items()}
    for name, value in params.items():
        if name not in types or not isinstance(value, types[name]):
            raise Refusal(f"invalid_arguments: {name} {json.dumps(value)[:50]}")
    for name in known_fields:
        if name.endswith("!") and name[:-1] not in params:
            raise Refusal(f"invalid_arguments: no {name[:-1]}")
