"""Sub-questions at once: the light model splits the question in one call, and all parts are searched at the same time.

The question itself is searched while the model splits, and counts as one more part. Each part's passages are ordered
for that part, then joined so that every part keeps its best ones. One round of searching, however many parts.
"""

from __future__ import annotations

from core.answering.agents.compression import compress
from core.answering.agents.context_manager import complete_by_rule
from core.answering.agents.conversation import asked_about
from core.answering.agents.search import agents_of, interleave, outcome, ranked_search, succeeded
from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.llm.decision_schema import Record, Shape, Slot
from core.llm.structured_output import Ask, decide
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.text.keywords import content_words
from core.types import Question, Turn

SHAPE = Shape(
    "split",
    "The sub-questions of a question",
    (
        Slot(
            "questions",
            "texts",
            "list of the sub-questions, each understandable alone",
            (
                *("sub questions", "subquestions", "queries", "sub queries", "question", "searches", "parts", "list"),
                *("output", "result", "results", "子问题", "问题", "查询", "子查询", "问题列表", "结果"),
            ),
        ),
    ),
)


async def gather(question: Question, parts: Parts, budget: Budget) -> Gathered:
    """Return the joined passages of all sub-questions; without usable ones, those of the question itself."""
    query = complete_by_rule(question)
    async with task_group() as tasks:
        whole = tasks.create_task(outcome(ranked_search(query, parts, budget)))
        questions = [one for one in await split(question, parts, budget) if one.lower() != query.lower()]
        searches = [tasks.create_task(outcome(ranked_search(one, parts, budget))) for one in questions]
        found = succeeded([await search for search in (*searches, whole)])
    passages = await compress(query, interleave([one.passages for one in found]), parts, budget)
    return Gathered(query, agents_of(found), tuple(passages), "parallel", ranked=True)


async def split(question: Question, parts: Parts, budget: Budget) -> tuple[str, ...]:
    """Return the sub-questions, at most as many as configured. The default is none."""
    most = parts.settings.strategies.sub_questions

    def accept(record: Record) -> tuple[str, ...] | None:
        questions = tuple(one for one in record.texts("questions") if content_words(one))
        return questions[:most] or None

    system = parts.prompts.fill("split", most=str(most))
    ask = Ask("split", "step", SHAPE, system, [Turn("user", asked_about(question))])
    return await decide(ask, accept, (), parts, budget)
