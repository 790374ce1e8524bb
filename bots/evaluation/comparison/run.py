"""Answers the questions with every system, and has the answers judged side by side."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, get_args

from bots.common.reply_json import usage_as_json
from bots.common.reply_sink import SilentSink
from bots.evaluation.comparison.result_cache import ResultCache, make_key
from bots.evaluation.comparison.results import (
    CRITERIA,
    MAX_SCORE,
    PASSES,
    ROUTER,
    Judgement,
    System,
    SystemAnswer,
    answer_as_record,
    answer_from_record,
    usage_from_record,
)
from bots.evaluation.datasets import AnswerCase, run_concurrently
from bots.evaluation.judge import Judge, format_case, without_chance
from core.answering.context import AnswerDependencies
from core.answering.head_start_policy import HeadStartPolicy
from core.answering.service import AnswerService
from core.errors import KimasError, ModelError, UsageError
from core.evidence.rendering import escape_delimiters
from core.llm.prompts import Prompts
from core.ports import ChatModel, ModelRole, RequestBudget
from core.settings import Settings, Strategy
from core.storage.usage import TokenUsage, total_usage
from core.types import Turn
from core.version import get_version

BASELINES: tuple[Strategy, ...] = ("simple", "react")
MAX_ANSWER_CHARS = 6_000
# Each pass sees its own examples, as in the paper: what one set suggests does not decide both.
EXAMPLES_SEPARATOR = "\n---\n"
_LABELS = "ABCDEFGHIJ"
_SCORE = re.compile(r"\s*([0-5])(?:\.0+)?\s*+(?:/\s*5)?\s*")

Progress = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """One comparison: the questions, the systems, the version of each source, and the kept results.

    `fingerprint` is that of the prompts and of KIMAs (`make_fingerprint`).
    """

    cases: Sequence[AnswerCase]
    systems: Sequence[System]
    knowledge: Mapping[str, str]
    cache: ResultCache
    fingerprint: str

    def answer_key(self, case: AnswerCase, system: System) -> str:
        """Return the key of an answer: it is made from the question, the settings, the prompts and the sources."""
        settings = system.settings.model_dump(mode="json", exclude={"data_dir": True, "log": True, "models": {"judge"}})
        turns = [[turn.role, turn.text] for turn in case.question.history]
        question = [case.question.id, case.question.text, turns]
        return make_key("answer", system.name, question, settings, dict(self.knowledge), self.fingerprint)

    def missing_answers(self) -> list[System]:
        """Return the system of every answer that no earlier run has kept."""
        return [
            system
            for system in self.systems
            for case in self.cases
            if self.cache.get(self.answer_key(case, system)) is None
        ]


def make_fingerprint(prompts: Prompts) -> str:
    """Return what identifies the texts of the prompts and the version of KIMAs: the settings have only their paths."""
    # The judge's prompt is part of the key of a judgement: another one changes no answer.
    templates = {name: text for name, text in prompts.templates.items() if not name.startswith("judge")}
    agents = {name: dict(agent_templates) for name, agent_templates in prompts.agents.items()}
    return make_key("fingerprint", get_version(), templates, agents)


def make_systems(settings: Settings, names: Sequence[str] = ()) -> list[System]:
    """Return the systems to compare: the named ones, or the configured strategies and the baselines.

    `ROUTER` is the configured set as it stands, where it has several strategies. Raises `UsageError` for an unknown
    name, for fewer than two systems and for more than ten.
    """
    # Nobody is there to answer a question back.
    allowed_strategies = tuple(name for name in dict.fromkeys(settings.strategies.allowed) if name != "clarify")
    strategies_by_system: dict[str, tuple[Strategy, ...]] = (
        {ROUTER: allowed_strategies} if len(allowed_strategies) > 1 else {}
    )
    strategies_by_system |= {name: (name,) for name in get_args(Strategy)}
    default_names = [
        name for name in (ROUTER, *allowed_strategies, *BASELINES) if name in strategies_by_system and name != "none"
    ]
    chosen_names = list(dict.fromkeys(names or default_names))
    if unknown_names := [name for name in chosen_names if name not in strategies_by_system]:
        names_text = ", ".join(strategies_by_system)
        raise UsageError(f"--systems {', '.join(unknown_names)}: there is no such system; they are: {names_text}")
    if not 2 <= len(chosen_names) <= len(_LABELS):
        raise UsageError(f"--systems: name 2 to {len(_LABELS)} systems; they are: {', '.join(strategies_by_system)}")
    return [System(name, _with_strategies(settings, strategies_by_system[name])) for name in chosen_names]


def _with_strategies(settings: Settings, allowed_strategies: tuple[Strategy, ...]) -> Settings:
    default = (
        settings.strategies.default if settings.strategies.default in allowed_strategies else allowed_strategies[0]
    )
    strategies = settings.strategies.model_copy(update={"allowed": allowed_strategies, "default": default})
    return settings.model_copy(update={"strategies": strategies})


def with_steady_writers(settings: Settings) -> Settings:
    """Return the settings that a comparison is opened with: the models of the answers have temperature 0."""
    models = {
        role: without_chance(model)
        for role in ("main", "light")
        if (model := getattr(settings.models, role)) is not None
    }
    return settings.model_copy(update={"models": settings.models.model_copy(update=models)})


class ErrorRecordingModel:
    """A `ChatModel` that keeps the errors of the streams of another one in `stream_errors`: those of its answers.

    An answer that is quoted instead does not say why its model failed.
    """

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.complete = model.complete
        self.stream_errors: list[ModelError] = []

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply in chunks. Raises `ModelError`."""
        try:
            async with aclosing(self._model.stream(system, turns, role=role, budget=budget, agent=agent)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ModelError as error:
            self.stream_errors.append(error)
            raise


async def answer_question(deps: AnswerDependencies, case: AnswerCase, system: System) -> SystemAnswer:
    """Answer one question. A failure is a result: an answer without text."""
    model = ErrorRecordingModel(deps.model) if deps.model else None
    head_starts = HeadStartPolicy(system.settings.context)
    system_deps = replace(deps, settings=system.settings, head_starts=head_starts, model=model)
    try:
        reply = await AnswerService(system_deps).answer(case.question, SilentSink())
    except KimasError as error:
        return SystemAnswer(case.question.id, system.name, "", str(error) or type(error).__name__)
    trace = reply.trace
    total_ms = trace.timings_ms.get("total")
    error_text = ""
    if reply.is_extractive and "write" in trace.degrade_reasons:
        errors = model.stream_errors if model else []
        error_text = str(errors[0]) if errors else f"its reply was {trace.degrade_reasons['write']}"
    return SystemAnswer(
        case.question.id,
        system.name,
        reply.text,
        error_text,
        strategy=trace.strategy,
        first_token_ms=trace.timings_ms.get("first_token", total_ms),
        total_ms=total_ms,
        usage=total_usage(trace.tokens, trace.cost),
        degrade_reasons=trace.degrade_reasons,
    )


async def answer_all(
    deps: AnswerDependencies, trial: Trial, on_progress: Progress
) -> Mapping[tuple[str, str], SystemAnswer]:
    """Return all answers by question id and system.

    They are written one after the other, so that their times are those of one conversation. An answer that failed,
    or on whose way a service failed, is not kept: the next run tries it again.
    """
    answers: dict[tuple[str, str], SystemAnswer] = {}
    for case in trial.cases:
        for system in trial.systems:
            key = trial.answer_key(case, system)
            record = trial.cache.get(key)
            answer = answer_from_record(record) if record else await answer_question(deps, case, system)
            if not record and answer.text and not answer.is_degraded:
                await trial.cache.put(key, answer_as_record(answer))
            answers[case.question.id, system.name] = answer
            on_progress()
    return answers


def order_systems(question_id: str, systems: Sequence[str], pass_number: int) -> list[str]:
    """Return the order in which the judge sees the answers: random by question, and turned round in the second pass.

    What a place is worth to the judge then cancels out between the passes.
    """
    order = list(systems)
    random.Random(question_id).shuffle(order)  # noqa: S311 - no secret
    return order if pass_number % 2 == 0 else order[::-1]


def parse_scores(value: Mapping[Any, Any], labels: Sequence[str]) -> dict[str, tuple[tuple[float, ...], str]] | None:
    """Return scores and reason by label; None unless every label has a whole score from 0 to 5 for every criterion."""
    by_label = {str(key).strip().upper().removeprefix("ANSWER").strip(): item for key, item in value.items()}
    results: dict[str, tuple[tuple[float, ...], str]] = {}
    for label in labels:
        item = by_label.get(label)
        if not isinstance(item, Mapping):
            return None
        matches = [_SCORE.fullmatch(str(item.get(criterion))) for criterion in CRITERIA]
        if None in matches:
            return None
        scores = tuple(float(match[1]) for match in matches if match)
        results[label] = scores, " ".join(str(item.get("reason", "")).split())
    return results


async def judge_all(
    judge: Judge, trial: Trial, answers: Mapping[tuple[str, str], SystemAnswer], on_progress: Progress
) -> list[Judgement]:
    """Return the judgements of all questions and passes. Raises `ModelError` when the judge fails."""

    async def judge_pass(item: tuple[AnswerCase, int]) -> Judgement:
        case, pass_number = item
        question_answers = [answers[case.question.id, system.name] for system in trial.systems]
        judgement = await _judge_question(judge, case, question_answers, pass_number, trial.cache)
        on_progress()
        return judgement

    passes = [(case, number) for case in trial.cases for number in range(PASSES)]
    return list(await run_concurrently(judge_pass, passes))


async def _judge_question(
    judge: Judge, case: AnswerCase, answers: Sequence[SystemAnswer], pass_number: int, cache: ResultCache
) -> Judgement:
    """Return one pass over one question. Answers that failed are not shown: they get 0."""
    failed_scores = {answer.system: (0.0,) * len(CRITERIA) for answer in answers if not answer.text}
    request = _make_request(judge, case, answers, pass_number)
    if request is None:
        return Judgement(case.question.id, pass_number, failed_scores, {}, 0, TokenUsage())
    systems_by_label = request.systems_by_label
    unreadable_reply = ""
    record = cache.get(request.key)
    if record is None:
        keys = "\n".join(f'- "{label}": reason, {", ".join(CRITERIA)} (0 to {MAX_SCORE})' for label in systems_by_label)
        verdict = await judge.ask(
            request.system_prompt, request.text, keys, lambda value: parse_scores(value, [*systems_by_label])
        )
        record = {"scores": verdict.value, "attempts": verdict.attempts, "usage": usage_as_json(verdict.usage)}
        unreadable_reply = verdict.unreadable_reply
        if verdict.value is not None:
            await cache.put(request.key, record)
    scores_by_system = (
        {name: record["scores"][label] for label, name in systems_by_label.items()} if record["scores"] else {}
    )
    return Judgement(
        case.question.id,
        pass_number,
        {name: tuple(scores) for name, (scores, _) in scores_by_system.items()}
        | (failed_scores if scores_by_system else {}),
        {name: reason for name, (_, reason) in scores_by_system.items()},
        record["attempts"],
        usage_from_record(record["usage"]),
        unreadable_reply,
    )


def count_missing_judgements(judge: Judge, trial: Trial) -> int:
    """Return how many judgements no earlier run has kept: all of a question of which an answer is missing."""
    count = 0
    for case in trial.cases:
        records = [trial.cache.get(trial.answer_key(case, system)) for system in trial.systems]
        answers = [answer_from_record(record) for record in records if record]
        if len(answers) < len(records):
            count += PASSES
            continue
        requests = [_make_request(judge, case, answers, number) for number in range(PASSES)]
        count += sum(request is not None and trial.cache.get(request.key) is None for request in requests)
    return count


@dataclass(frozen=True, slots=True)
class _Request:
    """The answers to one question in one pass of the judge; its judgement is stored under `key`."""

    systems_by_label: Mapping[str, str]
    system_prompt: str
    text: str
    key: str


def _make_request(judge: Judge, case: AnswerCase, answers: Sequence[SystemAnswer], pass_number: int) -> _Request | None:
    """Return the request; None where no answer can be shown."""
    texts = {answer.system: answer.text for answer in answers if answer.text}
    order = order_systems(case.question.id, list(texts), pass_number)
    if not order:
        return None
    systems_by_label = dict(zip(_LABELS, order, strict=False))
    quoted_labels = ", ".join(f'"{label}"' for label in systems_by_label)
    examples = judge.prompts.templates["judge_examples"].split(EXAMPLES_SEPARATOR)
    system_prompt = judge.prompts.fill(
        "judge", most=str(MAX_SCORE), labels=quoted_labels, examples=examples[pass_number % len(examples)].strip()
    )
    fenced_answers = [_format_answer(label, texts[name]) for label, name in systems_by_label.items()]
    text = "\n".join([format_case(case.question, case.reference), *fenced_answers])
    key = make_key("judgement", judge.name, pass_number, system_prompt, text)
    return _Request(systems_by_label, system_prompt, text, key)


def _format_answer(label: str, text: str) -> str:
    short_text = text if len(text) <= MAX_ANSWER_CHARS else f"{text[:MAX_ANSWER_CHARS]} [cut]"
    return f'<answer id="{label}">\n{escape_delimiters(short_text)}\n</answer>'
