"""Parses the reply of a model that was asked for a search query."""

from __future__ import annotations

import re

from core.llm.decision_schema import DecisionSchema, SchemaField

QUERY_KEYS = (
    "rewritten query",
    "rewritten",
    "rewrite",
    "search query",
    "new query",
    "queries",
    "q",
    "question",
    "search",
    "translation",
    "translated query",
    "translated",
    "result",
    "output",
    "text",
    "查询",
    "改写",
    "改写后的查询",
    "搜索词",
    "检索词",
    "翻译",
    "译文",
    "结果",
)
QUERY_SCHEMA = DecisionSchema(
    "query", "A search query", (SchemaField("query", "text", "the search query, one line", QUERY_KEYS),)
)
_REFUSAL = re.compile(
    r"(?i)^\W*(?:i(?:'m| am)? (?:sorry|afraid|unable|not able)"
    r"|i (?:cannot|can't|can not|do not|don't|did not|didn't)"
    r" (?:\w+ )?(?:help|assist|answer|translate|rewrite|search|have|know|understand|see|find|provide)\b"
    r"|i would need (?:more|to)\b"
    r"|sorry\b|as an ai\b|unfortunately\b|please (?:provide|clarify|give)|(?:很?抱歉|对不起|我不|我无法|无法|作为))"
)


def is_refusal(text: str, query: str) -> bool:
    """Return whether a model refused to rewrite. A question such as "Why can't I ..." begins like a refusal itself."""
    return bool(_REFUSAL.match(text)) and not _REFUSAL.match(query)
