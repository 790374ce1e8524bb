"""The common part of the rewrites: one call of the light model per query, rules as fallback, synonyms and languages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from core.answering.context import MAX_QUERY_CHARS, UNKNOWN_SUBJECT, Query, RewriteContext
from core.answering.rewriting.query_reply import is_refusal
from core.evidence.rendering import escape_delimiters
from core.language.glossary import is_foreign_to, list_meanings, prepare_glossary
from core.language.keywords import content_words, extract_noun_phrases, strip_fillers
from core.language.languages import detect_language
from core.language.tokens import CJK_CHARACTERS, count_cjk
from core.llm.decision_schema import DecisionSchema, ParsedReply
from core.llm.structured_output import DecisionRequest, decide
from core.runtime.tasks import task_group
from core.types import Turn

T = TypeVar("T")


MAX_TERMS = 16
_SPACED_SCRIPT = re.compile(rf"[^\W{CJK_CHARACTERS}]")

# The rest of an object or a tag that could not be parsed.
_UNPARSED_MARKUP = re.compile(r"^\s*[{<\[]|[\"']\w+[\"']\s*:\s")


async def rule(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query without filler words; noun phrases and their synonyms become its words."""
    return [rule_based_rewrite(query, context)[0] for query in queries]


def rule_based_rewrite(query: Query, context: RewriteContext) -> Sequence[Query]:
    """Return the query without filler words; noun phrases and their synonyms become its words."""
    text = strip_fillers(query.text)
    terms = (
        *extract_noun_phrases(query.words or text),
        *find_synonyms(query.get_lexical_text(), context.agent.synonyms),
    )
    return [replace(query, text=text, words=join_terms(terms) or query.words)]


def join_terms(terms: Sequence[str]) -> str:
    """Return terms as the words of a query, each once, at most `MAX_TERMS`."""
    return " ".join(list(dict.fromkeys(term.strip() for term in terms if term.strip()))[:MAX_TERMS])


def find_synonyms(text: str, synonym_map: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the synonyms of the words and phrases of a text."""
    return [synonym for phrase, _ in _match_phrases(text, synonym_map) for synonym in synonym_map[phrase]]


def replace_synonyms(text: str, synonym_map: Mapping[str, Sequence[str]]) -> str:
    """Return a text with its words and phrases replaced by the first synonym of each."""
    for phrase, pattern in _match_phrases(text, synonym_map):
        text = pattern.sub(synonym_map[phrase][0].replace("\\", r"\\"), text)
    return text


def _match_phrases(text: str, synonym_map: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the phrases of the map that occur in a text, longer ones first, with their patterns."""
    for phrase in sorted(synonym_map, key=len, reverse=True):
        if not synonym_map[phrase] or not phrase.strip():
            continue
        words = r"\s+".join(re.escape(word) for word in phrase.split())
        # Scripts without spaces have no word boundaries.
        left_boundary = r"(?<!\w)" if _SPACED_SCRIPT.match(phrase) else ""
        right_boundary = r"(?!\w)" if _SPACED_SCRIPT.match(phrase.rstrip()[-1]) else ""
        pattern = re.compile(f"{left_boundary}{words}{right_boundary}", re.IGNORECASE)
        if pattern.search(text):
            yield phrase, pattern


def has_same_script(text: str, other: str) -> bool:
    """Return whether two texts are in the same script."""
    return detect_language(text) == detect_language(other)


LLMRewrite = Callable[[Query, RewriteContext], Awaitable[Sequence[Query] | None]]
RuleBasedRewrite = Callable[[Query, RewriteContext], Sequence[Query]]


async def rewrite_all(
    queries: Sequence[Query], context: RewriteContext, llm_rewrite: LLMRewrite, rule_based_rewrite: RuleBasedRewrite
) -> Sequence[Query]:
    """Rewrite all queries at the same time: by the model, or by the rule when the model could not."""

    async def rewrite_one(query: Query) -> Sequence[Query]:
        await prepare_glossary(query.text)
        llm_queries = await llm_rewrite(query, context) if context.deps.model else None
        return llm_queries or rule_based_rewrite(query, context)

    async with task_group() as tasks:
        rewrite_tasks = [tasks.create_task(rewrite_one(query)) for query in queries]
    return [query for task in rewrite_tasks for query in task.result()]


async def ask_llm(
    stage: str,
    schema: DecisionSchema,
    request: str,
    accept: Callable[[ParsedReply], T | None],
    context: RewriteContext,
) -> T | None:
    """Return the light model's decision; the agent's own template with the name of the stage is the prompt.

    None, with the stage degraded, when the model fails, is too slow, or cannot be understood.
    """
    system = context.deps.prompts.for_agent(context.name).fill(
        stage,
        agent=context.name,
        description=context.deps.describe_agent(context.name) or UNKNOWN_SUBJECT,
        language=context.deps.describe_language(context.name) or "the language of the question",
    )
    decision_request = DecisionRequest(stage, "requery", schema, system, [Turn("user", request)])
    return await context.run_stage(stage, decide(decision_request, accept, None, context.deps, context.budget))


def fence_query(query: Query) -> str:
    """Return a query fenced as data."""
    return f"<question>\n{escape_delimiters(query.text)}\n</question>"


def is_valid_rewrite(text: str, query: Query, max_chars: int = MAX_QUERY_CHARS) -> bool:
    """Return whether a model's rewrite can be searched: it has content words, is no refusal, and is not too long."""
    has_content = bool(content_words(text)) and any(map(str.isalpha, text)) and not _UNPARSED_MARKUP.search(text)
    return has_content and not is_refusal(text, query.text) and len(text) <= max_chars


def shares_terms(text: str, query: Query, context: RewriteContext) -> bool:
    """Return whether a text shares a word with the query or with the agent's description and examples.

    An English text for a Chinese query has to share one with the query, as far as a dictionary can tell.
    """
    if is_foreign_to(text, query.text):
        return False
    meanings = chain.from_iterable(list_meanings(query.text)) if count_cjk(query.text) else ()
    reference_text = " ".join((query.text, context.agent.description, *context.agent.examples, *meanings))
    return not set(content_words(reference_text)).isdisjoint(content_words(text))
