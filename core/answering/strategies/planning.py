"""Planning: a plan, then rounds of retrieving, filtering, compressing and judging, until the evidence suffices.

It is an anytime algorithm: the evidence so far is always usable. When the share `gather` of the budget runs out, the
rounds end and the stage is degraded. They also end, without degrading, at the limits on iterations, documents and model
calls. When the share runs out before any search has ended, the first search is awaited: its own shares bound it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace

from core.answering.agents.compression import compress
from core.answering.agents.conversation import format_question
from core.answering.agents.decision_maker import Goal, SearchAttempt, SearchProgress, decide_next
from core.answering.agents.information_filter import filter_passages
from core.answering.agents.search import SearchResult, collect_results, get_agent_names, interleave, ranked_search
from core.answering.context import AnswerDependencies, RetrievalResult
from core.errors import KimasError
from core.language.keywords import content_words
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.reply_parsing import clean_line
from core.llm.structured_output import CallBudget, DecisionRequest, decide
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.types import Passage, Question, Turn
from core.types.replies import SearchRound

# How the papers on three light agents print what the router says of a goal.
_GOAL = re.compile(
    r"\s*[\[【]\s*(?:(?P<known>llm|no[ _-](?:retrieval|search)|大模型|无需检索|不(?:需要)?检索)|"
    r"retrieval|search|(?:需要)?检索)\s*[\]】]\s*+(?:<(?P<query>[^<>]+)>)?(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_SearchTask = asyncio.Task[SearchResult | KimasError]
MAX_STEPS = 3
# People read a model's reason in one line.
MAX_REASON_CHARS = 300
SCHEMA = DecisionSchema(
    "plan",
    "What has to be found out, in order",
    (
        SchemaField(
            "steps",
            "texts",
            "list of search queries, one for each thing that has to be found out; [LLM] before what needs no search",
            (
                "plan",
                "roadmap",
                "queries",
                "searches",
                "questions",
                "overview",
                "sub questions",
                "suggestions",
                "list",
                "步骤",
                "计划",
                "路线图",
                "规划",
                "查询",
                "建议",
                "子问题",
            ),
        ),
    ),
)


@dataclass(slots=True)
class _PlanState:
    """The state of one question's rounds, and the model calls that are left."""

    call_budget: CallBudget
    results: list[SearchResult] = field(default_factory=list)
    passages_by_round: list[Sequence[Passage]] = field(default_factory=list)
    attempts: list[SearchAttempt] = field(default_factory=list)
    rounds: list[SearchRound] = field(default_factory=list)
    plan: Sequence[Goal] = ()
    missing_information: str = ""
    seen_ids: set[str] = field(default_factory=set)

    def evidence(self) -> tuple[Passage, ...]:
        """Return the passages of all rounds: the best of each round first."""
        return interleave(self.passages_by_round)

    def take_new_passages(self, results: Sequence[SearchResult]) -> list[Passage]:
        """Return the passages of these searches that no earlier round had, in one order."""
        new_passages = [
            passage
            for passage in interleave([result.passages for result in results])
            if passage.id not in self.seen_ids
        ]
        self.seen_ids |= {passage.id for passage in new_passages}
        return new_passages

    async def search(self, awaitable: Awaitable[SearchResult]) -> SearchResult | KimasError:
        """Search and record the result at once, so that nothing is lost when the rounds are cut off."""
        result = await capture_error(awaitable)
        if isinstance(result, SearchResult):
            self.results.append(result)
        return result


async def gather(
    question: Question,
    deps: AnswerDependencies,
    budget: Budget,
    question_search: Awaitable[SearchResult | KimasError],
) -> RetrievalResult:
    """Return the passages that the rounds kept; if they kept none, those of all searches.

    `question_search` is the search for the question itself, which may have begun already.
    """
    state = _PlanState(CallBudget(deps.settings.strategies.model_calls))
    async with task_group() as tasks:
        first_search = tasks.create_task(state.search(_await_result(question_search)))
        with budget.timed("gather"):
            try:
                async with asyncio.timeout(budget.share("gather")):
                    await _run_rounds(question, first_search, state, deps, budget)
            except TimeoutError:
                budget.degrade("gather", "late")
                if not state.results:
                    collect_results([await first_search])
        first_search.cancel()
    results = state.results
    # A filter that keeps nothing may be wrong; the summarizer says so itself when no passage helps.
    passages = state.evidence() or interleave([result.passages for result in results])
    query = results[0].query if results else question.text
    top_passages = passages[: _get_max_passages(deps)]
    return RetrievalResult(
        query, get_agent_names(results), top_passages, "planning", is_ranked=True, rounds=tuple(state.rounds)
    )


async def _run_rounds(
    question: Question, first_search: _SearchTask, state: _PlanState, deps: AnswerDependencies, budget: Budget
) -> None:
    call_budget = state.call_budget
    round_results = await _search_plan(question, first_search, state, deps, budget)
    for rounds_left in reversed(range(deps.settings.strategies.iterations)):
        new_passages = state.take_new_passages(round_results)[: _get_max_passages(deps)]
        # Before the filter and the compression, so that nothing is lost when they are cut off.
        state.passages_by_round.append(new_passages)
        state.rounds.append(SearchRound(tuple(result.query for result in round_results)))
        objectives = [result.query for result in round_results]
        filter_result = await filter_passages(question, new_passages, deps, budget, call_budget, objectives=objectives)
        state.passages_by_round[-1] = filter_result.passages
        state.passages_by_round[-1] = await compress(
            round_results[0].query, filter_result.passages, deps, budget, call_budget
        )
        state.missing_information = filter_result.missing_information
        kept_ids = {passage.id for passage in filter_result.passages}
        state.attempts += [
            SearchAttempt(result.query, len(kept_ids & {passage.id for passage in result.passages}))
            for result in round_results
        ]
        if not rounds_left or len(state.evidence()) >= _get_max_passages(deps) or call_budget.remaining <= 0:
            return
        progress = SearchProgress(state.evidence(), state.attempts, state.plan, state.missing_information)
        decision = await decide_next(question, progress, deps, budget, call_budget)
        state.rounds[-1] = replace(state.rounds[-1], quality=decision.quality, reason=_shorten_reason(decision.reason))
        if decision.action == "answer" or _was_searched(decision.query, state.results):
            return
        state.attempts[-1] = SearchAttempt(
            state.attempts[-1].query, state.attempts[-1].kept_count, decision.reason or state.missing_information
        )
        next_result = await state.search(ranked_search(decision.query, deps, budget, is_filtered=True))
        if not isinstance(next_result, SearchResult):
            return
        round_results = [next_result]


async def _await_result(search: Awaitable[SearchResult | KimasError]) -> SearchResult:
    return collect_results([await search])[0]


async def _search_plan(
    question: Question, first_search: _SearchTask, state: _PlanState, deps: AnswerDependencies, budget: Budget
) -> list[SearchResult]:
    """Search the question while the plan is written, then all goals of it that need a search, at the same time.

    Cancelling this does not cancel `first_search`, the search for the question.
    """
    async with task_group() as tasks:
        state.plan = await _make_plan(question, state.call_budget, deps, budget)
        step_searches = [
            tasks.create_task(state.search(ranked_search(goal.text, deps, budget, is_filtered=True)))
            for goal in state.plan
            if not goal.is_known
        ]
        await asyncio.wait((first_search,))
        return collect_results([await search for search in (first_search, *step_searches)])


async def _make_plan(
    question: Question, call_budget: CallBudget, deps: AnswerDependencies, budget: Budget
) -> Sequence[Goal]:
    """Return the goals of the plan. The default is none: only the question is searched."""

    def accept(parsed_reply: ParsedReply) -> Sequence[Goal] | None:
        goals = [_to_goal(step) for step in parsed_reply.get_texts("steps")]
        return [goal for goal in goals if content_words(goal.text)][:MAX_STEPS] or None

    system = deps.prompts.fill("plan", most=str(MAX_STEPS), descriptions=deps.describe_knowledge())
    decision_request = DecisionRequest(
        "plan", "step", SCHEMA, system, [Turn("user", format_question(question))], call_budget=call_budget
    )
    return await decide(decision_request, accept, (), deps, budget)


def _to_goal(step: str) -> Goal:
    """Return a step of a roadmap as a goal: a query, or what the router in the same reply says that everybody knows.

    Other words in brackets are part of the step.
    """
    match = _GOAL.fullmatch(step)
    if match is None:
        return Goal(step)
    return Goal(clean_line(match["query"] or match["rest"]), match["known"] is not None)


def _was_searched(query: str, results: Sequence[SearchResult]) -> bool:
    """Return whether a query with the same words was searched before."""
    words = set(content_words(query))
    return any(words == set(content_words(result.query)) for result in results)


def _shorten_reason(reason: str) -> str:
    line = " ".join(reason.split())
    return line if len(line) <= MAX_REASON_CHARS else f"{line[:MAX_REASON_CHARS]} …"


def _get_max_passages(deps: AnswerDependencies) -> int:
    return deps.settings.strategies.documents
