"""Sub-questions at once: the light model splits the question in one call, and all parts are searched at the same time.

The question itself is searched while the model splits it, and counts as one more part. Each part's passages are ranked
for that part, then joined so that every part keeps its best ones. There is only one round of searches.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.answering.agents.compression import compress
from core.answering.agents.context_manager import rule_based_query
from core.answering.agents.conversation import format_question
from core.answering.agents.search import collect_results, get_agent_names, interleave, ranked_search
from core.answering.context import AnswerDependencies, RetrievalResult
from core.language.keywords import content_words
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.structured_output import DecisionRequest, decide
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.types import Question, Turn

# A capital at the start of a sentence makes no name.
_NAME = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-Z][\w-]*|\b[a-z\d]+[A-Z]\w*", re.ASCII)
SCHEMA = DecisionSchema(
    "split",
    "The sub-questions of a question",
    (
        SchemaField(
            "questions",
            "texts",
            "list of the sub-questions, each understandable alone",
            (
                "sub questions",
                "subquestions",
                "queries",
                "sub queries",
                "question",
                "searches",
                "parts",
                "list",
                "output",
                "result",
                "results",
                "子问题",
                "问题",
                "查询",
                "子查询",
                "问题列表",
                "结果",
            ),
        ),
    ),
)


async def gather(question: Question, deps: AnswerDependencies, budget: Budget) -> RetrievalResult:
    """Return the joined passages of all sub-questions; without usable sub-questions, those of the question itself."""
    query = rule_based_query(question)
    async with task_group() as tasks:
        question_search = tasks.create_task(capture_error(ranked_search(query, deps, budget)))
        sub_questions = [
            sub_question
            for sub_question in await split_question(question, deps, budget)
            if sub_question.lower() != query.lower()
        ]
        searches = [
            tasks.create_task(capture_error(ranked_search(sub_question, deps, budget)))
            for sub_question in sub_questions
        ]
        results = collect_results([await search for search in (*searches, question_search)])
    passages = await compress(query, interleave([result.passages for result in results]), deps, budget)
    return RetrievalResult(query, get_agent_names(results), tuple(passages), "parallel", is_ranked=True)


async def split_question(question: Question, deps: AnswerDependencies, budget: Budget) -> tuple[str, ...]:
    """Return the sub-questions, at most as many as configured. The default is none."""
    limit = deps.settings.strategies.sub_questions

    def accept(parsed_reply: ParsedReply) -> tuple[str, ...] | None:
        sub_questions = tuple(
            sub_question for sub_question in parsed_reply.get_texts("questions") if content_words(sub_question)
        )
        return keep_names(question.text, sub_questions[:limit]) or None

    system = deps.prompts.fill("split", most=str(limit))
    decision_request = DecisionRequest("split", "step", SCHEMA, system, [Turn("user", format_question(question))])
    return await decide(decision_request, accept, (), deps, budget)


def keep_names(question: str, sub_questions: Sequence[str]) -> tuple[str, ...]:
    """Return sub-questions, each with the names of the question that splitting dropped from all of them.

    A name is written with a capital, as products and classes are; capitals alone are emphasis.

    >>> keep_names("How do I install and update Acme?", ["How do I install it?", "How do I update it?"])
    ('How do I install it? Acme', 'How do I update it? Acme')
    """
    names = [word for word in dict.fromkeys(_NAME.findall(question)) if content_words(word) and not word.isupper()]
    known_text = " ".join(sub_questions).lower()
    dropped_names = [name for name in names if name.lower() not in known_text]
    return tuple(" ".join([sub_question, *dropped_names]) for sub_question in sub_questions)
