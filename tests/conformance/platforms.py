"""One small driver per platform: what people do there and what they see, in words that all platforms share."""

from __future__ import annotations

import asyncio
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any, Literal

from bots.bluesky.adapter import BlueskyAdapter
from bots.console.adapter import ConsoleGroupAdapter
from bots.daemon.adapters import JournalAccounts, JournalPositions
from bots.discord.adapter import DiscordAdapter
from bots.forges.adapter import ForgeAdapter
from bots.mastodon.adapter import MastodonAdapter
from bots.slack.adapter import SlackAdapter
from bots.telegram.adapter import TelegramAdapter
from bots.telegram.connection import TelegramIntervals as TelegramPace
from core.messaging.feedback.handoff import ASK_ABOUT_THIS, ASK_SHORTCUT_ID
from core.storage.messages import Journal
from core.types import ConversationKey
from tests.support import bluesky_helpers, discord_helpers, forge_helpers, mastodon_helpers, slack_helpers
from tests.support.journal import read_history
from tests.support.peers import bluesky, discord, github, gitlab, mastodon, slack, telegram
from tests.support.telegram_helpers import settings as telegram_settings

Step = Literal["post", "begin", "grow", "finish"]
How = Literal["rate limit", "server error", "dropped before", "dropped after", "refused"]

TELEGRAM_PACE = TelegramPace(
    poll_s=1, retry_s=0.02, max_retry_s=0.1, edit_s=0.05, draft_s=0.02, typing_s=0.05, retry_timeout_s=5
)
# What somebody writes is looked at at once, as after a webhook: looking at all all the time takes most of a scenario.
FORGE_POLL_S = 0.3
WORD_JOINERS = re.compile("[\u2060\u200b]")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who writes; `robot` is another bot."""

    number: int
    name: str
    robot: bool = False


ANN = Person(1, "Ann")
BEN = Person(2, "Ben")
OTHER_ANN = Person(3, "Ann")
ROBOT = Person(8, "Robot", robot=True)


@dataclass(frozen=True, slots=True)
class Channel:
    """Where people write. `id` is the platform's own id, `chat` the journal's, `thread` the platform's thread."""

    id: str
    chat: str
    thread: str = ""
    private: bool = False


@dataclass(frozen=True, slots=True)
class PostedMessage:
    """One message of the bot: the text that people see, the addresses behind it, its code blocks, and what was sent."""

    id: str
    text: str
    links: tuple[str, ...]
    code: tuple[str, ...]
    raw: str
    thread: str = ""
    reply_to: str = ""


async def until(true: Callable[[], bool], description: str, timeout_s: float = 30) -> None:
    """Wait until something is true. Raises `TimeoutError` that says what never came."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {description}")
        await asyncio.sleep(0.005)


# Adapters that count what became no message, by reason.
Skipping = (
    TelegramAdapter
    | DiscordAdapter
    | SlackAdapter
    | MastodonAdapter
    | BlueskyAdapter
    | ForgeAdapter
    | ConsoleGroupAdapter
)


class Driver(ABC):
    """One platform with its people.

    `mention` is what means the bot; `knows_doubles` says that a message which was taken while the connection broke is
    not posted a second time. In `asker_chats` answers are for the asker alone, where the platform has that.
    """

    name = ""
    mention = ""
    knows_doubles = False

    def __init__(self) -> None:
        self.asker_chats: set[str] = set()

    @abstractmethod
    async def open(self, stack: AsyncExitStack) -> None: ...

    @abstractmethod
    def adapter(self, journal: Journal, folder: Path) -> Skipping: ...

    @abstractmethod
    async def ready(self) -> None:
        """Wait until the bot is connected."""

    def forget_posts(self) -> None:
        """Let so much time pass that the platform takes a repeated post for a new one; it still shows the first."""
        return

    async def part(self, adapter: Any) -> None:
        """Close what would take its time, before the adapter is closed."""
        return

    @abstractmethod
    def private(self, person: Person = ANN) -> Channel: ...

    @abstractmethod
    def group(self, number: int = 1) -> Channel: ...

    def other_chat(self, person: Person = ANN) -> Channel:
        """Return another chat than the first group, in which a person can write."""
        return self.group(2)

    async def separate_chats(self, count: int) -> list[Channel]:
        """Return as many conversations with the bot among other people."""
        return [self.group(number) for number in range(1, count + 1)]

    @abstractmethod
    async def thread(self, channel: Channel) -> Channel: ...

    @abstractmethod
    def get_mention(self, person: Person) -> str:
        """Return what mentions a person at the beginning of a text."""

    @abstractmethod
    def board(self) -> Channel:
        """Return where people write posts."""

    @abstractmethod
    async def post(self, board: Channel, text: str) -> tuple[str, Channel]:
        """Let Ann write a post, and return its id and the thread below it."""

    @abstractmethod
    async def say(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> str: ...

    @abstractmethod
    async def command(self, channel: Channel, name: str, text: str = "") -> str: ...

    @abstractmethod
    async def attach(self, channel: Channel, text: str = "") -> None: ...

    @abstractmethod
    async def say_as_bot(self, channel: Channel, text: str) -> None: ...

    @abstractmethod
    async def edit(self, channel: Channel, message: str, text: str) -> None: ...

    @abstractmethod
    async def delete(self, channel: Channel, message: str) -> None: ...

    @abstractmethod
    async def redeliver(self, channel: Channel, message: str) -> None: ...

    @abstractmethod
    async def malformed(self) -> None: ...

    @abstractmethod
    async def lose_connection(self) -> None: ...

    @abstractmethod
    def fail(self, step: Step, how: How, times: int = 1) -> None: ...

    async def join(self, channel: Channel) -> None:
        """Add the bot to a channel."""
        raise NotImplementedError

    async def react(self, channel: Channel, reply: str, *, is_removed: bool = False) -> None:
        """Put a thumb up below a reply of the bot, as an emoji, or take it off."""
        raise NotImplementedError

    async def ask_about(self, channel: Channel, message: str) -> str:
        """Choose the entry in the menu of a message that asks about it; return the id of what is answered."""
        raise NotImplementedError

    @abstractmethod
    def bar(self, channel: Channel, *, out: bool) -> None:
        """Take the right to write in a group from the bot, or give it back."""

    def open_streams(self) -> list[str]:
        """Return the messages that the bot is still writing, as the platform shows it."""
        return []

    @abstractmethod
    def messages(self, channel: Channel) -> list[PostedMessage]: ...

    @abstractmethod
    def get_notified(self, channel: Channel) -> list[str]: ...

    @abstractmethod
    def signs(self) -> int: ...

    async def reply(self, channel: Channel, message: PostedMessage, text: str, person: Person = ANN) -> str:
        """Reply to a message of the bot."""
        return await self.say(channel, text, person=person, reply_to=message.id)


class Telegram(Driver):
    """Groups are supergroups, threads are topics of a forum."""

    name = "telegram"
    mention = "@kimas_bot "

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(telegram.TelegramPeer())

    def adapter(self, journal: Journal, folder: Path) -> TelegramAdapter:
        settings = telegram_settings(self.peer, folder)
        return TelegramAdapter(settings, JournalPositions(journal, "telegram"), TELEGRAM_PACE)

    async def ready(self) -> None:
        # Telegram keeps what is said until it is asked for.
        return None

    async def part(self, adapter: Any) -> None:
        # aiogram waits a quarter of a second for the end of TLS, which is not spoken here.
        session = adapter._client._bot.session._session
        if session is not None:
            await session.close()

    def private(self, person: Person = ANN) -> Channel:
        chat_id = str(1000 + person.number)
        return Channel(chat_id, chat_id, private=True)

    def group(self, number: int = 1) -> Channel:
        return Channel(str(-100 - number), str(-100 - number))

    async def thread(self, channel: Channel) -> Channel:
        topics = self.peer.chat(int(channel.id)).topics
        number = 700 + len(topics)
        self.peer.forum(int(channel.id), number)
        return replace(channel, thread=str(number))

    def board(self) -> Channel:
        return self.group(9)

    async def post(self, board: Channel, text: str) -> tuple[str, Channel]:
        return await self.say(board, text, is_automatic_forward=True), board

    def get_mention(self, person: Person) -> str:
        return f"@person_{person.number} "

    def _author(self, person: Person) -> telegram.Author:
        return telegram.Author(1000 + person.number, person.name, f"person_{person.number}", is_bot=person.robot)

    async def say(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> str:
        thread = int(channel.thread) if channel.thread else None
        answered = int(reply_to) if reply_to else None
        chat_id = int(channel.id)
        return str(
            self.peer.say(chat_id, text, author=self._author(person), reply_to=answered, thread=thread, **extra_fields)
        )

    async def command(self, channel: Channel, name: str, text: str = "") -> str:
        to = "" if channel.private else "@kimas_bot"
        return await self.say(channel, f"/{name}{to} {text}".strip())

    async def attach(self, channel: Channel, text: str = "") -> None:
        photo = [{"file_id": "f", "file_unique_id": "u", "width": 90, "height": 90}]
        chat = {"id": int(channel.id), "type": "private" if channel.private else "supergroup", "title": "Team"}
        message = {"message_id": 9001, "from": self._author(ANN).user(), "chat": chat, "date": int(time.time())}
        self.peer.inject({"message": {**message, "photo": photo, **({"caption": text} if text else {})}})

    async def say_as_bot(self, channel: Channel, text: str) -> None:
        self.peer.say(int(channel.id), text, author=replace(self.peer.bot))

    async def edit(self, channel: Channel, message: str, text: str) -> None:
        self.peer.edit(int(channel.id), int(message), text)

    async def delete(self, channel: Channel, message: str) -> None:
        self.peer.delete(int(channel.id), int(message))

    async def redeliver(self, channel: Channel, message: str) -> None:
        chat = self.peer.chat(int(channel.id))
        self.peer.inject({"message": self.peer._message(chat, chat.messages[int(message)])})

    async def malformed(self) -> None:
        for message in ({"message_id": "one"}, 7, ["a", "list"]):
            self.peer.inject({"message": message})

    async def lose_connection(self) -> None:
        self.peer.fail("getUpdates", drop="before")
        self.peer.fail("getUpdates", 502, body="<html>Bad Gateway</html>")

    def fail(self, step: Step, how: How, times: int = 1) -> None:
        method = "sendMessage" if step in ("post", "begin") else "editMessageText"
        match how:
            case "rate limit":
                text = "Too Many Requests: retry after 1"
                self.peer.fail(method, 429, times=times, description=text, retry_after=1)
            case "server error":
                self.peer.fail(method, 502, times=times, body="<html>Bad Gateway</html>")
            case "dropped before":
                self.peer.fail(method, times=times, drop="before")
            case "refused":
                self.peer.fail(method, 400, times=times, description="Bad Request: SOMETHING_NEW_INVALID")
            case _:
                self.peer.fail(method, times=times, drop="after")

    async def join(self, channel: Channel) -> None:
        chat = {"id": int(channel.id), "type": "supergroup", "title": "Team"}
        message = {"message_id": 9002, "from": self._author(ANN).user(), "chat": chat, "date": int(time.time())}
        self.peer.chat(int(channel.id))
        self.peer.inject({"message": {**message, "new_chat_members": [self.peer.bot.user()]}})

    async def react(self, channel: Channel, reply: str, *, is_removed: bool = False) -> None:
        thumb: list[Any] = [{"type": "emoji", "emoji": "👍"}]
        new, old = ([], thumb) if is_removed else (thumb, [])
        chat = {"id": int(channel.id), "type": "supergroup", "title": "Team"}
        event = {"chat": chat, "message_id": int(reply), "user": self._author(ANN).user(), "date": int(time.time())}
        self.peer.inject({"message_reaction": {**event, "old_reaction": old, "new_reaction": new}})

    def bar(self, channel: Channel, *, out: bool) -> None:
        self.peer.chat(int(channel.id)).kicked = out

    def messages(self, channel: Channel) -> list[PostedMessage]:
        return [
            self._to_posted_message(message)
            for message in self.peer.messages(int(channel.id))
            if _in(channel, str(message.thread or ""))
        ]

    def _to_posted_message(self, message: telegram.PostedMessage) -> PostedMessage:
        units = message.text.encode("utf-16-le")
        pieces = [
            units[2 * entity["offset"] : 2 * (entity["offset"] + entity["length"])].decode("utf-16-le")
            for entity in message.entities
            if entity["type"] == "pre"
        ]
        text = WORD_JOINERS.sub("", message.text)
        thread = str(message.thread or "")
        return PostedMessage(
            str(message.id),
            text,
            tuple(message.links()),
            tuple(pieces),
            message.html,
            thread,
            str(message.reply_to or ""),
        )

    def get_notified(self, channel: Channel) -> list[str]:
        kinds = ("mention", "text_mention")
        messages = self.peer.messages(int(channel.id))
        return [str(entity) for message in messages for entity in message.entities if entity["type"] in kinds]

    def signs(self) -> int:
        return len(self.peer.get_calls("sendChatAction"))


class Discord(Driver):
    """Groups are channels of a server, threads are public threads below them."""

    name = "discord"
    mention = "<@5001> "
    knows_doubles = True

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(discord.DiscordPeer())
        self._channels: dict[str, Channel] = {}

    def forget_posts(self) -> None:
        self.peer.remembers_nonces = False

    def adapter(self, journal: Journal, folder: Path) -> DiscordAdapter:
        return DiscordAdapter(
            discord_helpers.settings(self.peer, folder),
            JournalPositions(journal, "discord"),
            discord_helpers.PACE,
            is_for_asker=self.asker_chats.__contains__,
        )

    async def ready(self) -> None:
        await until(lambda: bool(self.peer.gateway.live), "a session with Discord's gateway")

    def private(self, person: Person = ANN) -> Channel:
        return self._channel(f"person {person.number}", private=True)

    def group(self, number: int = 1) -> Channel:
        return self._channel(f"group {number}", private=False)

    def _channel(self, name: str, *, private: bool) -> Channel:
        if name not in self._channels:
            channel_id = self.peer.channel(private=private)
            self._channels[name] = Channel(channel_id, channel_id, private=private)
        return self._channels[name]

    async def thread(self, channel: Channel) -> Channel:
        channel_id = await self.peer.thread(channel.chat)
        return Channel(channel_id, channel.chat, channel_id)

    def board(self) -> Channel:
        if "board" not in self._channels:
            forum = self.peer.channel(15)
            self._channels["board"] = Channel(forum, forum)
        return self._channels["board"]

    async def post(self, board: Channel, text: str) -> tuple[str, Channel]:
        channel = await self.thread(board)
        # The first message of a forum post has the number of its thread.
        self.peer.snowflake, original = lambda at=None: channel.id, self.peer.snowflake  # type: ignore[method-assign, assignment]
        message = await self.say(channel, text)
        self.peer.snowflake = original  # type: ignore[method-assign]
        return message, channel

    def get_mention(self, person: Person) -> str:
        return f"<@{1000 + person.number}> "

    def _author(self, person: Person) -> discord.Author:
        return discord.Author(str(1000 + person.number), f"person{person.number}", person.name, bot=person.robot)

    async def say(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> str:
        return await self.peer.say(channel.id, text, author=self._author(person), reply_to=reply_to, **extra_fields)

    async def command(self, channel: Channel, name: str, text: str = "") -> str:
        values = {"question": text} if name == "ask" else {}
        return (await self.peer.command(channel.id, name, self._author(ANN), **values)).id

    async def attach(self, channel: Channel, text: str = "") -> None:
        picture = {"id": "1", "filename": "screen.png", "size": 10, "url": "http://127.0.0.1/screen.png"}
        picture["content_type"] = "image/png"
        await self.say(channel, text, attachments=[picture])

    async def say_as_bot(self, channel: Channel, text: str) -> None:
        await self.peer.say(channel.id, text, author=self.peer.me)

    async def edit(self, channel: Channel, message: str, text: str) -> None:
        await self.peer.edit(channel.id, message, text)

    async def delete(self, channel: Channel, message: str) -> None:
        await self.peer.delete(channel.id, message)

    async def redeliver(self, channel: Channel, message: str) -> None:
        await self.peer._tell("MESSAGE_CREATE", self.peer.channels[channel.id].messages[message])

    async def malformed(self) -> None:
        group_id = self.group().id
        for event in ({"id": "1"}, {"id": "x", "channel_id": group_id}, {"channel_id": 7, "author": "nobody"}):
            await self.peer.gateway.emit("MESSAGE_CREATE", event)

    async def lose_connection(self) -> None:
        self.peer.gateway.drop()

    def fail(self, step: Step, how: How, times: int = 1) -> None:
        name = "POST /channels/{}/messages" if step in ("post", "begin") else "PATCH /channels/{}/messages/{}"
        match how:
            case "rate limit":
                data = {"message": "You are being rate limited.", "retry_after": 0.2, "global": False}
                self.peer.fail(name, 429, times=times, body=data, headers={"Via": "1.1 google"})
            case "server error":
                self.peer.fail(name, 503, times=times)
            case "dropped before":
                self.peer.fail(name, times=times, drop="before")
            case "refused":
                self.peer.fail(name, 400, times=times, body={"code": 200000, "message": "Blocked by the rules"})
            case _:
                self.peer.fail(name, times=times, drop="after")

    async def join(self, channel: Channel) -> None:
        moment = datetime.now(UTC).isoformat()
        guild = {"id": "777", "name": "A new server", "owner_id": "1001", "joined_at": moment}
        await self.peer.gateway.emit("GUILD_CREATE", {**guild, "system_channel_id": channel.id, "channels": []})

    async def react(self, channel: Channel, reply: str, *, is_removed: bool = False) -> None:
        kind = "MESSAGE_REACTION_REMOVE" if is_removed else "MESSAGE_REACTION_ADD"
        event = {"user_id": "1001", "channel_id": channel.id, "message_id": reply, "guild_id": "7"}
        await self.peer.gateway.emit(kind, {**event, "emoji": {"id": None, "name": "👍🏽"}})

    async def ask_about(self, channel: Channel, message: str) -> str:
        return (await self.peer.choose(channel.id, message, ASK_ABOUT_THIS, self._author(ANN))).id

    def bar(self, channel: Channel, *, out: bool) -> None:
        self.peer.channels[channel.id].lacking = {"send"} if out else set()

    def messages(self, channel: Channel) -> list[PostedMessage]:
        return [self._to_posted_message(message) for message in self.peer.messages(channel.id)]

    def _to_posted_message(self, message: discord.PostedMessage) -> PostedMessage:
        raw = message.content
        links = re.findall(r"(?<=<)https?://[^>]+(?=>)", raw)
        code = re.findall(r"```[\w+#.-]*\n(.*?)\n\s*```", raw, re.DOTALL)
        text = re.sub(r"\[((?:\\.|\[[^\]]*\]|[^\]\\])*)\]\(<[^>]*>\)", r"\1", WORD_JOINERS.sub("", raw))
        text = re.sub(r"<(https?://[^>]*)>", r"\1", text)
        text = re.sub(r"\\([^\w\s])", r"\1", text).replace("\\_", "_")
        return PostedMessage(message.id, text, tuple(links), tuple(code), raw, "", message.reply_to)

    def get_notified(self, channel: Channel) -> list[str]:
        return [text for text in self.peer.notified if text != "replied"]

    def signs(self) -> int:
        return len(self.peer.get_calls("POST /channels/{}/typing"))


class Slack(Driver):
    """Groups are channels; a question there opens a thread of its own."""

    name = "slack"
    mention = f"<@{slack.BOT}> "
    knows_doubles = True

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(slack.SlackPeer())
        self.peer.deliveries.patience_s = 1.0
        self._joined: dict[str, str] = {}
        # How old a message is counts from its timestamp.
        self.peer._clock = int(time.time() * 1e6)

    def adapter(self, journal: Journal, folder: Path) -> SlackAdapter:
        async def answered_in(key: ConversationKey) -> bool:
            return bool(await read_history(journal, key, 1))

        return SlackAdapter(
            slack_helpers.settings(self.peer, folder),
            answered_in,
            slack_helpers.PACE,
            is_for_asker=self.asker_chats.__contains__,
        )

    async def ready(self) -> None:
        await until(lambda: bool(self.peer.deliveries.connections), "a connection to Slack")

    def private(self, person: Person = ANN) -> Channel:
        return Channel(f"D{person.number}", f"D{person.number}", private=True)

    def group(self, number: int = 1) -> Channel:
        return Channel(f"C{number}", f"C{number}")

    def get_mention(self, person: Person) -> str:
        return f"<@U{1000 + person.number}> "

    async def thread(self, channel: Channel) -> Channel:
        return replace(channel, thread=self.peer.say(channel.id, "let us talk about this below", user="U1009"))

    def board(self) -> Channel:
        return self.group(9)

    async def post(self, board: Channel, text: str) -> tuple[str, Channel]:
        message = await self.say(board, text)
        return message, replace(board, thread=message)

    async def say(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> str:
        thread = channel.thread
        if reply_to:
            # A reply is what is written in the thread of what it replies to.
            thread = self.peer.message(channel.id, reply_to).thread_ts or reply_to
        own = {"bot_id": "B1008"} if person.robot else {"user_profile": {"display_name": person.name}}
        return self.peer.say(channel.id, text, user=f"U{1000 + person.number}", thread=thread, **own, **extra_fields)

    async def command(self, channel: Channel, name: str, text: str = "") -> str:
        return str(self.peer.command(f"{name} {text}".strip(), channel=channel.id).payload["trigger_id"])  # type: ignore[index]

    async def attach(self, channel: Channel, text: str = "") -> None:
        await self.say(
            channel, text, subtype="file_share", files=[{"id": "F1", "name": "screen.png", "mimetype": "image/png"}]
        )

    async def say_as_bot(self, channel: Channel, text: str) -> None:
        self.peer.say(channel.id, text, user=slack.BOT)

    async def edit(self, channel: Channel, message: str, text: str) -> None:
        self.peer.edit(channel.id, message, text)

    async def delete(self, channel: Channel, message: str) -> None:
        self.peer.delete(channel.id, message)

    async def redeliver(self, channel: Channel, message: str) -> None:
        for envelope in list(self.peer.deliveries.envelopes):
            event = envelope.payload.get("event") if isinstance(envelope.payload, dict) else None
            if isinstance(event, dict) and event.get("ts") == message:
                self.peer.deliveries.deliver("events_api", envelope.payload)

    async def malformed(self) -> None:
        own = {"type": "message", "text": "x", "user": "U1", "channel": "C1"}
        for event in ({**own, "ts": "yesterday"}, {**own, "channel": 7, "ts": "1.2"}, 7):
            self.peer.event(event)

    async def lose_connection(self) -> None:
        self.peer.deliveries.abort()

    def fail(self, step: Step, how: How, times: int = 1) -> None:
        names = {"post": "chat.postMessage", "begin": "chat.startStream", "grow": "chat.appendStream"}
        method = names.get(step, "chat.update")
        match how:
            case "rate limit":
                self.peer.fail(method, "ratelimited", times=times, status=429, retry_after=1)
            case "server error":
                self.peer.fail(method, "internal_error", times=times, status=503, body="<html>Unavailable</html>")
            case "dropped before":
                self.peer.fail(method, times=times, drop="before")
            case "refused":
                self.peer.fail(method, "msg_blocks_too_long", times=times)
            case _:
                self.peer.fail(method, times=times, drop="after")

    async def join(self, channel: Channel) -> None:
        # The same event where it is delivered again.
        joined_at = self._joined.setdefault(channel.id, self.peer.write(channel.id, "hello").ts)
        event = {"type": "member_joined_channel", "user": slack.BOT, "channel": channel.id, "inviter": "U1001"}
        self.peer.event({**event, "team": slack.TEAM, "event_ts": joined_at})

    async def react(self, channel: Channel, reply: str, *, is_removed: bool = False) -> None:
        kind = "reaction_removed" if is_removed else "reaction_added"
        item = {"channel": channel.id, "ts": reply}
        event = {"type": kind, "user": "U1001", "reaction": "+1::skin-tone-3", "item_user": slack.BOT}
        self.peer.event({**event, "item": {"type": "message", **item}, "event_ts": self.peer._tick()})

    async def ask_about(self, channel: Channel, message: str) -> str:
        return str(self.peer.choose(channel.id, message, ASK_SHORTCUT_ID).payload["trigger_id"])  # type: ignore[index]

    def bar(self, channel: Channel, *, out: bool) -> None:
        self.peer.not_in = {channel.id} if out else set()

    def open_streams(self) -> list[str]:
        return [message.ts for message in self.peer._messages.values() if message.streaming]

    def messages(self, channel: Channel) -> list[PostedMessage]:
        posted = [
            self._to_posted_message(message)
            for message in self.peer.messages(channel.id)
            if _in(channel, message.thread_ts)
        ]
        messages = [
            slack.PostedMessage(f"response {number}", "", response["text"], "")
            for number, response in enumerate(self.peer.responses)
        ]
        return posted + [self._to_posted_message(message) for message in messages]

    def _to_posted_message(self, message: slack.PostedMessage) -> PostedMessage:
        code = [unescape(piece) for piece in re.findall(r"^```\n(.*?)\n```$", message.text, re.DOTALL | re.MULTILINE)]
        text = re.sub(r"<https?://[^|>]*\|([^>]*)>", r"\1", WORD_JOINERS.sub("", message.text))
        text = unescape(re.sub(r"<(https?://[^|>]*)>", r"\1", text))
        return PostedMessage(
            message.ts, text, tuple(message.links()), tuple(code), message.text, message.thread_ts, message.thread_ts
        )

    def get_notified(self, channel: Channel) -> list[str]:
        return [notify for message in self.peer.messages(channel.id) for notify in message.notifies()]

    def signs(self) -> int:
        return len(self.peer.get_calls("assistant.threads.setStatus")) + len(self.peer.get_calls("reactions.add"))


class Mastodon(Driver):
    """A group is a set of threads: what somebody writes there without a thread begins one."""

    name = "mastodon"
    mention = "@kimas "
    knows_doubles = True

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(mastodon.MastodonPeer(max_chars=2000))
        self._groups: dict[str, str] = {}

    def forget_posts(self) -> None:
        self.peer.keys = {}

    def adapter(self, journal: Journal, folder: Path) -> MastodonAdapter:
        return MastodonAdapter(
            mastodon_helpers.settings(self.peer, folder, answers_per_thread=100),
            JournalPositions(journal, "mastodon"),
            [self.board().chat],
            mastodon_helpers.PACE,
        )

    async def ready(self) -> None:
        await self.peer.until_streaming()
        await self.peer.until_streaming("hashtag news")

    def private(self, person: Person = ANN) -> Channel:
        handle = f"{self._author(person).username}@{mastodon.DOMAIN}"
        return Channel(handle, handle, private=True)

    def group(self, number: int = 1) -> Channel:
        return Channel(f"group {number}", "mentions")

    def other_chat(self, person: Person = ANN) -> Channel:
        return self.private(person)

    async def thread(self, channel: Channel) -> Channel:
        root = await self.say(channel, "let us talk about this below", person=Person(9, "Zoe"))
        return replace(channel, thread=root)

    def get_mention(self, person: Person) -> str:
        return f"@{self._author(person).username} "

    def board(self) -> Channel:
        return Channel("news", "tag/news")

    async def post(self, board: Channel, text: str) -> tuple[str, Channel]:
        message = await self.peer.say(self._author(ANN), f"{text} #news")
        self._groups[message] = board.id
        return message, replace(board, chat="mentions", thread=message)

    def _author(self, person: Person) -> mastodon.Account:
        account = self.peer.account(f"person{person.number}", name=person.name, bot=person.robot)
        # Who is followed by the bot tells it of edits.
        self.peer.followed.add(account.acct)
        return account

    async def say(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> str:
        names = [name for name in re.findall(r"@(\w+)", text) if name != mastodon.BOT.username]
        for name in names:
            # Whoever could be mentioned is there.
            self.peer.account(name)
        if channel.private:
            text, visibility = f"@kimas {text}", "direct"
        else:
            visibility = "public"
        # In a thread people reply to what was said last.
        above = [status.id for status in self.peer.statuses.values() if self.peer.root(status) == channel.thread]
        parent = reply_to or (above[-1] if above else "")
        message = await self.peer.say(
            self._author(person), text, visibility=visibility, reply_to=parent, **extra_fields
        )
        self._groups[self.peer.root(self.peer.statuses[message])] = channel.id
        return message

    async def reply(self, channel: Channel, message: PostedMessage, text: str, person: Person = ANN) -> str:
        return await self.say(channel, f"@kimas {text}", person=person, reply_to=message.id)

    async def command(self, channel: Channel, name: str, text: str = "") -> str:
        to = "" if channel.private else self.mention
        return await self.say(channel, f"{to}/{name} {text}".strip())

    async def attach(self, channel: Channel, text: str = "") -> None:
        picture = {"type": "image", "url": f"{self.peer.url}/screen.png", "description": None}
        await self.say(channel, text, media_attachments=[picture])

    async def say_as_bot(self, channel: Channel, text: str) -> None:
        await self.peer.say(mastodon.BOT, text)

    async def edit(self, channel: Channel, message: str, text: str) -> None:
        await self.peer.edit(message, f"@kimas {text}" if channel.private else text)

    async def delete(self, channel: Channel, message: str) -> None:
        self.peer.delete(message)

    async def redeliver(self, channel: Channel, message: str) -> None:
        status = self.peer.statuses[message]
        await self.peer.notify("mention", status.author, status)

    async def malformed(self) -> None:
        author = self._author(ANN)
        status = self.peer.statuses[await self.peer.say(author, "nothing")]
        for broken in ({"id": "1"}, {"id": "2", "mentions": [{"id": mastodon.BOT.id}], "account": 7}):
            await self.peer.notify("mention", author, status, broken)
        await self.peer.emit("user", "update", "{broken")

    async def lose_connection(self) -> None:
        self.peer.drop_streams()

    def fail(self, step: Step, how: How, times: int = 1) -> None:
        name = "POST statuses"
        match how:
            case "rate limit":
                self.peer.fail(name, 429, times=times, Retry_After="0.2")
            case "server error":
                self.peer.fail(name, 503, times=times)
            case "dropped before":
                self.peer.fail(name, times=times, drop="before")
            case "refused":
                self.peer.fail(name, 422, times=times, error="Validation failed: Something new")
            case _:
                self.peer.fail(name, times=times, drop="after")

    async def react(self, channel: Channel, reply: str, *, is_removed: bool = False) -> None:
        await self.peer.notify("favourite", self._author(ANN), self.peer.statuses[reply])

    def bar(self, channel: Channel, *, out: bool) -> None:
        raise NotImplementedError

    def messages(self, channel: Channel) -> list[PostedMessage]:
        return [self._to_posted_message(status) for status in self.peer.posts() if self._is_in(channel, status)]

    def _is_in(self, channel: Channel, status: mastodon.Status) -> bool:
        root = self.peer.root(status)
        if channel.private or status.visibility == "direct":
            names = [f"{account.acct}@{mastodon.DOMAIN}" for account in status.mentions]
            return status.visibility == "direct" and channel.id in names
        return self._groups.get(root) == channel.id and channel.thread in ("", root)

    def _to_posted_message(self, status: mastodon.Status) -> PostedMessage:
        text = re.sub(r"\A(?:@\w+ )+", "", WORD_JOINERS.sub("", status.text))
        code = re.findall(r"^```\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)
        links = [match[0] for match in mastodon.find_addresses(status.text)]
        return PostedMessage(
            status.id, text, tuple(links), tuple(code), status.text, self.peer.root(status), status.reply_to
        )

    def get_notified(self, channel: Channel) -> list[str]:
        return [name for status in self.peer.posts() for name in self.peer.notified(status)]

    def signs(self) -> int:
        return 0


class Bluesky(Driver):
    """A group is a set of threads, as on Mastodon.

    Nothing is private: a private chat is a thread that its person goes on with, always mentioning the bot.
    """

    name = "bluesky"
    mention = bluesky_helpers.AT
    knows_doubles = True

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(bluesky.BlueskyPeer())
        self.peer.lists["news"] = {self._author(ANN).handle}
        self._groups: dict[str, str] = {}

    def adapter(self, journal: Journal, folder: Path) -> BlueskyAdapter:
        return BlueskyAdapter(
            bluesky_helpers.settings(self.peer, folder, answers_per_thread=100, comment_below=(self._author(ANN).did,)),
            JournalPositions(journal, "bluesky"),
            [self.board().chat],
            folder / "bluesky.session",
            bluesky_helpers.PACE,
        )

    async def ready(self) -> None:
        await self.peer.until_polled()
        await self.peer.until_polled("GET getListFeed")

    def private(self, person: Person = ANN) -> Channel:
        return Channel(f"person{person.number}", "mentions", private=True)

    def group(self, number: int = 1) -> Channel:
        return Channel(f"group {number}", "mentions")

    async def thread(self, channel: Channel) -> Channel:
        return replace(channel, thread=await self.say(channel, "let us talk about this below", person=Person(9, "Zoe")))

    def get_mention(self, person: Person) -> str:
        return f"@{self._author(person).handle} "

    def board(self) -> Channel:
        return Channel("news", "list/news")

    async def post(self, board: Channel, text: str) -> tuple[str, Channel]:
        message = self.peer.say(self._author(ANN), text)
        self._groups[message] = board.id
        return message, replace(board, chat="mentions", thread=message)

    def _author(self, person: Person) -> bluesky.Account:
        return self.peer.account(f"person{person.number}", display_name=person.name, bot=person.robot)

    async def say(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> str:
        text = f"{self.mention}{text}" if channel.private else text
        # In a thread people reply to what was said last.
        above = [post.uri for post in self.peer.posts_by_uri.values() if self._is_in(channel, post)]
        parent = reply_to or (above[-1] if above and (channel.thread or channel.private) else "")
        message = self.peer.say(self._author(person), text, reply_to=parent, **extra_fields)
        self._groups.setdefault(self.peer.posts_by_uri[message].root, channel.id)
        return message

    async def reply(self, channel: Channel, message: PostedMessage, text: str, person: Person = ANN) -> str:
        return await self.say(channel, text, person=person, reply_to=message.id)

    async def command(self, channel: Channel, name: str, text: str = "") -> str:
        to = "" if channel.private else self.mention
        return await self.say(channel, f"{to}/{name} {text}".strip())

    async def attach(self, channel: Channel, text: str = "") -> None:
        picture = {"fullsize": f"{self.peer.url}/screen.png", "alt": ""}
        await self.say(channel, text, embed={"$type": "app.bsky.embed.images#view", "images": [picture]})

    async def say_as_bot(self, channel: Channel, text: str) -> None:
        message = self.peer.say(bluesky.BOT, text)
        self.peer.notify("mention", bluesky.BOT, message, {})

    async def edit(self, channel: Channel, message: str, text: str) -> None:
        raise NotImplementedError

    async def delete(self, channel: Channel, message: str) -> None:
        self.peer.delete(message)

    async def redeliver(self, channel: Channel, message: str) -> None:
        post = self.peer.posts_by_uri[message]
        self.peer.notify("mention", post.author, post.uri, post.record)

    async def malformed(self) -> None:
        author = self._author(ANN)
        message = self.peer.say(author, "nothing")
        self.peer.posts_by_uri[message].record["facets"] = [{"index": 7}]
        self.peer.notify("mention", author, message, {})
        self.peer.notify("like", {"did": 7}, f"{message}x", "text")
        self.peer.notify("mention", 5, "no address", [])

    async def lose_connection(self) -> None:
        self.peer.fail("GET listNotifications", drop="before")
        self.peer.fail("GET listNotifications", 502)

    def fail(self, step: Step, how: How, times: int = 1) -> None:
        name = "POST putRecord"
        match how:
            case "rate limit":
                self.peer.fail(name, 429, times=times, error="RateLimitExceeded", Retry_After="0.2")
            case "server error":
                self.peer.fail(name, 503, times=times)
            case "dropped before":
                self.peer.fail(name, times=times, drop="before")
            case "refused":
                self.peer.fail(name, 400, times=times, error="InvalidRequest")
            case _:
                self.peer.fail(name, times=times, drop="after")

    async def react(self, channel: Channel, reply: str, *, is_removed: bool = False) -> None:
        self.peer.like(self._author(ANN), self.peer.posts_by_uri[reply])

    def bar(self, channel: Channel, *, out: bool) -> None:
        raise NotImplementedError

    def messages(self, channel: Channel) -> list[PostedMessage]:
        return [self._to_posted_message(post) for post in self.peer.posts() if self._is_in(channel, post)]

    def _is_in(self, channel: Channel, post: bluesky.Post) -> bool:
        return self._groups.get(post.root) == channel.id and channel.thread in ("", post.root)

    def _to_posted_message(self, post: bluesky.Post) -> PostedMessage:
        text = WORD_JOINERS.sub("", post.text)
        code = re.findall(r"^```\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)
        links = tuple(target for _, target in post.links() if not target.startswith("did:"))
        return PostedMessage(post.uri, text, links, tuple(code), post.text, post.root, post.reply_to)

    def get_notified(self, channel: Channel) -> list[str]:
        return [did for post in self.peer.posts() for did in post.mentioned()]

    def signs(self) -> int:
        return 0


class Github(Driver):
    """A group is a repository: what somebody writes there without a thread opens an issue.

    Nothing is private on a forge: a private chat is a repository where everybody has an issue of their own, and always
    mentions the bot.
    """

    name = "github"
    mention = "@kimas "
    knows_doubles = True

    # How the peer names the call that posts a comment, and those that look for issues and comments.
    posting = "POST issues/{}/comments"
    looks = ("GET issues", "GET issues/comments")

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(self._make_peer())
        self._issues: dict[str, int] = {}
        for number in (1, 2):
            self.peer.repositories[self.group(number).id].can_write = True
        self.peer.repositories[self.private().chat].can_write = True

    def _make_peer(self) -> github.GithubPeer:
        return github.GithubPeer()

    def adapter(self, journal: Journal, folder: Path) -> ForgeAdapter:
        projects = {"repositories" if self.name == "github" else "projects": tuple(self.peer.repositories)}
        settings = forge_helpers.settings(self.peer, folder, answers_per_thread=100, poll_s=FORGE_POLL_S, **projects)
        self._adapter = ForgeAdapter(settings, JournalAccounts(journal, self.name), intervals=forge_helpers.PACE)
        return self._adapter

    async def ready(self) -> None:
        await until(lambda: self._adapter.connection.is_connected, "the first look at all repositories")

    def private(self, person: Person = ANN) -> Channel:
        return Channel(f"person{person.number}", "example/private", private=True)

    def group(self, number: int = 1) -> Channel:
        return Channel(f"example/group-{number}", f"example/group-{number}")

    async def separate_chats(self, count: int) -> list[Channel]:
        return [await self.thread(self.group()) for _ in range(count)]

    async def thread(self, channel: Channel) -> Channel:
        number = self.peer.open("let us talk about this below", "", "person9", project=channel.chat)
        return replace(channel, thread=f"issues/{number}")

    def get_mention(self, person: Person) -> str:
        return f"@{self._get_login(person)} "

    def _get_login(self, person: Person) -> str:
        login = "-".join([*person.name.split(), *([] if person in (ANN, BEN, ROBOT) else [str(person.number)])])
        if person.robot:
            self.peer.bots.add(login)
        return login

    def board(self) -> Channel:
        raise NotImplementedError

    async def post(self, board: Channel, text: str) -> tuple[str, Channel]:
        raise NotImplementedError

    async def say(
        self, channel: Channel, text: str, *, person: Person = ANN, reply_to: str = "", **extra_fields: Any
    ) -> str:
        author = self._get_login(person)
        if channel.private and not text.startswith("> "):
            text = f"@kimas {text}"
        self._adapter._wake(channel.chat)
        number = self._find_issue(channel, reply_to)
        if number:
            return str(self.peer.comment(number, text, author, project=channel.chat))
        title, _, rest = text.partition("\n")
        rest = "\n".join(filter(None, (rest, extra_fields.get("body", ""))))
        number = self.peer.open(title, rest, author, project=channel.chat)
        if channel.private:
            self._issues[channel.id] = number
        return f"issues/{number}"

    def _find_issue(self, channel: Channel, reply_to: str) -> int:
        if reply_to.isdecimal():
            return self.peer.repositories[channel.chat].notes[int(reply_to)].number
        path = reply_to or channel.thread
        return int(path.partition("/")[2]) if path else self._issues.get(channel.id, 0)

    async def reply(self, channel: Channel, message: PostedMessage, text: str, person: Person = ANN) -> str:
        quoted = "\n".join(f"> {line}" for line in message.raw.partition("\n\n<!--")[0].split("\n"))
        return await self.say(channel, f"{quoted}\n\n{text}", person=person, reply_to=message.id)

    async def command(self, channel: Channel, name: str, text: str = "") -> str:
        to = "" if channel.private else self.mention
        number = self._find_issue(channel, "")
        if not number:
            # A new issue gives no command; nor is this one a question.
            number = self.peer.open("let us talk below", "", github.BOT, project=channel.chat)
        if channel.private:
            self._issues[channel.id] = number
        return await self.say(replace(channel, thread=f"issues/{number}"), f"{to}/{name} {text}".strip())

    async def attach(self, channel: Channel, text: str = "") -> None:
        await self.say(channel, f"{text}\n\n![screen](https://example.org/screen.png)".strip())

    async def say_as_bot(self, channel: Channel, text: str) -> None:
        self.peer.open(text, "", github.BOT, project=channel.chat)
        self._adapter._wake(channel.chat)

    async def edit(self, channel: Channel, message: str, text: str) -> None:
        self.peer.edit(int(message), f"@kimas {text}" if channel.private else text, channel.chat)
        self._adapter._wake(channel.chat)

    async def delete(self, channel: Channel, message: str) -> None:
        repository = self.peer.repositories[channel.chat]
        if message.isdecimal():
            del repository.notes[int(message)]
        else:
            number = int(message.partition("/")[2])
            del repository.issues[number]
            self._issues = {name: issue for name, issue in self._issues.items() if issue != number}

    async def redeliver(self, channel: Channel, message: str) -> None:
        if message.isdecimal():
            self.peer.repositories[channel.chat].notes[int(message)].updated += 1
            self._adapter._wake(channel.chat)

    async def malformed(self) -> None:
        chat = self.group().chat
        for broken in ({"id": "x", "body": 7}, {"id": 5, "issue_url": 9, "user": [1]}, "text"):
            self.peer.extra_comments[chat].append(broken)
        self._adapter._wake(chat)

    async def lose_connection(self) -> None:
        first, second = self.looks
        self.peer.fail(first, drop="before")
        self.peer.fail(second, 502)

    def fail(self, step: Step, how: How, times: int = 1) -> None:
        name = self.posting
        match how:
            case "rate limit":
                self.peer.fail(name, 429, times=times, message="API rate limit exceeded", Retry_After="1")
            case "server error":
                self.peer.fail(name, 502, times=times)
            case "dropped before":
                self.peer.fail(name, times=times, drop="before")
            case "refused":
                self.peer.fail(name, 422, times=times, message="Validation Failed")
            case _:
                self.peer.fail(name, times=times, drop="after")

    async def react(self, channel: Channel, reply: str, *, is_removed: bool = False) -> None:
        if is_removed:
            self.peer.reactions[int(reply)].clear()
        else:
            self.peer.react(int(reply), "+1", "Ann")
        self._adapter._wake(channel.chat)

    def bar(self, channel: Channel, *, out: bool) -> None:
        self.peer.repositories[channel.chat].can_write = not out

    def messages(self, channel: Channel) -> list[PostedMessage]:
        number = self._find_issue(channel, "")
        if channel.private and not number:
            return []
        return [
            _to_forge_message(note) for note in self.peer.posts(channel.chat) if not number or note.number == number
        ]

    def get_notified(self, channel: Channel) -> list[str]:
        return self.peer.notified(channel.chat)

    def signs(self) -> int:
        return 0


class Gitlab(Github):
    """As on GitHub; comments are listed below each issue that changed."""

    name = "gitlab"
    posting = "POST issues/{}/notes"
    looks = ("GET issues", "GET issues")

    def _make_peer(self) -> github.GithubPeer:
        return gitlab.GitlabPeer()

    def _get_login(self, person: Person) -> str:
        # Nothing but its name tells an account of a program.
        return f"project_{person.number}_bot" if person.robot else super()._get_login(person)

    async def malformed(self) -> None:
        chat = self.group().chat
        for broken in ({"id": "x", "body": 7}, {"id": 5, "iid": [9], "author": [1]}, "text"):
            self.peer.extra_comments[chat].append(broken)
        self._adapter._wake(chat)


def _to_forge_message(note: github.Note) -> PostedMessage:
    text = WORD_JOINERS.sub("", note.text.partition("\n\n<!--")[0])
    links = re.findall(r"\]\(<([^>\n]+)>\)", text)
    code = re.findall(r"^(`{3,})\w*\n(.*?)\n\1$", text, re.DOTALL | re.MULTILINE)
    plain = re.sub(r"\[((?:\\.|[^\\\]]|\[\d+\])*)\]\(<[^>\n]+>\)", r"\1", text)
    # Code is as it is; in running text marks are no words, and what is escaped is none.
    pieces = re.split(r"(^`{3,}.*?^`{3,}$|(?<!\\)(?P<ticks>`+).+?(?P=ticks))", plain, flags=re.DOTALL | re.MULTILINE)
    pieces = [piece for piece in pieces if piece and piece.strip("`")]
    words = [
        piece
        if piece.startswith("```")
        else piece.strip("`")
        if piece.startswith("`")
        else re.sub(r"\\([^\sA-Za-z0-9])", r"\1", re.sub(r"(?<!\\)(?:\*\*|~~)", "", piece))
        for piece in pieces
    ]
    return PostedMessage(
        str(note.id),
        "".join(words),
        tuple(links),
        tuple(body for _, body in code),
        note.text,
        f"issues/{note.number}",
        f"issues/{note.number}",
    )


def _in(channel: Channel, thread: str) -> bool:
    """Return whether a message belongs to the channel: a chat holds its threads, a thread only itself."""
    return not channel.thread or channel.thread == thread
