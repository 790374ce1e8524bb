"""How good whole answers are: every question goes the whole way, one by one, and what comes back is measured."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import KimasError
from core.evaluation.lines import Line
from core.evaluation.scores import Counts, Figure, Scores, score
from core.rewrite import content_words
from core.types import Citation, Question, Reply
from core.usage import Consumed, together
from knowledge.evaluation.asking import read_question
from knowledge.evaluation.measures import mean

ANSWERS_FORM = (
    '{"id", "question", "history"?, "reference"?, "relevant"?: [document id, path or source]} (docs/evaluate.md)'
)
PERCENTILES = {"p50": 0.5, "p95": 0.95}

Answer = Callable[[Question], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Case:
    """A question with what is known of its answer: a reference (or empty), and what it should cite (None: unknown)."""

    question: Question
    reference: str = ""
    relevant: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of one question. `reply` is None where answering failed, `error` then says why.

    `words` is the share of the reference's words that the answer has, `cited` its citations against those wanted; None
    where nothing is known of them.
    """

    case: Case
    reply: Reply | None
    error: str = ""
    words: float | None = None
    cited: Counts | None = None

    @property
    def answered(self) -> bool:
        """Whether the answer rests on something: it cites a passage."""
        return self.reply is not None and bool(self.reply.citations)

    @property
    def total_ms(self) -> float | None:
        """The time to the whole answer; None where there is none."""
        return self.reply.trace.timings_ms.get("total") if self.reply else None

    @property
    def first_token_ms(self) -> float | None:
        """The time to the first token; of an answer that no model wrote, to the whole of it."""
        return self.reply.trace.timings_ms.get("first_token", self.total_ms) if self.reply else None

    @property
    def consumed(self) -> Consumed:
        """What the language models consumed for it."""
        return together(self.reply.trace.tokens, self.reply.trace.cost) if self.reply else Consumed()


@dataclass(frozen=True, slots=True)
class AnswersMeasured:
    """All answers together. Times are milliseconds by percentile, empty where nothing was answered in any way."""

    given: Sequence[Answered]
    answered: Figure
    words: Figure
    citations: Scores
    first_token_ms: Mapping[str, float]
    total_ms: Mapping[str, float]
    strategies: Mapping[str, int]
    cut: Mapping[str, int]
    consumed: Consumed


def read_answers(line: Line) -> Case:
    """Read one line of questions to be answered."""
    relevant = line.texts("relevant", optional=True)
    return Case(
        read_question(line), line.text("reference", default=""), None if relevant is None else frozenset(relevant)
    )


async def measure_answers(cases: Sequence[Case], answer: Answer) -> AnswersMeasured:
    """Answer the questions one after the other, so that their times are those of one conversation, and measure.

    An answer that fails is measured as none.
    """
    given = [await _given(case, answer) for case in cases]
    return await asyncio.to_thread(_summed, given)


async def _given(case: Case, answer: Answer) -> Answered:
    try:
        reply = await answer(case.question)
    except KimasError as fault:
        # A failure cites nothing and says none of the words.
        return Answered(case, None, str(fault), _words("", case.reference), _cited((), case.relevant))
    return Answered(case, reply, "", _words(reply.text, case.reference), _cited(reply.citations, case.relevant))


def _words(text: str, reference: str) -> float | None:
    wanted = set(content_words(reference))
    return len(wanted & set(content_words(text))) / len(wanted) if wanted else None


def _cited(citations: Sequence[Citation], relevant: frozenset[str] | None) -> Counts | None:
    """Count documents: several passages of one count once."""
    return None if relevant is None else Counts.of({_document(one, relevant) for one in citations}, relevant)


def _document(citation: Citation, relevant: frozenset[str]) -> str:
    """Return a cited document as the data names it: by path, with its source, or by its source alone."""
    whole = f"{citation.source}: {citation.path}"
    return next((name for name in (citation.path, whole, citation.source) if name in relevant), whole)


def _summed(given: Sequence[Answered]) -> AnswersMeasured:
    traces = [one.reply.trace for one in given if one.reply]
    consumed = [one.consumed for one in given]
    return AnswersMeasured(
        given,
        mean(np.array([float(one.answered) for one in given])),
        mean(np.array([math.nan if one.words is None else one.words for one in given])),
        score([one.cited for one in given if one.cited]),
        _percentiles([one.first_token_ms for one in given]),
        _percentiles([one.total_ms for one in given]),
        Counter(trace.strategy for trace in traces),
        Counter(stage for trace in traces for stage in trace.cut),
        Consumed(
            sum(one.prompt for one in consumed),
            sum(one.completion for one in consumed),
            sum(one.cost for one in consumed),
        ),
    )


def _percentiles(times: Sequence[float | None]) -> Mapping[str, float]:
    """Return the percentiles by nearest rank: each is a time that was measured."""
    ordered = sorted(one for one in times if one is not None)
    return {name: ordered[math.ceil(rank * len(ordered)) - 1] for name, rank in PERCENTILES.items()} if ordered else {}
