"""Evidence: which passages the summarizer may use, and how they are put before it (AgentKit's structured context)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.types import Passage

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_FENCE = re.compile(r"<\s*(/?)\s*(passage|evidence|question|conversation|answer)\b", re.IGNORECASE)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer: one per CJK character, one per four other characters."""
    wide = len(_CJK.findall(text))
    return wide + (len(text) - wide + 3) // 4


def select(passages: Sequence[Passage], *, limit: int, tokens: int) -> list[Passage]:
    """Return the best passages, in order, that fit: at most `limit`, at most `tokens` together, no text twice.

    The first passage is always taken, however long: `render` shortens it.
    """
    chosen: list[Passage] = []
    seen: set[str] = set()
    left = tokens
    for passage in passages:
        fingerprint = " ".join(passage.text.split()).lower()
        need = estimate_tokens(passage.text)
        if fingerprint in seen or (chosen and need > left):
            continue
        seen.add(fingerprint)
        chosen.append(passage)
        left -= need
        if len(chosen) == limit:
            break
    return chosen


def handle(position: int) -> str:
    """Return the id under which the summarizer knows the passage at a position (from 0)."""
    return f"p{position + 1}"


def render(passages: Sequence[Passage], tokens: int) -> str:
    """Return the passages as one context, each fenced as data and with where it is from.

    A passage longer than `tokens` is shortened. Tags inside a passage that look like our fence are broken, so that its
    text cannot pretend to end.
    """
    return "\n".join(
        f'<passage id="{handle(position)}" source="{_attribute(passage.source)}" '
        f'path="{_attribute(passage.path)}" title="{_attribute(passage.title)}" score="{passage.score:.2f}">\n'
        f"{defuse(_shorten(passage.text, tokens))}\n</passage>"
        for position, passage in enumerate(passages)
    )


def defuse(text: str) -> str:
    """Break tags that could close or open our fences."""
    return _FENCE.sub(lambda match: f"‹{match[1]}{match[2]}", text)


def _shorten(text: str, tokens: int) -> str:
    if estimate_tokens(text) <= tokens:
        return text
    return text[: max(tokens, 1) * (1 if len(_CJK.findall(text)) * 2 > len(text) else 4)].rstrip() + " …"


def _attribute(text: str) -> str:
    return " ".join(text.split()).replace('"', "'").replace("<", "‹").replace(">", "›")
