"""Planning: a roadmap, then rounds of retrieving, filtering, compressing and judging, until the evidence suffices.

Anytime: what was kept so far is always usable. When the share `gather` of the budget runs out, the rounds end where
they are and the stage is cut; likewise at the limits on iterations, documents and model calls, which are no cut. Cut
before anything was found, the first search is waited for: it ends by its own shares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace

from core.answering.agents.compression import compress
from core.answering.agents.conversation import asked_about
from core.answering.agents.decision_maker import Progress, Tried, decide_next
from core.answering.agents.information_filter import filter_passages
from core.answering.agents.search import Found, agents_of, interleave, outcome, ranked_search, succeeded
from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.answering.strategies.single import search_once
from core.errors import KimasError
from core.llm.decision_schema import Record, Shape, Slot
from core.llm.structured_output import Ask, Calls, decide
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.text.keywords import content_words
from core.types import Passage, Question, Round, Turn

_Searching = asyncio.Task[Found | KimasError]
MAX_STEPS = 3
# What a model says of evidence is for people to read in a line.
MAX_REASON_CHARS = 300
SHAPE = Shape(
    "plan",
    "What has to be found out, in order",
    (
        Slot(
            "steps",
            "texts",
            "list of search queries, one for each thing that has to be found out",
            (
                *("plan", "roadmap", "queries", "searches", "questions", "overview", "sub questions", "suggestions"),
                *("list", "步骤", "计划", "路线图", "规划", "查询", "建议", "子问题"),
            ),
        ),
    ),
)


@dataclass(slots=True)
class _Course:
    """What one question's rounds have come to, and the model calls that are left for more of them."""

    calls: Calls
    found: list[Found] = field(default_factory=list)
    kept: list[Sequence[Passage]] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    plan: tuple[str, ...] = ()
    missing: str = ""
    seen: set[str] = field(default_factory=set)

    def evidence(self) -> tuple[Passage, ...]:
        """Return what was kept, of every round the best first."""
        return interleave(self.kept)

    def fresh(self, found: Sequence[Found]) -> list[Passage]:
        """Return the passages of these searches that no earlier round has seen, in one order."""
        fresh = [one for one in interleave([one.passages for one in found]) if one.id not in self.seen]
        self.seen |= {passage.id for passage in fresh}
        return fresh

    async def search(self, work: Awaitable[Found]) -> Found | KimasError:
        """Search, and note what was found as soon as it is there: nothing of it is lost when the rounds are cut."""
        result = await outcome(work)
        if isinstance(result, Found):
            self.found.append(result)
        return result


async def gather(
    question: Question, parts: Parts, budget: Budget, ahead: Awaitable[Found | KimasError] | None = None
) -> Gathered:
    """Return the passages that the rounds kept; where they kept none, those of the first search.

    `ahead` is the search of the question itself where somebody has begun it; it is not made again.
    """
    course = _Course(Calls(parts.settings.strategies.model_calls))
    async with task_group() as tasks:
        whole = tasks.create_task(course.search(_joined(ahead) if ahead else search_once(question, parts, budget)))
        with budget.timed("gather"):
            try:
                async with asyncio.timeout(budget.share("gather")):
                    await _rounds(question, whole, course, parts, budget)
            except TimeoutError:
                budget.cut_off("gather", "late")
                if not course.found:
                    succeeded([await whole])
        whole.cancel()
    found = course.found
    # A filter that lets nothing through may be wrong; the summarizer says so itself when nothing helps.
    passages = course.evidence() or interleave([one.passages for one in found])
    query = found[0].query if found else question.text
    kept = passages[: _limit(parts)]
    return Gathered(query, agents_of(found), kept, "planning", ranked=True, rounds=tuple(course.rounds))


async def _rounds(question: Question, whole: _Searching, course: _Course, parts: Parts, budget: Budget) -> None:
    calls = course.calls
    searched = await _first(question, whole, course, parts, budget)
    for left in reversed(range(parts.settings.strategies.iterations)):
        fresh = course.fresh(searched)[: _limit(parts)]
        # Before the filter and the digest, so that a cut in the middle of them loses nothing.
        course.kept.append(fresh)
        course.rounds.append(Round(tuple(one.query for one in searched)))
        filtered = await filter_passages(question, fresh, parts, budget, calls)
        course.kept[-1] = filtered.kept
        course.kept[-1] = await compress(searched[0].query, filtered.kept, parts, budget, calls)
        course.missing = filtered.missing
        kept = {passage.id for passage in filtered.kept}
        course.tried += [
            Tried(one.query, len(kept & {passage.id for passage in one.passages}), filtered.missing) for one in searched
        ]
        if not left or len(course.evidence()) >= _limit(parts) or calls.left <= 0:
            return
        progress = Progress(course.evidence(), course.tried, course.plan, course.missing)
        decision = await decide_next(question, progress, parts, budget, calls)
        course.rounds[-1] = replace(course.rounds[-1], quality=decision.quality, reason=_short(decision.reason))
        if decision.action == "answer" or _known(decision.query, course.found):
            return
        course.tried[-1] = Tried(course.tried[-1].query, course.tried[-1].kept, decision.reason or course.missing)
        again = await course.search(ranked_search(decision.query, parts, budget))
        if not isinstance(again, Found):
            return
        searched = [again]


async def _joined(ahead: Awaitable[Found | KimasError]) -> Found:
    return succeeded([await ahead])[0]


async def _first(question: Question, whole: _Searching, course: _Course, parts: Parts, budget: Budget) -> list[Found]:
    """Search the question while the roadmap is written, then the roadmap's steps, all at once.

    `whole` is the search of the question; to be cut while waiting for it does not end it.
    """
    async with task_group() as tasks:
        course.plan = await _roadmap(question, course.calls, parts, budget)
        steps = [tasks.create_task(course.search(ranked_search(step, parts, budget))) for step in course.plan]
        await asyncio.wait((whole,))
        return succeeded([await search for search in (whole, *steps)])


async def _roadmap(question: Question, calls: Calls, parts: Parts, budget: Budget) -> tuple[str, ...]:
    """Return what has to be found out, as queries. The default is none: the question alone is searched."""

    def accept(record: Record) -> tuple[str, ...] | None:
        steps = tuple(step for step in record.texts("steps") if content_words(step))
        return steps[:MAX_STEPS] or None

    system = parts.prompts.fill("plan", most=str(MAX_STEPS))
    ask = Ask("plan", "step", SHAPE, system, [Turn("user", asked_about(question))], calls=calls)
    return await decide(ask, accept, (), parts, budget)


def _known(query: str, found: Sequence[Found]) -> bool:
    """Say whether a query was searched before, in other order or spelling."""
    words = set(content_words(query))
    return any(words == set(content_words(one.query)) for one in found)


def _short(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= MAX_REASON_CHARS else f"{line[:MAX_REASON_CHARS]} …"


def _limit(parts: Parts) -> int:
    return parts.settings.strategies.documents
