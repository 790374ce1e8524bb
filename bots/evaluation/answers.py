"""`kimas eval answers`: how good whole answers are, how long they take and what they cost."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bots.common.terminal import SilentSink, print_json, table_lines
from bots.evaluation.datasets import Line, read_cases, read_question
from bots.evaluation.metrics import mean
from bots.evaluation.output import figure_as_json, opened, print_lines, read_entries, save, scores_as_json, shown, title
from bots.evaluation.plots import INTERVALS, Chart, Series, check_plot, interval_points
from core.errors import KimasError
from core.messaging.gate.scores import LEVEL, Counts, Figure, Scores, score
from core.observability.logs import redactor
from core.settings import Settings
from core.settings.loader import secret_values
from core.storage.usage import Consumed, together
from core.text.keywords import content_words
from core.types import Citation, Question, Reply

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


async def answers(
    settings: Settings, data: Path, corpus: Path | None, *, as_json: bool, plot: Path | None = None
) -> int:
    """Answer every question and measure the answers. The data is checked before anything is opened."""
    check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_answers, ANSWERS_FORM)
    entries = await read_entries(corpus)
    hide = redactor(secret_values(settings))
    async with opened(settings, entries) as app:

        async def answer(question: Question) -> Reply:
            return await app.answer(question, SilentSink())

        # The first answer is timed like the others.
        await app.warm_up()
        measured = await measure_answers(cases, answer)
    if plot:
        await save(answer_charts(measured), plot)
    if as_json:
        print_json(answers_as_json(measured, hide))
    else:
        print_lines(_lines(measured, hide))
    return 0


def answers_as_json(measured: AnswersMeasured, hide: Callable[[str], str]) -> Mapping[str, Any]:
    """Return the object that `kimas eval answers --json` prints (a contract). `hide` removes secrets from faults."""
    return {
        "kind": "answers",
        "cases": len(measured.given),
        "level": LEVEL,
        "answered": figure_as_json(measured.answered),
        "words": figure_as_json(measured.words),
        "citations": scores_as_json(measured.citations),
        "first_token_ms": dict(measured.first_token_ms),
        "total_ms": dict(measured.total_ms),
        "strategies": dict(measured.strategies),
        "cut": dict(measured.cut),
        "usage": _usage(measured.consumed),
        "answers": [_answer_as_json(one, hide) for one in measured.given],
    }


def _answer_as_json(one: Answered, hide: Callable[[str], str]) -> Mapping[str, Any]:
    reply = one.reply
    cited = [{"source": found.source, "path": found.path} for found in reply.citations] if reply else []
    return {
        "id": one.case.question.id,
        "answer": reply.text if reply else "",
        "error": hide(one.error),
        "answered": one.answered,
        "words": None if one.words is None else round(one.words, 4),
        "citations": cited,
        "strategy": reply.trace.strategy if reply else "",
        "why_cut": dict(reply.trace.why_cut) if reply else {},
        "first_token_ms": one.first_token_ms,
        "total_ms": one.total_ms,
        "usage": _usage(one.consumed),
    }


def _usage(consumed: Consumed) -> Mapping[str, float]:
    return {"prompt": consumed.prompt, "completion": consumed.completion, "cost": round(consumed.cost, 8)}


def _lines(measured: AnswersMeasured, hide: Callable[[str], str]) -> list[str]:
    count, used = len(measured.given), measured.consumed
    rows = [
        ("answered", shown(measured.answered)),
        ("words of the reference", shown(measured.words)),
        ("citations, precision", shown(measured.citations.precision)),
        ("citations, recall", shown(measured.citations.recall)),
        ("first token", _times(measured.first_token_ms)),
        ("whole answer", _times(measured.total_ms)),
        ("strategies", _counted(measured.strategies)),
        ("cut", _counted(measured.cut)),
        ("tokens an answer", f"{used.prompt / count:.0f} read, {used.completion / count:.0f} written"),
        ("cost of all", f"{used.cost:.4f}" if used.cost else "-"),
    ]
    failed = [f"{one.case.question.id} failed: {hide(one.error)}" for one in measured.given if one.error]
    return [title(count), *table_lines([("", "value"), *rows]), *failed]


def _times(percentiles: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {time:.0f} ms" for name, time in percentiles.items()) or "-"


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda one: -one[1])) or "-"


def answer_charts(measured: AnswersMeasured) -> Sequence[Chart]:
    """Return what of the answers is a share, with intervals; what nothing is known of is left out."""
    figures = {
        "answered": measured.answered,
        "words": measured.words,
        "precision": measured.citations.precision,
        "recall": measured.citations.recall,
    }
    title = f"{len(measured.given)} answers; {INTERVALS}"
    return [
        Chart(
            title, "", "share", [Series("answers", interval_points([*figures.values()]), joined=False)], list(figures)
        )
    ]
