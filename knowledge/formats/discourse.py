"""Topics of a Discourse forum as Markdown, without their authors' names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.formats.html import read_fragment
from knowledge.formats.posts import clean_markdown, format_day

_QUOTE = re.compile(r"\[quote=[^\]\n]{0,200}\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Post:
    """One post of a topic; `html` where the forum does not show what was written."""

    text: str
    created_at: float
    is_solution: bool = False
    is_html: bool = False


def write_topic(posts: Sequence[Post]) -> str:
    """Return a topic as Markdown: the question, then its solution, then the other replies."""
    question, *replies = posts or [Post("", 0.0)]
    parts = [_write_post(question)]
    for reply in sorted(replies, key=lambda post: not post.is_solution):
        label = "Solution" if reply.is_solution else "Reply"
        if text := _write_post(reply):
            parts.append(f"## {label}, {format_day(reply.created_at)}\n\n{text}")
    return "\n\n".join(filter(None, parts))


def _write_post(post: Post) -> str:
    # A quotation names whom it quotes.
    return read_fragment(post.text) if post.is_html else clean_markdown(_QUOTE.sub("[quote]", post.text))
