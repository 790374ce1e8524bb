"""`kimas eval answers`: how good whole answers are, how long they take and what they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bots.actions import SilentSink, print_json
from bots.evaluation.charts import check_plot
from bots.evaluation.opening import opened, read_entries
from bots.evaluation.plots import answer_charts
from bots.evaluation.showing import figure_as_json, print_lines, save, scores_as_json, shown, title
from bots.explained import table_lines
from core.configuration import secret_values
from core.evaluation.lines import read_cases
from core.evaluation.scores import LEVEL
from core.logs import redactor
from core.settings import Settings
from core.types import Question, Reply
from core.usage import Consumed
from knowledge.evaluation.answers import ANSWERS_FORM, Answered, AnswersMeasured, measure_answers, read_answers


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
