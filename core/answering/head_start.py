"""The head start: an answer begun before it is certain what it has to be written from (`context.head_start`).

In a conversation, a call of the light model precedes the answer: it completes the question. Meanwhile the question is
searched behind those that it depends on, which mostly finds what the completed one will find. So the main model begins
the answer on that, and the answer is held back.

When the completed question finds the same, the answer goes out: its first token comes as soon as the light model ends,
because the main model's own delay has passed in the meantime. When it does not, the begun answer is discarded and a new
one is written: only the tokens of the discarded call are lost, and `core.answering.head_start_policy` keeps them few.
Where messages are selected, nothing is begun: the answer needs the selection, which takes as long as the completion.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from core.answering.agents import summarizer
from core.answering.agents.reranker import select_evidence
from core.answering.context import AnswerDependencies, AnswerInputs, RetrievalResult
from core.answering.head_start_policy import HeadStartPolicy
from core.errors import KimasError, ServiceError
from core.language.tokens import estimate_tokens
from core.llm.usage import MESSAGE_TOKENS
from core.runtime.budget import Budget
from core.types import Passage, Question

# Valid evidence holds so many of the best final passages, and at least this share of the better half of them
# (docs/decisions.md, "Head starts").
BEST_PASSAGES = 2
MIN_EVIDENCE_OVERLAP = 0.5
# The usage of discarded answers is recorded under this name, next to the agents.
LOST_AGENT = "head_start"


class HeadStart:
    """An answer that may have begun early; `tasks` owns the task."""

    def __init__(self, question: Question, deps: AnswerDependencies, budget: Budget, tasks: asyncio.TaskGroup) -> None:
        self._question = question
        self._deps = deps
        self._budget = budget
        self._tasks = tasks
        self._evidence: RetrievalResult | None = None
        self._chunks: asyncio.Queue[str | ServiceError | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._account: HeadStartAccount | None = None

    def start_from_partial_result(self, partial_result: RetrievalResult) -> None:
        """Begin the answer from the passages of the early search, while the question is still being completed."""
        if self._deps.settings.context.head_start:
            self._task = self._tasks.create_task(self._run(partial_result))

    def accept_if_valid(self, retrieval: RetrievalResult) -> AnswerInputs | None:
        """Return the answer with what it is written from if it fits the final evidence, else None.

        `is_same_evidence` says when it fits.
        """
        if light_ms := self._budget.timings_ms.get("rewrite"):
            self._deps.head_starts.record_light_call(light_ms / 1000)
        if self._evidence is None or not is_same_evidence(self._evidence.passages, retrieval.passages):
            self.discard()
            return None
        if self._account:
            self._account.close(is_kept=True)
        evidence = replace(self._evidence, query=retrieval.query)
        return AnswerInputs(self._question, evidence, self._continue(evidence))

    async def _run(self, partial_result: RetrievalResult) -> None:
        try:
            evidence = await select_evidence(partial_result, self._deps, self._budget, is_final=False)
        except KimasError:
            # An error here happens again, and is reported, when the final answer is written.
            return
        await asyncio.sleep(max(0.0, self._deps.head_starts.delay_s - self._budget.elapsed_ms() / 1000))
        if self._deps.model is None or not evidence.passages:
            return
        system, turns = summarizer.build_prompt(self._question, evidence, self._deps)
        prompt_tokens = estimate_tokens(system) + sum(estimate_tokens(turn.text) + MESSAGE_TOKENS for turn in turns)
        if not self._deps.head_starts.may_begin(prompt_tokens):
            return
        self._evidence = evidence
        self._account = HeadStartAccount(self._budget, self._deps.head_starts, prompt_tokens)
        chunks = self._deps.model.stream(system, turns, role="main", budget=self._account, agent="summarizer")
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    self._chunks.put_nowait(chunk)
            self._chunks.put_nowait(None)
        except ServiceError as error:
            self._chunks.put_nowait(error)

    async def _continue(self, evidence: RetrievalResult) -> AsyncGenerator[str]:
        """Yield the text that has come and what follows. Raises `ModelError`."""
        try:
            chunk = await self._chunks.get()
            # One that failed before its first word is written anew, like any other.
            has_failed = isinstance(chunk, ServiceError)
            while isinstance(chunk, str):
                yield chunk
                chunk = await self._chunks.get()
        finally:
            self.discard()
        if has_failed and self._deps.model:
            new_chunks = summarizer.stream_answer(self._question, evidence, self._deps.model, self._deps, self._budget)
            async with aclosing(new_chunks):
                async for new_chunk in new_chunks:
                    yield new_chunk
        elif isinstance(chunk, ServiceError):
            raise chunk

    def discard(self) -> None:
        """End the head start, unless it was accepted. Idempotent."""
        if self._task is not None:
            self._task.cancel()
        if self._account is not None:
            self._account.close(is_kept=False)
        self._evidence = None
        self._account = None


def is_same_evidence(passages: Sequence[Passage], final_passages: Sequence[Passage]) -> bool:
    """Return whether an answer from these passages is as good as one from the final ones.

    It is when the two best of the final passages are among them, and half of the better half of the final ones.
    """
    ids = {passage.id for passage in passages}
    by_score = sorted(final_passages, key=lambda passage: -passage.score)
    is_known = [passage.id in ids for passage in by_score]
    better_half = is_known[: (len(is_known) + 1) // 2]
    return all(is_known[:BEST_PASSAGES]) and sum(better_half) >= MIN_EVIDENCE_OVERLAP * len(better_half)


class HeadStartAccount:
    """The budget of a head start: what it consumes belongs to the answer if it is kept, else it is lost.

    `close` says which; until then the usage is held back. The first call counts.
    """

    def __init__(self, budget: Budget, head_starts: HeadStartPolicy, prompt_tokens: int) -> None:
        self._budget = budget
        self._head_starts = head_starts
        self._prompt_tokens = prompt_tokens
        head_starts.record_begin(prompt_tokens)
        self.tokens = budget.tokens
        self.cost = budget.cost
        self.remaining = budget.remaining
        self._is_kept: bool | None = None
        self._held_usage: list[tuple[str, int, int, float, bool, str]] = []

    def close(self, *, is_kept: bool) -> None:
        """Return whether the answer is kept, and pass on what it has consumed so far."""
        if self._is_kept is not None:
            return
        self._is_kept = is_kept
        self._budget.head_starts.append(is_kept)
        self._head_starts.record_outcome(is_kept=is_kept, prompt_tokens=self._prompt_tokens)
        for agent, prompt_tokens, completion_tokens, cost, is_estimated, model in self._held_usage:
            self.add_usage(agent, prompt_tokens, completion_tokens, cost, is_estimated=is_estimated, model=model)

    def add_usage(
        self,
        agent: str,
        prompt_tokens: int,
        completion_tokens: int,
        cost: float = 0.0,
        *,
        is_estimated: bool = False,
        model: str = "",
    ) -> None:
        """Add the tokens of the call: to those of its agent, or to those of `LOST_AGENT`."""
        if self._is_kept is None:
            self._held_usage.append((agent, prompt_tokens, completion_tokens, cost, is_estimated, model))
            return
        if not self._is_kept:
            agent = LOST_AGENT
            self._head_starts.record_loss(prompt_tokens + completion_tokens)
        self._budget.add_usage(agent, prompt_tokens, completion_tokens, cost, is_estimated=is_estimated, model=model)
