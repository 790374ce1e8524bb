"""Answering as a whole: an earlier reply where there is one, else a new one within the limits and on the record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.answering.cache import CachedAnswers, answer_with_cache
from core.answering.context.dependencies import AnswerDependencies
from core.answering.pipeline import answer
from core.answering.quota import QuotaLimiter, answer_with_quota, record_usage
from core.answering.retry import RetryQuestion, with_more_effort
from core.ports import ChatModel, Sink
from core.runtime.budget import Budget
from core.types import Question, Reply

if TYPE_CHECKING:
    from core.storage.usage import UsageRepository


@dataclass(frozen=True, slots=True)
class AnswerService:
    """Answers questions.

    Without `limits` and `usage_repository` nothing is limited or recorded, without `cached_answers` none is reused.
    """

    deps: AnswerDependencies
    limits: QuotaLimiter | None = None
    usage_repository: UsageRepository | None = None
    cached_answers: CachedAnswers | None = None

    async def answer(self, question: Question, sink: Sink) -> Reply:
        """Answer one question into its sink. Raises `UsageError` when a limit is used up, and what `answer` raises."""
        if isinstance(question, RetryQuestion):
            # What did not satisfy is not given again.
            return await replace(self, deps=with_more_effort(self.deps, question), cached_answers=None)._answer_cached(
                question, sink
            )
        return await self._answer_cached(question, sink)

    async def _answer_cached(self, question: Question, sink: Sink) -> Reply:
        # The time that is spent before the answer is made is the asker's too.
        budget = Budget(self.deps.settings.budget)
        if not self.cached_answers:
            return await self._generate(question, sink, budget)
        reply = await answer_with_cache(question, sink, self._generate, self.cached_answers, budget)
        if reply.trace.cached and self.usage_repository:
            await record_usage(self.usage_repository, question, "cached", {})
        return reply

    async def _generate(self, question: Question, sink: Sink, budget: Budget) -> Reply:
        if not (self.deps.model and self.limits and self.usage_repository):
            return await answer(question, sink, self.deps, budget)

        async def answer_with_model(question: Question, sink: Sink, model: ChatModel) -> Reply:
            return await answer(question, sink, replace(self.deps, model=model), budget)

        return await answer_with_quota(
            question,
            sink,
            self.deps.model,
            answer_with_model,
            quota_limiter=self.limits,
            usage_repository=self.usage_repository,
        )
