"""The answer without a model: the section that answers, cut out and quoted, or else the pages that come closest."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from core.citations.markers import strip_markers, to_name
from core.errors import ServiceError, StoreError
from core.evidence.ranking import NON_CODE_KINDS
from core.evidence.rendering import passage_ref
from core.formatting import shorten
from core.markup.document import Block
from core.markup.statements import Statement
from core.markup.writer import write_markdown
from core.observability.logs import get_logger
from core.ports import Library
from core.quoting.cuts import Cut, complete, cut_passage
from core.quoting.subject import Subject, tokenize
from core.types import Passage

_log = get_logger(__name__)

MAX_PASSAGES = 8
# Comparing vectors takes time: only for those that share the most words.
MAX_CUTS = 32
MAX_QUOTES = 2
MAX_PAGES = 3
MAX_LINE_CHARS = 300
# Where no passage has such a cosine or score, and no cut such a cosine, nothing is about the question: then nothing is
# quoted or named.
MIN_NEARNESS = 0.35

_LANGUAGE = re.compile(r"[\w+#.-]{1,20}")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\([^()\s]{0,500}\)")


@dataclass(frozen=True, slots=True)
class RankedCut:
    """A cut, how well it fits the question (0 to 1), and the score by which it is chosen: that of its passage too.

    `similarity` is the cosine; 0 without vectors.
    """

    cut: Cut
    fit: float
    score: float
    similarity: float = 0.0


@dataclass(frozen=True, slots=True)
class NearPage:
    """A page: the position of its best passage, and the line of it that comes closest, "" for none."""

    position: int
    line: str


@dataclass(frozen=True, slots=True)
class Extract:
    """Markdown with each quote's passage id, and the pages that come closest but are not quoted, nearest first."""

    text: str = ""
    pages: tuple[NearPage, ...] = ()


async def extract(
    queries: Sequence[str], passages: Sequence[Passage], library: Library, min_fit: float, timeout_s: float = 5.0
) -> Extract:
    """Return what answers a question, in the best of its wordings.

    The passages are ranked, best first. A cut of them must fit by `min_fit`, 0 to 1. Comparing vectors may take
    `timeout_s` seconds for a query; after that shared words alone decide.
    """
    passages = passages[:MAX_PASSAGES]
    rankings = [await rank_cuts(query, passages, library, timeout_s) for query in queries]
    ranking = max(rankings, key=lambda cuts: max((cut.fit for cut in cuts), default=0.0), default=[])
    # A passage about many things is near to none of them, and a question of few words hardly to any.
    nearness = [max(passage.similarity, passage.score) for passage in passages]
    if max([*nearness, *(cut.similarity for cut in ranking)], default=0.0) < MIN_NEARNESS:
        return Extract()
    best_fit = max((cut.fit for cut in ranking), default=0.0)
    quotes = _select(ranking, min_fit) if best_fit >= min_fit else []
    quotes = await _complete(quotes, passages, library)
    quoted_pages = {_get_page(passages[quote.position]) for quote in quotes}
    pages = _find_pages(ranking, passages, quoted_pages)
    return Extract("\n\n".join(_render(quote, passages[quote.position]) for quote in quotes), pages)


async def _complete(quotes: Sequence[Cut], passages: Sequence[Passage], library: Library) -> list[Cut]:
    """Return quotes, the first with what belongs to it, without those that it then holds already.

    Further ones stay as they were cut: with all that belongs to them, answers were longer and held no more facts.
    """
    if not quotes:
        return []
    passage = passages[quotes[0].position]
    page = await _read_page(passage, library)
    # A page of many long passages takes milliseconds to read.
    first = await asyncio.to_thread(complete, quotes[0], passage, page)
    return [first, *(quote for quote in quotes[1:] if not set(quote.statements) <= set(first.statements))]


async def _read_page(passage: Passage, library: Library) -> Sequence[Passage]:
    try:
        return await library.read_page(passage.source, passage.path)
    except StoreError as error:
        _log.warning("extract.without_page", error=str(error))
        return ()


async def rank_cuts(question: str, passages: Sequence[Passage], library: Library, timeout_s: float) -> list[RankedCut]:
    """Return the cuts of passages, best first.

    How well one fits is the mean of two shares: how much of the question's words it has with its heading, weighted by
    how rare they are, and how similar its vector is.
    """
    subject = Subject.from_question(question, await library.term_weights(question))
    cuts = [cut for position, passage in enumerate(passages) for cut in cut_passage(passage, position)]
    best_score = max((passage.score for passage in passages), default=0.0) or 1.0
    coverages = [subject.get_coverage(tokenize(cut.text)) for cut in cuts]
    priors = [passages[cut.position].score / best_score for cut in cuts]
    first = sorted(range(len(cuts)), key=lambda index: -coverages[index] - priors[index])[:MAX_CUTS]
    fits = [coverages[index] for index in first]
    similarities: Sequence[float] = [0.0] * len(first)
    # Without vectors (a language that the embedder hardly knows), words alone decide.
    if any(passage.similarity for passage in passages):
        try:
            async with asyncio.timeout(timeout_s):
                similarities = await library.similarity(question, [cuts[index].text for index in first])
            fits = [(coverages[index] + value) / 2 for index, value in zip(first, similarities, strict=True)]
        except (TimeoutError, ServiceError) as error:
            _log.warning("extract.without_vectors", error=str(error) or f"not in {timeout_s:.1f} s")
    ranking = [
        RankedCut(cuts[index], fit, fit + priors[index], similarity)
        for index, fit, similarity in zip(first, fits, similarities, strict=True)
    ]
    return sorted(ranking, key=lambda cut: -cut.score)


def _select(ranking: Sequence[RankedCut], min_fit: float) -> list[Cut]:
    """Return the best cut, and others that fit and are about something else."""
    selected = [ranking[0].cut]
    for ranked in ranking[1:]:
        is_other = all((ranked.cut.position, ranked.cut.heading) != (cut.position, cut.heading) for cut in selected)
        if ranked.fit >= min_fit and is_other and len(selected) < MAX_QUOTES:
            selected.append(ranked.cut)
    return selected


def _get_page(passage: Passage) -> tuple[str, str]:
    return passage.source, passage.path


def _find_pages(
    ranking: Sequence[RankedCut], passages: Sequence[Passage], quoted_pages: Collection[tuple[str, str]]
) -> tuple[NearPage, ...]:
    """Return the pages of the best passages that are not quoted, each with the beginning of its best cut."""
    # The order of the passages knows more than the fit of a cut, which the words of a question decide.
    positions = sorted(range(len(passages)), key=lambda position: -passages[position].score)
    pages = {_get_page(passages[position]): NearPage(position, "") for position in reversed(positions)}
    for ranked in reversed(ranking):
        prose = (statement.quotation for statement in ranked.cut.statements if statement.kind != "code")
        line = _LINK.sub(r"\1", " ".join(strip_markers(next(prose, "")).split()))
        pages[_get_page(passages[ranked.cut.position])] = NearPage(ranked.cut.position, shorten(line, MAX_LINE_CHARS))
    near = [page for position in positions if (page := _get_page(passages[position])) not in quoted_pages]
    return tuple(pages[page] for page in dict.fromkeys(near))[:MAX_PAGES]


def _render(cut: Cut, passage: Passage) -> str:
    """Return a cut as quotations, with code between them; the first quotation has the mark."""
    heading = strip_markers(cut.heading).rstrip(":：")
    name = f"**{heading}**" if passage.kind in NON_CODE_KINDS else f"`{to_name(heading)}`"
    quotation = [name] if heading else []
    parts: list[str] = []
    previous = ""
    for statement in (*cut.shown, None):
        if statement is None or statement.kind == "code":
            parts += ["\n".join(f"> {line}".rstrip() for line in quotation)] if quotation else []
            parts += [_write_code(statement)] if statement else []
            quotation = []
        else:
            is_listed = statement.kind in ("item", "row")
            is_apart = quotation and not (is_listed and previous == statement.kind)
            text = strip_markers(statement.quotation)
            mark = f"{statement.level}. " if statement.kind == "item" and statement.level else "- "
            quotation += [*([""] if is_apart else []), mark + text if is_listed else text]
        previous = statement.kind if statement else ""
    mark = f"[{passage_ref(cut.position)}]"
    if not parts[0].startswith(">"):
        return "\n\n".join([f"> {mark}", *parts])
    return "\n\n".join([f"{parts[0]} {mark}", *parts[1:]])


def _write_code(statement: Statement) -> str:
    language = statement.language if _LANGUAGE.fullmatch(statement.language) else ""
    return write_markdown([Block("code", statement.text, language=language)])
