"""The platforms of the load test: people who write in many chats at once, and what they see of the bot.

Every peer is as strict as in the other tests, with the limits that the platforms document for one bot.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from core.catalogue import ENGLISH
from tests.support.free_ports import free_port
from tests.support.peers import callback, discord, slack, telegram

TELEGRAM_GROUP = (20, 60.0)
TELEGRAM_ALL = 30
DISCORD_CHANNEL = (5, 5.0)
DISCORD_ALL = 50
# Slack's tiers, each method of its own in a workspace.
SLACK_METHODS = {
    "chat.startStream": (20, 60.0),
    "chat.stopStream": (20, 60.0),
    "chat.appendStream": (100, 60.0),
    "chat.update": (50, 60.0),
    "reactions.add": (50, 60.0),
    "reactions.remove": (20, 60.0),
    "users.info": (100, 60.0),
    "assistant.threads.setStatus": (600, 60.0),
}


@dataclass(frozen=True, slots=True)
class Chat:
    """One chat, as the platform and the journal call it."""

    platform: str
    id: str
    private: bool


@dataclass(frozen=True, slots=True)
class BotMessage:
    """One message of the bot: when it came and when it last changed, and what it says now."""

    first_at: float
    last_at: float
    text: str


class Platform(ABC):
    """One platform. Times are those of `time.monotonic`."""

    name = ""
    mention = ""

    @abstractmethod
    async def open(self, stack: AsyncExitStack) -> None: ...

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the platform's section of a configuration."""

    @abstractmethod
    def chats(self, count: int, private: int) -> list[Chat]: ...

    @abstractmethod
    async def connected(self) -> bool: ...

    @abstractmethod
    async def say(self, chat: Chat, text: str, author: int, parent_id: str = "") -> str:
        """Let somebody write, where it is possible in the thread `below` a message, and return the message's id."""

    @abstractmethod
    async def deliver_again(self, chat: Chat, message: str) -> None:
        """Deliver a message that was delivered before."""

    @abstractmethod
    def drop(self, chance: random.Random) -> None:
        """Break connections: those that events come through, and one under a reply that is being posted."""

    @abstractmethod
    def get_messages(self, chat: Chat) -> list[BotMessage]: ...

    @abstractmethod
    def signs(self, chat: Chat, message: str) -> Iterable[float]:
        """Return when there were signs in a chat that the bot is at work."""

    def given_up(self, chat: Chat, message: str) -> bool:
        """Return whether the platform gave a message up: it tried as often as it does, and nobody ever took it."""
        return False

    @abstractmethod
    def broken(self) -> Counter[str]:
        """Return how often a limit or a rule of the platform was broken, by what it was."""


class Telegram(Platform):
    name = "telegram"
    mention = "@kimas_bot "

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(telegram.TelegramPeer(limit_per_chat=TELEGRAM_GROUP))

    def settings(self) -> dict[str, Any]:
        return {"token": {"env": "LOAD_TELEGRAM"}, "api_url": self.peer.api_url}

    def chats(self, count: int, private: int) -> list[Chat]:
        numbers = [
            *(1000 + number for number in range(private)),
            *(-1000 - number for number in range(count - private)),
        ]
        return [Chat(self.name, str(number), number > 0) for number in numbers]

    async def connected(self) -> bool:
        return bool(self.peer.get_calls("getUpdates") or self.peer.offsets)

    async def say(self, chat: Chat, text: str, author: int, parent_id: str = "") -> str:
        number = int(chat.id) if chat.private else 5000 + author
        return str(self.peer.say(int(chat.id), text, author=telegram.Author(number, f"P{author}", f"person_{author}")))

    async def deliver_again(self, chat: Chat, message: str) -> None:
        peer_chat = self.peer.chat(int(chat.id))
        self.peer.inject({"message": self.peer._message(peer_chat, peer_chat.messages[int(message)])})

    def drop(self, chance: random.Random) -> None:
        self.peer.fail("getUpdates", drop=chance.choice(("before", "after")))
        self.peer.fail("sendMessage", drop="before")

    def get_messages(self, chat: Chat) -> list[BotMessage]:
        messages = self.peer.messages(int(chat.id))
        return [BotMessage(message.history[0][0], message.history[-1][0], message.text) for message in messages]

    def signs(self, chat: Chat, message: str) -> Iterable[float]:
        kinds = ("sendChatAction", "sendMessageDraft", "sendMessage")
        calls = (call for call in self.peer.calls if call.method in kinds and call.status == 200)
        return [call.at for call in calls if str(call.parameters["chat_id"]) == chat.id]

    def broken(self) -> Counter[str]:
        posts = [call for call in self.peer.calls if call.method in ("sendMessage", "editMessageText")]
        counts = Counter(f"telegram {call.method} {call.status}" for call in self.peer.calls if call.status >= 400)
        counts["telegram: more than 30 posts and edits in a second"] = over([call.at for call in posts], TELEGRAM_ALL)
        return +counts


class Discord(Platform):
    name = "discord"
    mention = "<@5001> "

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(discord.DiscordPeer(limit=DISCORD_CHANNEL))
        self.peer.gateway.beat_ms = 5000

    def settings(self) -> dict[str, Any]:
        return {"token": {"env": "LOAD_DISCORD"}, "api_url": self.peer.api_url}

    def chats(self, count: int, private: int) -> list[Chat]:
        return [
            Chat(self.name, self.peer.channel(private=number < private), number < private) for number in range(count)
        ]

    async def connected(self) -> bool:
        return bool(self.peer.gateway.live)

    async def say(self, chat: Chat, text: str, author: int, parent_id: str = "") -> str:
        return await self.peer.say(chat.id, text, author=discord.Author(str(6000 + author), f"p{author}", f"P{author}"))

    async def deliver_again(self, chat: Chat, message: str) -> None:
        await self.peer._tell("MESSAGE_CREATE", self.peer.channels[chat.id].messages[message])

    def drop(self, chance: random.Random) -> None:
        self.peer.gateway.drop()
        # Its nonce tells that a post came twice.
        self.peer.fail("POST /channels/{}/messages", drop=chance.choice(("before", "after")))

    def get_messages(self, chat: Chat) -> list[BotMessage]:
        messages = self.peer.messages(chat.id)
        return [BotMessage(message.history[0][0], message.history[-1][0], message.content) for message in messages]

    def signs(self, chat: Chat, message: str) -> Iterable[float]:
        return [*self.peer.channels[chat.id].typed, *(item.first_at for item in self.get_messages(chat))]

    def broken(self) -> Counter[str]:
        calls = self.peer.calls
        counts = Counter(f"discord {call.name} {call.status}" for call in calls if call.status >= 400)
        counts["discord: more than 50 calls in a second"] = over([call.at for call in calls], DISCORD_ALL)
        counts["discord: too many in a channel"] = sum(self.peer.exceeded.values())
        for code in self.peer.gateway.closed:
            counts[f"discord: the gateway closed with {code}"] += 1
        return +counts


class Slack(Platform):
    name = "slack"
    mention = f"<@{slack.BOT}> "

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(slack.SlackPeer())
        self.peer.limits = dict(SLACK_METHODS)
        # What was said years ago is not answered unasked.
        self.peer._clock = int(time.time() * 1_000_000)

    def settings(self) -> dict[str, Any]:
        tokens = {"bot_token": {"env": "LOAD_SLACK_BOT"}, "app_token": {"env": "LOAD_SLACK_APP"}}
        return {**tokens, "api_url": self.peer.api_url}

    def chats(self, count: int, private: int) -> list[Chat]:
        return [
            Chat(self.name, f"{'D' if number < private else 'C'}{100 + number}", number < private)
            for number in range(count)
        ]

    async def connected(self) -> bool:
        return bool(self.peer.deliveries.connections)

    async def say(self, chat: Chat, text: str, author: int, parent_id: str = "") -> str:
        return self.peer.say(chat.id, text, user=f"U{7000 + author}", thread=parent_id)

    async def deliver_again(self, chat: Chat, message: str) -> None:
        for envelope in list(self.peer.deliveries.envelopes):
            event = envelope.payload.get("event") if isinstance(envelope.payload, dict) else None
            if isinstance(event, dict) and (event.get("channel"), event.get("ts")) == (chat.id, message):
                self.peer.event(event)

    def drop(self, chance: random.Random) -> None:
        self.peer.deliveries.abort()
        self.peer.fail(chance.choice(("chat.startStream", "chat.postMessage")), drop="before")

    def get_messages(self, chat: Chat) -> list[BotMessage]:
        return [
            BotMessage(message.history[0][0], message.history[-1][0], message.text)
            for message in self.peer.messages(chat.id)
        ] + [BotMessage(0, 0, text) for text in self._get_hidden_texts(chat)]

    def _get_hidden_texts(self, chat: Chat) -> Iterable[str]:
        """Return what one person alone sees, without what came a second time and says so."""
        mark = f"_{ENGLISH.posted_again}_\n"
        shown: list[str] = []
        for text in (part["text"] for part in self.peer.hidden_parts if part["channel"] == chat.id):
            plain_text = text.removeprefix(mark)
            if not (plain_text != text and plain_text in shown):
                shown.append(plain_text)
        return shown

    def given_up(self, chat: Chat, message: str) -> bool:
        tries = [
            envelope
            for envelope in self.peer.deliveries.envelopes
            if isinstance(envelope.payload, dict)
            and envelope.payload["event"].get("ts") == message
            and envelope.payload["event"].get("channel") == chat.id
        ]
        return not any(envelope.acknowledged.is_set() for envelope in tries) and all(
            len(envelope.attempts) == 4 for envelope in tries
        )

    def signs(self, chat: Chat, message: str) -> Iterable[float]:
        for call in self.peer.get_calls("assistant.threads.setStatus"):
            parameters = call.parameters
            is_in_chat = parameters["channel_id"] == chat.id and (chat.private or parameters["thread_ts"] == message)
            if is_in_chat and parameters["status"] and not call.error:
                yield call.at
        for call in self.peer.get_calls("reactions.add"):
            if (call.parameters["channel"], call.parameters["timestamp"]) == (chat.id, message) and not call.error:
                yield call.at
        if chat.private:
            yield from (item.first_at for item in self.get_messages(chat))

    def broken(self) -> Counter[str]:
        expected_answers = ("", "dropped")
        counts = Counter(
            f"slack {call.method} {call.error}" for call in self.peer.calls if call.error not in expected_answers
        )
        posts = defaultdict[str, list[float]](list)
        for call in self.peer.get_calls("chat.postMessage"):
            posts[call.parameters["channel"]].append(call.at)
        counts["slack: more than 3 posts within 3 s in a channel"] = sum(over(post, 3, 3.0) for post in posts.values())
        counts["slack: acknowledgements of nothing"] = len(self.peer.deliveries.unknown_acknowledgements)
        return +counts


class Network(callback.CallbackPeer):
    """The other network, which notes when it was told something."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def _respond(self, key: str, payload: dict[str, Any]) -> web.Response:
        answer = super()._respond(key, payload)
        self.times += [time.monotonic()] * (len(self.callbacks) - len(self.times))
        return answer

    def get_calls(self, chat: str) -> list[tuple[float, dict[str, Any]]]:
        pairs = zip(self.times, self.callbacks, strict=True)
        return [(at, entry) for at, entry in pairs if entry["chat"] == chat]


class Http(Platform):
    name = "http"

    async def open(self, stack: AsyncExitStack) -> None:
        self.peer = await stack.enter_async_context(Network())
        self.port = free_port()
        self._events: dict[str, dict[str, Any]] = {}
        self._lanes: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def settings(self) -> dict[str, Any]:
        connection = {"callback_url": self.peer.url, "port": self.port, "allow_private": ["127.0.0.1"]}
        return {"secret": {"env": "LOAD_HTTP"}, **connection}

    def chats(self, count: int, private: int) -> list[Chat]:
        return [Chat(self.name, f"room-{number}", number < private) for number in range(count)]

    async def connected(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except ConnectionError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    async def say(self, chat: Chat, text: str, author: int, parent_id: str = "") -> str:
        number = f"e{len(self._events)}"
        # The network knows who is meant; here that is said as on the other platforms, by a mention.
        is_addressed = chat.private or text.startswith("@kimas ")
        person = {"id": str(8000 + author), "name": f"P{author}"}
        event = {
            "id": number,
            "chat": chat.id,
            "author": person,
            "text": text.removeprefix("@kimas "),
            "kind": "message",
        }
        self._events[number] = {**event, "private": chat.private, "addressed": is_addressed}
        # What is said first is sent first, however often it takes.
        async with self._lanes[chat.id]:
            await self._send(number)
        return number

    async def _send(self, number: str) -> None:
        # As docs/http.md asks of a network: again until it is taken.
        while True:
            try:
                status, _ = await self.peer.send(self.port, self._events[number])
            except (aiohttp.ClientError, ConnectionError):
                status = 0
            if status in (202, 409):
                return
            await asyncio.sleep(0.2)

    async def deliver_again(self, chat: Chat, message: str) -> None:
        await self._send(message)

    def drop(self, chance: random.Random) -> None:
        self.peer.failures += [chance.choice(("drop", "lost"))]

    def get_messages(self, chat: Chat) -> list[BotMessage]:
        return [
            BotMessage(at, at, message["text"])
            for at, message in self.peer.with_times(str(chat.id))
            if message["state"] == "final"
        ]

    def signs(self, chat: Chat, message: str) -> Iterable[float]:
        return [at for at, event in self.peer.with_times(str(chat.id)) if event["event_id"] == message]

    def broken(self) -> Counter[str]:
        return Counter(f"http {violation}" for violation in self.peer.violations)


Http.mention = "@kimas "

SECRETS = {
    "LOAD_TELEGRAM": telegram.TelegramPeer().token,
    "LOAD_DISCORD": discord.DiscordPeer().token,
    "LOAD_SLACK_BOT": slack.SlackPeer().bot_token,
    "LOAD_SLACK_APP": slack.SlackPeer().app_token,
    "LOAD_HTTP": callback.SECRET,
}


def over(times: list[float], max_calls: int, seconds: float = 1.0) -> int:
    """Return how many of these times come one too many within so many seconds."""
    return sum(later - earlier < seconds for earlier, later in zip(times, times[max_calls:], strict=False))
