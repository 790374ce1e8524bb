"""The detail by which the journal and its reports tell answers and silences apart."""

from __future__ import annotations

from core.types import Reply

# Answers that lack something, and silences for want of knowledge.
WEAK_ANSWERS = ("nothing_found", "unsupported", "quoted")
UNSURE_SILENCES = ("unsure", "not_judged", "no_answer")


def get_detail(reply: Reply) -> str:
    """Return what is special about an answer: what it lacks, or how it was made; "" for nothing."""
    if reply.nearest_pages and not reply.citations and reply.trace.query:
        return "nothing_found"
    if reply.shortfall:
        return reply.shortfall
    if reply.trace.cached:
        return "cached"
    return "extractive" if reply.is_extractive else ""
