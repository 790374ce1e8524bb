"""The head start: an answer begun before it is certain what it is to be written from.

In a conversation light calls stand before the answer. One completes the query: the rules' query is searched at once,
and mostly finds what the completed one will find. Another selects the messages that matter: where a question stands
alone, the rules guess them. So the answer is begun on what the rules say, and held back. When the light models come to
the same, it is let go: its first token comes no later than they end, and the main model's own time has passed
meanwhile. When they come to something else, the beginning is dropped and a new answer is written: nothing is lost but
the tokens of the dropped call. With a light model as slow as the main one, what is begun on the rules' query sees the
whole conversation, for the selection takes longer. `context.head_start` switches it off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from core.answering.agents import summarizer
from core.answering.agents.search import outcome
from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.errors import KimasError, ServiceError
from core.ports import CallBudget, ChatModel, Form, Role
from core.runtime.budget import Budget
from core.types import Question, Turn

# A light model that is done by then needs no head start, and the main model is not asked in vain.
NOT_BEFORE_S = 0.1
# So much of the better half of what was found in the end is known to an answer that fits.
FITTING = 0.75


class HeadStart:
    """A `ChatModel` that may have begun the answer before it is asked for it; else it is the model that it wraps.

    The task group that it is given owns its task.
    """

    def __init__(self, model: ChatModel, parts: Parts, budget: Budget, tasks: asyncio.TaskGroup) -> None:
        self._question: Question | None = None
        self._evidence: Gathered | None = None
        self._model, self._parts, self._budget, self._tasks = model, parts, budget, tasks
        self._turns: list[Turn] = []
        self._pieces: asyncio.Queue[str | ServiceError | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def begin(self, prepare: Callable[[], Awaitable[Gathered]], told: Callable[[], Question]) -> None:
        """Begin the answer when its evidence is there, but not at once; `told` is then asked for the question.

        It must not wait for a selection: that would cost what the head start gains.
        """
        self._pieces = asyncio.Queue()
        self._task = self._tasks.create_task(self._run(prepare, told))

    async def _run(self, prepare: Callable[[], Awaitable[Gathered]], told: Callable[[], Question]) -> None:
        evidence = await outcome(prepare())
        await asyncio.sleep(max(0.0, NOT_BEFORE_S - self._budget.elapsed_ms() / 1000))
        question = told()
        if isinstance(evidence, KimasError) or not evidence.passages:
            return
        system, self._turns = summarizer.prompt(question, evidence.passages, self._parts, evidence.doubt())
        self._question, self._evidence = question, evidence
        pieces = self._model.stream(system, self._turns, role="main", budget=self._budget, agent="summarizer")
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    self._pieces.put_nowait(piece)
            self._pieces.put_nowait(None)
        except ServiceError as fault:
            self._pieces.put_nowait(fault)

    def begun_on(self, gathered: Gathered) -> tuple[Question, Gathered] | None:
        """Return the question and the evidence of the begun answer, if it fits what was found in the end, else None.

        It fits when its evidence holds the best of those passages and most of the better half of them.
        """
        if self._question is None or self._evidence is None:
            return None
        known = {passage.id for passage in self._evidence.passages}
        best = sorted(gathered.passages, key=lambda one: -one.score)[: (len(gathered.passages) + 1) // 2]
        held = [passage.id in known for passage in best]
        fits = all(held[:1]) and sum(held) >= FITTING * len(held)
        return (self._question, replace(self._evidence, query=gathered.query)) if fits else None

    def drop(self) -> None:
        """Give up what was begun, if anything."""
        if self._task is not None:
            self._task.cancel()
        self._question = self._evidence = None
        self._turns = []

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: Role, budget: CallBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the begun reply when it is the same request, else a new one. Raises `ModelError`."""
        if self._evidence is not None and self._turns == list(turns):
            piece = await self._pieces.get()
            # One that failed before its first word is asked for again, like any other.
            failed = isinstance(piece, ServiceError)
            try:
                while isinstance(piece, str):
                    yield piece
                    piece = await self._pieces.get()
            finally:
                self.drop()
            if not failed and isinstance(piece, ServiceError):
                raise piece
            if not failed:
                return
        self.drop()
        pieces = self._model.stream(system, turns, role=role, budget=budget, agent=agent)
        async with aclosing(pieces):
            async for one in pieces:
                yield one

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: Role,
        budget: CallBudget,
        form: Form | None = None,
        agent: str = "",
    ) -> str:
        """Return the whole reply of the wrapped model. Raises `ModelError`."""
        return await self._model.complete(system, turns, role=role, budget=budget, form=form, agent=agent)
