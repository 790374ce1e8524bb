"""The strategy router: how evidence for a question is gathered, chosen among what the configuration allows.

The set of allowed strategies makes the preset: `none, single, planning` is the reasoning router of the three agents,
`single, parallel, planning` are SRSA's search strategies. The choice may carry a query, as both papers print it: a long
or chatty question in few words, which is then searched beside the question itself. Where the settings allow it, the
choice may also be one question back, in the same reply.

The model is not called when only one strategy is allowed, nor for plain greetings and thanks, which get `none` whatever
is allowed. Without a model the strategy is `single`, else `simple`, else the first allowed one that searches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from core.answering.agents.conversation import format_question
from core.answering.agents.outgoing import OutgoingText
from core.answering.context import AnswerDependencies, RetrievalResult
from core.answering.strategies import parallel, planning, react, simple, single
from core.language.courtesies import find_courtesy
from core.language.follow_ups import get_author_turns
from core.llm.decision_schema import DecisionSchema, ParsedReply, SchemaField
from core.llm.prompts import Prompts
from core.llm.structured_output import DecisionRequest, decide
from core.runtime.budget import Budget
from core.runtime.tasks import capture_error, task_group
from core.settings.answering import StrategySettings
from core.settings.base import Route
from core.types import Question, Turn

DESCRIPTIONS: dict[Route, str] = {
    "none": "no search: greetings, thanks, small talk, arithmetic, the date and time, or what has nothing to do "
    "with that",
    "single": "one search: a question about one thing",
    "parallel": "several searches at once: a comparison, or a question with independent parts",
    "planning": "searches one after the other: what to look for next depends on what was found before",
    "react": "searches one after the other, as the model asks for them",
    "simple": "one search with the question as it stands",
    "clarify": 'no search but one question back, in the asker\'s language, as "query": the question has two likely '
    "readings, their answers differ, and the conversation does not tell which is meant",
}
STRATEGY_ALIASES: dict[Route, tuple[str, ...]] = {
    "none": (
        "no search",
        "no retrieval",
        "chat",
        "small talk",
        "social",
        "不检索",
        "无需检索",
        "不需要检索",
        "闲聊",
        "无",
    ),
    "single": (
        "one search",
        "direct",
        "single search",
        "retrieval",
        "单次",
        "直接",
        "单一",
        "单次检索",
        "直接检索",
        "检索",
        "需要检索",
    ),
    "parallel": ("several searches", "decompose", "split", "multiple", "并行", "分解", "并行检索"),
    "planning": ("plan", "sequential", "iterative", "multi-step", "multi step", "规划", "需要规划", "计划", "逐步"),
    "react": ("tool", "tools", "工具"),
    "simple": ("raw", "简单"),
    "clarify": ("ask back", "clarification", "question back", "反问", "澄清", "追问"),
}
STRATEGY_KEYS = (
    "search strategy",
    "choice",
    "action",
    "answer",
    "decision",
    "name",
    "type",
    "method",
    "mode",
    "option",
    "result",
    "策略",
    "检索策略",
    "选择",
    "行动",
    "答案",
    "方法",
    "类型",
)
QUERY_KEYS = ("search query", "search", "keywords", "rephrased question", "查询", "检索词", "搜索词", "关键词")
# Greetings and thanks in languages whose courtesies nobody else answers.
_PLEASANTRY = re.compile(
    r"(?:(?:hallo|guten (?:morgen|tag|abend)|danke|merci|bonjour|salut|hola|gracias|ciao|grazie|привет|спасибо)"
    r"[\W_]*)+",
    re.IGNORECASE,
)
MAX_PLEASANTRY_CHARS = 80
_QUESTION_MARKS = ("?", "？")


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, and the words to search for where those of the question are many; empty for the question itself.

    Of `clarify`, `query` is the question back.
    """

    strategy: Route
    query: str = ""


async def gather(
    question: Question,
    deps: AnswerDependencies,
    budget: Budget,
    on_partial_result: single.OnPartialResult | None = None,
) -> RetrievalResult:
    """Choose a strategy and gather with it. Raises what the chosen strategy raises.

    While the model chooses, a single search runs, its rewrite included. It is the result of `single` and the first
    search of `planning` and `parallel`, so that the choice adds no time of its own to them. `on_partial_result` is
    called only by a `single` that no model had to choose.
    """
    if not deps.settings.context.complete:
        # No strategy completes a question from a conversation that it does not see.
        question = replace(question, history=())
    rule_choice = rule_based_strategy(question, deps)
    if rule_choice == "single":
        return await single.gather(question, deps, budget, on_partial_result)
    if rule_choice not in (None, "planning"):
        return await _gather_without_first_search(Choice(rule_choice), question, deps, budget)
    async with task_group() as tasks:
        first_search = tasks.create_task(capture_error(single.search_once(question, deps, budget)))
        choice = Choice(rule_choice) if rule_choice else await llm_strategy(question, deps, budget)
        if choice.strategy == "single":
            return await single.join_query(first_search, choice.query, deps, budget)
        if choice.strategy == "planning":
            return await planning.gather(question, deps, budget, first_search)
        if choice.strategy == "parallel":
            return await parallel.gather(question, deps, budget, first_search)
        first_search.cancel()
    return await _gather_without_first_search(choice, question, deps, budget)


async def _gather_without_first_search(
    choice: Choice, question: Question, deps: AnswerDependencies, budget: Budget
) -> RetrievalResult:
    strategy = choice.strategy
    if strategy == "clarify":
        # What it quotes, it has from the question.
        text = OutgoingText(lambda: question.text).clean(choice.query)
        return replace(simple.skip_search(question), query="", strategy=strategy, question_back=text)
    if strategy == "none":
        return simple.skip_search(question)
    if strategy == "parallel":
        return await parallel.gather(question, deps, budget)
    if strategy == "react":
        return await react.gather(question, deps, budget)
    return await simple.gather(question, deps, budget)


def rule_based_strategy(question: Question, deps: AnswerDependencies) -> Route | None:
    """Return the strategy when rules can choose it, or None when the model has to."""
    allowed_strategies = list_choices(question, deps.settings.strategies)
    if deps.model is None:
        # Without a model every strategy is one search; without a search there would be nothing to quote.
        preferences: tuple[Route, ...] = ("single", "simple", *allowed_strategies)
        searching = [name for name in preferences if name in allowed_strategies and name not in ("none", "clarify")]
        return searching[0] if searching else "single"
    if _is_pleasantry(question.text):
        return "none"
    return allowed_strategies[0] if len(allowed_strategies) == 1 else None


def may_use_history(question: Question, deps: AnswerDependencies) -> bool:
    """Return whether the answer may need the conversation: greetings and the baseline do without it."""
    return rule_based_strategy(question, deps) not in ("none", "simple")


def _is_pleasantry(text: str) -> bool:
    if len(text) > MAX_PLEASANTRY_CHARS:
        return False
    return find_courtesy(text) in ("greeting", "thanks", "farewell") or bool(_PLEASANTRY.fullmatch(text.strip()))


async def llm_strategy(question: Question, deps: AnswerDependencies, budget: Budget) -> Choice:
    """Return the light model's choice among the allowed strategies. The default is the configured one."""
    settings = deps.settings.strategies
    request, accept = make_choice(question, settings, deps.prompts, deps.describe_knowledge())
    return await decide(request, accept, Choice(settings.default), deps, budget)


def list_choices(question: Question, settings: StrategySettings) -> Sequence[Route]:
    """Return what is allowed for a question, each once: nobody is asked back twice in a row, nor unasked."""
    turns = get_author_turns(question.history, question.author_id)
    was_asked = bool(turns) and turns[-1].role == "assistant" and turns[-1].text.rstrip().endswith(_QUESTION_MARKS)
    may_ask_back = not question.is_unprompted and not was_asked
    return [name for name in dict.fromkeys(settings.allowed) if name != "clarify" or may_ask_back]


def make_choice(
    question: Question, settings: StrategySettings, prompts: Prompts, descriptions: str
) -> tuple[DecisionRequest, Callable[[ParsedReply], Choice | None]]:
    """Return the request for a choice among the allowed strategies, and what reads the reply."""
    choices = {name: STRATEGY_ALIASES[name] for name in list_choices(question, settings)}
    strategy_field = SchemaField(
        "strategy",
        "choice",
        "one of: " + ", ".join(choices),
        STRATEGY_KEYS,
        {str(name): choices[name] for name in choices},
    )
    options = "\n".join(f"{number}. {name}: {DESCRIPTIONS[name]}" for number, name in enumerate(choices, 1))
    system = prompts.fill("strategy", strategies=options, example=settings.default, descriptions=descriptions)
    query_field = SchemaField("query", "text", "what to search for; empty for the question as it stands", QUERY_KEYS)

    def accept(parsed_reply: ParsedReply) -> Choice | None:
        chosen_name = parsed_reply.get_choice("strategy")
        query = parsed_reply.get_text("query")
        choice = next((Choice(name, query) for name in choices if name == chosen_name), None)
        # Whoever asks back without a question gets an answer instead.
        is_incomplete = chosen_name == "clarify" and not query.endswith(_QUESTION_MARKS)
        return Choice(settings.default) if is_incomplete else choice

    schema = DecisionSchema(
        "strategy",
        "How to search for a question",
        (strategy_field, query_field),
        argument="query",
        has_spoken_argument=False,
    )
    return DecisionRequest("choose", "choose", schema, system, [Turn("user", format_question(question))]), accept
