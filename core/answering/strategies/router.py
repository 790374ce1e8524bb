"""The strategy router: how evidence for a question is gathered, chosen among what the configuration allows.

Which set is allowed makes the setting: `none, single, planning` are the three agents' reasoning router, `single,
parallel, planning` SRSA's search strategies. One allowed strategy is used without asking, and so are `none` for plain
greetings and thanks. Where there is no model to ask, it is `single`, else `simple`, else the first allowed that
searches.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace

from core.answering.agents.conversation import asked_about
from core.answering.agents.search import outcome, succeeded
from core.answering.context.dependencies import Parts
from core.answering.context.retrieval_result import Gathered
from core.answering.strategies import none, parallel, planning, react, simple, single
from core.llm.decision_schema import Record, Shape, Slot
from core.llm.structured_output import Ask, decide
from core.runtime.budget import Budget
from core.runtime.tasks import task_group
from core.settings import Strategy
from core.types import Question, Turn

Gather = Callable[[Question, Parts, Budget], Awaitable[Gathered]]
STRATEGIES: dict[Strategy, Gather] = {
    "none": none.gather,
    "single": single.gather,
    "parallel": parallel.gather,
    "planning": planning.gather,
    "react": react.gather,
    "simple": simple.gather,
}
WHEN: dict[Strategy, str] = {
    "none": "no search: greetings, thanks, small talk, arithmetic, the date and time, or what needs no documents",
    "single": "one search: a question about one thing",
    "parallel": "several searches at once: a comparison, or a question with independent parts",
    "planning": "searches one after the other: what to look for next depends on what was found before",
    "react": "searches one after the other, as the model asks for them",
    "simple": "one search with the question as it stands",
}
WORDS: dict[Strategy, tuple[str, ...]] = {
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
    "single": ("one search", "direct", "single search", "单次", "直接", "单一", "单次检索", "直接检索"),
    "parallel": ("several searches", "decompose", "split", "multiple", "并行", "分解", "并行检索"),
    "planning": ("plan", "sequential", "iterative", "multi-step", "multi step", "规划", "计划", "逐步"),
    "react": ("tool", "tools", "工具"),
    "simple": ("raw", "简单"),
}
KEYS = (
    *(
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
    ),
    *("策略", "检索策略", "选择", "行动", "答案", "方法", "类型"),
)
LONGEST_PLEASANTRY = 80
_PLEASANTRY = re.compile(
    r"(?:(?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|night|day)|bye|goodbye|see you|cheers"
    r"|thanks?|thank you|thx|ty|many thanks|ok|okay|great|cool|nice|perfect|awesome|got it|welcome"
    r"|how are you|how's it going|你好|您好|大家好|嗨|早上好|早安|晚上好|晚安|下午好|谢谢|多谢|感谢|好的|再见|拜拜"
    r"|hallo|guten (?:morgen|tag|abend)|danke|merci|bonjour|salut|hola|gracias|ciao|grazie|привет|спасибо)"
    r"(?: (?:there|all|everyone|everybody|folks|guys|team|you|bot|so much|very much|a lot|again|today)|们|你|您|了)*"
    r"[\W_]*)+",
    re.IGNORECASE,
)


async def gather(question: Question, parts: Parts, budget: Budget, early: single.Early | None = None) -> Gathered:
    """Choose a strategy and gather with it.

    Where the model has to be asked, a single search runs meanwhile, its rewrite included. It is what counts when
    `single` is chosen, and the first search of `planning`: the choice then costs no time beyond its own. `early` is for
    a single retrieval that nobody had to choose. Raises what the chosen strategy raises.
    """
    if not parts.settings.context.complete:
        # Who does not see the conversation completes nothing from it, in any strategy.
        question = replace(question, history=())
    rule = by_rule(question, parts)
    if rule == "single":
        return await single.gather(question, parts, budget, early)
    if rule is not None:
        return await STRATEGIES[rule](question, parts, budget)
    async with task_group() as tasks:
        ahead = tasks.create_task(outcome(single.search_once(question, parts, budget)))
        chosen = await choose(question, parts, budget)
        if chosen == "single":
            return await single.gathered(succeeded([await ahead])[0], parts, budget)
        if chosen == "planning":
            return await planning.gather(question, parts, budget, ahead)
        ahead.cancel()
    return await STRATEGIES[chosen](question, parts, budget)


def by_rule(question: Question, parts: Parts) -> Strategy | None:
    """Return the strategy that needs no model to choose, or None when the model has to be asked."""
    allowed = parts.settings.strategies.allowed
    if parts.model is None:
        # Without a model all of them come to one search; with no search there would be nothing to quote.
        preferred: tuple[Strategy, ...] = ("single", "simple", *allowed)
        return next((name for name in preferred if name in allowed and name != "none"), "single")
    if len(set(allowed)) == 1:
        return allowed[0]
    return "none" if "none" in allowed and _is_pleasantry(question.text) else None


def _is_pleasantry(text: str) -> bool:
    return len(text) <= LONGEST_PLEASANTRY and bool(_PLEASANTRY.fullmatch(text.strip()))


async def choose(question: Question, parts: Parts, budget: Budget) -> Strategy:
    """Have the light model choose among the allowed strategies. The default is the configured one of them."""
    settings = parts.settings.strategies
    choices = {name: WORDS[name] for name in dict.fromkeys(settings.allowed)}
    slot = Slot(
        "strategy", "choice", "one of: " + ", ".join(choices), KEYS, {str(name): choices[name] for name in choices}
    )
    listed = "\n".join(f"{number}. {name}: {WHEN[name]}" for number, name in enumerate(choices, 1))
    system = parts.prompts.fill("strategy", strategies=listed, example=settings.default)

    def accept(record: Record) -> Strategy | None:
        return next((name for name in choices if name == record.choice("strategy")), None)

    shape = Shape("strategy", "How to search for a question", (slot,))
    ask = Ask("choose", "choose", shape, system, [Turn("user", asked_about(question))])
    return await decide(ask, accept, settings.default, parts, budget)
