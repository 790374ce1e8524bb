"""Answering as a whole: an earlier reply where there is one, else a new one within the limits and on the record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.answering.cache import Repeated, Versions, answer_again, fingerprint
from core.answering.context.dependencies import Parts
from core.answering.pipeline import answer
from core.answering.quota import Limits, answer_on_record, record
from core.answering.retry import Again, harder
from core.llm.role_models import PRICED_TOKENS
from core.ports import ChatModel, Sink
from core.runtime.budget import Budget
from core.settings import ModelSettings, Settings
from core.types import Question, Reply

if TYPE_CHECKING:
    from core.storage.engine import Database
    from core.storage.usage import Consumed, Ledger


@dataclass(frozen=True, slots=True)
class Answering:
    """Answers questions. Without a ledger nothing is limited or recorded, without `repeated` nothing given again."""

    parts: Parts
    limits: Limits | None = None
    ledger: Ledger | None = None
    repeated: Repeated | None = None

    async def answer(self, question: Question, sink: Sink) -> Reply:
        """Answer one question into its sink. Raises `UsageError` when a limit is used up, and what `answer` raises."""
        if isinstance(question, Again):
            # What did not satisfy is not given again.
            return await replace(self, parts=harder(self.parts, question), repeated=None)._begin(question, sink)
        return await self._begin(question, sink)

    async def _begin(self, question: Question, sink: Sink) -> Reply:
        # The time that is spent before the answer is made is the asker's too.
        budget = Budget(self.parts.settings.budget)
        if not self.repeated:
            return await self._make(question, sink, budget)
        reply = await answer_again(question, sink, self._make, self.repeated, budget)
        if reply.trace.cached and self.ledger:
            await record(self.ledger, question, "cached", {})
        return reply

    async def _make(self, question: Question, sink: Sink, budget: Budget) -> Reply:
        if not (self.parts.model and self.limits and self.ledger):
            return await answer(question, sink, self.parts, budget)

        async def with_model(question: Question, sink: Sink, model: ChatModel) -> Reply:
            return await answer(question, sink, replace(self.parts, model=model), budget)

        return await answer_on_record(
            question, sink, self.parts.model, with_model, limits=self.limits, ledger=self.ledger
        )


def open_answering(parts: Parts, versions: Versions, database: Database) -> Answering:
    """Wire what the configuration asks for on top of the straight line, over one database."""
    from core.storage.answer_cache import AnswerCache
    from core.storage.overrides import Steering
    from core.storage.usage import Ledger

    settings = parts.settings
    repeated = None
    if settings.cache.enabled:
        cache = AnswerCache(database, settings.cache, fingerprint(settings, parts.prompts))
        repeated = Repeated(cache, parts.library, versions, tuple(settings.sources), settings.cache.similarity)
    if parts.model is None:
        return Answering(parts, repeated=repeated)
    ledger = Ledger(database)
    return Answering(parts, Limits(settings.limits, ledger, _one_call(settings), Steering(database)), ledger, repeated)


def _one_call(settings: Settings) -> Consumed:
    """Return about what one call that writes an answer consumes at most."""
    from core.storage.usage import Consumed

    writer = settings.models.main or settings.models.light or ModelSettings(base_url="-", model="-")
    read, written = writer.context_tokens, writer.max_tokens
    cost = (read * (writer.price_prompt or 0) + written * (writer.price_completion or 0)) / PRICED_TOKENS
    return Consumed(read, written, cost)
