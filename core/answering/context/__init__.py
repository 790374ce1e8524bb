"""The values that all parts of the answering pipeline share: dependencies, queries, what a search returned."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from core.answering.head_start_policy import HeadStartPolicy
from core.answering.image_quota import ImageQuota
from core.catalogue import messages_for
from core.evidence.rendering import escape_delimiters
from core.language.languages import language_name
from core.llm.prompts import Prompts
from core.observability.logs import get_logger
from core.ports import ChatModel, FileReader, Library, Reranker
from core.runtime.budget import Budget, DegradeReason
from core.runtime.tasks import CpuTurnstile
from core.settings import AgentSettings, Settings
from core.settings.answering import ContextSettings
from core.settings.base import Route
from core.types import ConversationKey, Passage, Question
from core.types.replies import (
    MAX_EXCERPT_CHARS,
    MAX_PASSAGES,
    MAX_PLACE_CHARS,
    MAX_SPANS,
    SearchRound,
    Trace,
    TracedPassage,
)

if TYPE_CHECKING:
    from core.answering.chat_models import ChatModels
    from core.llm.transcription import Transcriber

_log = get_logger(__name__)

T = TypeVar("T")
# The bounds of a query's text and words, and of the passage that is embedded in its place.
MAX_QUERY_CHARS = 600
MAX_PASSAGE_CHARS = 1200
# What prompts say of knowledge that nobody described and that has no documents yet.
UNKNOWN_SUBJECT = "(nothing is said about it)"


@dataclass(frozen=True, slots=True)
class AnswerDependencies:
    """The collaborators of the answering pipeline.

    `model` is None when no language model is configured. `rewrites` are the built-in rewrite strategies by name.
    `turnstile` lets one answer at a time select evidence, write its prompt or check its citations. `head_starts` says
    whether a head start is worth its price, `image_quota` how many pictures are looked at. With `is_asked`, somebody
    asked the bot itself: then a question that is near no agent is searched at the best one all the same. Without a
    `file_reader`, attached files are not read, without a `transcriber` no voice message is heard. `chat_models` are
    those of chats that have their own. `mask_key` makes the marks in masked questions: with another one they change.
    """

    settings: Settings
    library: Library
    reranker: Reranker
    model: ChatModel | None
    prompts: Prompts
    rewrites: Mapping[str, Rewrite]
    turnstile: CpuTurnstile = field(default_factory=CpuTurnstile)
    head_starts: HeadStartPolicy = field(default_factory=lambda: HeadStartPolicy(ContextSettings()))
    image_quota: ImageQuota = field(default_factory=ImageQuota)
    is_asked: bool = True
    file_reader: FileReader | None = None
    transcriber: Transcriber | None = None
    chat_models: ChatModels | None = None
    mask_key: bytes = field(default_factory=secrets.token_bytes, repr=False)

    @property
    def has_model(self) -> bool:
        """Return whether there is a language model, if only for some chats."""
        return self.model is not None or (self.chat_models is not None and any(self.chat_models.by_name.values()))

    def for_chat(self, key: ConversationKey | None) -> AnswerDependencies:
        """Return the dependencies of an answer in a chat: where it has models of its own, no part knows of others."""
        name = self.chat_models.find_set(key) if self.chat_models else None
        if self.chat_models is None or name is None:
            return self
        settings = self.settings.with_set(name)
        has_own_reranker = settings.knowledge.search.rerank != self.settings.knowledge.search.rerank
        reranker = self.chat_models.local_reranker if has_own_reranker else self.reranker
        return replace(
            self,
            settings=settings,
            model=self.chat_models.by_name.get(name),
            transcriber=self.chat_models.transcribers.get(name),
            reranker=reranker,
        )

    def restricted_to(self, sources: Collection[str]) -> AnswerDependencies:
        """Return the dependencies of an answer from these sources alone: no part of it learns of others."""
        return replace(self, settings=self.settings.restricted_to(sources), library=self.library.restricted_to(sources))

    def describe_agent(self, name: str) -> str:
        """Return what the sources of an agent know, for prompts: its description, or titles of its documents.

        Titles are foreign text, fenced as data.
        """
        if description := self.settings.retrieval_agents()[name].description:
            return description
        titles = "; ".join(self.library.titles().get(name, ()))
        return f"documents such as <titles>{escape_delimiters(titles)}</titles>" if titles else ""

    def describe_language(self, name: str) -> str:
        """Return the language of most of an agent's knowledge; empty if unknown."""
        configured_language = self.settings.retrieval_agents()[name].language
        return configured_language or language_name(next(iter(self.library.languages().get(name, ())), ""))

    def describe_knowledge(self) -> str:
        """Return what the sources know, one line for each retrieval agent, for the prompts that choose and plan."""
        lines = []
        for name in self.settings.retrieval_agents():
            language = self.describe_language(name)
            description = self.describe_agent(name)
            details = (f" ({language})" if language else "") + (f": {description}" if description else "")
            lines.append(f"- **{name}**{details}")
        return "\n".join(lines) or messages_for(self.prompts.language).help_no_sources


@dataclass(frozen=True, slots=True)
class Query:
    """One search.

    `text` is the query as a person would put it. `words`, if any, replace it in the lexical search, and `dense`, if
    any, is embedded in its place.
    """

    text: str
    words: str = ""
    dense: str = ""

    def get_lexical_text(self) -> str:
        """Return the text of the lexical search."""
        return self.words or self.text

    def get_dense_text(self) -> str:
        """Return the text that is embedded."""
        return self.dense or self.text


@dataclass(frozen=True, slots=True)
class RewriteContext:
    """The context of a rewrite.

    `name` and `agent` are the retrieval agent and its settings. `first` waits for the passages of the search for the
    original question, which runs at the same time; it returns none when that search failed. `deadline` is the
    monotonic time, in seconds, by which the rewrite has to be done.
    """

    name: str
    agent: AgentSettings
    deps: AnswerDependencies
    budget: Budget
    first: Callable[[], Awaitable[Sequence[Passage]]]
    deadline: float

    def remaining(self) -> float:
        """Return the seconds left for this rewrite, never below zero."""
        return max(0.0, self.deadline - time.monotonic())

    async def run_stage(self, stage: str, awaitable: Awaitable[T]) -> T | None:
        """Return the result of an awaitable; None, with the stage degraded, when the time left runs out first."""
        try:
            async with asyncio.timeout(self.remaining()) as timeout:
                return await awaitable
        except TimeoutError:
            if not timeout.expired():
                raise
            self.degrade(stage, "overran its share", "late")
        return None

    def degrade(self, stage: str, reason: str, degrade_reason: DegradeReason = "failed") -> None:
        """Record that the stage's fallback is used: `degrade_reason` goes into the trace, `reason` into the log."""
        self.budget.degrade(stage, degrade_reason)
        _log.warning("rewrite.fallback_used", stage=stage, agent=self.name, reason=reason)


class Rewrite(Protocol):
    """A rewrite strategy: turns queries into other queries, in the order in which they matter.

    When it raises, or does not finish in time, the queries stay as they were.
    """

    async def __call__(self, queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
        """Return the queries to go on with; an empty result keeps the queries as they were."""
        ...


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """The result of a strategy: the query that was searched, the agents that searched it, their passages.

    `strategy` is the strategy's name. When `is_ranked`, the passages are in their final order, best first: passages of
    several searches must not be ordered by one query again. `was_searched` is false when no search was needed.
    `rounds` are those of a strategy that judges its own results. `question_back` is the whole answer where the question
    has two readings.
    """

    query: str
    agents: tuple[str, ...]
    passages: tuple[Passage, ...]
    strategy: Route = "single"
    is_ranked: bool = False
    was_searched: bool = True
    rounds: tuple[SearchRound, ...] = ()
    question_back: str = ""

    def low_quality_reason(self) -> str:
        """Return why the evidence was judged poor in the end, or an empty string when it was not."""
        last_round = self.rounds[-1] if self.rounds else SearchRound(())
        return (last_round.reason or "it does not answer the question") if last_round.quality == "poor" else ""

    def to_trace(self, budget: Budget, dropped_citations: int = 0, moved_citations: int = 0) -> Trace:
        """Return the trace of an answer that ends now."""
        budget.record_time("total")
        return Trace(
            self.query,
            self.strategy,
            self.agents,
            budget.timings_ms,
            tuple(budget.degraded),
            dropped_citations,
            dict(budget.tokens),
            dict(budget.cost),
            degrade_reasons=dict(budget.degrade_reasons),
            rounds=self.rounds,
            saved_searches=budget.saved_searches,
            models=dict(budget.models),
            scores=dict(budget.agent_scores),
            spans=tuple(budget.spans[:MAX_SPANS]),
            passages=tuple(map(_to_traced_passage, self.passages[:MAX_PASSAGES])),
            moved_citations=moved_citations,
        )


def _to_traced_passage(passage: Passage) -> TracedPassage:
    path, title, url = (text[:MAX_PLACE_CHARS] for text in (passage.path, passage.title, passage.url))
    return TracedPassage(
        passage.id,
        passage.source,
        path,
        title,
        url,
        passage.start_line,
        passage.end_line,
        similarity=round(passage.similarity, 4),
        lexical_share=round(passage.lexical_share, 4),
        score=round(passage.score, 4),
        excerpt=passage.text[:MAX_EXCERPT_CHARS],
    )


@dataclass(frozen=True, slots=True)
class AnswerInputs:
    """The evidence of an answer. `chunks` are the text of an answer that has already begun with it."""

    question: Question
    retrieval: RetrievalResult
    chunks: AsyncGenerator[str] | None = None
