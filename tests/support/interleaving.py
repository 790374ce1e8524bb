"""Lets something happen in the middle of what the bot does, and watches every word that leaves it.

`Interruptions` are made where a peer, a sink, the journal or a part of the knowledge is reached for the n-th time: no
clock decides. `Watch` judges what is shown and what is asked at the moment when it leaves.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol

import openai
import pytest
from aiohttp import web

from bots.common.connection import Unreachable
from bots.common.judged_client import judge_calls
from bots.discord.connection import DiscordIntervals
from bots.discord.sink import ChannelTarget, DiscordSink, InteractionTarget
from bots.slack.connection import RateLimiter, SlackIntervals
from bots.slack.convert import Identity
from bots.slack.sink import SlackSink, SlackSinkContext
from bots.slack.status import MissingCapabilities
from bots.slack.thread_cache import ThreadCache
from bots.telegram.connection import ServerCapabilities, TelegramIntervals
from bots.telegram.sink import TelegramSink
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.feedback.rating_buttons import is_press
from core.ports import Delivery, Sink
from core.storage.engine import Database
from core.types import Message, Reply
from core.types.forms import SettingsForm
from knowledge.ports import TextKind, Vectors
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.knowledge import WordEmbedder
from tests.support.recording_bot import RecordingAdapter, Sender
from tests.support.scripted import Body, ScriptedPeer

# Where something can happen: the model has a request, or writes its next token; a platform takes words, or loses the
# response so that they are tried again; a slash command is acknowledged; texts are embedded; a search has its passages;
# a command's handler begins or has its reply; the journal was read or written.
POINTS = ("model", "token", "try", "retry", "acknowledge", "embed", "search", "handler", "journal")
# Who asked for what is being done; None: nobody, such as a test that looks at the journal.
PLACE: ContextVar[Sender | None] = ContextVar("place", default=None)
NUMBERS = count(1)
# How the calls of the platforms' clients begin that bring no words; as in tests/security/test_places.py.
WORDLESS = ("get_", "find_", "send_typing", "add_reaction", "remove_", "delete", "stop_stream", "set_status")
LONGEST_S = 60.0


@dataclass
class Interruption:
    """Something that happens when a point is reached after it was reached `count` times."""

    point: str
    count: int
    change: Callable[[], Awaitable[None]]


@dataclass
class Interruptions:
    """What is to happen, in the order of planning. While `locks` are held, it waits for the next time."""

    planned: list[Interruption] = field(default_factory=list)
    locks: Sequence[asyncio.Lock] = ()
    happened: int = 0
    _is_changing: bool = False

    async def reach(self, point: str) -> bool:
        """Let what is due at a point happen; return whether anything did."""
        if self._is_changing:
            return False
        due = list[Interruption]()
        for interruption in [each for each in self.planned if each.point == point]:
            if interruption.count > 0:
                interruption.count -= 1
            elif not any(lock.locked() for lock in self.locks):
                self.planned.remove(interruption)
                due.append(interruption)
        for interruption in due:
            self._is_changing = True
            # Counted now: an answer that ends because of the change ends the request in which it happens, too.
            self.happened += 1
            try:
                async with asyncio.timeout(LONGEST_S):
                    await interruption.change()
            finally:
                self._is_changing = False
        return bool(due)


class Judge(Protocol):
    """Knows what may be told where, at this moment."""

    def find_leaks(self, place: Sender, text: str) -> set[str]:
        """Return the words in a text that may not be told at a place now."""
        ...

    def find_unwanted(self, place: Sender, text: str) -> set[str]:
        """Return what says that a text is an answer, where the bot is to be silent now."""
        ...

    def find_wrong_model(self, place: Sender, url: str) -> set[str]:
        """Return the address of a model that may not be asked for a place now."""
        ...


@dataclass
class Watch:
    """Judges each word when it leaves: a failure in the code that is tested would be caught there."""

    judge: Judge
    leaks: list[str] = field(default_factory=list)
    # How many words of a closed source were shown at all.
    shown: list[str] = field(default_factory=list)

    def see_shown(self, message: Message, text: str) -> None:
        place = find_reader(message)
        words = self.judge.find_leaks(place, text)
        if not message.command and message.origin.purpose in ("", "retry"):
            words |= self.judge.find_unwanted(place, text)
        self.shown.append(text)
        if words:
            self.leaks.append(f"{place} reads {words} in the reply to {message.command} {message.text!r}")

    def see_request(self, text: str, url: str) -> None:
        place = PLACE.get()
        if place and (words := self.judge.find_leaks(place, text) | self.judge.find_wrong_model(place, url)):
            self.leaks.append(f"a model is told {words} for {place}")


def find_reader(message: Message) -> Sender:
    """Return who reads the reply to a message. What the bot posts by itself to a person is private."""
    is_private = message.private or (message.author_id == "kimas" and not message.key.chat.startswith(("-", "C")))
    author = message.key.chat if is_private and message.author_id == "kimas" else message.author_id
    return Sender(message.key.chat, author, message.key.platform, is_private)


class WatchedClient:
    """Takes every call of a platform's client; those that bring words are watched, and may be interrupted."""

    def __init__(self, message: Message, watch: Watch, interruptions: Interruptions) -> None:
        self._message = message
        self._watch = watch
        self._interruptions = interruptions

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **options: Any) -> Any:
            if name.startswith(WORDLESS):
                return [] if name == "get_messages" else ""
            self._watch.see_shown(self._message, json.dumps((arguments, options), ensure_ascii=False, default=str))
            await self._interruptions.reach("try")
            if await self._interruptions.reach("retry"):
                raise Unreachable("the response was lost")
            number = next(NUMBERS)
            return number if self._message.key.platform == "telegram" else str(number)

        return call


@dataclass(eq=False)
class WatchedSink(Sink):
    """Takes what a press of a button is answered with."""

    message: Message
    watch: Watch

    async def open(self) -> None:
        return None

    async def update(self, text: str) -> None:
        self.watch.see_shown(self.message, text)

    async def finish(self, reply: Reply) -> None:
        self.watch.see_shown(self.message, reply.text)

    async def fail(self, text: str) -> None:
        self.watch.see_shown(self.message, text)


@dataclass(eq=False)
class WatchedAdapter(RecordingAdapter):
    """Shows replies by the sinks of the real platforms: Telegram's, Slack's or that of a slash command on Discord."""

    watch: Any = None
    interruptions: Interruptions = field(default_factory=Interruptions)
    # One among those of a daemon.
    __hash__ = object.__hash__

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        if is_press(message):
            return WatchedSink(message, self.watch)
        client: Any = WatchedClient(message, self.watch, self.interruptions)
        now = {"retry_s": 0.0, "retry_timeout_s": LONGEST_S}
        if self.name == "slack":
            return self._make_slack_sink(client, message, delivery, previous_reply_id, SlackIntervals(**now, post_s=0))
        if self.name == "discord":
            intervals = DiscordIntervals(**now, edit_s=0)
            return self._make_discord_sink(client, message, delivery, previous_reply_id, intervals)
        message = with_telegram_reference(message)
        telegram_intervals = TelegramIntervals(**now, edit_s=0, draft_s=0)
        capabilities = ServerCapabilities()
        return TelegramSink(client, message, delivery, previous_reply_id, telegram_intervals, capabilities=capabilities)

    def _make_discord_sink(
        self, client: Any, message: Message, delivery: Delivery, previous_reply_id: str, intervals: DiscordIntervals
    ) -> Sink:
        async def acknowledge() -> bool:
            await self.interruptions.reach("acknowledge")
            return True

        # As the adapter does, which chooses where a reply is posted.
        client = judge_calls(client, delivery)
        location = (message.key.chat, "1")
        target = InteractionTarget(client, "1", "token", asyncio.ensure_future(acknowledge()), location=location)
        fallback = ChannelTarget(client, message.key.chat, "1")
        options = {"previous_reply_id": previous_reply_id, "intervals": intervals}
        return DiscordSink(target, message, delivery=delivery, **options, fallback=fallback)

    def _make_slack_sink(
        self, client: Any, message: Message, delivery: Delivery, previous_reply_id: str, intervals: SlackIntervals
    ) -> Sink:
        async def has_answered(_channel: str, _thread: str) -> bool:
            return False

        reference = {"channel": message.key.chat, "ts": message.id, "thread_ts": message.id}
        intervals = replace(intervals, append_s=0, edit_s=0)
        parts = (client, ThreadCache(has_answered), RateLimiter(), MissingCapabilities(), intervals, Identity("U1"))
        context = SlackSinkContext(*parts, open_questions={}, untitled_threads={})
        return SlackSink(context, replace(message, reference=reference), delivery, previous_reply_id)

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        self.watch.see_shown(message, repr(form))
        return True

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        self.watch.see_shown(message, repr(prompts))
        return True


def with_telegram_reference(message: Message) -> Message:
    """Return a message with what Telegram's sink needs to know of its place."""
    reference = {"chat_id": int(message.key.chat), "message_id": 1, "thread_id": None}
    return replace(message, reference=reference)


class InterruptedPeer(ScriptedPeer):
    """A model during whose work something may happen."""

    def __init__(self, interruptions: Interruptions, **replies: str | Callable[[Body], str]) -> None:
        super().__init__(**replies)
        self.interruptions = interruptions

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        await self.interruptions.reach("model")
        return await super()._chat(request)

    async def _pace(self, request: web.Request, index: int) -> None:
        await self.interruptions.reach("token")
        await super()._pace(request, index)


@dataclass
class InterruptedEmbedder(WordEmbedder):
    """An embedding model during whose work something may happen."""

    interruptions: Interruptions = field(default_factory=Interruptions)

    async def embed(self, texts: Sequence[str], kind: TextKind = "passage") -> Vectors:
        await self.interruptions.reach("embed")
        return await super().embed(texts, kind)


def interrupt(monkeypatch: pytest.MonkeyPatch, interruptions: Interruptions) -> None:
    """Let the journal, searches and commands be interrupted, where a message asked for them."""
    for owner, name in ((Database, "connect"), (Database, "transaction")):
        monkeypatch.setattr(owner, name, _interrupt_block(getattr(owner, name), interruptions))
    for function, point in ((KnowledgeLibrary.search, "search"), (CommandDispatcher.dispatch, "handler")):
        owner, _, name = function.__qualname__.partition(".")
        target = {"KnowledgeLibrary": KnowledgeLibrary, "CommandDispatcher": CommandDispatcher}[owner]
        monkeypatch.setattr(target, name, _interrupt_call(function, interruptions, point))


def _interrupt_block(open_block: Any, interruptions: Interruptions) -> Any:
    @asynccontextmanager
    async def opened(database: Database) -> AsyncIterator[Any]:
        async with open_block(database) as connection:
            yield connection
        if PLACE.get():
            await interruptions.reach("journal")

    return opened


def _interrupt_call(function: Any, interruptions: Interruptions, point: str) -> Any:
    async def call(*arguments: Any, **options: Any) -> Any:
        await interruptions.reach(point)
        result = await function(*arguments, **options)
        await interruptions.reach(point)
        return result

    return call


def watch_models(monkeypatch: pytest.MonkeyPatch, watch: Watch) -> None:
    """Let each request to a model be judged when it leaves."""
    post = openai.AsyncOpenAI.post

    async def watched(client: Any, path: str, **options: Any) -> Any:
        watch.see_request(json.dumps(options.get("body"), ensure_ascii=False, default=str), str(client.base_url))
        return await post(client, path, **options)

    monkeypatch.setattr(openai.AsyncOpenAI, "post", watched)
