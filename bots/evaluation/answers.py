"""`kimas eval answers`: how good whole answers are, how long they take and what they cost."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bots.common.reply_json import usage_as_json
from bots.common.reply_sink import SilentSink
from bots.common.terminal import format_table, make_console, print_json, step_progress
from bots.daemon.bootstrap import App
from bots.evaluation import charts, output
from bots.evaluation.answer_judging import FIGURES, JudgedAnswers, judge_answers, verdicts_as_json
from bots.evaluation.datasets import ANSWERS_LINE_FORMAT, AnswerCase, read_answers, read_cases
from bots.evaluation.judge import Judge, open_judge
from bots.evaluation.measured_knowledge import open_knowledge, read_corpus_entries
from bots.evaluation.metrics import mean_with_interval
from core.errors import KimasError, ModelError
from core.formatting import pluralize
from core.language.keywords import content_words
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL, Counts, Estimate, Scores, compute_scores
from core.observability.logs import make_redactor
from core.settings import Settings
from core.settings.loader import get_secret_values
from core.storage.usage import TokenUsage, add_up, total_usage
from core.types import Citation, Question, Reply

PERCENTILES = {"p50": 0.5, "p95": 0.95}

AnswerFunction = Callable[[Question], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """The result of one question. `reply` is None where answering failed; `error` then says why.

    `word_recall` is the share of the reference's words in the answer, `citation_counts` its citations against the
    expected; None where nothing is known of either.
    """

    case: AnswerCase
    reply: Reply | None
    error: str = ""
    word_recall: float | None = None
    citation_counts: Counts | None = None

    @property
    def is_answered(self) -> bool:
        """Return whether the answer cites a passage."""
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
    def usage(self) -> TokenUsage:
        """The usage of the language models for it."""
        return total_usage(self.reply.trace.tokens, self.reply.trace.cost) if self.reply else TokenUsage()


@dataclass(frozen=True, slots=True)
class AnswersReport:
    """All answers together. Times are milliseconds by percentile, empty where nothing was answered in any way."""

    results: Sequence[AnswerResult]
    answered_share: Estimate
    word_recall: Estimate
    citations: Scores
    first_token_ms: Mapping[str, float]
    total_ms: Mapping[str, float]
    strategies: Mapping[str, int]
    degraded_stages: Mapping[str, int]
    usage: TokenUsage
    judged: JudgedAnswers | None = None


async def measure_answers(
    cases: Sequence[AnswerCase], answer: AnswerFunction, on_progress: Callable[[], None] = lambda: None
) -> AnswersReport:
    """Answer the questions one after the other, so that their times are those of one conversation, and measure.

    A failed answer counts as no answer.
    """
    results = []
    for case in cases:
        results.append(await _measure_answer(case, answer))
        on_progress()
    return await asyncio.to_thread(_summarize, results)


async def _measure_answer(case: AnswerCase, answer: AnswerFunction) -> AnswerResult:
    reply = None
    reason = ""
    try:
        reply = await answer(case.question)
    except KimasError as error:
        reason = str(error)
    # A failed answer has no words and no citations.
    text, citations = (reply.text, reply.citations) if reply else ("", ())
    word_recall = _word_recall(text, case.reference)
    counts = _count_citations(citations, case.relevant)
    return AnswerResult(case, reply, reason, word_recall, counts)


def _word_recall(text: str, reference: str) -> float | None:
    reference_words = set(content_words(reference))
    return len(reference_words & set(content_words(text))) / len(reference_words) if reference_words else None


def _count_citations(citations: Sequence[Citation], relevant: frozenset[str] | None) -> Counts | None:
    """Count documents: several passages of one count once."""
    return (
        None
        if relevant is None
        else Counts.compare({_to_document_id(citation, relevant) for citation in citations}, relevant)
    )


def _to_document_id(citation: Citation, relevant: frozenset[str]) -> str:
    """Return a cited document as the data names it: by path, with its source, or by its source alone."""
    qualified_path = f"{citation.source}: {citation.path}"
    return next((name for name in (citation.path, qualified_path, citation.source) if name in relevant), qualified_path)


def _summarize(results: Sequence[AnswerResult]) -> AnswersReport:
    traces = [result.reply.trace for result in results if result.reply]
    usages = [result.usage for result in results]
    return AnswersReport(
        results,
        mean_with_interval(np.array([float(result.is_answered) for result in results])),
        mean_with_interval(
            np.array([math.nan if result.word_recall is None else result.word_recall for result in results])
        ),
        compute_scores([result.citation_counts for result in results if result.citation_counts]),
        _percentiles([result.first_token_ms for result in results]),
        _percentiles([result.total_ms for result in results]),
        Counter(trace.strategy for trace in traces),
        Counter(stage for trace in traces for stage in trace.degraded),
        add_up(usages),
    )


def _percentiles(times: Sequence[float | None]) -> Mapping[str, float]:
    """Return the percentiles by nearest rank: each is a time that was measured."""
    sorted_times = sorted(time_ms for time_ms in times if time_ms is not None)
    return (
        {name: sorted_times[math.ceil(rank * len(sorted_times)) - 1] for name, rank in PERCENTILES.items()}
        if sorted_times
        else {}
    )


async def answers(
    settings: Settings,
    data: Path,
    corpus: Path | None,
    *,
    as_json: bool,
    plot: Path | None = None,
    with_judge: bool = False,
) -> int:
    """Answer every question and measure the answers, `with_judge` by a model, too. The data is checked first.

    Raises `UsageError` for unusable data, and `with_judge` where no judge is configured; `ModelError`, once the answers
    are printed, when the judge fails.
    """
    charts.check_plot(plot)
    cases = await asyncio.to_thread(read_cases, data, read_answers, ANSWERS_LINE_FORMAT, split="test")
    corpus_entries = await read_corpus_entries(corpus)
    redact = make_redactor(get_secret_values(settings))
    async with AsyncExitStack() as stack:
        judge = await stack.enter_async_context(open_judge(settings)) if with_judge else None
        app = await stack.enter_async_context(open_knowledge(settings, corpus_entries))
        measurement = await _answer_and_judge(app, judge, cases)
    if plot:
        await charts.save_charts(answer_charts(measurement), plot)
    if as_json:
        print_json(answers_as_json(measurement, redact))
    else:
        output.print_lines(_format_lines(measurement, redact))
    _require_judge(measurement)
    return 0


async def _answer_and_judge(app: App, judge: Judge | None, cases: Sequence[AnswerCase]) -> AnswersReport:
    async def answer(question: Question) -> Reply:
        return await app.answer(question, SilentSink())

    totals = dict.fromkeys(("answering", "judging") if judge else ("answering",), len(cases))
    with step_progress(make_console(stderr=True), totals) as advance:
        # The first answer is timed like the others.
        await app.warm_up()
        report = await measure_answers(cases, answer, lambda: advance("answering"))
        if judge is None:
            return report
        triples = [(item.case.question, item.case.reference, item.reply) for item in report.results]
        return replace(report, judged=await judge_answers(judge, triples, lambda: advance("judging")))


def _require_judge(report: AnswersReport) -> None:
    """Raise `ModelError` where the judge failed, or where none of its replies could be read."""
    judged = report.judged
    if judged and judged.error:
        count = f"{judged.judged} of {pluralize(len(report.results), 'answer')}"
        raise ModelError(f"the judge failed, and {count} were judged: {judged.error}")
    if judged and judged.unreadable and not judged.judged:
        raise ModelError("nothing was judged: no reply of the judge could be read")


def answers_as_json(measurement: AnswersReport, redact: Callable[[str], str]) -> Mapping[str, Any]:
    """Return the object that `kimas eval answers --json` prints (a contract). `redact` removes secrets from errors."""
    return {
        "kind": "answers",
        "cases": len(measurement.results),
        "level": CONFIDENCE_LEVEL,
        "answered": output.figure_as_json(measurement.answered_share),
        "words": output.figure_as_json(measurement.word_recall),
        "citations": output.scores_as_json(measurement.citations),
        "first_token_ms": dict(measurement.first_token_ms),
        "total_ms": dict(measurement.total_ms),
        "strategies": dict(measurement.strategies),
        "cut": dict(measurement.degraded_stages),
        "usage": usage_as_json(measurement.usage),
        **_judged_as_json(measurement.judged, redact),
        "answers": [
            {**_answer_as_json(answer, redact), **({"sentences": sentences} if measurement.judged else {})}
            for answer, sentences in zip(measurement.results, _sentences_as_json(measurement), strict=True)
        ],
    }


def _judged_as_json(judged: JudgedAnswers | None, redact: Callable[[str], str]) -> Mapping[str, Any]:
    if judged is None:
        return {}
    figures = output.figures_as_json(judged.figures)
    usage = usage_as_json(judged.usage)
    texts = {"error": redact(judged.error), "unreadable_reply": redact(judged.unreadable_reply)}
    return {"judged": {**figures, "unreadable": judged.unreadable, "usage": usage, **texts}}


def _sentences_as_json(measurement: AnswersReport) -> Sequence[Any]:
    verdicts = measurement.judged.answers if measurement.judged else [None] * len(measurement.results)
    return [verdicts_as_json(verdict) for verdict in verdicts]


def _answer_as_json(answer: AnswerResult, redact: Callable[[str], str]) -> Mapping[str, Any]:
    reply = answer.reply
    citations = [{"source": citation.source, "path": citation.path} for citation in reply.citations] if reply else []
    return {
        "id": answer.case.question.id,
        "answer": reply.text if reply else "",
        "error": redact(answer.error),
        "answered": answer.is_answered,
        "words": None if answer.word_recall is None else round(answer.word_recall, 4),
        "citations": citations,
        "strategy": reply.trace.strategy if reply else "",
        "why_cut": dict(reply.trace.degrade_reasons) if reply else {},
        "first_token_ms": answer.first_token_ms,
        "total_ms": answer.total_ms,
        "usage": usage_as_json(answer.usage),
    }


def _format_lines(measurement: AnswersReport, redact: Callable[[str], str]) -> list[str]:
    answer_count = len(measurement.results)
    token_usage = measurement.usage
    rows = [
        ("answered", output.format_figure(measurement.answered_share)),
        ("words of the reference", output.format_figure(measurement.word_recall)),
        ("citations, precision", output.format_figure(measurement.citations.precision)),
        ("citations, recall", output.format_figure(measurement.citations.recall)),
        *_judged_rows(measurement.judged),
        ("first token", _format_times(measurement.first_token_ms)),
        ("whole answer", _format_times(measurement.total_ms)),
        ("strategies", _format_counts(measurement.strategies)),
        ("cut", _format_counts(measurement.degraded_stages)),
        (
            "tokens an answer",
            f"{token_usage.prompt_tokens / answer_count:.0f} read, "
            f"{token_usage.completion_tokens / answer_count:.0f} written",
        ),
        ("cost of all", output.format_cost(token_usage)),
    ]
    error_lines = [
        f"{answer.case.question.id} failed: {redact(answer.error)}" for answer in measurement.results if answer.error
    ]
    unreadable_reply = redact(measurement.judged.unreadable_reply) if measurement.judged else ""
    reply_lines = output.format_unreadable_reply(unreadable_reply)
    return [output.format_title(answer_count), *format_table([("", "value"), *rows]), *reply_lines, *error_lines]


def _judged_rows(judged: JudgedAnswers | None) -> list[tuple[str, str]]:
    if judged is None or (judged.error and not judged.judged):
        return []
    rows = [(f"judged: {name.replace('_', ' ')}", output.format_figure(judged.figures[name])) for name in FIGURES]
    return [
        *rows,
        ("judged: unreadable", str(judged.unreadable)),
        ("judged: tokens", f"{judged.usage.total_tokens:,}"),
        ("judged: cost", output.format_cost(judged.usage)),
    ]


def _format_times(percentiles: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {time:.0f} ms" for name, time in percentiles.items()) or "-"


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1])) or "-"


def answer_charts(measurement: AnswersReport) -> Sequence[charts.Chart]:
    """Return the shares with their intervals; unknown ones are left out."""
    figures = {
        "answered": measurement.answered_share,
        "words": measurement.word_recall,
        "precision": measurement.citations.precision,
        "recall": measurement.citations.recall,
    }
    title = f"{len(measurement.results)} answers; {charts.INTERVALS_NOTE}"
    return [
        charts.Chart(
            title,
            "",
            "share",
            [charts.Series("answers", charts.interval_points([*figures.values()]), is_joined=False)],
            list(figures),
        )
    ]
