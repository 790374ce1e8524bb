"""Answers that are being written: whoever asks the same again in the meantime waits for the same answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager

from core.errors import KimasError
from core.observability.logs import get_logger
from core.ports import AnswerFunction
from core.types import Question, Reply

_log = get_logger(__name__)


class RunningAnswer:
    """One answer, as it grows. It implements `core.ports.Sink`; any number of requests wait for it.

    `may_show` says whether what it tells of may still be told.
    """

    def __init__(self, may_show: Callable[[Reply | None], bool]) -> None:
        self._may_show = may_show
        self._changed = asyncio.Event()
        self.text = ""

    async def open(self) -> None:
        """Do nothing: the client has its headers already."""

    async def update(self, text: str) -> None:
        """Show the reply so far, unless its sources were closed meanwhile."""
        if self._may_show(None):
            self.text = text
            self._changed.set()

    async def finish(self, reply: Reply) -> None:
        """Do nothing: the reply is the result of the task."""

    async def fail(self, text: str) -> None:
        """Do nothing: the error is the result of the task."""

    async def wait_for_change(self) -> None:
        """Wait until there is more text than before."""
        await self._changed.wait()
        self._changed.clear()


class RunningAnswers:
    """The answers that are being written, by client and question."""

    def __init__(self, answer: AnswerFunction) -> None:
        self._answer = answer
        self._running: dict[Hashable, tuple[RunningAnswer, asyncio.Task[Reply], int]] = {}

    @asynccontextmanager
    async def join(
        self, key: Hashable, question: Question, may_show: Callable[[Reply | None], bool]
    ) -> AsyncIterator[tuple[RunningAnswer, asyncio.Task[Reply]]]:
        """Have the answer to a question for the length of the block: a new one, or the one that is being written.

        Clients repeat a request whose response is late. When nobody waits any more, the work ends.
        """
        running, task, waiting_count = self._running.get(key) or self._begin(question, may_show)
        self._running[key] = running, task, waiting_count + 1
        try:
            yield running, task
        finally:
            _, _, waiting_count = self._running[key]
            self._running[key] = running, task, waiting_count - 1
            if waiting_count == 1:
                del self._running[key]
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _begin(
        self, question: Question, may_show: Callable[[Reply | None], bool]
    ) -> tuple[RunningAnswer, asyncio.Task[Reply], int]:
        running = RunningAnswer(may_show)
        return running, asyncio.create_task(self._write(question, running)), 0

    async def _write(self, question: Question, running: RunningAnswer) -> Reply:
        try:
            reply = await self._answer(question, running)
        except KimasError:
            raise
        except Exception as error:
            # Any error: each of those who wait learns that there is no answer, in the form that it reads.
            _log.error("api.answer_failed", error=str(error), exc_info=error)
            raise KimasError("the answer failed") from error
        if not running._may_show(reply):
            raise KimasError("a source of this answer was closed while it was written")
        return reply
