"""The answer without a model: the section that answers, cut out and quoted, or else the pages that come closest."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import mean

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
from core.quoting.cuts import PAGE_KIND, Cut, append, complete, cut_passage
from core.quoting.subject import Subject, tokenize
from core.types import Passage

_log = get_logger(__name__)

MAX_PASSAGES = 8
# What answers a question often stands elsewhere on the page that is found for it: of so many of the best pages, so many
# further passages are looked at, those that share the most words with the question.
MAX_READ_PAGES = 2
MAX_PAGE_PASSAGES = 12
# A passage takes 0.2 ms to read: of a book, those around the one that was found.
MAX_SEEN_PASSAGES = 300
# Comparing vectors takes time: only for those that share the most words, and statement by statement for the best.
MAX_CUTS = 12
MAX_BEST_CUTS = 6
MAX_STATEMENT_CHARS = 400
MAX_QUOTES = 2
# What is quoted beside the best cut fits nearly as well. Of 112 questions about eight projects, every share up to 0.8
# answers 82 with the first quote, and with 0.8 its additions are half as long as with 0 (1: 81).
MIN_FIT_SHARE = 0.8
MAX_PAGES = 3
MAX_LINE_CHARS = 300
# Where no passage has such a cosine or score, and no cut such a cosine, nothing is about the question: then nothing is
# quoted or named.
MIN_NEARNESS = 0.35

_LANGUAGE = re.compile(r"[\w+#.-]{1,20}")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\([^()\s]{0,500}\)")


@dataclass(frozen=True, slots=True)
class RankedCut:
    """A cut, how well it fits the question (0 to 1), and the score by which it is chosen: that of its page too.

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
    """Markdown with each quote's passage id, and the pages that come closest but are not quoted, nearest first.

    Positions and ids are those of `passages`: the ones found, and others of their pages.
    """

    text: str = ""
    pages: tuple[NearPage, ...] = ()
    passages: tuple[Passage, ...] = ()


async def extract(
    queries: Sequence[str], passages: Sequence[Passage], library: Library, min_fit: float, timeout_s: float = 5.0
) -> Extract:
    """Return what answers a question, in the best of its wordings.

    The passages are ranked, best first. A cut of them must fit by `min_fit`, 0 to 1. Comparing vectors may take
    `timeout_s` seconds for a query; after that shared words alone decide.
    """
    found = passages[:MAX_PASSAGES]
    pages = await _read_best_pages(found, library)
    subjects = [Subject.from_question(query, await library.term_weights(query)) for query in queries]
    # Reading a large page takes milliseconds.
    passages = (*found, *await asyncio.to_thread(_find_parts, subjects, found, pages))
    rankings = [
        await _rank_cuts(query, subject, passages, library, timeout_s)
        for query, subject in zip(queries, subjects, strict=True)
    ]
    ranking = max(rankings, key=lambda cuts: max((cut.fit for cut in cuts), default=0.0), default=[])
    # A passage about many things is near to none of them, and a question of few words hardly to any.
    nearness = [max(passage.similarity, passage.score) for passage in found]
    if max([*nearness, *(cut.similarity for cut in ranking)], default=0.0) < MIN_NEARNESS:
        return Extract()
    best_fit = max((cut.fit for cut in ranking), default=0.0)
    quotes: list[Cut] = []
    if ranking and best_fit >= min_fit:
        first = passages[ranking[0].cut.position]
        page = pages.get(_get_page(first)) or await _read_page(first, library)
        least_fit = max(min_fit, MIN_FIT_SHARE * ranking[0].fit)
        fitting = [ranked.cut for ranked in ranking if ranked is ranking[0] or ranked.fit >= least_fit]
        quotes = await asyncio.to_thread(_compose, fitting, passages, page)
    quoted_pages = {_get_page(passages[quote.position]) for quote in quotes}
    near_pages = _find_pages(ranking, passages, quoted_pages)
    text = "\n\n".join(_render(quote, passages[quote.position]) for quote in quotes)
    return Extract(text, near_pages, passages)


async def _read_best_pages(passages: Sequence[Passage], library: Library) -> dict[tuple[str, str], Sequence[Passage]]:
    """Return the pages of the best passages, whole."""
    # Only what was read as blocks belongs together as a page does.
    names = dict.fromkeys(_get_page(passage) for passage in passages if passage.kind == PAGE_KIND)
    firsts = {name: next(each for each in passages if _get_page(each) == name) for name in names}
    return {name: await _read_page(firsts[name], library) for name in [*names][:MAX_READ_PAGES]}


def _find_parts(
    subjects: Sequence[Subject], passages: Sequence[Passage], pages: Mapping[tuple[str, str], Sequence[Passage]]
) -> list[Passage]:
    """Return the passages of these pages that share the most words with a question, and are not among those found."""
    parts: list[Passage] = []
    for name, page in pages.items():
        found = [passage for passage in passages if _get_page(passage) == name]
        place = next((place for place, other in enumerate(page) if _holds(found[0], other)), 0)
        start = max(0, min(place - MAX_SEEN_PASSAGES // 2, len(page) - MAX_SEEN_PASSAGES))
        near = page[start : start + MAX_SEEN_PASSAGES]
        others = [other for other in near if not any(_holds(passage, other) for passage in found)]
        words = [tokenize(f"{other.title}\n{other.text}") for other in others]
        coverages = [max(subject.get_coverage(tokens) for subject in subjects) for tokens in words]
        best = sorted(range(len(others)), key=lambda index: -coverages[index])[:MAX_PAGE_PASSAGES]
        # How well they were found is not known, and that of their page counts.
        parts += [replace(others[index], score=0.0, similarity=0.0) for index in sorted(best)]
    return parts


def _holds(passage: Passage, other: Passage) -> bool:
    """Return whether a passage, which may be several in a row, is or has another of its page."""
    return other.id == passage.id or (0 < passage.start_line <= other.start_line and other.end_line <= passage.end_line)


def _compose(cuts: Sequence[Cut], passages: Sequence[Passage], page: Sequence[Passage]) -> list[Cut]:
    """Return the quotes of ranked cuts: the best with what belongs to it and other parts of its page, and another page.

    The one of another page stays as it was cut: with all that belongs to it, answers were longer, with no more facts.
    """
    name = _get_page(passages[cuts[0].position])
    parts = [cut for cut in cuts if _get_page(passages[cut.position]) == name]
    first = complete(cuts[0], passages[cuts[0].position], page, parts[1:])
    for part in parts[1:]:
        first = append(first, part, passages[part.position], page)
    others = (cut for cut in cuts[1:] if _get_page(passages[cut.position]) != name)
    return [first, *islice(others, MAX_QUOTES - 1)]


async def _read_page(passage: Passage, library: Library) -> Sequence[Passage]:
    try:
        return await library.read_page(passage.source, passage.path)
    except StoreError as error:
        _log.warning("extract.without_page", error=str(error))
        return ()


async def _rank_cuts(
    question: str, subject: Subject, passages: Sequence[Passage], library: Library, timeout_s: float
) -> list[RankedCut]:
    """Return the cuts of passages, best first.

    How well one fits is the mean of two shares: how much of the question's words it has with its heading, weighted by
    how rare they are, and how similar its vector is. Among those that fit, the best has the highest sum of its page's
    share of the best score and the mean of four: these two, how similar its headings are, and its best statement.
    """
    cuts = [cut for position, passage in enumerate(passages) for cut in cut_passage(passage, position)]
    priors = _get_priors(passages)
    coverages = [subject.get_coverage(tokenize(_get_text(cut, passages))) for cut in cuts]
    order = sorted(range(len(cuts)), key=lambda index: -coverages[index] - priors[cuts[index].position])
    best = [cuts[index] for index in order[:MAX_CUTS]]
    shares = [coverages[index] for index in order[:MAX_CUTS]]
    page_scores = [priors[cut.position] for cut in best]
    likenesses: Sequence[Sequence[float]] = [[share] for share in shares]
    # Without vectors (a language that the embedder hardly knows), words alone decide.
    if any(passage.similarity for passage in passages):
        try:
            async with asyncio.timeout(timeout_s):
                headings = [_get_headings(cut, passages) for cut in best]
                likenesses = await _compare(question, best, headings, shares, library, page_scores=page_scores)
        except (TimeoutError, ServiceError) as error:
            _log.warning("extract.without_vectors", error=str(error) or f"not in {timeout_s:.1f} s")
    ranking = [
        RankedCut(cut, mean(own[:2]), mean(own) + score, own[1] if own[1:] else 0.0)
        for cut, own, score in zip(best, likenesses, page_scores, strict=True)
    ]
    # The others do not fit, as far as is known: they tell what their pages are about.
    rest = [RankedCut(cuts[index], 0.0, 0.0) for index in order[MAX_CUTS:]]
    return [*sorted(ranking, key=lambda cut: -cut.score), *rest]


def _get_priors(passages: Sequence[Passage]) -> list[float]:
    """Return for each passage the best score of its page, as a share of the best of all."""
    best_score = max((passage.score for passage in passages), default=0.0) or 1.0
    page_scores: dict[tuple[str, str], float] = {}
    for passage in passages:
        page_scores[_get_page(passage)] = max(passage.score, page_scores.get(_get_page(passage), 0.0))
    return [page_scores[_get_page(passage)] / best_score for passage in passages]


def _get_headings(cut: Cut, passages: Sequence[Passage]) -> str:
    """Return the titles above a cut, and its own heading."""
    title = passages[cut.position].title
    return title if cut.heading in title else f"{title} > {cut.heading}"


def _get_text(cut: Cut, passages: Sequence[Passage]) -> str:
    return f"{_get_headings(cut, passages)}\n{cut.text}"


async def _compare(
    question: str,
    cuts: Sequence[Cut],
    headings: Sequence[str],
    shares: Sequence[float],
    library: Library,
    *,
    page_scores: Sequence[float],
) -> list[list[float]]:
    """Return the likenesses of each cut: its share of words, and its cosine and those of its titles and best statement.

    The statements are those of the best by the other three; where none is compared, the whole cut stands for it.
    """
    texts = list(dict.fromkeys([*(cut.text for cut in cuts), *headings]))
    cosines = dict(zip(texts, await library.similarity(question, texts), strict=True))
    likenesses = [
        [share, cosines[cut.text], cosines[heading]] for cut, heading, share in zip(cuts, headings, shares, strict=True)
    ]
    order = sorted(range(len(cuts)), key=lambda index: -mean(likenesses[index]) - page_scores[index])
    statements = [
        (index, f"{cuts[index].heading}: {statement.quotation[:MAX_STATEMENT_CHARS]}")
        for index in order[:MAX_BEST_CUTS]
        for statement in cuts[index].statements
    ]
    best = dict.fromkeys(range(len(cuts)), -1.0)
    for (index, _), cosine in zip(
        statements, await library.similarity(question, [text for _, text in statements]), strict=True
    ):
        best[index] = max(best[index], cosine)
    return [[*own, best[index] if index in order[:MAX_BEST_CUTS] else own[1]] for index, own in enumerate(likenesses)]


def _get_page(passage: Passage) -> tuple[str, str]:
    # A result of another service may have no path.
    return passage.source, passage.path or passage.url or passage.id


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
