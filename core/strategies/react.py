"""ReAct: the light model calls one tool, `retrieve_knowledge(query)`, until it has what it needs.

The tool is offered through the endpoint's tool calling where the configuration says that it knows it; otherwise, and
where the endpoint refuses, the model writes `[retrieve_knowledge: query]` or `[answer]`. Both are read in the same way.
"""

from __future__ import annotations

import asyncio

from core.agents.compression import compress
from core.agents.decision_maker import SHAPE, Decision, decision_of
from core.budget import Budget
from core.evidence import render
from core.parts import Parts
from core.ports import Form
from core.rewrite import rule_rewrite
from core.shapes import Record
from core.strategies import Gathered
from core.strategies.searching import Found, agents_of, asked_about, interleave, outcome, ranked_search, succeeded
from core.structured import Ask, decide
from core.types import Question, Turn

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

    Anytime: when the share `gather` of the budget runs out, what was found so far counts and the stage is cut. A model
    that cannot be understood before its first search means one search with the question.
    """
    found: list[Found] = []
    query = rule_rewrite(question.text, question.history, question.author_id)
    with budget.timed("gather"):
        try:
            async with asyncio.timeout(budget.share("gather")):
                await _loop(question, query, found, parts, budget)
        except TimeoutError:
            budget.cut_off("gather")
    passages = await compress(query, interleave([one.passages for one in found]), parts, budget)
    # Cut before the first search: nothing was found, which is not the same as nothing being needed.
    searched = bool(found) or "gather" in budget.cut
    return Gathered(query, agents_of(found), tuple(passages), "react", ranked=True, searched=searched)


async def _loop(question: Question, query: str, found: list[Found], parts: Parts, budget: Budget) -> None:
    system = parts.prompts.fill("react")
    turns = [Turn("user", asked_about(question))]
    for _ in range(parts.settings.strategies.max_retrieval_calls):
        default = Decision() if found else Decision("search", query)
        ask = Ask("react", "step", SHAPE, system, tuple(turns), form=TOOL)
        decision = await decide(ask, _after_search if found else decision_of, default, parts, budget)
        if decision.action == "answer" or decision.query in [one.query for one in found]:
            return
        result = await outcome(ranked_search(decision.query, parts, budget))
        if found and not isinstance(result, Found):
            return
        found += succeeded([result])
        shown = found[-1].passages[:SHOWN_PASSAGES]
        evidence = render(shown, parts.settings.evidence_tokens() // max(1, len(shown))) or "(no passages were found)"
        turns.append(Turn("assistant", f"[{TOOL.name}: {decision.query}]"))
        turns.append(Turn("user", f"<evidence>\n{evidence}\n</evidence>"))


def _after_search(record: Record) -> Decision | None:
    """Read a decision; a model that has seen passages and talks instead of calling the tool is done."""
    decision = decision_of(record)
    talks = not record.text("query") and len(record.text("action").split()) > TALK_WORDS
    return decision or (Decision() if talks else None)
