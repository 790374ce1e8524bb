"""Answers questions: courtesies, a cached reply if there is one, else a new one, with quotas and usage records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.answering.cache import CachedAnswers, answer_with_cache, fingerprint
from core.answering.context import AnswerDependencies
from core.answering.hearing import hear
from core.answering.masking import mask_question
from core.answering.pipeline import answer, finish_unwritten
from core.answering.quota import QuotaLimiter, answer_with_quota, record_usage
from core.answering.retry import HoldingSink, RetryQuestion, is_better, with_more_effort
from core.answering.small_talk import courtesy_reply
from core.answering.withholding import OutgoingFilter
from core.catalogue import messages_for
from core.errors import AnswerStopped, PlatformError, ServiceError
from core.language.languages import get_asker_language
from core.llm.moderation import Moderator
from core.observability.logs import get_logger
from core.ports import Sink
from core.runtime.budget import Budget
from core.settings.audience import Audiences
from core.types import Question, Reply

if TYPE_CHECKING:
    from core.storage.usage import UsageRepository

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AnswerService:
    """Answers questions.

    Without `quota_limiter` nothing is limited, without `usage_repository` nothing recorded, without `cached_answers`
    nothing reused. `outgoing` judges what is about to be said; without it everything may be.
    """

    deps: AnswerDependencies
    quota_limiter: QuotaLimiter | None = None
    usage_repository: UsageRepository | None = None
    cached_answers: CachedAnswers | None = None
    outgoing: OutgoingFilter | None = None

    def get_moderator(self) -> Moderator | None:
        """Return what moderates answers, if anything does."""
        return self.outgoing.moderator if self.outgoing else None

    async def answer(self, question: Question, sink: Sink) -> Reply:
        """Answer one question into its sink, from what its asker may see.

        Raises `QuotaExceeded` when a limit is used up, `AnswerWithheld` for an answer that may not leave, and what
        `core.answering.pipeline.answer` raises.
        """
        service, question = self._for_chat(question)._restricted_to_visible(question)
        masked = mask_question(question, service.deps.settings, service.deps.mask_key)
        if masked.text != question.text:
            # Nobody else asks the same, and under another text it would not be found once its asker is forgotten.
            service = replace(service, cached_answers=None)
        question = masked
        sink = service.outgoing.guard(question, sink) if service.outgoing else sink
        if reply := await service._reply_to_courtesy(question, sink):
            return reply
        if isinstance(question, RetryQuestion):
            return await service._answer_again(question, sink)
        return await service._answer_cached(question, sink)

    async def _reply_to_courtesy(self, question: Question, sink: Sink) -> Reply | None:
        text = courtesy_reply(
            question, self.deps.settings, self.deps.library, messages_for(get_asker_language(question))
        )
        if not text:
            return None
        await sink.open()
        reply = Reply(text)
        await sink.finish(reply)
        return reply

    def _for_chat(self, question: Question) -> AnswerService:
        """Return the service with the models of the question's chat, where it has its own."""
        deps = self.deps.for_chat(question.key)
        if deps is self.deps:
            return self
        cached_answers = self.cached_answers
        if cached_answers:
            cache = cached_answers.cache.for_fingerprint(fingerprint(deps.settings, deps.prompts))
            cached_answers = replace(cached_answers, cache=cache)
        outgoing = replace(self.outgoing, settings=deps.settings.outgoing) if self.outgoing else None
        return replace(self, deps=deps, cached_answers=cached_answers, outgoing=outgoing)

    def _restricted_to_visible(self, question: Question) -> tuple[AnswerService, Question]:
        """Return the service restricted to the asker's visible sources, and the question with these.

        A question of a conversation that does not say it is an outsider's.
        """
        sources = self.deps.settings.sources
        visible_sources = question.visible_sources
        if visible_sources is None:
            audiences = Audiences.from_settings(self.deps.settings)
            visible_sources = frozenset(sources) if question.key is None else audiences.visible_sources(None)
        if visible_sources.issuperset(sources):
            return self, question
        service = replace(self, deps=self.deps.restricted_to(visible_sources))
        return service, replace(question, visible_sources=visible_sources)

    async def _answer_again(self, question: RetryQuestion, sink: Sink) -> Reply:
        """Answer with more effort; if that finds nothing better or fails, say that the first answer remains."""
        # The cached reply is the one that did not satisfy.
        service = replace(self, deps=with_more_effort(self.deps, question), cached_answers=None)
        first_answer_note = Reply(messages_for(get_asker_language(question)).first_answer_stands)
        try:
            reply = await service._answer_cached(question, HoldingSink(sink))
        except PlatformError:
            raise
        except ServiceError as error:
            _log.warning("retry.failed", error=str(error))
            reply = first_answer_note
        if not (reply.is_stopped or is_better(reply, question)):
            reply = replace(first_answer_note, trace=reply.trace)
        await sink.finish(reply)
        return reply

    async def _answer_cached(self, question: Question, sink: Sink) -> Reply:
        # The asker waits for the cache lookup as well: the deadline includes it.
        budget = Budget(self.deps.settings.budget)
        if not self.cached_answers:
            return await self._generate(question, sink, budget)
        reply = await answer_with_cache(question, sink, self._generate, self.cached_answers, budget)
        if reply.trace.cached and self.usage_repository:
            await record_usage(self.usage_repository, question, "cached", {})
        return reply

    async def _generate(self, question: Question, sink: Sink, budget: Budget) -> Reply:
        if not (self.deps.model and self.quota_limiter and self.usage_repository):
            return await self._hear_and_answer(question, sink, budget)

        return await answer_with_quota(
            question,
            lambda: self._hear_and_answer(question, sink, budget),
            budget,
            quota_limiter=self.quota_limiter,
            usage_repository=self.usage_repository,
            effort=self.deps.settings.feedback.effort if isinstance(question, RetryQuestion) else 1.0,
        )

    async def _hear_and_answer(self, question: Question, sink: Sink, budget: Budget) -> Reply:
        """Answer a question; one that is asked by a voice message is heard first, which takes of the same budget."""
        if question.speech:
            try:
                question, sink = await hear(question, question.speech, sink, self.deps, budget)
            except AnswerStopped:
                return await finish_unwritten(sink, self.deps, budget)
            if reply := await self._reply_to_courtesy(question, sink):
                return reply
        return await answer(question, sink, self.deps, budget)
