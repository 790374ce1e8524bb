"""One streamed reply: its text, its token usage, and its outcome for the endpoint's circuit breaker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from core.errors import ModelError
from core.llm.failover import Attempt
from core.llm.sse import StreamChunk

UsageCallback = Callable[[Attempt, StreamChunk], None]


class ModelStream:
    """A reply that has begun: `text` is the latest chunk, empty at the end. It must be closed in any case."""

    def __init__(self, attempt: Attempt, chunks: AsyncGenerator[StreamChunk], on_usage: UsageCallback) -> None:
        self.text = ""
        self._attempt = attempt
        self._chunks = chunks
        self._on_usage = on_usage
        self._usage: StreamChunk | None = None
        self._is_finished = False

    @classmethod
    async def start(cls, attempt: Attempt, chunks: AsyncGenerator[StreamChunk], on_usage: UsageCallback) -> ModelStream:
        """Return the reply at its first text, or at its end if it has none. Raises `ModelError`."""
        stream = cls(attempt, chunks, on_usage)
        try:
            await stream._read_next()
        except BaseException:
            await stream._close_connection()
            raise
        return stream

    async def advance(self, stall_s: float) -> None:
        """Read the next text. Raises `ModelError`, also after a silence of `stall_s` seconds."""
        remaining_s = max(0.0, self._attempt.deadline - time.monotonic())
        try:
            async with asyncio.timeout(min(remaining_s, stall_s)):
                await self._read_next()
        except TimeoutError as timeout_error:
            is_stalled = stall_s < remaining_s
            message = (
                f"stopped for {stall_s:g} s in the middle of its reply" if is_stalled else "did not finish in time"
            )
            error = self._attempt.deployment.make_error(message)
            # A reply that is too long for the time left is no failure of the endpoint.
            self._finish(error if is_stalled else None)
            raise error from timeout_error
        except ModelError as error:
            self._finish(error)
            raise

    async def close(self) -> None:
        """Release the connection and count the tokens. Idempotent."""
        self._finish(None)
        await self._close_connection()

    async def _read_next(self) -> None:
        async for chunk in self._chunks:
            if chunk.prompt_tokens or chunk.completion_tokens:
                # Some servers send running totals: the last one counts.
                self._usage = chunk
            if chunk.text:
                self.text = chunk.text
                return
        self.text = ""
        self._is_finished = True
        self._attempt.record_success()

    def _finish(self, error: ModelError | None) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        if error:
            self._attempt.record_failure(error)
        else:
            self._attempt.release()

    async def _close_connection(self) -> None:
        await self._chunks.aclose()
        if self._usage:
            self._on_usage(self._attempt, self._usage)
            self._usage = None
