"""Answers that are being written: whoever asks the same again in the meantime waits for the same answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager

from core.errors import KimasError
from core.observability.logs import get_logger
from core.ports import AnswerFunction
from core.runtime.leaving import judge_requests_by
from core.types import Question, Reply

_log = get_logger(__name__)


class TooManyAnswers(KimasError):
    """As many answers are being written as are allowed at the same time."""


class RunningAnswer:
    """One answer, as it grows. It implements `core.ports.Sink`; any number of requests wait for it.

    `may_tell` says whether all that could be told of at its beginning may still be told.
    """

    def __init__(self, may_tell: Callable[[], Awaitable[bool]]) -> None:
        self._may_tell = may_tell
        self._changed = asyncio.Event()
        self.text = ""

    async def open(self) -> None:
        """Do nothing: the client has its headers already."""

    async def update(self, text: str) -> None:
        """Show the reply so far. Raises `KimasError` where a source was closed meanwhile."""
        await self.require_rights()
        self.text = text
        self._changed.set()

    async def require_rights(self) -> None:
        """Raise `KimasError` where less may be told of than at the beginning."""
        if not await self._may_tell():
            raise KimasError("a source of this answer was closed while it was written")

    async def finish(self, reply: Reply) -> None:
        """Do nothing: the reply is the result of the task."""

    async def fail(self, text: str) -> None:
        """Do nothing: the error is the result of the task."""

    async def wait_for_change(self) -> None:
        """Wait until there is more text than before."""
        await self._changed.wait()
        self._changed.clear()


class RunningAnswers:
    """The answers that are being written, by client and question: at most `limit` at the same time."""

    def __init__(self, answer: AnswerFunction, limit: int) -> None:
        self._answer = answer
        self._limit = limit
        self._running: dict[Hashable, tuple[RunningAnswer, asyncio.Task[Reply], int]] = {}

    @asynccontextmanager
    async def join(
        self, key: Hashable, question: Question, may_tell: Callable[[], Awaitable[bool]]
    ) -> AsyncIterator[tuple[RunningAnswer, asyncio.Task[Reply]]]:
        """Have the answer to a question for the length of the block: a new one, or the one that is being written.

        Clients repeat a request whose response is late. When nobody waits any more, the work ends. Raises
        `TooManyAnswers`.
        """
        running, task, waiting_count = self._running.get(key) or self._begin(question, may_tell)
        self._running[key] = running, task, waiting_count + 1
        try:
            yield running, task
        finally:
            _, _, waiting_count = self._running[key]
            self._running[key] = running, task, waiting_count - 1
            if waiting_count == 1:
                del self._running[key]
                # One that is done is not waited for: nothing may change between the last look at it and its words.
                if task.done():
                    _ = task.cancelled() or task.exception()
                else:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    def _begin(
        self, question: Question, may_tell: Callable[[], Awaitable[bool]]
    ) -> tuple[RunningAnswer, asyncio.Task[Reply], int]:
        if len(self._running) >= self._limit:
            raise TooManyAnswers(f"{self._limit} answers are being written; ask again in a moment")
        running = RunningAnswer(may_tell)
        return running, asyncio.create_task(self._write(question, running)), 0

    async def _write(self, question: Question, running: RunningAnswer) -> Reply:
        judge_requests_by(running.require_rights)
        try:
            reply = await self._answer(question, running)
        except KimasError:
            raise
        except Exception as error:
            # Any error: each of those who wait learns that there is no answer, in the form that it reads.
            _log.error("api.answer_failed", error=str(error), exc_info=error)
            raise KimasError("the answer failed") from error
        await running.require_rights()
        return reply
