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
from core.answering.agents.search import capture_error
from core.answering.context.dependencies import AnswerDependencies
from core.answering.context.retrieval_result import RetrievalResult
from core.errors import KimasError, ServiceError
from core.ports import ChatModel, ModelRole, RequestBudget, ResponseSchema
from core.runtime.budget import Budget
from core.types import Question, Turn

# A light model that is done by then needs no head start, and the main model is not asked in vain.
START_DELAY_S = 0.1
# So much of the better half of what was found in the end is known to an answer that fits.
MIN_EVIDENCE_OVERLAP = 0.75


class SpeculativeAnswer:
    """A `ChatModel` that may have begun the answer before it is asked for it; else it is the model that it wraps.

    The task group that it is given owns its task.
    """

    def __init__(self, model: ChatModel, deps: AnswerDependencies, budget: Budget, tasks: asyncio.TaskGroup) -> None:
        self._question: Question | None = None
        self._evidence: RetrievalResult | None = None
        self._model, self._deps, self._budget, self._tasks = model, deps, budget, tasks
        self._turns: list[Turn] = []
        self._chunks: asyncio.Queue[str | ServiceError | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def start(self, prepare: Callable[[], Awaitable[RetrievalResult]], get_question: Callable[[], Question]) -> None:
        """Begin the answer when its evidence is there, but not at once; `told` is then asked for the question.

        It must not wait for a selection: that would cost what the head start gains.
        """
        self._chunks = asyncio.Queue()
        self._task = self._tasks.create_task(self._run(prepare, get_question))

    async def _run(
        self, prepare: Callable[[], Awaitable[RetrievalResult]], get_question: Callable[[], Question]
    ) -> None:
        evidence = await capture_error(prepare())
        await asyncio.sleep(max(0.0, START_DELAY_S - self._budget.elapsed_ms() / 1000))
        question = get_question()
        if isinstance(evidence, KimasError) or not evidence.passages:
            return
        system, self._turns = summarizer.build_prompt(
            question, evidence.passages, self._deps, evidence.low_quality_reason()
        )
        self._question, self._evidence = question, evidence
        chunks = self._model.stream(system, self._turns, role="main", budget=self._budget, agent="summarizer")
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    self._chunks.put_nowait(chunk)
            self._chunks.put_nowait(None)
        except ServiceError as error:
            self._chunks.put_nowait(error)

    def accept_if_valid(self, retrieval: RetrievalResult) -> tuple[Question, RetrievalResult] | None:
        """Return the question and the evidence of the begun answer, if it fits what was found in the end, else None.

        It fits when its evidence holds the best of those passages and most of the better half of them.
        """
        if self._question is None or self._evidence is None:
            return None
        evidence_ids = {passage.id for passage in self._evidence.passages}
        best_passages = sorted(retrieval.passages, key=lambda passage: -passage.score)[
            : (len(retrieval.passages) + 1) // 2
        ]
        hits = [passage.id in evidence_ids for passage in best_passages]
        is_valid = all(hits[:1]) and sum(hits) >= MIN_EVIDENCE_OVERLAP * len(hits)
        return (self._question, replace(self._evidence, query=retrieval.query)) if is_valid else None

    def discard(self) -> None:
        """Give up what was begun, if anything."""
        if self._task is not None:
            self._task.cancel()
        self._question = self._evidence = None
        self._turns = []

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the begun reply when it is the same request, else a new one. Raises `ModelError`."""
        if self._evidence is not None and self._turns == list(turns):
            queued_chunk = await self._chunks.get()
            # One that failed before its first word is asked for again, like any other.
            has_failed = isinstance(queued_chunk, ServiceError)
            try:
                while isinstance(queued_chunk, str):
                    yield queued_chunk
                    queued_chunk = await self._chunks.get()
            finally:
                self.discard()
            if not has_failed and isinstance(queued_chunk, ServiceError):
                raise queued_chunk
            if not has_failed:
                return
        self.discard()
        chunks = self._model.stream(system, turns, role=role, budget=budget, agent=agent)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: ModelRole,
        budget: RequestBudget,
        response_schema: ResponseSchema | None = None,
        agent: str = "",
    ) -> str:
        """Return the whole reply of the wrapped model. Raises `ModelError`."""
        return await self._model.complete(
            system, turns, role=role, budget=budget, response_schema=response_schema, agent=agent
        )
