"""One streamed reply, read text by text, with what it says about its endpoint and the tokens that it used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

from core.errors import ModelError
from core.llm.failover import Attempt
from core.llm.sse import Piece

Count = Callable[[Attempt, Piece], None]


class Flow:
    """A reply that has begun: `text` is its newest piece, empty at its end. Close it whatever happens."""

    def __init__(self, attempt: Attempt, pieces: AsyncGenerator[Piece], count: Count) -> None:
        self.text = ""
        self._attempt = attempt
        self._pieces = pieces
        self._count = count
        self._usage: Piece | None = None
        self._ended = False

    @classmethod
    async def begin(cls, attempt: Attempt, pieces: AsyncGenerator[Piece], count: Count) -> Flow:
        """Return the reply at its first text, or at its end when it has none. Raises `ModelError`."""
        flow = cls(attempt, pieces, count)
        try:
            await flow._read()
        except BaseException:
            await flow._let_go()
            raise
        return flow

    async def advance(self, stall_s: float) -> None:
        """Read on to the next text. Raises `ModelError`, also after a silence of `stall_s` seconds."""
        left = max(0.0, self._attempt.ends - time.monotonic())
        try:
            async with asyncio.timeout(min(left, stall_s)):
                await self._read()
        except TimeoutError as silence:
            stalled = stall_s < left
            said = f"stopped for {stall_s:g} s in the middle of its reply" if stalled else "did not finish in time"
            fault = self._attempt.target.fault(said)
            # A reply that only was too long for the time is no fault of the endpoint's.
            self._end(fault if stalled else None)
            raise fault from silence
        except ModelError as fault:
            self._end(fault)
            raise

    async def close(self) -> None:
        """Let go of the connection and count the tokens. Idempotent."""
        self._end(None)
        await self._let_go()

    async def _read(self) -> None:
        async for piece in self._pieces:
            if piece.prompt_tokens or piece.completion_tokens:
                # Some servers send running totals: the last one holds.
                self._usage = piece
            if piece.text:
                self.text = piece.text
                return
        self.text = ""
        self._ended = True
        self._attempt.succeeded()

    def _end(self, fault: ModelError | None) -> None:
        if self._ended:
            return
        self._ended = True
        if fault:
            self._attempt.failed(fault)
        else:
            self._attempt.released()

    async def _let_go(self) -> None:
        await self._pieces.aclose()
        if self._usage:
            self._count(self._attempt, self._usage)
            self._usage = None
