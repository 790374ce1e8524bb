"""Sub-questions at once: the light model splits the question in one call, and all parts are searched at the same time.

The question itself is searched while the model splits it, and counts as one more part. Each part's passages are ranked
for that part, then joined so that every part keeps its best ones. There is only one round of searches.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Collection, Sequence
from dataclasses import replace

from core.answering.agents.compression import compress
from core.answering.agents.context_manager import rule_based_query
from core.answering.agents.conversation import format_question
from core.answering.agents.reranker import ranks_by_model, rerank
from core.answering.agents.search import SearchResult, collect_results, get_agent_names, interleave, ranked_search
from core.answering.context import AnswerDependencies, RetrievalResult
from core.errors import KimasError
from core.language.keywords import content_words
from core.language.tokens import query_tokens
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.structured_output import DecisionRequest, decide
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.types import Question, Turn

# Words of the form of names: with a capital that begins no sentence, a digit, a mark inside, or in brackets.
_NAME = re.compile(
    r"(?<![.!?]\s)(?<!^)\b[A-Z][\w-]*|\b[a-z]+[A-Z]\w*|\[\w[\w.:-]*\]|(?<!\w)--?\w[\w-]*|\b\w+(?:[._:/]+\w+)+|\b\w*\d\w*",
    re.ASCII,
)
# The IDF of a word that a twentieth of all passages have: others have it too seldom to be a word of every question.
MIN_RARE_WEIGHT = 3.0
# More than this are an error message or a piece of code.
MAX_KEPT_NAMES = 4
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


async def gather(
    question: Question,
    deps: AnswerDependencies,
    budget: Budget,
    first_search: Awaitable[SearchResult | KimasError] | None = None,
) -> RetrievalResult:
    """Return the joined passages of all sub-questions; without usable sub-questions, those of the question itself.

    `first_search` is the search for the question itself, if it has begun already.
    """
    query = rule_based_query(question)
    own_search = _rank(first_search, deps, budget) if first_search else ranked_search(query, deps, budget)
    async with task_group() as tasks:
        question_search = tasks.create_task(capture_error(own_search))
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


async def _rank(search: Awaitable[SearchResult | KimasError], deps: AnswerDependencies, budget: Budget) -> SearchResult:
    result = collect_results([await search])[0]
    by_model = ranks_by_model(deps.settings, is_final=False)
    ranked_passages = await rerank(result.query, result.passages, deps, budget, by_model=by_model)
    return replace(result, passages=tuple(ranked_passages))


async def split_question(question: Question, deps: AnswerDependencies, budget: Budget) -> tuple[str, ...]:
    """Return the sub-questions, at most as many as configured. The default is none."""
    limit = deps.settings.strategies.sub_questions
    weights = await budget.run_stage("step", deps.library.term_weights(question.text), dict)
    rare_words = [
        word
        for word in content_words(question.text)
        if max((weights.get(token, 0.0) for token in query_tokens(word).split()), default=0.0) >= MIN_RARE_WEIGHT
    ]

    def accept(parsed_reply: ParsedReply) -> tuple[str, ...] | None:
        sub_questions = tuple(
            sub_question for sub_question in parsed_reply.get_texts("questions") if content_words(sub_question)
        )
        return keep_names(question.text, sub_questions[:limit], rare_words) or None

    system = deps.prompts.fill("split", most=str(limit))
    decision_request = DecisionRequest("split", "step", SCHEMA, system, [Turn("user", format_question(question))])
    return await decide(decision_request, accept, (), deps, budget)


def keep_names(question: str, sub_questions: Sequence[str], rare_words: Collection[str] = ()) -> tuple[str, ...]:
    """Return sub-questions, each with the names of the question that splitting dropped from all of them.

    A name is written like one, or is among the `rare_words` of the knowledge; capitals alone are emphasis.

    >>> keep_names("How do I install and update Acme?", ["How do I install it?", "How do I update it?"])
    ('How do I install it? Acme', 'How do I update it? Acme')
    """
    written_names = [word for word in _NAME.findall(question) if content_words(word) and not word.isupper()]
    names = dict.fromkeys((*written_names, *rare_words))
    known_text = " ".join(sub_questions).lower()
    dropped_names = [name for name in names if name.lower() not in known_text][:MAX_KEPT_NAMES]
    return tuple(" ".join([sub_question, *dropped_names]) for sub_question in sub_questions)
