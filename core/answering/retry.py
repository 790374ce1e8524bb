"""A second answer: with more time, a stronger strategy, other passages, and the complaint about the first one.

It is shown when it is better than the first one; otherwise the bot says that the first one stands.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace

from core.answering.context import AnswerDependencies
from core.catalogue import messages_for
from core.language.languages import get_asker_language
from core.ports import Library, Sink
from core.types import Passage, Question, Reply, Turn

UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class RetryQuestion(Question):
    """A question whose answer did not satisfy. Passages with `excluded_ids` are not used again.

    `first_answer` is the text of that answer, `was_cited` says whether it cited anything.
    """

    excluded_ids: tuple[str, ...] = ()
    first_answer: str = ""
    was_cited: bool = False


class ExcludingLibrary:
    """A library without certain passages, unless a search would find nothing else; the rest is the wrapped one's."""

    def __init__(self, library: Library, excluded_ids: frozenset[str]) -> None:
        self._library = library
        self._excluded_ids = excluded_ids
        self.route = library.route
        self.match_words = library.match_words
        self.similarity = library.similarity
        self.group = library.group
        self.languages = library.languages
        self.empty_sources = library.empty_sources
        self.titles = library.titles
        self.modules = library.modules
        self.term_weights = library.term_weights
        self.count_words = library.count_words

    def restricted_to(self, sources: Collection[str]) -> ExcludingLibrary:
        """Restrict the wrapped library."""
        return ExcludingLibrary(self._library.restricted_to(sources), self._excluded_ids)

    @property
    def is_empty(self) -> bool:
        """Return whether the wrapped library has no passage."""
        return self._library.is_empty

    async def search(self, agent: str, query: str, limit: int, *, dense_query: str = "") -> Sequence[Passage]:
        """Search the wrapped library and leave out the excluded passages."""
        passages = await self._library.search(agent, query, limit + len(self._excluded_ids), dense_query=dense_query)
        new_passages = [passage for passage in passages if passage.id not in self._excluded_ids]
        return (new_passages or list(passages))[:limit]

    async def read_page(self, source: str, path: str) -> Sequence[Passage]:
        """Return a page of the wrapped library without the excluded passages, whole where it has no others."""
        page = await self._library.read_page(source, path)
        return [passage for passage in page if passage.id not in self._excluded_ids] or page


def to_retry_question(
    question: Question, previous_turns: Sequence[Turn], passage_ids: Sequence[str], reason: str
) -> RetryQuestion:
    """Return a question that asks for a second answer.

    `previous_turns` are the question and the answer that did not satisfy, `passage_ids` the passages that it cited.
    Both turns and a complaint with the reason ("" for none) become the end of the conversation, where the context
    manager and the summarizer read them. An answer that was only unclear may use the same passages again.
    """
    history = tuple(turn for turn in question.history if turn not in previous_turns)
    complaints = messages_for(get_asker_language(question)).complaints
    complaint = Turn("user", complaints.get(reason, complaints[""]), question.author, question.author_id)
    excluded_ids = () if reason == UNCLEAR else tuple(passage_ids)
    values = {field.name: getattr(question, field.name) for field in fields(question)}
    return RetryQuestion(
        **{**values, "history": (*history, *previous_turns, complaint)},
        excluded_ids=excluded_ids,
        first_answer=next((turn.text for turn in previous_turns if turn.role == "assistant"), ""),
        was_cited=bool(passage_ids),
    )


def is_better(reply: Reply, question: RetryQuestion) -> bool:
    """Return whether a second answer may be shown beside the first one.

    It has to be cited and whole. It may not quote where a model wrote the first one, find nothing, or say the same.
    """
    texts = messages_for(get_asker_language(question))
    was_quoted = any(note in question.first_answer for note in (texts.extractive, texts.fallback))
    is_worse = question.was_cited and not was_quoted and reply.is_extractive
    is_same = _to_words(reply.text) == _to_words(question.first_answer)
    is_cut_off = "write" in reply.trace.degraded and not reply.is_extractive
    return bool(reply.citations) and not (is_worse or is_same or is_cut_off or reply.found_nothing)


def _to_words(text: str) -> list[str]:
    return re.findall(r"\w+", re.sub(r"\[\d[\d, ]*\]", "", text).casefold())


@dataclass(slots=True)
class HoldingSink:
    """A sink that shows only that the bot is working, and the reply once it is certain that it is used."""

    sink: Sink

    async def open(self) -> None:
        """Open the wrapped sink."""
        await self.sink.open()

    async def update(self, text: str) -> None:
        """Show nothing."""

    async def finish(self, reply: Reply) -> None:
        """Show nothing."""

    async def fail(self, text: str) -> None:
        """Show nothing."""


def with_more_effort(deps: AnswerDependencies, question: RetryQuestion) -> AnswerDependencies:
    """Return the dependencies of a second answer: the configured strategy and effort, without excluded passages."""
    settings, feedback_settings = deps.settings, deps.settings.feedback
    strategies = settings.strategies
    limits = ("iterations", "model_calls", "max_retrieval_calls")
    raised_limits = {name: round(getattr(strategies, name) * feedback_settings.effort) for name in limits}
    retry_settings = settings.model_copy(
        update={
            "budget": settings.budget.model_copy(
                update={"deadline_s": settings.budget.deadline_s * feedback_settings.effort}
            ),
            "strategies": strategies.model_copy(update={"allowed": (feedback_settings.strategy,), **raised_limits}),
        }
    )
    return replace(
        deps, settings=retry_settings, library=ExcludingLibrary(deps.library, frozenset(question.excluded_ids))
    )
