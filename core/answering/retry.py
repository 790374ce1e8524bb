"""An answer made once more: with more time, a stronger strategy, other passages, and told what was wrong before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from core.answering.context.dependencies import Parts
from core.ports import Library
from core.text.feedback_messages import words_in
from core.text.language import language_of
from core.types import AgentScore, Passage, Question, Turn

UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Again(Question):
    """A question whose answer did not satisfy. `seen` are the ids of the passages that are not to be used again."""

    seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unseen:
    """A library without certain passages, except where it would find nothing else."""

    library: Library
    seen: frozenset[str]

    async def route(self, query: str) -> Sequence[AgentScore]:
        """Route as the library does."""
        return await self.library.route(query)

    async def search(self, agent: str, query: str, limit: int, *, dense: str = "") -> Sequence[Passage]:
        """Search as the library does, and leave out what was seen."""
        found = await self.library.search(agent, query, limit + len(self.seen), dense=dense)
        fresh = [one for one in found if one.id not in self.seen]
        return (fresh or list(found))[:limit]

    async def similarity(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Compare as the library does."""
        return await self.library.similarity(query, texts)


def ask_again(question: Question, before: Sequence[Turn], passages: Sequence[str], reason: str) -> Again:
    """Return a question to be answered once more.

    `before` are the question and the answer that did not satisfy, `passages` the ids of what that cited. Both, and that
    it did not satisfy for this reason ("" for none), become the end of the conversation: so everybody who reads it
    knows, first of all the context manager. What was only unclear may be said with the same passages again.
    """
    history = tuple(turn for turn in question.history if turn not in before)
    said = words_in(language_of(question.text)).unsatisfied
    complaint = Turn("user", said.get(reason, said[""]), question.author, question.author_id)
    seen = () if reason == UNCLEAR else tuple(passages)
    same = {field.name: getattr(question, field.name) for field in fields(question)}
    return Again(**{**same, "history": (*history, *before, complaint)}, seen=seen)


def harder(parts: Parts, question: Again) -> Parts:
    """Return what a question is answered with once more: the configured strategy and effort, other passages."""
    settings, wanted = parts.settings, parts.settings.feedback
    strategies = settings.strategies
    limits = ("iterations", "model_calls", "max_retrieval_calls")
    more = {name: round(getattr(strategies, name) * wanted.effort) for name in limits}
    raised = settings.model_copy(
        update={
            "budget": settings.budget.model_copy(update={"deadline_s": settings.budget.deadline_s * wanted.effort}),
            "strategies": strategies.model_copy(update={"allowed": (wanted.strategy,), **more}),
        }
    )
    return replace(parts, settings=raised, library=Unseen(parts.library, frozenset(question.seen)))
