"""Labelled questions, and what each becomes before it is searched: as asked, by rule, by the light model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.agents.context_manager import complete_by_rule, complete_question
from core.budget import Budget
from core.evaluation.lines import Line
from core.parts import Parts
from core.tasks import task_group
from core.types import Question, Speaker, Turn

T = TypeVar("T")
AT_ONCE = 4
RAW, RULE, MODEL = "raw", "rule", "model"
SPEAKERS: Mapping[str, Speaker] = {"user": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class Case:
    """A question with its truth: the relevant documents, or the agents that should get it."""

    question: Question
    wanted: frozenset[str]


def read_retrieval(line: Line) -> Case:
    """Read one line with the documents that answer its question."""
    case = Case(read_question(line), frozenset(line.texts("relevant")))
    if not case.wanted and not line.faults:
        line.fault("relevant", "a list with at least one document")
    return case


def read_routing(line: Line) -> Case:
    """Read one line with the agents that its question should get; none where no knowledge has to do with it."""
    return Case(read_question(line), frozenset(line.texts("agents")))


async def queries(cases: Sequence[Case], parts: Parts) -> tuple[Mapping[str, Sequence[str]], int]:
    """Return the query of every case by way, and how often the model's had to be left out for the rule's."""
    ways = {
        RAW: [case.question.text for case in cases],
        RULE: [complete_by_rule(case.question) for case in cases],
    }
    if parts.model is None:
        return ways, 0
    budgets = [Budget(parts.settings.budget) for _ in cases]

    async def completed(number: int) -> str:
        # Each question's time begins when its turn comes.
        budgets[number] = Budget(parts.settings.budget)
        return await complete_question(cases[number].question, parts.model, parts.prompts, budgets[number])

    written = await at_once(completed, range(len(cases)))
    return {**ways, MODEL: written}, sum("rewrite" in budget.cut for budget in budgets)


async def at_once(work: Callable[[T], Awaitable[str]], items: Sequence[T]) -> Sequence[str]:
    """Return what becomes of every item, a few at the same time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> str:
        async with gate:
            return await work(item)

    async with task_group() as tasks:
        running = [tasks.create_task(one(item)) for item in items]
    return [task.result() for task in running]


def read_question(line: Line) -> Question:
    """Read the question of a line, with the conversation before it."""
    turns = []
    for one in line.lines("history", optional=True):
        role, text = one.text("role"), one.text("text")
        speaker = SPEAKERS.get(role)
        if speaker:
            turns.append(Turn(speaker, text))
        elif role:
            one.fault("role", "user or assistant")
    return Question(line.text("question"), tuple(turns), line.text("id"))
