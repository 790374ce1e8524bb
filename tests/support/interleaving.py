"""Lets something happen in the middle of what the bot does, and watches every word that leaves it.

`Interruptions` are made where a peer, a sink, the journal or a part of the knowledge is reached for the n-th time: no
clock decides. `Watch` judges what is shown and what is asked at the moment when it leaves.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import openai
import pytest
from aiohttp import web

from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.inbox import Inbox
from core.storage.engine import Database
from core.types import FOR_ASKER, NOTICE_PURPOSES, Message
from knowledge.ports import TextKind, Vectors
from knowledge.retrieval.library import KnowledgeLibrary
from tests.support.knowledge import WordEmbedder
from tests.support.peers.language_model import BODY, Refusal
from tests.support.recording_bot import Sender
from tests.support.scripted import Body, ScriptedPeer

# Where something can happen: the model has a request, or writes its next token; a platform is asked, takes words, or
# loses the response so that they are tried again; a slash command is acknowledged; texts are embedded; a search has its
# passages; a command's handler begins or has its reply; the journal was read or written; people are given time to
# answer first, or an answer waits for its platform.
POINTS = ("model", "token", "look", "try", "retry", "acknowledge", "embed", "search", "handler", "journal", "wait")
# Who asked for what is being done; None: nobody, such as a test that looks at the journal.
PLACE: ContextVar[Sender | None] = ContextVar("place", default=None)
# In which thread they did.
THREAD: ContextVar[str] = ContextVar("thread", default="")
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
    # How many of the next posts are refused, as a platform does that is away.
    refusals: int = 0
    _is_changing: bool = False

    def is_refused(self) -> bool:
        """Return whether a post is refused, which counts."""
        is_refused = self.refusals > 0
        self.refusals -= is_refused
        return is_refused

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
    """Knows what may be told where, at this moment.

    Some chats are `shared` with people of elsewhere, and some messages `deleted`, by their chat and id.
    """

    shared: set[str]
    deleted: set[tuple[str, str]]

    def find_leaks(self, place: Sender, text: str) -> set[str]:
        """Return the words in a text that may not be told at a place now."""
        ...

    def find_unwanted(self, place: Sender, text: str, *, is_comment: bool) -> set[str]:
        """Return what says that a text is an answer, where the bot is to be silent now."""
        ...

    def find_out_of_thread(self, place: Sender, thread: str, text: str) -> set[str]:
        """Return the words in a text that only those who read other threads of the chat may be told now."""
        ...

    def find_in_records(self, text: str) -> set[str]:
        """Return the words that may be in no line of the log, no span and no metric."""
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
        is_answer = not message.command and message.origin.purpose in ("", "retry")
        # Where an asker alone is answered, others are not.
        is_answer = is_answer and FOR_ASKER not in message.reference
        words = self.judge.find_unwanted(place, text, is_comment=bool(message.is_post)) if is_answer else set()
        words |= self.judge.find_out_of_thread(place, message.key.thread, text)
        if (message.key.chat, message.id) in self.judge.deleted:
            words = {*words, "a deleted question"}
        self.see_told(place, text, f"the reply to {message.command} {message.text!r}", words)

    def see_told(self, place: Sender, text: str, what: str, words: Collection[str] = ()) -> None:
        """Judge what somebody reads, of which some `words` are known to be wrong."""
        self.shown.append(text)
        if words := {*words, *self.judge.find_leaks(place, text)}:
            self.leaks.append(f"{place} reads {words} in {what}")

    def see_request(self, text: str, url: str) -> None:
        place = PLACE.get()
        if place is None:
            return
        words = self.judge.find_leaks(place, text) | self.judge.find_wrong_model(place, url)
        if words := words | self.judge.find_out_of_thread(place, THREAD.get(), text):
            self.leaks.append(f"a model is told {words} for {place}")


def find_reader(message: Message) -> Sender:
    """Return who reads the reply to a message. What the bot posts by itself to a person is private."""
    is_notice = message.origin.purpose in NOTICE_PURPOSES
    is_private = message.private or (is_notice and not message.key.chat.startswith(("-", "C")))
    author = message.key.chat if is_private and is_notice else message.author_id
    return Sender(message.key.chat, author, message.key.platform, is_private)


class InterruptedPeer(ScriptedPeer):
    """A model during whose work something may happen.

    It refuses the next `refusals` requests, and repeats a part of what it was told, as `repeat` chooses it.
    """

    def __init__(
        self, interruptions: Interruptions, repeat: Callable[[str], str], **replies: str | Callable[[Body], str]
    ) -> None:
        super().__init__(**replies)
        self.interruptions = interruptions
        self.repeat = repeat
        self.refusals = 0

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        await self.interruptions.reach("model")
        self._refuse("\n".join(str(message["content"]) for message in request[BODY]["messages"]))
        return await super()._chat(request)

    async def _moderations(self, request: web.Request) -> web.StreamResponse:
        await self.interruptions.reach("model")
        self._refuse(request[BODY]["input"])
        return await super()._moderations(request)

    def _refuse(self, text: str) -> None:
        if self.refusals:
            self.refusals -= 1
            raise Refusal(422, f"Input should be shorter: {self.repeat(text)}")

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
    for name in ("read", "change"):
        monkeypatch.setattr(Database, name, _interrupt_after(getattr(Database, name), interruptions))
    monkeypatch.setattr(Inbox, "_wait_for_humans", _interrupt_wait(interruptions))
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


def _interrupt_after(function: Any, interruptions: Interruptions) -> Any:
    async def call(*arguments: Any) -> Any:
        result = await function(*arguments)
        if PLACE.get():
            await interruptions.reach("journal")
        return result

    return call


def _interrupt_wait(interruptions: Interruptions) -> Any:
    async def wait(inbox: Inbox, _seconds: float) -> bool:
        await interruptions.reach("wait")
        return not inbox._stopping.is_set()

    return wait


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
