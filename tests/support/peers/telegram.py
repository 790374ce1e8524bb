"""A Bot API server over real HTTP, as strict as Telegram's own or stricter, with people who write to the bot.

Inside a test:

    async with TelegramPeer() as peer:
        ...  # the bot uses peer.token and peer.api_url
        peer.say(-100, "@kimas_bot what is it?")
        reply = await peer.wait_for_reply(-100, 5)

Positive chat ids are private chats, negative ones supergroups; a chat comes into being when somebody writes there.
Updates are kept until a getUpdates with a higher offset confirms them, whatever happens to the bot in between.

As a process (the first line it prints is JSON with `api_url`, `token` and `control_url`):

    python -m tests.support.peers.telegram --port 0
    curl --json '{"chat": -100, "text": "@kimas_bot hello"}' $control_url/say;  curl $control_url/messages?chat=-100
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web

from tests.support.peers.telegram_rich import RichContent, parse_rich_html
from tests.support.peers.telegram_text import LIMIT, RAW_LIMIT, Entity, ParseError, find_entities, parse_html, units

Json = dict[str, Any]
Drop = Literal["", "before", "after"]

REPLY_PARAMETERS = {"message_id": int, "chat_id": int, "allow_sending_without_reply": bool, "quote": str}
LINK_PREVIEW = {"is_disabled": bool, "url": str, "prefer_small_media": bool, "show_above_text": bool}
SCOPES = ("default", "all_private_chats", "all_group_chats", "all_chat_administrators")
UPDATE_KINDS = (
    "message",
    "edited_message",
    "channel_post",
    "callback_query",
    "my_chat_member",
    "message_reaction",
    "stopped_message_generation",
)
TEXT = {"text": str, "parse_mode": str, "entities": list}
STOP = {"can_stop": bool, "keep_on_stop": bool}
# Parameters of each method and their types; the required ones are marked with a "!".
METHODS: dict[str, dict[str, type]] = {
    "getMe": {},
    "getFile": {"file_id!": str},
    "getWebhookInfo": {},
    "deleteWebhook": {"drop_pending_updates": bool},
    "getChatAdministrators": {"chat_id!": int},
    "getChatMember": {"chat_id!": int, "user_id!": int},
    "setMyCommands": {"commands!": list, "scope": dict, "language_code": str},
    "getUpdates": {"offset": int, "limit": int, "timeout": int, "allowed_updates": list},
    "sendChatAction": {"chat_id!": int, "action!": str, "message_thread_id": int},
    "answerCallbackQuery": {"callback_query_id!": str, "text": str, "show_alert": bool, "cache_time": int},
    "editMessageReplyMarkup": {"chat_id!": int, "message_id!": int, "reply_markup": dict},
    "sendMessage": {
        "reply_markup": dict,
        "chat_id!": int,
        "message_thread_id": int,
        "reply_parameters": dict,
        "link_preview_options": dict,
        "disable_notification": bool,
        **TEXT,
    },
    "sendMessageDraft": {"chat_id!": int, "draft_id!": int, "message_thread_id": int, **STOP, **TEXT},
    "sendRichMessage": {
        "chat_id!": int,
        "message_thread_id": int,
        "rich_message!": dict,
        "reply_parameters": dict,
        "reply_markup": dict,
        "disable_notification": bool,
    },
    "sendRichMessageDraft": {
        "chat_id!": int,
        "draft_id!": int,
        "message_thread_id": int,
        "rich_message!": dict,
        **STOP,
    },
    "editMessageText": {
        "chat_id!": int,
        "message_id!": int,
        "link_preview_options": dict,
        "reply_markup": dict,
        "rich_message": dict,
        **TEXT,
    },
    "deleteMessage": {"chat_id!": int, "message_id!": int},
}
# What came with Bot API 10.1.
RICH_METHODS = ("sendRichMessage", "sendRichMessageDraft")
RICH_MESSAGE = {"html": str, "markdown": str, "blocks": list, "is_rtl": bool, "skip_entity_detection": bool}
# Nothing is looked for inside these.
SOLID = ("code", "pre", "text_link")
ACTIONS = ("typing", "upload_photo", "record_voice", "upload_document", "choose_sticker", "find_location")


@dataclass(frozen=True, slots=True)
class Author:
    """Somebody who writes."""

    id: int = 1001
    first_name: str = "Ann"
    username: str = "ann"
    is_bot: bool = False

    def user(self) -> Json:
        """Return the author as the API shows them."""
        return {"id": self.id, "is_bot": self.is_bot, "first_name": self.first_name, "username": self.username}


@dataclass(slots=True)
class PostedMessage:
    """A message as it stands in a chat. `history` holds every (time, text) it ever showed."""

    id: int
    text: str
    entities: list[Entity]
    html: str
    from_bot: bool
    author: Author
    thread: int | None = None
    reply_to: int | None = None
    history: list[tuple[float, str]] = field(default_factory=list)
    buttons: list[list[Json]] = field(default_factory=list)
    # The blocks of a rich message; `text` is what an app shows of them.
    blocks: list[Json] = field(default_factory=list)
    extra_fields: Json = field(default_factory=dict)

    def links(self) -> list[str]:
        """Return the addresses behind the text, in order."""
        return [entity["url"] for entity in self.entities if entity["type"] == "text_link"]


@dataclass(slots=True)
class Chat:
    """One chat. `topics` maps a forum's topics to whether they are open; none means that it is no forum."""

    id: int
    title: str = "Team"
    topics: dict[int, bool] = field(default_factory=dict)
    kicked: bool = False
    moved_to: int = 0
    messages: dict[int, PostedMessage] = field(default_factory=dict)
    sent_at: deque[float] = field(default_factory=deque)
    next_id: int = 1
    administrators: list[Author] = field(default_factory=list)

    @property
    def private(self) -> bool:
        """Return whether it is a private chat."""
        return self.id > 0


@dataclass(frozen=True, slots=True)
class Draft:
    """One state of a reply that is still being written."""

    chat: int
    draft_id: int
    text: str
    at: float
    is_rich: bool = False
    can_stop: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its method, its parameters as sent, the time, and the status it was answered with (0: dropped)."""

    method: str
    parameters: Json
    at: float
    status: int


@dataclass(slots=True)
class InjectedError:
    """What `fail` has in store for a method."""

    method: str
    times: int
    status: int
    description: str
    retry_after: int
    drop: Drop
    body: str


class Refusal(Exception):
    """An error answer."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        prefix = {400: "Bad Request: ", 403: "Forbidden: ", 409: "Conflict: "}.get(status, "")
        self.body: Json = {"ok": False, "error_code": status, "description": prefix + description}
        if parameters:
            self.body["parameters"] = parameters


class TelegramPeer:
    """The server. `limit_per_chat` is (messages and edits, seconds): more are answered with 429."""

    def __init__(
        self,
        token: str = "42:a-token-for-tests",  # noqa: S107
        username: str = "kimas_bot",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        limit_per_chat: tuple[int, float] | None = None,
    ) -> None:
        self.token = token
        self.username = username
        self.bot = Author(int(token.partition(":")[0]), "KIMAs", username, is_bot=True)
        self.limit_per_chat = limit_per_chat
        self.api_url = ""
        self.webhook = ""
        # Whether privacy mode is off.
        self.reads_all = False
        # Whether the server knows rich messages (Bot API 10.1).
        self.has_rich = True
        # A word that no message may have.
        self.banned = ""
        self.chats: dict[int, Chat] = {}
        self.files: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.calls: list[Call] = []
        self.drafts: list[Draft] = []
        self.confirmed: list[int] = []
        self.offsets: list[int] = []
        self.pressed: dict[str, float] = {}
        self.notices: dict[str, str] = {}
        self.press_s = 15.0
        self.commands: dict[str, list[Json]] = {}
        self.allowed_updates: list[str] | None = None
        # Called with the method and "before" it is done or "after", before the answer: to wait, or to kill the bot.
        self.watch: Callable[[str, str], Awaitable[None]] | None = None
        self.bots = [self]
        self._host = host
        self._port = port
        self._updates: dict[int, object] = {}
        self._next_update = 500_000_001
        self._injected_errors: list[InjectedError] = []
        self._changed = asyncio.Event()
        self._poller: asyncio.Future[None] | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> TelegramPeer:
        application = web.Application()
        application.router.add_route("*", "/bot{token}/{method}", self._answer)
        application.router.add_get("/file/bot{token}/files/{file_id}", self._hand_over)
        application.router.add_get("/control/messages", self._control_messages)
        application.router.add_post("/control/{action}", self._control)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.api_url = f"http://{self._host}:{self._port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._poller is not None and not self._poller.done():
            self._poller.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    # What people do.

    def say(
        self,
        chat: int,
        text: str,
        *,
        author: Author | None = None,
        reply_to: int | None = None,
        thread: int | None = None,
        **extra_fields: Any,
    ) -> int:
        """Write a message and return its id. `more` goes into the update's message as it is."""
        target_chat = self.chat(chat)
        person = author or (Author(chat, "Ann") if target_chat.private else Author())
        message = self._add(target_chat, text, find_entities(text), text, person, thread=thread, reply_to=reply_to)
        message.extra_fields = extra_fields
        for bot in [self] if target_chat.private else self.bots:
            bot.inject({"message": self._message(target_chat, message)})
        return message.id

    def edit(self, chat: int, message_id: int, text: str) -> None:
        """Edit somebody's message."""
        target_chat = self.chats[chat]
        message = target_chat.messages[message_id]
        message.text = text
        message.entities = find_entities(text)
        message.history.append((time.monotonic(), text))
        self.inject({"edited_message": {**self._message(target_chat, message), "edit_date": int(time.time())}})

    def delete(self, chat: int, message_id: int) -> None:
        """Delete a message: the bot is not told."""
        del self.chats[chat].messages[message_id]

    def press(self, chat: int, message_id: int, data: str, *, author: Author | None = None, old: bool = False) -> str:
        """Press a button below a message and return the id of the press.

        The data need not be that of a button, as a client that was tampered with may send. The bot no longer sees an
        `old` message.
        """
        target_chat = self.chats[chat]
        number = str(4_000_000_000_000 + len(self.pressed))
        self.pressed[number] = time.monotonic()
        message = target_chat.messages[message_id]
        thread_message = self._message(target_chat, message)
        if old:
            thread_message = {"chat": thread_message["chat"], "message_id": message_id, "date": 0}
        person = (author or (Author(chat, "Ann") if target_chat.private else Author())).user()
        query = {"id": number, "from": person, "chat_instance": "1", "message": thread_message, "data": data}
        self.inject({"callback_query": query})
        return number

    def stop(self, draft: Draft) -> None:
        """Press Telegram's own button that stops a draft."""
        assert draft.can_stop
        chat = self._chat(self.chats[draft.chat], Author(draft.chat))
        self.inject({"stopped_message_generation": {"chat": chat, "draft_id": draft.draft_id}})

    def inject(self, update: object, *, numbered: bool = True) -> int:
        """Queue any update. `numbered` gives it the next update_id when it is an object without one."""
        number = self._next_update
        self._next_update += 1
        self._updates[number] = {"update_id": number, **update} if numbered and isinstance(update, dict) else update
        self._notify()
        return number

    def chat(self, chat: int) -> Chat:
        """Return a chat, opening it when it is new."""
        if chat not in self.chats:
            new_chat = Chat(chat)
            # A group is one for all bots; in a private chat a person writes to one of them.
            for bot in self.bots if chat < 0 else [self]:
                bot.chats[chat] = new_chat
        return self.chats[chat]

    def add_bot(self, token: str, username: str) -> TelegramPeer:
        """Return the server as a second bot of its groups sees it: at the same address, under its own token."""
        other = TelegramPeer(token, username)
        other.api_url = self.api_url
        other._changed = self._changed
        other.chats.update({number: chat for number, chat in self.chats.items() if number < 0})
        self.bots.append(other)
        other.bots = self.bots
        return other

    def forum(self, chat: int, *topics: int) -> Chat:
        """Open a supergroup with topics."""
        target_chat = self.chat(chat)
        target_chat.topics.update(dict.fromkeys(topics, True))
        return target_chat

    def upgrade(self, chat: int, to: int) -> Chat:
        """Upgrade a group to a supergroup with another id."""
        self.chats[chat].moved_to = to
        self.inject({"message": {**self._service(self.chats[chat]), "migrate_to_chat_id": to}})
        return self.chat(to)

    def fail(
        self,
        method: str,
        status: int = 500,
        *,
        times: int = 1,
        description: str = "Internal Server Error",
        retry_after: int = 0,
        drop: Drop = "",
        body: str = "",
    ) -> None:
        """Answer the next `times` calls of a method with an error, or drop the connection before or after doing it.

        With `body` the answer is that text instead of JSON, with that status.
        """
        self._injected_errors.append(InjectedError(method, times, status, description, retry_after, drop, body))

    # What can be observed.

    def messages(self, chat: int) -> list[PostedMessage]:
        """Return the bot's messages in a chat, as they are shown now."""
        return [message for message in self.chat(chat).messages.values() if message.author is self.bot]

    def get_calls(self, method: str) -> list[Call]:
        """Return the calls of one method."""
        return [call for call in self.calls if call.method == method]

    def pending(self) -> list[int]:
        """Return the ids of the updates that are not confirmed."""
        return sorted(self._updates)

    async def wait_for_reply(self, chat: int, timeout: float, *, containing: str = "", count: int = 1) -> PostedMessage:
        """Wait until the bot shows `count` messages in a chat, the last of them with this text, and return that one.

        A placeholder is none.
        """

        def is_shown() -> bool:
            messages = self.messages(chat)
            return len(messages) >= count and messages[-1].text != "…" and containing in messages[-1].text

        await self.wait_until(is_shown, timeout)
        return self.messages(chat)[-1]

    async def wait_until(self, true: Callable[[], bool], timeout: float) -> None:
        """Wait until something is true; it is looked at after every call. Raises `TimeoutError`."""
        try:
            async with asyncio.timeout(timeout):
                while not true():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            recent = [(call.method, call.status, call.parameters) for call in self.calls[-8:]]
            raise TimeoutError(f"not within {timeout} s; the last calls: {recent}") from None

    # The server.

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        telegram_peer = next((bot for bot in self.bots if bot.token == request.match_info["token"]), self)
        return await telegram_peer.answer(request)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer what this bot asks."""
        name = next((method for method in METHODS if method.lower() == request.match_info["method"].lower()), "")
        at = time.monotonic()
        raw: Json = await request.json() if request.content_type == "application/json" else dict(await request.post())
        if self.watch:
            await self.watch(name, "before")
        error = self._next_injected_error(name)
        if error is not None and error.drop == "before":
            return self._dropped(request, Call(name, raw, at, 0))
        try:
            if request.match_info["token"] != self.token:
                raise Refusal(401, "Unauthorized")
            if not name or (name in RICH_METHODS and not self.has_rich):
                raise Refusal(404, "Not Found: method not found")
            if error is not None and not error.drop:
                if error.body:
                    self.calls.append(Call(name, raw, at, error.status))
                    return web.Response(status=error.status, text=error.body)
                extra_sources = {"retry_after": error.retry_after} if error.retry_after else {}
                raise Refusal(error.status, error.description, **extra_sources)
            body: Json = {"ok": True, "result": await self._call(name, _parse_parameters(name, raw))}
            status = 200
        except Refusal as rejection:
            body = rejection.body
            status = rejection.status
        if error is not None and error.drop == "after":
            return self._dropped(request, Call(name, raw, at, 0))
        if self.watch:
            await self.watch(name, "after")
        self.calls.append(Call(name, raw, at, status))
        self._notify()
        return web.json_response(body, status=status)

    async def _hand_over(self, request: web.Request) -> web.Response:
        if request.match_info["token"] != self.token:
            return web.Response(status=401)
        self.fetched.append(request.match_info["file_id"])
        return web.Response(body=self.files[request.match_info["file_id"]])

    def _dropped(self, request: web.Request, call: Call) -> web.Response:
        self.calls.append(call)
        self._notify()
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def _next_injected_error(self, method: str) -> InjectedError | None:
        for error in self._injected_errors:
            if error.method == method and error.times > 0:
                error.times -= 1
                return error
        return None

    def _member(self, params: Json) -> Json:
        chat = self.chats.get(params["chat_id"])
        if chat is None:
            raise Refusal(400, "chat not found")
        if chat.kicked:
            raise Refusal(403, "bot was kicked from the supergroup chat")
        if params["user_id"] != self.bot.id:
            raise Refusal(400, "user not found")
        status = "administrator" if self.bot in chat.administrators else "member"
        return {"status": status, "user": self.bot.user()}

    def _notify(self) -> None:
        self._changed.set()

    async def _call(self, name: str, params: Json) -> object:
        if self.banned and self.banned in str(params.get("text")) + str(params.get("rich_message")):
            raise Refusal(400, "MESSAGE_REJECTED")
        match name:
            case "getMe":
                return {**self.bot.user(), "can_join_groups": True, "can_read_all_group_messages": self.reads_all}
            case "getFile":
                if params["file_id"] not in self.files:
                    raise Refusal(400, "wrong file_id or the file is temporarily unavailable")
                path = f"files/{params['file_id']}"
                return {"file_id": params["file_id"], "file_unique_id": params["file_id"], "file_path": path}
            case "getWebhookInfo":
                pending_count = len(self._updates)
                return {"url": self.webhook, "has_custom_certificate": False, "pending_update_count": pending_count}
            case "deleteWebhook":
                self.webhook = ""
                if params.get("drop_pending_updates"):
                    self._updates.clear()
                return True
            case "setMyCommands":
                return self._set_commands(params)
            case "getChatAdministrators":
                return self._administrators(params)
            case "getChatMember":
                return self._member(params)
            case "getUpdates":
                return await self._get_updates(params)
            case "sendChatAction":
                if params["action"] not in ACTIONS:
                    raise Refusal(400, "wrong parameter action in request")
                self._writable(params)
                return True
            case "sendMessage" | "sendRichMessage":
                return self._send_message(params)
            case "sendMessageDraft" | "sendRichMessageDraft":
                return self._send_draft(params)
            case "editMessageText":
                return self._edit_text(params)
            case "editMessageReplyMarkup":
                return self._edit_buttons(params)
            case "answerCallbackQuery":
                return self._answer_press(params)
            case _:
                if self._writable(params).messages.pop(params["message_id"], None) is None:
                    raise Refusal(400, "message to delete not found")
                return True

    def _administrators(self, params: Json) -> list[Json]:
        chat = self.chats.get(params["chat_id"])
        if chat is None or chat.kicked:
            raise Refusal(400, "chat not found")
        if chat.private:
            raise Refusal(400, "there are no administrators in the private chat")
        extra_sources = {"can_be_edited": False, "is_anonymous": False, "can_manage_chat": True}
        people = [
            {"user": administrator.user(), "status": "administrator", **extra_sources}
            for administrator in chat.administrators
        ]
        return [*people, {"user": self.bot.user(), "status": "administrator", **extra_sources}]

    def _set_commands(self, params: Json) -> bool:
        scope = params.get("scope", {"type": "default"})
        if scope.get("type") not in SCOPES:
            raise Refusal(400, "can't parse BotCommandScope: unsupported type specified")
        for command in params["commands"]:
            _checked(command, {"command": str, "description": str}, "BotCommand")
            if not re.fullmatch(r"[a-z0-9_]{1,32}", command.get("command", "")):
                raise Refusal(400, "BOT_COMMAND_INVALID")
            if not 1 <= len(command.get("description", "")) <= 256:
                raise Refusal(400, "BOT_COMMAND_DESCRIPTION_INVALID")
        language = params.get("language_code", "")
        if language and not re.fullmatch("[a-z]{2}", language):
            raise Refusal(400, "LANGUAGE_CODE_INVALID")
        self.commands[f"{scope['type']}:{language}" if language else scope["type"]] = params["commands"]
        return True

    async def _get_updates(self, params: Json) -> list[object]:
        if self.webhook:
            raise Refusal(409, "can't use getUpdates method while webhook is active; use deleteWebhook to delete it")
        if self._poller is not None and not self._poller.done():
            self._poller.set_result(None)
        if any(kind not in UPDATE_KINDS for kind in params.get("allowed_updates", ())):
            raise Refusal(400, "wrong update type in allowed_updates")
        self.allowed_updates = params.get("allowed_updates", self.allowed_updates)
        offset = params.get("offset", 0)
        limit = params.get("limit", 100)
        self._confirm(offset)
        deadline = time.monotonic() + params.get("timeout", 0)
        self._poller = own_poll = asyncio.get_running_loop().create_future()
        while not self._updates and time.monotonic() < deadline:
            await self._news(own_poll, deadline)
            if own_poll.done():
                raise Refusal(
                    409, "terminated by other getUpdates request; make sure that only one bot instance is running"
                )
        own_poll.cancel()
        return [self._updates[number] for number in sorted(self._updates)][:limit]

    def _confirm(self, offset: int) -> None:
        self.offsets.append(offset)
        updates = [number for number in self._updates if number < offset]
        if offset < 0:
            updates = sorted(self._updates)[:offset]
        for number in updates:
            del self._updates[number]
        self.confirmed += sorted(updates)
        self._notify()

    async def _news(self, own_poll: asyncio.Future[None], deadline: float) -> None:
        # Short naps: the peer serves tests, and several waiters share its one event.
        await asyncio.wait({own_poll}, timeout=min(0.01, max(0, deadline - time.monotonic())))

    def _writable(self, params: Json) -> Chat:
        chat = self.chats.get(params["chat_id"])
        if chat is None:
            raise Refusal(400, "chat not found")
        if chat.moved_to:
            raise Refusal(400, "group chat was upgraded to a supergroup chat", migrate_to_chat_id=chat.moved_to)
        if chat.kicked:
            raise Refusal(403, "bot was blocked by the user" if chat.private else "bot was kicked from the group chat")
        thread = params.get("message_thread_id")
        if thread is not None and thread not in chat.topics:
            raise Refusal(400, "message thread not found")
        if thread is not None and not chat.topics[thread]:
            raise Refusal(400, "TOPIC_CLOSED")
        return chat

    def _limited(self, chat: Chat) -> None:
        if self.limit_per_chat is None:
            return
        max_calls, seconds = self.limit_per_chat
        now = time.monotonic()
        while chat.sent_at and chat.sent_at[0] <= now - seconds:
            chat.sent_at.popleft()
        if len(chat.sent_at) >= max_calls:
            wait = max(1, round(chat.sent_at[0] + seconds - now + 0.5))
            raise Refusal(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        chat.sent_at.append(now)

    def _send_message(self, params: Json) -> Json:
        chat = self._writable(params)
        self._limited(chat)
        rich_text = _rich(params)
        text, entities = (rich_text.text, rich_text.entities) if rich_text else _text(params, "message is too long")
        reply = _checked(params.get("reply_parameters", {}), REPLY_PARAMETERS, "ReplyParameters")
        _checked(params.get("link_preview_options", {}), LINK_PREVIEW, "LinkPreviewOptions")
        reply_to = reply.get("message_id")
        if "reply_parameters" in params and reply_to is None:
            raise Refusal(400, "message identifier is not specified")
        if reply_to is not None and reply_to not in chat.messages:
            if not reply.get("allow_sending_without_reply"):
                raise Refusal(400, "message to be replied not found")
            reply_to = None
        thread = params.get("message_thread_id")
        buttons = _buttons(params)
        html = params["rich_message"]["html"] if rich_text else params["text"]
        message = self._add(chat, text, entities, html, self.bot, thread=thread, reply_to=reply_to)
        message.buttons = buttons
        message.blocks = rich_text.blocks if rich_text else []
        return self._message(chat, message)

    def _edit_buttons(self, params: Json) -> Json:
        chat = self._writable(params)
        message = chat.messages.get(params["message_id"])
        if message is None:
            raise Refusal(400, "message to edit not found")
        if message.author is not self.bot:
            raise Refusal(400, "message can't be edited")
        if (buttons := _buttons(params)) == message.buttons:
            raise Refusal(400, "message is not modified: specified new message content and reply markup are the same")
        self._limited(chat)
        message.buttons = buttons
        return self._message(chat, message)

    def _answer_press(self, params: Json) -> bool:
        number = params["callback_query_id"]
        if len(params.get("text", "")) > 200:
            raise Refusal(400, "MESSAGE_TOO_LONG")
        if time.monotonic() - self.pressed.get(number, -self.press_s) > self.press_s or number in self.notices:
            raise Refusal(400, "query is too old and response timeout expired or query ID is invalid")
        self.notices[number] = params.get("text", "")
        return True

    def _send_draft(self, params: Json) -> bool:
        chat = self._writable(params)
        if not chat.private:
            raise Refusal(400, "TEXTDRAFT_PEER_INVALID")
        if params["draft_id"] == 0:
            raise Refusal(400, "RANDOM_ID_INVALID")
        rich_text = _rich(params)
        text = _text(params, "MESSAGE_TOO_LONG")[0] if params.get("text") else ""
        visible_text = rich_text.text if rich_text else text
        can_stop = params.get("can_stop", False)
        is_rich = rich_text is not None
        self.drafts.append(Draft(chat.id, params["draft_id"], visible_text, time.monotonic(), is_rich, can_stop))
        return True

    def _edit_text(self, params: Json) -> Json:
        chat = self._writable(params)
        message = chat.messages.get(params["message_id"])
        if message is None:
            raise Refusal(400, "message to edit not found")
        if message.author is not self.bot:
            raise Refusal(400, "message can't be edited")
        # An older server does not look at what it does not know.
        rich_text = _rich(params) if self.has_rich else None
        text, entities = (rich_text.text, rich_text.entities) if rich_text else _text(params, "MESSAGE_TOO_LONG")
        buttons = _buttons(params)
        blocks = rich_text.blocks if rich_text else []
        old_content = (message.text, message.entities, message.buttons, message.blocks)
        if (text, entities, buttons, blocks) == old_content:
            raise Refusal(
                400,
                "message is not modified: specified new message content and reply markup are exactly the same as a "
                "current content and reply markup of the message",
            )
        self._limited(chat)
        html = params["rich_message"]["html"] if rich_text else params["text"]
        message.text = text
        message.entities = entities
        message.html = html
        message.buttons = buttons
        message.blocks = blocks
        message.history.append((time.monotonic(), text))
        return {**self._message(chat, message), "edit_date": int(time.time())}

    def _add(
        self,
        chat: Chat,
        text: str,
        entities: list[Entity],
        html: str,
        author: Author,
        *,
        thread: int | None,
        reply_to: int | None,
    ) -> PostedMessage:
        history = [(time.monotonic(), text)]
        ours = any(author is bot.bot for bot in self.bots)
        message = PostedMessage(chat.next_id, text, entities, html, ours, author, thread, reply_to, history)
        chat.messages[message.id] = message
        chat.next_id += 1
        return message

    def _message(self, chat: Chat, message: PostedMessage) -> Json:
        """Return a message as the API shows it, with the one it replies to."""
        replied = chat.messages.get(message.reply_to or 0)
        in_topic = message.thread is not None and message.thread in chat.topics
        return {
            "message_id": message.id,
            "from": message.author.user(),
            "chat": self._chat(chat, message.author),
            "date": int(time.time()),
            **({"rich_message": {"blocks": message.blocks}} if message.blocks else {}),
            **({"text": message.text} if message.text and not message.blocks else {}),
            **({"entities": message.entities} if message.entities and not message.blocks else {}),
            **({"reply_markup": {"inline_keyboard": message.buttons}} if message.buttons else {}),
            **({"message_thread_id": message.thread} if message.thread is not None else {}),
            **({"is_topic_message": True} if in_topic else {}),
            **(
                {"reply_to_message": {**self._message(chat, _without_reply(replied)), "date": int(time.time())}}
                if replied is not None
                else {}
            ),
            **message.extra_fields,
        }

    def _chat(self, chat: Chat, author: Author) -> Json:
        if chat.private:
            return {"id": chat.id, "type": "private", "first_name": author.first_name}
        forum = {"is_forum": True} if chat.topics else {}
        return {"id": chat.id, "type": "supergroup", "title": chat.title, **forum}

    def _service(self, chat: Chat) -> Json:
        return {
            "message_id": chat.next_id,
            "from": Author().user(),
            "chat": self._chat(chat, Author()),
            "date": int(time.time()),
        }

    async def _control(self, request: web.Request) -> web.Response:
        body = await request.json()
        if request.match_info["action"] != "say":
            raise web.HTTPNotFound
        return web.json_response({"message_id": self.say(body["chat"], body["text"], thread=body.get("thread"))})

    async def _control_messages(self, request: web.Request) -> web.Response:
        messages: Iterable[PostedMessage] = self.messages(int(request.query["chat"]))
        return web.json_response(
            [
                {"id": message.id, "text": message.text, "reply_to": message.reply_to, "links": message.links()}
                for message in messages
            ]
        )


def _without_reply(message: PostedMessage) -> PostedMessage:
    return dataclasses.replace(message, reply_to=None, history=[], buttons=[])


def _parse_parameters(method: str, raw: Json) -> Json:
    """Check the names and the types of a request's parameters and return their values."""
    known_parameters = {name.rstrip("!"): kind for name, kind in METHODS[method].items()}
    for name in raw:
        if name not in known_parameters:
            raise Refusal(400, f'unknown parameter "{name}" of {method}')
    for name in METHODS[method]:
        if name.endswith("!") and name[:-1] not in raw:
            raise Refusal(400, f"parameter {name[:-1]} is required")
    return {name: _value(name, value, known_parameters[name]) for name, value in raw.items()}


def _value(name: str, value: object, kind: type) -> Any:
    if not isinstance(value, str) or kind is str:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Refusal(400, f"wrong type of {name}")
        return value
    try:
        parsed_value = json.loads(value)
    except json.JSONDecodeError:
        raise Refusal(400, f"can't parse {name} JSON object") from None
    if not isinstance(parsed_value, kind) or (kind is int and isinstance(parsed_value, bool)):
        raise Refusal(400, f"wrong type of {name}")
    return parsed_value


def _buttons(params: Json) -> list[list[Json]]:
    """Return a request's inline keyboard."""
    markup = _checked(params.get("reply_markup", {}), {"inline_keyboard": list}, "InlineKeyboardMarkup")
    rows: list[list[Json]] = markup.get("inline_keyboard", [])
    for button in (button for row in rows for button in row):
        _checked(button, {"text": str, "callback_data": str}, "InlineKeyboardButton")
        if not button.get("text"):
            raise Refusal(400, "can't parse inline keyboard button: Text buttons must have a text")
        if not 1 <= len(button.get("callback_data", "").encode()) <= 64:
            raise Refusal(400, "BUTTON_DATA_INVALID")
    return rows


def _checked(params: Json, known_parameters: dict[str, type], subject: str) -> Json:
    for name, value in params.items():
        kind = known_parameters.get(name)
        if kind is None or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Refusal(400, f'can\'t parse {subject}: wrong field "{name}"')
    return params


def _rich(params: Json) -> RichContent | None:
    """Return a request's rich message as it is shown; nothing where there is none."""
    if "rich_message" not in params:
        return None
    message = _checked(params["rich_message"], RICH_MESSAGE, "InputRichMessage")
    if sum(name in message for name in ("html", "markdown", "blocks")) != 1 or params.get("text"):
        raise Refusal(400, "exactly one of html, markdown, and blocks must be specified")
    try:
        rich_text = parse_rich_html(message["html"])
    except ParseError as error:
        raise Refusal(400, f"can't parse rich message: {error}") from error
    if message.get("skip_entity_detection"):
        return rich_text
    return dataclasses.replace(rich_text, entities=[*rich_text.entities, *find_entities(rich_text.text)])


def _text(params: Json, too_long: str) -> tuple[str, list[Entity]]:
    """Return a request's text and entities as they are shown."""
    raw = params.get("text", "")
    if len(raw.encode()) > RAW_LIMIT:
        raise Refusal(400, "Text is too long")
    mode = params.get("parse_mode", "").lower()
    if mode not in ("", "html"):
        raise Refusal(400, "Unsupported parse_mode")
    try:
        text, entities = parse_html(raw) if mode else (raw, [])
    except ParseError as error:
        raise Refusal(400, f"can't parse entities: {error}") from error
    lead = units(text) - units(text.lstrip())
    text = text.strip()
    if not text:
        raise Refusal(400, "message text is empty")
    if units(text) > LIMIT:
        raise Refusal(400, too_long)
    taken_ranges = [
        (entity["offset"], entity["offset"] + entity["length"]) for entity in entities if entity["type"] in SOLID
    ]
    results = [
        entity
        for entity in find_entities(text)
        if not any(start - lead <= entity["offset"] < end - lead for start, end in taken_ranges)
    ]
    return text, [*({**entity, "offset": max(0, entity["offset"] - lead)} for entity in entities), *results]


async def _serve(arguments: argparse.Namespace) -> None:
    async with TelegramPeer(arguments.token, arguments.username, port=arguments.port) as peer:
        line = {"api_url": peer.api_url, "token": peer.token, "control_url": f"{peer.api_url}/control"}
        print(json.dumps(line), flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run the peer as a process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default="42:a-token-for-tests")
    parser.add_argument("--username", default="kimas_bot")
    try:
        asyncio.run(_serve(parser.parse_args()))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
