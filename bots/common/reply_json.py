"""Replies and passages as the JSON that the command line prints and the API sends: contracts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from core.types import Passage, Reply


def reply_as_json(question: str, reply: Reply) -> Mapping[str, Any]:
    """Return the object that `kimas ask --json` prints (a contract)."""
    from core.storage.usage import total_usage

    token_usage = total_usage(reply.trace.tokens, reply.trace.cost)
    return {
        "question": question,
        "query": reply.trace.query,
        "strategy": reply.trace.strategy,
        "agents": list(reply.trace.agents),
        "answer": reply.text,
        "citations": [asdict(citation) for citation in reply.citations],
        "passages": [passage_as_json(passage) for passage in reply.passages],
        "timings_ms": dict(reply.trace.timings_ms),
        "cut": list(reply.trace.degraded),
        "why_cut": dict(reply.trace.degrade_reasons),
        "rounds": [asdict(search_round) for search_round in reply.trace.rounds],
        "usage": {
            "prompt": token_usage.prompt_tokens,
            "completion": token_usage.completion_tokens,
            "cost": round(token_usage.cost, 8),
        },
        "extractive": reply.is_extractive,
        "nearest": [asdict(page) for page in reply.nearest_pages],
    }


def passage_as_json(passage: Passage) -> Mapping[str, Any]:
    """Return a passage as every `--json` prints it (a contract)."""
    return {
        "passage_id": passage.id,
        "source": passage.source,
        "path": passage.path,
        "url": passage.url,
        "score": round(passage.score, 4),
    }
