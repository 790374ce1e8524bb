"""`kimas eval answers --judge`: is each sentence of an answer right, do the passages say it, and do its citations?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bots.evaluation.datasets import run_concurrently
from bots.evaluation.judge import Judge, Verdict, format_case
from bots.evaluation.metrics import mean_with_interval
from core.errors import ModelError
from core.evidence.rendering import escape_delimiters
from core.language.prose import split_sentences
from core.llm.reply_parsing import parse_bool
from core.messaging.gate.classification_metrics import Estimate
from core.storage.usage import TokenUsage, add_up
from core.types import Question, Reply

FIGURES = ("correctness", "faithfulness", "citation_precision", "citation_recall")
MAX_PASSAGE_CHARS = 4_000
_KEYS = '- "sentences": a list with one object for every sentence: "n", "statement", "correct", "faithful", "citations"'


@dataclass(frozen=True, slots=True)
class SentenceVerdict:
    """The verdict of the judge on one statement.

    `is_correct` is None where the reference does not say. `supporting` are those of the citations `cited_numbers` whose
    passages say it, both by number.
    """

    text: str
    is_correct: bool | None
    is_faithful: bool
    cited_numbers: tuple[int, ...]
    supporting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """The verdicts on all answers, None where there was nothing to judge or no reply could be read.

    `figures` are means over the answers that have something to measure. Correctness: the share of the statements that
    agree with the reference, of those on which it says something. Faithfulness: the share that the passages say.
    Citation precision: the share of the citations whose passage says the statement. Citation recall: the share of the
    statements with such a citation. `error` says why the judge failed; what it had not judged by then is None too.
    """

    answers: Sequence[Verdict[tuple[SentenceVerdict, ...]] | None]
    figures: Mapping[str, Estimate]
    error: str = ""

    @property
    def judged(self) -> int:
        """The number of answers whose verdicts could be read."""
        return sum(verdict is not None and verdict.value is not None for verdict in self.answers)

    @property
    def unreadable(self) -> int:
        """The number of answers whose verdicts could not be read."""
        return sum(verdict is not None and verdict.value is None for verdict in self.answers)

    @property
    def unreadable_reply(self) -> str:
        """The beginning of the first reply that could not be read; empty where there is none."""
        return next((verdict.unreadable_reply for verdict in self.answers if verdict and verdict.value is None), "")

    @property
    def usage(self) -> TokenUsage:
        """The usage of the judge."""
        return add_up([verdict.usage for verdict in self.answers if verdict])


async def judge_answers(
    judge: Judge,
    answers: Sequence[tuple[Question, str, Reply | None]],
    on_progress: Callable[[], None] = lambda: None,
) -> JudgedAnswers:
    """Judge answers, each with its question and its reference (or an empty text).

    The answers are paid for, so a judge that fails does not lose them: it is asked no more, and what it judged stays.
    """
    errors: list[str] = []

    async def judge_answer(item: tuple[Question, str, Reply | None]) -> Verdict[tuple[SentenceVerdict, ...]] | None:
        question, reference, reply = item
        sentences = split_sentences(reply.text) if reply else []
        if reply is None or not sentences or errors:
            on_progress()
            return None
        request = f"{format_case(question, reference)}\n{_format_reply(reply, sentences)}"
        system = judge.prompts.fill("judge_answer")
        try:
            return await judge.ask(system, request, _KEYS, lambda value: parse_sentences(value, reply, sentences))
        except ModelError as error:
            errors.append(str(error))
            return None
        finally:
            on_progress()

    verdicts = await run_concurrently(judge_answer, answers)
    figures = summarize_verdicts([verdict.value for verdict in verdicts if verdict])
    return JudgedAnswers(verdicts, figures, errors[0] if errors else "")


def _format_reply(reply: Reply, sentences: Sequence[str]) -> str:
    number_by_id = {citation.passage_id: citation.n for citation in reply.citations}
    passages = []
    for passage in reply.passages:
        number = number_by_id.get(passage.id)
        attribute = "" if number is None else f' n="{number}"'
        passages.append(f"<passage{attribute}>\n{escape_delimiters(passage.text[:MAX_PASSAGE_CHARS])}\n</passage>")
    numbered = [f"{number}: {escape_delimiters(' '.join(text.split()))}" for number, text in enumerate(sentences, 1)]
    return "\n".join(["<evidence>", *passages, "</evidence>", "<answer>", *numbered, "</answer>"])


def parse_sentences(
    value: Mapping[Any, Any], reply: Reply, sentences: Sequence[str]
) -> tuple[SentenceVerdict, ...] | None:
    """Return the verdicts on the statements of an answer; None unless every sentence has one."""
    items = value.get("sentences")
    by_number = {item.get("n"): item for item in items if isinstance(item, Mapping)} if isinstance(items, list) else {}
    known_numbers = {citation.n for citation in reply.citations}
    verdicts = []
    for number, text in enumerate(sentences, 1):
        item = by_number.get(number, by_number.get(str(number)))
        is_statement = parse_bool(item.get("statement", "yes")) if item is not None else None
        if item is None or is_statement is None:
            return None
        if not is_statement:
            continue
        is_faithful = parse_bool(item.get("faithful"))
        if is_faithful is None:
            return None
        cited_numbers = tuple(number for number in sorted(known_numbers) if f"[{number}]" in text)
        listed_numbers = item.get("citations", [])
        named_numbers = {
            str(name).strip("[] ")
            for name in (listed_numbers if isinstance(listed_numbers, list) else [listed_numbers])
        }
        supporting = tuple(number for number in cited_numbers if str(number) in named_numbers)
        verdicts.append(SentenceVerdict(text, parse_bool(item.get("correct")), is_faithful, cited_numbers, supporting))
    return tuple(verdicts)


def summarize_verdicts(answers: Sequence[tuple[SentenceVerdict, ...] | None]) -> Mapping[str, Estimate]:
    """Return the mean of each figure over the answers. Blocking."""
    values = {name: [_measure(name, verdicts) for verdicts in answers if verdicts] for name in FIGURES}
    return {name: mean_with_interval(np.array(shares, dtype=float)) for name, shares in values.items()}


def _measure(name: str, verdicts: Sequence[SentenceVerdict]) -> float:
    """Return one figure of one answer, NaN where it has nothing to measure."""
    if name == "correctness":
        hits = [verdict.is_correct for verdict in verdicts if verdict.is_correct is not None]
    elif name == "faithfulness":
        hits = [verdict.is_faithful for verdict in verdicts]
    elif name == "citation_precision":
        hits = [number in verdict.supporting for verdict in verdicts for number in verdict.cited_numbers]
    else:
        hits = [bool(verdict.supporting) for verdict in verdicts]
    return float(np.mean(hits)) if hits else float("nan")


def verdicts_as_json(verdict: Verdict[tuple[SentenceVerdict, ...]] | None) -> list[dict[str, Any]] | None:
    """Return the verdicts on one answer as `--json` prints them."""
    if verdict is None or verdict.value is None:
        return None
    return [
        {
            "text": sentence.text,
            "correct": sentence.is_correct,
            "faithful": sentence.is_faithful,
            "cited": list(sentence.cited_numbers),
            "supporting": list(sentence.supporting),
        }
        for sentence in verdict.value
    ]
