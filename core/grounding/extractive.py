"""The extractive answer: the best sentences of the evidence, quoted with citations, when no model can write one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import ServiceError
from core.grounding.citations import strip_markers
from core.grounding.evidence import estimate_tokens, passage_ref
from core.observability.logs import get_logger
from core.ports import Library
from core.text.keywords import content_words
from core.types import Passage

MAX_PASSAGES = 5
MAX_CANDIDATES = 40
MAX_QUOTES = 4
MAX_QUOTES_PER_PASSAGE = 2
MAX_CODE_LINES, MIN_CODE_LINES = 12, 3
_MIN_TOKENS, _MAX_CHARS = 5, 400
_WINDOW_CHARS = 300
_DENSE_WEIGHT = 0.6

# The description of a picture is not a sentence of the text.
_IMAGE = r"!\[[^\]\n]{0,300}\]\([^)\s]{0,500}\)"
_BLOCK = re.compile(
    r"(?s:```.*?(?:```|\Z))|" + _IMAGE + r"|^[ \t]*(?:\|.*\||#{1,6}\s.*|[=\-~*^]{3,}|\.\. .*)$", re.MULTILINE
)
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+•]|\d+[.)])\s)")
_SENTENCE_BOUNDARY = re.compile(r"(?<=[.!?])\s+(?=[\"'(`*_A-Z0-9])|(?<=[。！？])")
_TABLE_HEAD = re.compile(r"^[ \t]*\|.*\|[ \t]*\n[ \t]*\|[-:| \t]+\|[ \t]*$", re.MULTILINE)
_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
_LIST_MARKER = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|>|#+)\s+")
_IMPORT = re.compile(r"\s*(?:import|from|package|use|using|#include)\b")
_DOCSTRING = re.compile(r'(?s)[rRbBuUfF]?("""|\'\'\')(.*?)\1')
_COMMENT = re.compile(r"(?m)^[^\S\n]*(?:#|//|\*)\s?(?!!)(.*)$")
PROSE_KINDS = frozenset({"markdown", "rst", "text", "faq", "html"})


@dataclass(frozen=True, slots=True)
class ExtractedSentence:
    """A sentence with the position of its passage (from 0) and how well it fits (0 to 1)."""

    text: str
    position: int
    score: float


async def extract_answer(question: str, passages: Sequence[Passage], library: Library, timeout_s: float = 5.0) -> str:
    """Return Markdown with the sentences that fit the question best, each with its passage's id; empty for none.

    Comparing vectors may take `timeout_s` seconds; after that shared words alone decide.
    """
    quotes = await _get_best_quotes(question, passages, library, timeout_s)
    blocks = [
        f"> {_get_quote_subject(passages[quote.position])}{strip_markers(quote.text)} [{passage_ref(quote.position)}]"
        for quote in quotes
    ]
    # Code without a quote from its passage matched by its names only, and is seldom the answer.
    is_code_relevant = not quotes or any(quote.position == 0 for quote in quotes)
    code = (
        _format_code_block(passages[0]) if is_code_relevant and passages and passages[0].kind not in PROSE_KINDS else ""
    )
    return "\n\n".join([*blocks, f"{code}\n\n[{passage_ref(0)}]"] if code else blocks)


def _get_quote_subject(passage: Passage) -> str:
    """Return the name that a quote from code describes: a docstring rarely repeats it."""
    return "" if passage.kind in PROSE_KINDS else f"`{passage.title.rpartition(' > ')[2]}`: "


async def _get_best_quotes(
    question: str, passages: Sequence[Passage], library: Library, timeout_s: float
) -> list[ExtractedSentence]:
    # By score, not by position: the best passages may be at both ends.
    read_positions = sorted(range(len(passages)), key=lambda position: -passages[position].score)[:MAX_PASSAGES]
    candidates = [
        (sentence, position)
        for position in read_positions
        for sentence in _get_quotable_texts(passages[position])[: MAX_CANDIDATES // max(1, len(read_positions))]
    ]
    if not candidates:
        return []
    similarities: Sequence[float] = [0.0] * len(candidates)
    try:
        async with asyncio.timeout(timeout_s):
            similarities = await library.similarity(question, [sentence for sentence, _ in candidates])
    except (TimeoutError, ServiceError) as error:
        get_logger(__name__).warning("extract.by_words", error=str(error) or f"not in {timeout_s:.1f} s")
    question_words = set(content_words(question))
    ranked_quotes = sorted(
        (
            ExtractedSentence(
                sentence, position, _score_sentence(sentence, similarity, question_words, passages[position].score)
            )
            for (sentence, position), similarity in zip(candidates, similarities, strict=True)
        ),
        key=lambda quote: -quote.score,
    )
    return _select_diverse(ranked_quotes)


def _score_sentence(sentence: str, similarity: float, question_words: set[str], passage_score: float) -> float:
    overlap = len(question_words & set(content_words(sentence))) / max(1, len(question_words))
    relevance = _DENSE_WEIGHT * max(0.0, similarity) + (1 - _DENSE_WEIGHT) * overlap
    return relevance * (0.75 + 0.25 * passage_score)


def _select_diverse(ranked_quotes: Sequence[ExtractedSentence]) -> list[ExtractedSentence]:
    selected_quotes: list[ExtractedSentence] = []
    for quote in ranked_quotes:
        words = set(content_words(quote.text))
        if sum(
            selected_quote.position == quote.position for selected_quote in selected_quotes
        ) >= MAX_QUOTES_PER_PASSAGE or any(
            _is_similar(words, set(content_words(selected_quote.text))) for selected_quote in selected_quotes
        ):
            continue
        if selected_quotes and quote.score < 0.5 * selected_quotes[0].score:
            break
        selected_quotes.append(quote)
        if len(selected_quotes) == MAX_QUOTES:
            break
    return selected_quotes


def _is_similar(words: set[str], other_words: set[str]) -> bool:
    return len(words & other_words) > 0.7 * min(len(words), len(other_words))


def _get_quotable_texts(passage: Passage) -> list[str]:
    """Return the quotable texts of a passage: table rows, and sentences with as many of the next ones as fit."""
    text = passage.text
    if passage.kind == "faq" and len(answer := _get_faq_answer(text)) <= _MAX_CHARS:
        return [answer]
    if passage.kind not in PROSE_KINDS:
        docstrings = [match[2] for match in _DOCSTRING.finditer(text)]
        comments = "\n".join(match[1] for match in _COMMENT.finditer(_DOCSTRING.sub("", text)))
        text = "\n\n".join([*docstrings, comments])
    rows = _ROW.findall(_TABLE_HEAD.sub("", text))
    quotable_texts = [": ".join(cell.strip() for cell in row.split("|") if cell.strip()) for row in rows]
    quotable_texts = [row for row in quotable_texts if _is_quotable(row)]
    for paragraph in _PARAGRAPH.split(_BLOCK.sub("\n\n", text)):
        sentences = _SENTENCE_BOUNDARY.split(" ".join(_LIST_MARKER.sub("", paragraph).split()))
        windows = [_build_window(sentences[start:]) for start in range(len(sentences))]
        quotable_texts += [window for window in windows if _is_quotable(window)]
    return quotable_texts


def _get_faq_answer(entry: str) -> str:
    """Return the answer of a FAQ entry, whose text is the question, an empty line, and the answer."""
    return " ".join(entry.partition("\n\n")[2].split())


def _is_quotable(text: str) -> bool:
    # A character of Chinese says about as much as three of Latin script.
    return estimate_tokens(text) >= _MIN_TOKENS and len(text) <= _MAX_CHARS and len(content_words(text)) > 2


def _build_window(sentences: Sequence[str]) -> str:
    """Return a sentence with those that follow it in its paragraph, as far as they fit: alone it may say too little."""
    window = sentences[0].strip()
    for sentence in sentences[1:]:
        if len(window) + len(sentence) > _WINDOW_CHARS:
            break
        window = f"{window} {sentence.strip()}"
    return window


def _format_code_block(passage: Passage) -> str:
    lines = _DOCSTRING.sub("", passage.text).split("\n")
    lines = [line for line in lines if line.strip()]
    lines = [line for line in lines if not _IMPORT.match(line)]
    if len(lines) < MIN_CODE_LINES:
        return ""
    ellipsis = "\n…" if len(lines) > MAX_CODE_LINES else ""
    return f"```{passage.kind}\n" + "\n".join(lines[:MAX_CODE_LINES]).replace("```", "'''") + f"{ellipsis}\n```"
