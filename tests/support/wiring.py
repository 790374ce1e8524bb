"""The wiring of messages in tests: what `bots.daemon.bootstrap` makes, from settings and a journal."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from bots.daemon.bootstrap import make_dispatcher, make_inbox, make_live_settings
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.inbox import Inbox
from core.ports import Adapter, AnswerFunction, Library
from core.settings import Settings
from core.storage.messages import Journal


def wire_dispatcher(settings: Settings, journal: Journal, **changes: Any) -> CommandDispatcher:
    """Return the dispatcher of commands over the journal's database."""
    return make_dispatcher(make_live_settings(settings, journal.database), journal, **changes)


def make_processor(
    settings: Settings,
    journal: Journal,
    answer: AnswerFunction,
    library: Library | None = None,
    dispatcher: CommandDispatcher | None = None,
) -> Inbox:
    """Return a message processor; it gets a new dispatcher where none is passed."""
    return make_inbox(journal, answer, dispatcher or wire_dispatcher(settings, journal), library=library)


def listen(
    stack: AsyncExitStack, adapter: Adapter, settings: Settings, journal: Journal, answer: AnswerFunction
) -> CommandDispatcher:
    """Let an open adapter listen until the stack is closed; return the dispatcher of its commands."""
    dispatcher = wire_dispatcher(settings, journal)
    processor = make_processor(settings, journal, answer, dispatcher=dispatcher)
    listen_task = asyncio.create_task(adapter.listen(processor.handler_for(adapter)))

    async def stop() -> None:
        listen_task.cancel()
        await asyncio.gather(listen_task, return_exceptions=True)
        await processor.drain(30)

    stack.push_async_callback(stop)
    return dispatcher
