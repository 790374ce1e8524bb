"""The nearest pages: where to read on, when no sentence of the evidence answers a question."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.citations.markers import strip_markers
from core.formatting import shorten
from core.ports import Library
from core.quoting.extractive import MAX_PASSAGES, get_candidates, rank_candidates
from core.quoting.subject import QuoteRequest
from core.types import Passage

MAX_PAGES = 3
MAX_LINE_CHARS = 160
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\([^()\s]{0,500}\)")


@dataclass(frozen=True, slots=True)
class NearPage:
    """A page: the position of its best passage, and the line of it that comes closest, "" for none."""

    position: int
    line: str


async def find_nearest_pages(
    question: str, passages: Sequence[Passage], library: Library, min_similarity: float, timeout_s: float = 5.0
) -> list[NearPage]:
    """Return the pages that are near enough to a question to be named, nearest first.

    The passages are ranked, best first; one of the page's must have `min_similarity`, the cosine with the question.
    Shared words say too little here: where passages have no vectors, no page is near. To choose the lines may take
    `timeout_s` seconds.
    """
    positions_by_page: dict[tuple[str, str], list[int]] = {}
    for position, passage in enumerate(passages[:MAX_PASSAGES]):
        if passage.similarity >= min_similarity:
            positions_by_page.setdefault((passage.source, passage.path), []).append(position)
    near_pages = list(positions_by_page.values())[:MAX_PAGES]
    candidates = get_candidates(passages, [position for positions in near_pages for position in positions])
    request = await QuoteRequest.open(question, library, timeout_s)
    quotes = [quote.candidate for quote in await rank_candidates(request, candidates, library)]
    pages = []
    for positions in near_pages:
        best = next((quote for quote in quotes if quote.position in positions and quote.quotable.text), None)
        pages.append(
            NearPage(best.position, _shorten(best.quotable.shown_text)) if best else NearPage(positions[0], "")
        )
    return pages


def _shorten(text: str) -> str:
    """Return a text as one line of a limited length, without links, which might be cut."""
    return shorten(_LINK.sub(r"\1", " ".join(strip_markers(text).split())), MAX_LINE_CHARS)
