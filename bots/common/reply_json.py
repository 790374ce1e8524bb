"""Replies and passages as the JSON that the command line prints and the API sends: contracts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from core.types import Passage, Reply

if TYPE_CHECKING:
    from core.language.word_filter import WordFilter
    from core.storage.usage import TokenUsage


def reply_as_json(question: str, reply: Reply, words: WordFilter | None = None) -> Mapping[str, Any]:
    """Return the object that `kimas ask --json` prints (a contract), without what has one of these words.

    The text and its citations have passed the filter already; what stands beside them has not.
    """
    from core.storage.usage import total_usage

    def may_be_said(*texts: str) -> bool:
        return not (words and words.find("\n".join(texts)))

    return {
        "question": question,
        "query": reply.trace.query if may_be_said(reply.trace.query) else "",
        "strategy": reply.trace.strategy,
        "agents": list(reply.trace.agents),
        "answer": reply.text,
        "citations": [asdict(citation) for citation in reply.citations],
        "passages": [passage_as_json(item) for item in reply.passages if may_be_said(item.path, item.url)],
        "timings_ms": dict(reply.trace.timings_ms),
        "cut": list(reply.trace.degraded),
        "why_cut": dict(reply.trace.degrade_reasons),
        "rounds": [asdict(item) for item in reply.trace.rounds if may_be_said(*item.queries, item.reason)],
        "usage": usage_as_json(total_usage(reply.trace.tokens, reply.trace.cost)),
        "extractive": reply.is_extractive,
        "nearest": [asdict(page) for page in reply.nearest_pages if may_be_said(page.title, page.path, page.url)],
    }


def usage_as_json(usage: TokenUsage) -> Mapping[str, float]:
    """Return what models took as every `--json` of answers prints it (a contract)."""
    return {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens, "cost": round(usage.cost, 8)}


def passage_as_json(passage: Passage) -> Mapping[str, Any]:
    """Return a passage as every `--json` prints it (a contract)."""
    return {
        "passage_id": passage.id,
        "source": passage.source,
        "path": passage.path,
        "url": passage.url,
        "score": round(passage.score, 4),
    }
