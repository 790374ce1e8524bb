"""`translation`: the query in the language of the agent's knowledge, in place of the asker's or beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.answering.rewriting.base import (
    QUERY_SCHEMA,
    Query,
    RewriteContext,
    ask_llm,
    fence_query,
    is_in_language,
    is_valid_rewrite,
    replace_synonyms,
    rewrite_all,
)
from core.llm.decision_schema import ParsedReply
from core.text.language import detect_language

# What stands in Latin letters in a question of another script is a name.
_LATIN_NAME = re.compile(r"(?<![^\W_])[A-Za-z][\w.\-]*\w")


async def translation(queries: Sequence[Query], context: RewriteContext) -> Sequence[Query]:
    """Return every query translated; as it is when it is in the agent's language already, or that is not configured.

    The stand-in replaces what the agent's synonyms know. What other rewrites made of the untranslated text is dropped.
    With `keep_original` the untranslated queries follow behind, as they are: the knowledge is in several languages.
    """
    language = context.agent.language
    foreign_queries = [query for query in queries if language and is_in_language(query.text, language) is not True]
    if not foreign_queries:
        return queries
    translations = dict(
        zip(
            foreign_queries, await rewrite_all(foreign_queries, context, _llm_rewrite, _rule_based_rewrite), strict=True
        )
    )
    originals = foreign_queries if context.agent.keep_original else []
    return [*(translations.get(query, query) for query in queries), *originals]


async def _llm_rewrite(query: Query, context: RewriteContext) -> Sequence[Query] | None:
    # Only in another script are Latin words known to be names.
    names = _extract_names(query.text) if detect_language(query.text) else set()

    def accept(parsed_reply: ParsedReply) -> Sequence[Query] | None:
        text = parsed_reply.get_text("query")
        is_wrong = is_in_language(text, context.agent.language) is False or not names <= _extract_names(text)
        return [Query(text)] if is_valid_rewrite(text, query) and not is_wrong else None

    return await ask_llm("rewrite_translation", QUERY_SCHEMA, fence_query(query), accept, context)


def _rule_based_rewrite(query: Query, context: RewriteContext) -> Sequence[Query]:
    text = replace_synonyms(query.text, context.agent.synonyms)
    return [Query(text) if text != query.text else query]


def _extract_names(text: str) -> set[str]:
    return {name.lower() for name in _LATIN_NAME.findall(text)}
