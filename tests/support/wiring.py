"""The wiring of messages in tests: what `bots.daemon.bootstrap` makes, from settings and a journal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from bots.daemon.bootstrap import make_dispatcher, make_inbox, make_live_settings
from core.messaging.commands.dispatcher import CommandDispatcher
from core.messaging.inbox import Inbox
from core.ports import Adapter, AnswerFunction, Library, MessageHandler
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


@asynccontextmanager
async def running(
    adapter: Adapter, processor: Inbox, receive: MessageHandler | None = None, *, drain_s: float = 30
) -> AsyncIterator[None]:
    """Have an adapter listen for a processor, as the daemon does; what has begun at the end gets so many seconds.

    `receive` takes what arrives, in place of the processor.
    """
    await adapter.open()
    await processor.resume(adapter)
    listen_task = asyncio.create_task(adapter.listen(receive or processor.handler_for(adapter)))
    try:
        yield
        assert not listen_task.done(), listen_task.exception()
    finally:
        listen_task.cancel()
        await asyncio.gather(listen_task, return_exceptions=True)
        await processor.drain(drain_s)
        await adapter.close()


async def listen(
    stack: AsyncExitStack, adapter: Adapter, settings: Settings, journal: Journal, answer: AnswerFunction
) -> CommandDispatcher:
    """Let an adapter listen until the stack is closed; return the dispatcher of its commands."""
    dispatcher = wire_dispatcher(settings, journal)
    processor = make_processor(settings, journal, answer, dispatcher=dispatcher)
    await stack.enter_async_context(running(adapter, processor))
    return dispatcher
