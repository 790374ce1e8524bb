"""What the strategies that ask the light model have in common: one decision per query, and a rule in its place."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from core.evidence import defuse
from core.rewrite import content_words
from core.rewrites.query import Query, RewriteContext
from core.shapes import Record, Shape, Slot
from core.structured import Ask, decide
from core.tasks import task_group
from core.types import Turn

T = TypeVar("T")
ByModel = Callable[[Query, RewriteContext], Awaitable[Sequence[Query] | None]]
ByRule = Callable[[Query, RewriteContext], Sequence[Query]]
MAX_QUERY_CHARS = 600
QUERY_KEYS = (
    *("rewritten query", "rewritten", "rewrite", "search query", "new query", "queries", "q", "question", "search"),
    *("translation", "translated query", "translated", "result", "output", "text"),
    *("查询", "改写", "改写后的查询", "搜索词", "检索词", "翻译", "译文", "结果"),
)
QUERY = Shape("query", "A search query", (Slot("query", "text", "the search query, one line", QUERY_KEYS),))
_REFUSAL = re.compile(
    r"(?i)^\W*(?:i(?:'m| am)? (?:sorry|afraid|unable|not able|cannot|can't|can not|do not|don't|did not|didn't"
    r"|would need)"
    r"|sorry\b|as an ai\b|unfortunately\b|please (?:provide|clarify|give)|(?:很?抱歉|对不起|我不|我无法|无法|作为))"
)

# What is left of an object or a tag that could not be read.
_DEBRIS = re.compile(r"^\s*[{<\[]|[\"']\w+[\"']\s*:\s")


async def each(
    queries: Sequence[Query], context: RewriteContext, by_model: ByModel, by_rule: ByRule
) -> Sequence[Query]:
    """Rewrite every query by the model, all at once, and by the rule where the model could not."""

    async def one(query: Query) -> Sequence[Query]:
        made = await by_model(query, context) if context.parts.model else None
        return made or by_rule(query, context)

    async with task_group() as tasks:
        running = [tasks.create_task(one(query)) for query in queries]
    return [query for task in running for query in task.result()]


async def ask(
    stage: str,
    shape: Shape,
    request: str,
    accept: Callable[[Record], T | None],
    context: RewriteContext,
) -> T | None:
    """Return what the light model decided, by the agent's own template of the stage's name.

    None, with the stage cut, when it fails, overruns its time, or cannot be understood.
    """
    system = context.parts.prompts.of(context.name).fill(
        stage,
        agent=context.name,
        description=context.agent.description or "(nothing is said about it)",
        language=context.agent.language or "the language of the question",
    )
    asked = Ask(stage, "requery", shape, system, [Turn("user", request)])
    return await context.within(stage, decide(asked, accept, None, context.parts, context.budget))


def asked(query: Query) -> str:
    """Return a query fenced as data."""
    return f"<question>\n{defuse(query.text)}\n</question>"


def sensible(text: str, query: Query, longest: int = MAX_QUERY_CHARS) -> bool:
    """Say whether what a model wrote of a query can be searched: it says something, is no refusal and no essay."""
    says = bool(content_words(text)) and any(map(str.isalpha, text)) and not _DEBRIS.search(text)
    # Whoever asks what they cannot do is no model that refuses.
    refused = bool(_REFUSAL.match(text)) and not _REFUSAL.match(query.text)
    return says and not refused and len(text) <= longest


def related(text: str, query: Query, context: RewriteContext) -> bool:
    """Say whether a text shares a word with the query, or with what is said about the agent."""
    known = " ".join((query.text, context.agent.description, *context.agent.examples))
    return not set(content_words(known)).isdisjoint(content_words(text))
