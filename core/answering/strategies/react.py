"""ReAct: the light model calls one tool, `retrieve_knowledge(query)`, until it has what it needs.

The tool is offered through the endpoint's tool calling where the configuration says that it knows it; otherwise, and
where the endpoint refuses, the model writes `[retrieve_knowledge: query]` or `[answer]`. Both are read in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from core.answering.agents.compression import compress
from core.answering.agents.context_manager import complete_by_rule
from core.answering.agents.conversation import asked_about
from core.answering.agents.decision_maker import SHAPE, Decision, decision_of
from core.answering.agents.search import Found, agents_of, interleave, outcome, ranked_search, succeeded
from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.errors import KimasError
from core.grounding.evidence import render_within
from core.llm.decision_schema import Record
from core.llm.structured_output import Ask, decide
from core.ports import Form
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.types import Question, Turn

Search = Callable[[str], Awaitable[Found | KimasError]]
SHOWN_PASSAGES = 5
TALK_WORDS = 4
QUERY = {"type": "string", "description": "what to look for, understandable without the conversation"}
TOOL = Form(
    "retrieve_knowledge",
    "Search the knowledge for passages about one thing",
    {"type": "object", "properties": {"query": QUERY}, "required": ["query"], "additionalProperties": False},
    tool=True,
)


async def gather(question: Question, parts: Parts, budget: Budget) -> Gathered:
    """Return the passages of all searches that the model asked for, of each the best first.

    Anytime: when the share `gather` of the budget runs out, what was found so far counts and the stage is cut; a first
    search that is under way then is waited for, and ends by its own shares. A model that cannot be understood before
    its first search means one search with the question.
    """
    found: list[Found] = []
    searches: list[asyncio.Task[Found | KimasError]] = []
    query = complete_by_rule(question)
    async with task_group() as tasks:

        async def search(wanted: str) -> Found | KimasError:
            searches.append(tasks.create_task(outcome(ranked_search(wanted, parts, budget))))
            # Waiting so does not end the search with who waits for it.
            await asyncio.wait(searches[-1:])
            return searches[-1].result()

        with budget.timed("gather"):
            try:
                async with asyncio.timeout(budget.share("gather")):
                    await _loop(question, found, search, parts, budget)
            except TimeoutError:
                budget.cut_off("gather", "late")
                if searches and not found:
                    found += succeeded([await searches[-1]])
        if searches:
            searches[-1].cancel()
    passages = await compress(query, interleave([one.passages for one in found]), parts, budget)
    # Cut before the first search: nothing was found, which is not the same as nothing being needed.
    searched = bool(found) or "gather" in budget.cut
    return Gathered(query, agents_of(found), tuple(passages), "react", ranked=True, searched=searched)


async def _loop(question: Question, found: list[Found], search: Search, parts: Parts, budget: Budget) -> None:
    system = parts.prompts.fill("react")
    turns = [Turn("user", asked_about(question))]
    tokens, most = parts.settings.evidence_tokens("light"), parts.settings.strategies.max_retrieval_calls
    # What the last search finds is not shown; what the others found stays in the conversation, and must fit together.
    searches = max(1, most - 1)
    for _ in range(most):
        default = Decision() if found else Decision("search", complete_by_rule(question))
        ask = Ask("react", "step", SHAPE, system, tuple(turns), form=TOOL)
        decision = await decide(ask, _after_search if found else decision_of, default, parts, budget)
        if decision.action == "answer" or decision.query in [one.query for one in found]:
            return
        result = await search(decision.query)
        if found and not isinstance(result, Found):
            return
        found += succeeded([result])
        shown = found[-1].passages[:SHOWN_PASSAGES]
        evidence = render_within(shown, tokens // searches) or "(no passages were found)"
        turns.append(Turn("assistant", f"[{TOOL.name}: {decision.query}]"))
        turns.append(Turn("user", f"<evidence>\n{evidence}\n</evidence>"))


def _after_search(record: Record) -> Decision | None:
    """Read a decision; a model that has seen passages and talks instead of calling the tool is done."""
    decision = decision_of(record)
    talks = not record.text("query") and len(record.text("action").split()) > TALK_WORDS
    return decision or (Decision() if talks else None)
