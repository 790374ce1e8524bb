"""`translation`: the query in the language of the agent's knowledge, in place of the asker's or beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.answering.rewriting.base import QUERY, Query, RewriteContext, ask, asked, each, is_in, replaced, sensible
from core.llm.decision_schema import Record
from core.text.language import language_of

# What stands in Latin letters in a question of another script is a name.
_NAME = re.compile(r"(?<![^\W_])[A-Za-z][\w.\-]*\w")


async def translation(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query translated; as it is when it is in the agent's language already, or that is not configured.

    The stand-in replaces what the agent's synonyms know. What other rewrites made of the untranslated text is dropped.
    With `keep_original` the untranslated queries follow behind, as they are: the knowledge is in several languages.
    """
    language = context.agent.language
    foreign = [query for query in queries if language and is_in(query.text, language) is not True]
    if not foreign:
        return queries
    translated = dict(zip(foreign, await each(foreign, context, _by_model, _by_rule), strict=True))
    kept = foreign if context.agent.keep_original else []
    return [*(translated.get(query, query) for query in queries), *kept]


async def _by_model(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    # Only in another script are Latin words known to be names.
    names = _names(query.text) if language_of(query.text) else set()

    def accept(record: Record) -> Sequence[Query] | None:
        text = record.text("query")
        wrong = is_in(text, context.agent.language) is False or not names <= _names(text)
        return [Query(text)] if sensible(text, query) and not wrong else None

    return await ask("rewrite_translation", QUERY, asked(query), accept, context)


def _by_rule(query: Query, context: RewriteContext) -> Sequence[Query]:
    text = replaced(query.text, context.agent.synonyms)
    return [Query(text) if text != query.text else query]


def _names(text: str) -> set[str]:
    return {name.lower() for name in _NAME.findall(text)}
