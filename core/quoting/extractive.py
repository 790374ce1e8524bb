"""The extractive answer: the best sentences of the evidence, quoted with citations, when no model can write one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from core.citations.markers import strip_markers, to_name
from core.errors import ServiceError
from core.evidence.ranking import NON_CODE_KINDS
from core.evidence.rendering import passage_ref
from core.language.question_matching import normalize
from core.language.tokens import count_cjk
from core.markup.document import Block
from core.markup.writer import write_markdown
from core.observability.logs import get_logger
from core.ports import Library
from core.quoting.passage_quotables import MAX_CODE_LINES, get_passage_quotables
from core.quoting.quotable import Quotable
from core.quoting.subject import QuoteRequest, Subject, tokenize
from core.types import Passage

_log = get_logger(__name__)

MAX_PASSAGES = 8
MAX_CANDIDATES = 60
MAX_QUOTES = 3
MAX_QUOTES_PER_PASSAGE = 2
# The best passage must have this share of the question's words, weighted by how rare they are, to be quoted at all.
MIN_COVERAGE = 0.5
# A setting must have this share itself: what stands beside it in its file is about something else.
MIN_SETTING_COVERAGE = 0.33
# A further quote must fit this well, compared with the best.
MIN_RELATIVE_SCORE = 0.75
# Where no passage has enough of the question's words, a piece must be so much nearer to it than its passage has to be,
# and have this share of its words. A further quote must fit this well, compared with the best.
SENTENCE_MARGIN = 0.07
MIN_SIMILAR_COVERAGE = 0.1
MIN_SIMILAR_SCORE = 0.85
MAX_SIMILAR_QUOTES = 2
_WORDS_WEIGHT = 0.3
# How well code must fit, compared with the best, in the passage whose prose fits best.
MIN_EXAMPLE_SCORE = 0.4
_DENSE_WEIGHT = 0.4
_RANK_WEIGHT = 0.25
_CODE_BONUS = 0.1
_CODE_FACTOR = 0.75
# What the first piece gains below a heading that is the question.
_ANSWER_BONUS = 0.5

# Another language than the question's, and prose that only says where else to look or goes on with another sentence.
_FOREIGN_FACTOR = 0.7
_REFERRAL_FACTOR = 0.6

_REFERRAL = re.compile(
    r"^(?:which|where|whose)\b[^?]{0,120}:$"
    r"|^(?:[^.!?]{0,60}\b)?(?:refer to|see(?: also)?|take a look at)\b[^.!?]{0,120}[.!]?$"
    r"|^(?:the )?(?:following )?(?:examples?|sections?|steps) below\b[^.!?]{0,120}[.!:]?$"
    r"|^.{0,20}(?:请按照|请参考|请参阅|参见).{0,60}$",
    re.IGNORECASE,
)
# A heading of one word is a name if it looks like code.
_NAME = re.compile(
    r"(?:--?)?[A-Za-z](?=\w*[._-]\w)\w*+(?>(?:[.-]\w++)*)|[A-Za-z][a-z]*+[A-Z]\w*|[A-Z][A-Z0-9]{2,}|[a-z]\w*"
)
_PROBLEM = re.compile(r"(?:the )?(?:problem|symptom|issue|question|error)s?\W?|问题(?:描述|现象)?|现象", re.IGNORECASE)
_SOLUTION = re.compile(
    r"(?:the |how to )?(?:solutions?|resolve|resolutions?|fix|workaround|answers?|mitigation)\W?"
    r"|(?:解决|处理)(?:方法|方案|办法)?|答案?",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?:。！？：]['\"`)*_\]」』）”’】》]{0,4}$")
_HEADING_NUMBER = re.compile(r"^\d+(?:\.\d+)*[.)]?\s+")
# Sentences that announce code without saying of what.
_BARE_ANNOUNCEMENT = re.compile(
    r"(?:(?:for|here is|an?|some|usage|basic|simple)\s+)*(?:examples?|usages?)(?: usage)?[:.]"
    r"|(?:示例|例如|例子|比如|用法)(?:如下)?[:：。]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A piece of the passage at a position (from 0); `context` are the tokens of its titles."""

    quotable: Quotable
    position: int
    context: frozenset[str]
    is_prose: bool


@dataclass(frozen=True, slots=True)
class ScoredQuote:
    """A candidate, how well it fits (0 to about 1), its tokens, and the cosine of it and its heading (0: unknown).

    `is_asked_for`: it is the first piece below a heading that is the question.
    """

    candidate: Candidate
    score: float
    tokens: frozenset[str]
    similarity: float = 0.0
    is_asked_for: bool = False


async def extract_answer(question: str, passages: Sequence[Passage], library: Library, timeout_s: float = 5.0) -> str:
    """Return Markdown with what fits the question best, each piece with its passage's id; empty when nothing does.

    The passages are ranked, best first. Comparing vectors may take `timeout_s` seconds; after that shared words alone
    decide.
    """
    passages = passages[:MAX_PASSAGES]
    request = await QuoteRequest.open(question, library, timeout_s)
    candidates = get_candidates(
        passages,
        [position for position, passage in enumerate(passages) if request.get_coverage(passage) >= MIN_COVERAGE],
    )
    ranked_quotes = await rank_candidates(request, candidates, library) if candidates else []
    return _render_all(_select(request, ranked_quotes), passages) if ranked_quotes else ""


async def extract_similar(
    question: str, passages: Sequence[Passage], library: Library, min_similarity: float, timeout_s: float = 5.0
) -> str:
    """Return Markdown with the pieces that mean what the question asks in other words; empty when there are none.

    For a question of which no passage has enough words. Only passages of `min_similarity` count, the cosine with the
    question, and of them only pieces that are nearer still: those about something else share some words at best.
    """
    passages = passages[:MAX_PASSAGES]
    request = await QuoteRequest.open(question, library, timeout_s)
    near_positions = [position for position, passage in enumerate(passages) if passage.similarity >= min_similarity]
    ranked_quotes = (
        await rank_candidates(request, get_candidates(passages, near_positions), library) if near_positions else []
    )
    similar_quotes = sorted(
        filter(None, (_score_meaning(request, quote, min_similarity) for quote in ranked_quotes)),
        key=lambda quote: -quote.score,
    )
    return (
        _render_all(_select(request, similar_quotes, MIN_SIMILAR_SCORE)[:MAX_SIMILAR_QUOTES], passages)
        if similar_quotes
        else ""
    )


def _score_meaning(request: QuoteRequest, quote: ScoredQuote, min_similarity: float) -> ScoredQuote | None:
    """Return a quote with the score of its meaning; None where it is not near enough, or no sentence."""
    coverage = request.subject.get_coverage(quote.tokens)
    is_near = quote.similarity >= min_similarity + SENTENCE_MARGIN and coverage >= MIN_SIMILAR_COVERAGE
    quotable = quote.candidate.quotable
    is_sentence = bool(quotable.code or quotable.items or _SENTENCE_END.search(quotable.text))
    is_sentence &= bool(quotable.code) or not _REFERRAL.search(quotable.text)
    return replace(quote, score=quote.similarity + _WORDS_WEIGHT * coverage) if is_near and is_sentence else None


def _render_all(quotes: list[ScoredQuote], passages: Sequence[Passage]) -> str:
    quotes = sorted(quotes, key=_get_place)
    return "\n\n".join(_render(quote, passages[quote.candidate.position]) for quote in quotes)


def _get_place(quote: ScoredQuote) -> tuple[bool, int, int]:
    return not quote.is_asked_for, quote.candidate.position, min(quote.candidate.quotable.sentences)


def get_candidates(passages: Sequence[Passage], positions: Collection[int]) -> list[Candidate]:
    """Return everything quotable of the passages at these positions."""
    return [
        Candidate(
            quotable,
            position,
            tokenize(f"{quotable.heading} {passages[position].title}"),
            passages[position].kind in NON_CODE_KINDS and not quotable.is_setting,
        )
        for position in positions
        for quotable in get_passage_quotables(passages[position])
    ]


async def rank_candidates(
    question: QuoteRequest, candidates: Sequence[Candidate], library: Library
) -> list[ScoredQuote]:
    """Return the candidates with their scores, best first; a setting only if it is what the question is about."""
    candidates = [candidate for candidate in candidates if _has_subject(question.subject, candidate)]
    tokens = [tokenize(candidate.quotable.content) for candidate in candidates]
    overlaps = [
        _score_words(question.subject, candidate, candidate_tokens)
        for candidate, candidate_tokens in zip(candidates, tokens, strict=True)
    ]
    # Comparing vectors takes time: only for those that share the most words.
    best = sorted(range(len(candidates)), key=lambda index: -overlaps[index])[:MAX_CANDIDATES]
    texts = [f"{candidates[index].quotable.heading}. {candidates[index].quotable.text}" for index in best]
    similarities: Sequence[float] = [0.0] * len(best)
    try:
        async with asyncio.timeout(question.timeout_s):
            similarities = await library.similarity(question.text, texts)
    except (TimeoutError, ServiceError) as error:
        _log.warning("extract.without_vectors", error=str(error) or f"not in {question.timeout_s:.1f} s")
    quotes = []
    for index, similarity in zip(best, similarities, strict=True):
        candidate = candidates[index]
        score = (1 - _DENSE_WEIGHT) * overlaps[index] + _DENSE_WEIGHT * max(0.0, similarity)
        score *= 1 - _RANK_WEIGHT * min(1.0, candidate.position / MAX_PASSAGES)
        is_asked_for = not candidate.quotable.rank and normalize(candidate.quotable.heading) == normalize(question.text)
        score += _ANSWER_BONUS if is_asked_for else 0.0
        if candidate.is_prose:
            score += _CODE_BONUS if question.wants_code and candidate.quotable.code else 0.0
        elif not question.names_code:
            score *= _CODE_FACTOR
        if _REFERRAL.search(candidate.quotable.text) and not candidate.quotable.code:
            score *= _REFERRAL_FACTOR
        prose = candidate.quotable.text
        if prose and bool(count_cjk(prose)) != bool(count_cjk(question.text)):
            score *= _FOREIGN_FACTOR
        quotes.append(ScoredQuote(candidate, score, tokens[index], similarity, is_asked_for))
    return sorted(quotes, key=lambda quote: -quote.score)


def _has_subject(subject: Subject, candidate: Candidate) -> bool:
    """Return whether a candidate may be quoted: a setting has the subject itself, not only its passage."""
    quotable = candidate.quotable
    tokens = tokenize(f"{quotable.heading}\n{quotable.content}") if quotable.is_setting else frozenset()
    return not quotable.is_setting or subject.get_coverage(tokens) >= MIN_SETTING_COVERAGE


def _score_words(subject: Subject, candidate: Candidate, tokens: frozenset[str]) -> float:
    """Return how much of the subject a candidate has. The first piece below a matching heading fits best."""
    heading_coverage = subject.get_coverage(tokenize(candidate.quotable.heading))
    own_coverage = subject.get_coverage(tokens)
    context_coverage = subject.get_coverage(tokens | candidate.context)
    return 0.5 * own_coverage + 0.2 * context_coverage + 0.3 * heading_coverage / (1 + candidate.quotable.rank)


def _select(
    question: QuoteRequest, ranked_quotes: Sequence[ScoredQuote], min_relative_score: float = MIN_RELATIVE_SCORE
) -> list[ScoredQuote]:
    """Return the best quotes that say different things.

    When the question asks how, the best quote brings what shows it. A quote that states a problem brings the solution
    that stands below it.
    """
    selected_quotes: list[ScoredQuote] = []
    for quote in ranked_quotes:
        if selected_quotes and quote.score < min_relative_score * selected_quotes[0].score:
            break
        if len(selected_quotes) < MAX_QUOTES and _adds_something(quote, selected_quotes):
            selected_quotes.append(quote)
    if question.wants_code:
        selected_quotes = _with_example(selected_quotes, ranked_quotes)
    return _with_solution(selected_quotes, ranked_quotes)


def _with_example(selected_quotes: list[ScoredQuote], ranked_quotes: Sequence[ScoredQuote]) -> list[ScoredQuote]:
    """Return the quotes with what shows how it is done, where no quote of the best one's passage does.

    That is the code that follows in its section, else the best code of its passage, else the list that follows.
    """
    best = selected_quotes[0]
    if any(_is_from_passage(quote, best) and _has_example(quote) for quote in selected_quotes):
        return selected_quotes
    following_quotes = sorted((quote for quote in ranked_quotes if _is_following(quote, best)), key=_get_place)
    examples = (
        *(quote for quote in following_quotes if quote.candidate.quotable.code),
        *(quote for quote in ranked_quotes if _is_example(quote, best)),
        *following_quotes,
    )
    example = next((quote for quote in examples if not _is_repeated(quote, best)), None)
    if example is None:
        return selected_quotes
    other_quotes = [quote for quote in selected_quotes[1:] if not _is_repeated(quote, example)]
    return [best, example, *other_quotes][:MAX_QUOTES]


def _is_from_passage(quote: ScoredQuote, other: ScoredQuote) -> bool:
    return quote.candidate.position == other.candidate.position


def _has_example(quote: ScoredQuote) -> bool:
    return bool(quote.candidate.quotable.code or quote.candidate.quotable.items)


def _is_following(quote: ScoredQuote, best: ScoredQuote) -> bool:
    """Return whether a quote is code or a list below the best one in its section."""
    piece = quote.candidate.quotable
    best_piece = best.candidate.quotable
    is_in_section = _is_from_passage(quote, best) and piece.heading == best_piece.heading
    return is_in_section and _has_example(quote) and min(piece.sentences) > max(best_piece.sentences)


def _with_solution(selected_quotes: list[ScoredQuote], ranked_quotes: Sequence[ScoredQuote]) -> list[ScoredQuote]:
    """Return the quotes with the best piece of the solution, where the best one states the problem of a passage."""
    best = selected_quotes[0]
    if not _PROBLEM.fullmatch(best.candidate.quotable.heading):
        return selected_quotes
    solution = next((quote for quote in ranked_quotes if _is_solution(quote, best)), None)
    if solution is None or solution in selected_quotes:
        return selected_quotes
    other_quotes = [quote for quote in selected_quotes[1:] if quote.candidate.position != best.candidate.position]
    return [best, solution, *other_quotes][:MAX_QUOTES]


def _is_solution(quote: ScoredQuote, best: ScoredQuote) -> bool:
    return _is_from_passage(quote, best) and bool(_SOLUTION.fullmatch(quote.candidate.quotable.heading))


def _is_example(quote: ScoredQuote, best: ScoredQuote) -> bool:
    """Return whether a quote is the code that belongs to the best one, which has none."""
    is_near = _is_from_passage(quote, best)
    return is_near and bool(quote.candidate.quotable.code) and quote.score >= MIN_EXAMPLE_SCORE * best.score


def _adds_something(quote: ScoredQuote, selected_quotes: Sequence[ScoredQuote]) -> bool:
    if any(_is_repeated(quote, other) for other in selected_quotes):
        return False
    return (
        sum(other.candidate.position == quote.candidate.position for other in selected_quotes) < MAX_QUOTES_PER_PASSAGE
    )


def _is_repeated(quote: ScoredQuote, other: ScoredQuote) -> bool:
    candidate, other_candidate = quote.candidate, other.candidate
    if (
        candidate.position == other_candidate.position
        and candidate.quotable.sentences & other_candidate.quotable.sentences
    ):
        return True
    # A longer quote that has all words of a short one says more than it.
    return len(quote.tokens & other.tokens) > 0.7 * len(quote.tokens)


def _render(quote: ScoredQuote, passage: Passage) -> str:
    quotable = quote.candidate.quotable
    reference = f"[{passage_ref(quote.candidate.position)}]"
    text = strip_markers(quotable.shown_text)
    if quotable.heading and _BARE_ANNOUNCEMENT.fullmatch(text):
        text = ""
    subject = _get_quote_subject(quotable, passage)
    # Code or a list without an introducing sentence is announced by its heading.
    heading = _HEADING_NUMBER.sub("", strip_markers(quotable.heading)).rstrip(":：")
    lines = [f"{subject}: {text}" if subject and text else text or subject or (f"{heading}:" if heading else "")]
    lines += [f"- {strip_markers(item)}" for item in quotable.items]
    quotation = "\n".join(f"> {line}" for line in lines) + f" {reference}"
    return f"{quotation}\n\n{_format_code_block(quotable.code, quotable.language)}" if quotable.code else quotation


def _get_quote_subject(quotable: Quotable, passage: Passage) -> str:
    """Return the name that a quote describes, as code: the text below a name seldom repeats it."""
    if quotable.is_setting:
        return f"`{quotable.heading or to_name(passage.path)}`"
    is_code = passage.kind not in NON_CODE_KINDS
    name = to_name(passage.title.rpartition(" > ")[2] if is_code else quotable.heading)
    return f"`{name}`" if (is_code or _NAME.fullmatch(name)) and name not in quotable.text else ""


def _format_code_block(code: str, language: str) -> str:
    lines = code.split("\n")
    ellipsis = ["…"] if len(lines) > MAX_CODE_LINES else []
    name = language if re.fullmatch(r"[\w+#.-]{1,20}", language) else ""
    shown_code = "\n".join([*lines[:MAX_CODE_LINES], *ellipsis])
    return write_markdown([Block("code", shown_code, language=name)])
