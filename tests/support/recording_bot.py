"""A bot as the daemon wires it, which remembers all that it shows and all that it asks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any

from bots.daemon.bootstrap import App, make_dispatcher, make_inbox, make_live_settings, open_app, take_up_knowledge
from core.errors import ConfigurationError
from core.messaging.inbox import Inbox
from core.ports import Delivery, Sink
from core.settings import Settings
from core.storage.messages import Journal
from core.storage.overrides import LiveSettings
from core.types import ConversationKey, Message
from core.types.forms import SettingsForm
from knowledge.parsing.parser import ThreadParser
from tests.support.fixtures import IdleAdapter, MemorySink
from tests.support.knowledge import WordEmbedder
from tests.support.peers.web import WebPeer
from tests.support.scripted import Body, ScriptedPeer

MEMBER = "42"
NUMBERS = count(1)


def repeat(body: Body) -> str:
    """Tell all that was told, without the marks of the prompt, at which an answer ends."""
    return "\n".join(str(message["content"]).replace("<", "‹") for message in body["messages"]) + " [p1]"


@dataclass
class RecordingAdapter(IdleAdapter):
    """An adapter that remembers all that it was to show."""

    name: str = "telegram"
    sinks: list[MemorySink] = field(default_factory=list)
    forms: list[SettingsForm] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    # What the platform refuses further replies with.
    sink_error: Exception | None = None

    def sink(self, message: Message, delivery: Delivery, previous_reply_id: str = "") -> Sink:
        self.sinks.append(MemorySink(error=self.sink_error))
        return self.sinks[-1]

    async def show_form(self, message: Message, form: SettingsForm) -> bool:
        self.forms.append(form)
        return True

    async def show_prompts(self, message: Message, title: str, prompts: Sequence[str]) -> bool:
        self.prompts += prompts
        return True


@dataclass(frozen=True)
class Sender:
    """Where somebody writes, and who."""

    chat: str
    author: str = MEMBER
    platform: str = "telegram"
    is_private: bool = False


class Bot:
    """The bot, as the daemon wires it."""

    def __init__(
        self,
        app: App,
        journal: Journal,
        web: WebPeer | None,
        model: ScriptedPeer | None,
        live: LiveSettings | None = None,
    ) -> None:
        self.app = app
        self.journal = journal
        self.web = web
        self.model = model
        self.live = live or make_live_settings(app.settings, journal.database)
        self.adapters: dict[str, RecordingAdapter] = {}
        self.reload_error = ""
        # What the file says by now.
        self.new_settings = app.settings
        self.scheduler = app.make_refresh_scheduler(journal.database)
        # Not at every reload: tests that want it put it into the context of the commands.
        self.take_up = partial(take_up_knowledge, app, self.scheduler, self.live)
        self.dispatcher = make_dispatcher(
            self.live,
            journal,
            refresher=self.scheduler,
            reload_settings=self.reload_settings,
            library=app.shared_library,
            moderator=app.answer_service.get_moderator(),
        )
        self.processor: Inbox = make_inbox(journal, app.answer, self.dispatcher, library=app.shared_library)

    async def reload_settings(self) -> Settings:
        if self.reload_error:
            raise ConfigurationError([self.reload_error])
        return self.new_settings

    def adapter(self, platform: str) -> RecordingAdapter:
        return self.adapters.setdefault(platform, RecordingAdapter(platform))

    async def deliver(self, sender: Sender, text: str = "", command: str = "", **changes: Any) -> Message:
        """Deliver a message, and wait until it is finished."""
        key = ConversationKey(sender.platform, sender.chat)
        message = Message(str(next(NUMBERS)), key, sender.author, "Ann", text, datetime.now(UTC), command=command)
        message = replace(message, private=sender.is_private, **{"addressed": True, **changes})
        await self.processor.handler_for(self.adapter(sender.platform))(message)
        await self.processor.join()
        return message

    def output(self) -> str:
        """Return everything shown until now, with its traces, and forget it."""
        texts = []
        for adapter in self.adapters.values():
            texts += [repr((sink.updates, sink.replies, sink.failures)) for sink in adapter.sinks]
            texts += [*map(repr, adapter.forms), *adapter.prompts]
            adapter.sinks.clear()
            adapter.forms.clear()
            adapter.prompts.clear()
        return "\n".join(texts)

    def get_requests(self) -> str:
        """Return all requests to the model and the live source until now, and forget them."""
        requests = list[str]()
        if self.web:
            requests += [str(request.url) for request in self.web.requests]
            self.web.requests.clear()
        if self.model:
            requests += map(json.dumps, self.model.requests)
            self.model.requests.clear()
        return "\n".join(requests)


@asynccontextmanager
async def open_bot(settings: Settings, *, is_read: bool = False) -> AsyncIterator[Bot]:
    """Run a bot of these settings until the block ends, over the journal in its folder; read its sources if wanted."""
    settings.data_dir.mkdir(exist_ok=True)
    journal = await Journal.open(settings.data_dir / "journal.db")
    live = make_live_settings(settings, journal.database)
    try:
        async with open_app(
            settings, embedder=WordEmbedder(), parser=ThreadParser(), database=journal.database, live=live
        ) as app:
            if is_read:
                await app.refresh()
            bot = Bot(app, journal, None, None, live)
            yield bot
            await bot.processor.drain(1)
    finally:
        await journal.close()
