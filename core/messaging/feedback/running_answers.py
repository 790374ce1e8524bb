"""The answers that are being made, so that they can be stopped: by a press here, or at another daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.errors import StoreError
from core.observability.logs import get_logger
from core.runtime.tasks import wait_for
from core.storage.feedback import FeedbackRepository
from core.types import ConversationKey, Message

_log = get_logger(__name__)

# How soon a stop is noticed that another daemon has recorded.
POLL_S = 0.5
_Identity = tuple[ConversationKey, str, str]


class RunningAnswers:
    """The answers that this process makes. A stop is in the journal as well: for other daemons, and after a crash."""

    def __init__(self, repository: FeedbackRepository) -> None:
        self._repository = repository
        self._stop_events: dict[_Identity, asyncio.Event] = {}

    @asynccontextmanager
    async def track(self, question: Message, *, is_resumed: bool = False) -> AsyncIterator[asyncio.Event]:
        """Let the answer that is made in the block be stopped: the event is set then."""
        stop = self._stop_events[_get_identity(question)] = asyncio.Event()
        watcher = None
        if self._repository.is_shared or is_resumed:
            await self._check_stopped(question, stop)
        if self._repository.is_shared:
            watcher = asyncio.create_task(self._watch(question, stop), name=f"stop of {question.id}")
        try:
            yield stop
        finally:
            del self._stop_events[_get_identity(question)]
            if watcher:
                watcher.cancel()

    def stop(self, question: Message) -> bool:
        """Stop an answer; return whether it is being made: with several daemons, another one may be at it."""
        if stop := self._stop_events.get(_get_identity(question)):
            stop.set()
        return stop is not None or self._repository.is_shared

    async def _watch(self, question: Message, stop: asyncio.Event) -> None:
        while not await wait_for(stop, POLL_S):
            await self._check_stopped(question, stop)

    async def _check_stopped(self, question: Message, stop: asyncio.Event) -> None:
        try:
            if await self._repository.is_stopped(question):
                stop.set()
        except StoreError as error:
            _log.warning("stop.check_failed", error=str(error))


def _get_identity(question: Message) -> _Identity:
    return ConversationKey(question.key.platform, question.key.chat), question.bot, question.id
