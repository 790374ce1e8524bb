"""The extractive answer: the best sentences of the evidence, quoted with citations, when no model can write one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import ServiceError
from core.grounding.citations import without_marks
from core.grounding.evidence import estimate_tokens, handle
from core.observability.logs import logger
from core.ports import Library
from core.text.keywords import content_words
from core.types import Passage

PASSAGES_READ = 5
SENTENCES_READ = 40
SENTENCES_QUOTED = 4
SENTENCES_PER_PASSAGE = 2
CODE_LINES_QUOTED, CODE_LINES_WORTH_QUOTING = 12, 3
_MIN_TOKENS, _MAX_CHARS = 5, 400
_WINDOW_CHARS = 300
_DENSE_WEIGHT = 0.6

# What a picture shows is no sentence of the text.
_PICTURE = r"!\[[^\]\n]{0,300}\]\([^)\s]{0,500}\)"
_BLOCK = re.compile(
    r"(?s:```.*?(?:```|\Z))|" + _PICTURE + r"|^[ \t]*(?:\|.*\||#{1,6}\s.*|[=\-~*^]{3,}|\.\. .*)$", re.MULTILINE
)
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+•]|\d+[.)])\s)")
_ENDING = re.compile(r"(?<=[.!?])\s+(?=[\"'(`*_A-Z0-9])|(?<=[。！？])")
_TABLE_HEAD = re.compile(r"^[ \t]*\|.*\|[ \t]*\n[ \t]*\|[-:| \t]+\|[ \t]*$", re.MULTILINE)
_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
_LEAD = re.compile(r"^\s*(?:[-*+•]|\d+[.)]|>|#+)\s+")
_IMPORT = re.compile(r"\s*(?:import|from|package|use|using|#include)\b")
_DOCSTRING = re.compile(r'(?s)[rRbBuUfF]?("""|\'\'\')(.*?)\1')
_COMMENT = re.compile(r"(?m)^[^\S\n]*(?:#|//|\*)\s?(?!!)(.*)$")
PROSE_KINDS = frozenset({"markdown", "rst", "text", "faq", "html"})


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence with the position of its passage (from 0) and how well it fits (0 to 1)."""

    text: str
    position: int
    score: float


async def extract(question: str, passages: Sequence[Passage], library: Library, seconds: float = 5.0) -> str:
    """Return Markdown that quotes what fits the question best, each quote with its passage's id; empty for none.

    Comparing meanings may take `seconds`; after that shared words alone decide.
    """
    quotes = await _best_quotes(question, passages, library, seconds)
    blocks = [
        f"> {_about(passages[quote.position])}{without_marks(quote.text)} [{handle(quote.position)}]"
        for quote in quotes
    ]
    # Code that nothing was quoted about was found by its names, and seldom answers.
    fits = not quotes or any(quote.position == 0 for quote in quotes)
    code = _code_block(passages[0]) if fits and passages and passages[0].kind not in PROSE_KINDS else ""
    return "\n\n".join([*blocks, f"{code}\n\n[{handle(0)}]"] if code else blocks)


def _about(passage: Passage) -> str:
    """Return what a quote from code is about: a docstring rarely repeats the name of what it describes."""
    return "" if passage.kind in PROSE_KINDS else f"`{passage.title.rpartition(' > ')[2]}`: "


async def _best_quotes(question: str, passages: Sequence[Passage], library: Library, seconds: float) -> list[Quote]:
    # By their use, not by their place: the best may have been put at both ends.
    read = sorted(range(len(passages)), key=lambda position: -passages[position].score)[:PASSAGES_READ]
    candidates = [
        (sentence, position)
        for position in read
        for sentence in _sentences(passages[position])[: SENTENCES_READ // max(1, len(read))]
    ]
    if not candidates:
        return []
    closeness: Sequence[float] = [0.0] * len(candidates)
    try:
        async with asyncio.timeout(seconds):
            closeness = await library.similarity(question, [sentence for sentence, _ in candidates])
    except (TimeoutError, ServiceError) as fault:
        logger(__name__).warning("extract.by_words", error=str(fault) or f"not in {seconds:.1f} s")
    wanted = set(content_words(question))
    ranked = sorted(
        (
            Quote(sentence, position, _fit(sentence, close, wanted, passages[position].score))
            for (sentence, position), close in zip(candidates, closeness, strict=True)
        ),
        key=lambda quote: -quote.score,
    )
    return _diverse(ranked)


def _fit(sentence: str, closeness: float, wanted: set[str], passage_score: float) -> float:
    shared = len(wanted & set(content_words(sentence))) / max(1, len(wanted))
    fit = _DENSE_WEIGHT * max(0.0, closeness) + (1 - _DENSE_WEIGHT) * shared
    return fit * (0.75 + 0.25 * passage_score)


def _diverse(ranked: Sequence[Quote]) -> list[Quote]:
    chosen: list[Quote] = []
    for quote in ranked:
        words = set(content_words(quote.text))
        if sum(one.position == quote.position for one in chosen) >= SENTENCES_PER_PASSAGE or any(
            _alike(words, set(content_words(one.text))) for one in chosen
        ):
            continue
        if chosen and quote.score < 0.5 * chosen[0].score:
            break
        chosen.append(quote)
        if len(chosen) == SENTENCES_QUOTED:
            break
    return chosen


def _alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) > 0.7 * min(len(one), len(other))


def _sentences(passage: Passage) -> list[str]:
    """Return what can be quoted of a passage: sentences, each with as much of what follows as fits, and table rows."""
    text = passage.text
    if passage.kind == "faq" and len(answer := _answer_of(text)) <= _MAX_CHARS:
        return [answer]
    if passage.kind not in PROSE_KINDS:
        prose = [match[2] for match in _DOCSTRING.finditer(text)]
        comments = "\n".join(match[1] for match in _COMMENT.finditer(_DOCSTRING.sub("", text)))
        text = "\n\n".join([*prose, comments])
    rows = _ROW.findall(_TABLE_HEAD.sub("", text))
    found = [": ".join(cell.strip() for cell in row.split("|") if cell.strip()) for row in rows]
    found = [row for row in found if _is_quotable(row)]
    for paragraph in _PARAGRAPH.split(_BLOCK.sub("\n\n", text)):
        parts = _ENDING.split(" ".join(_LEAD.sub("", paragraph).split()))
        windows = [_window(parts[at:]) for at in range(len(parts))]
        found += [one for one in windows if _is_quotable(one)]
    return found


def _answer_of(entry: str) -> str:
    """Return the answer of a FAQ entry, whose text is the question, an empty line, and the answer."""
    return " ".join(entry.partition("\n\n")[2].split())


def _is_quotable(text: str) -> bool:
    # A character of Chinese says about as much as three of Latin script.
    return estimate_tokens(text) >= _MIN_TOKENS and len(text) <= _MAX_CHARS and len(content_words(text)) > 2


def _window(parts: Sequence[str]) -> str:
    """Return a sentence with those that follow it in its paragraph, as far as they fit: alone it may say too little."""
    window = parts[0].strip()
    for part in parts[1:]:
        if len(window) + len(part) > _WINDOW_CHARS:
            break
        window = f"{window} {part.strip()}"
    return window


def _code_block(passage: Passage) -> str:
    lines = _DOCSTRING.sub("", passage.text).split("\n")
    lines = [line for line in lines if line.strip()]
    lines = [line for line in lines if not _IMPORT.match(line)]
    if len(lines) < CODE_LINES_WORTH_QUOTING:
        return ""
    more = "\n…" if len(lines) > CODE_LINES_QUOTED else ""
    return f"```{passage.kind}\n" + "\n".join(lines[:CODE_LINES_QUOTED]).replace("```", "'''") + f"{more}\n```"
