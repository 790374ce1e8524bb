"""ReAct: the light model calls one tool, `retrieve_knowledge(query)`, until it has what it needs.

The question itself is searched beside the model's first call. Its passages join those of the model's first query, which
has other words for it. Of a model that wants no search they are dropped.

The endpoint gets the tool when the settings say that it supports tool calls; otherwise, and when the endpoint rejects
the tool, the model writes `[retrieve_knowledge: query]` or `[answer]`. Both are parsed in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from core.answering.agents.compression import compress
from core.answering.agents.context_manager import rule_based_query
from core.answering.agents.conversation import format_question
from core.answering.agents.decision_maker import DECISION_SCHEMA, Decision, parse_decision
from core.answering.agents.search import SearchResult, collect_results, get_agent_names, interleave, ranked_search
from core.answering.context import AnswerDependencies, RetrievalResult
from core.errors import KimasError
from core.evidence.rendering import render_to_budget
from core.language.keywords import content_words
from core.llm.decision_schema import ParsedReply
from core.llm.structured_output import DecisionRequest, decide
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.types import Question, ResponseSchema, ToolCall, Turn

SearchTask = asyncio.Task[SearchResult | KimasError]
MAX_SHOWN_PASSAGES = 5
MAX_ACTION_WORDS = 4
QUERY_PARAMETER = {"type": "string", "description": "what to look for, understandable without the conversation"}
RETRIEVE_TOOL = ResponseSchema(
    "retrieve_knowledge",
    "Search the knowledge for passages about one thing",
    {"type": "object", "properties": {"query": QUERY_PARAMETER}, "required": ["query"], "additionalProperties": False},
    is_tool=True,
)


@dataclass(frozen=True, slots=True)
class _Searches:
    """The query of the question and its search, which has begun; how others begin; and what those waited for found."""

    query: str
    first: SearchTask
    start: Callable[[str], SearchTask]
    results: list[SearchResult] = field(default_factory=list)


async def gather(question: Question, deps: AnswerDependencies, budget: Budget) -> RetrievalResult:
    """Return the passages of the question and of all searches that the model requested: the best of each search first.

    When the share `gather` of the budget runs out, the passages so far count and the stage is degraded; the search for
    the question is awaited, and its own shares bound it. When no request of the model can be understood, that is all.
    """
    query = rule_based_query(question)
    started: list[SearchTask] = []
    async with task_group() as tasks:

        def start(search_query: str) -> SearchTask:
            started.append(tasks.create_task(capture_error(ranked_search(search_query, deps, budget))))
            return started[-1]

        searches = _Searches(query, start(query), start)
        with budget.timed("gather"):
            try:
                async with asyncio.timeout(budget.share("gather")):
                    await _run_loop(question, searches, deps, budget)
            except TimeoutError:
                budget.degrade("gather", "late")
                if not searches.results:
                    searches.results.extend(collect_results([await searches.first]))
        for task in started:
            task.cancel()
    results = searches.results
    passages = await compress(query, interleave([result.passages for result in results]), deps, budget)
    return RetrievalResult(
        query, get_agent_names(results), tuple(passages), "react", is_ranked=True, was_searched=bool(results)
    )


async def _run_loop(question: Question, searches: _Searches, deps: AnswerDependencies, budget: Budget) -> None:
    turns = [Turn("user", format_question(question))]
    max_tokens = deps.settings.evidence_tokens("light")
    max_calls = deps.settings.strategies.max_retrieval_calls
    system = deps.prompts.fill("react", most=str(max_calls), descriptions=deps.describe_knowledge())
    # The passages of all searches but the last stay in the conversation and must fit together.
    max_shown_searches = max(1, max_calls - 1)
    results = searches.results
    for _ in range(max_calls):
        default = Decision() if results else Decision("search", searches.query)
        decision_request = DecisionRequest(
            "react", "step", DECISION_SCHEMA, system, tuple(turns), response_schema=RETRIEVE_TOOL
        )
        decision = await decide(
            decision_request, _parse_after_search if results else parse_decision, default, deps, budget
        )
        if decision.action == "answer" or decision.query in [earlier_result.query for earlier_result in results]:
            return
        waiting = [] if results else [searches.first]
        if results or set(content_words(decision.query)) != set(content_words(searches.query)):
            waiting.insert(0, searches.start(decision.query))
        # Waiting for a search does not cancel it when the time is up.
        await asyncio.wait(waiting)
        outcomes = [task.result() for task in waiting]
        if results and not isinstance(outcomes[0], SearchResult):
            return
        found = collect_results(outcomes)
        results += found
        shown_passages = interleave([result.passages for result in found])[:MAX_SHOWN_PASSAGES]
        evidence_text = render_to_budget(shown_passages, max_tokens // max_shown_searches) or "(no passages were found)"
        call = ToolCall(f"call_{len(results)}", RETRIEVE_TOOL.name, {"query": decision.query})
        turns.append(Turn("assistant", f"[{RETRIEVE_TOOL.name}: {decision.query}]", tool_call=call))
        turns.append(Turn("user", f"<evidence>\n{evidence_text}\n</evidence>", tool_call=call))


def _parse_after_search(parsed_reply: ParsedReply) -> Decision | None:
    """Parse a decision; a model that has seen passages and writes prose instead of a tool call is done."""
    decision = parse_decision(parsed_reply)
    is_talk = not parsed_reply.get_text("query") and len(parsed_reply.get_text("action").split()) > MAX_ACTION_WORDS
    return decision or (Decision() if is_talk else None)
