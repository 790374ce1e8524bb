"""The citation check: a sentence whose cited passage does not support it loses that citation.

Words, numbers, names and negations decide most cases (`core.citations.support`); the library compares vectors for the
others. The citation stays when there are no vectors, the passage is in another language, or time runs out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from core.citations.markers import Claim, ResolvedCitations, extract_claims, resolve_markers
from core.citations.support import PassageFeatures, SupportVerdict, check_support, get_idf_weights, is_comparable
from core.errors import ServiceError
from core.language.facts import extract_stems
from core.language.prose import split_sentences
from core.observability.logs import get_logger
from core.ports import Library
from core.runtime.budget import Budget
from core.runtime.tasks import CpuTurnstile
from core.settings import Settings
from core.types import Passage

_log = get_logger(__name__)

# A claim that is less similar than this to every sentence of a passage is about something else. Chosen on one half of
# tests/core/data/citations.jsonl and confirmed on the other: docs/evaluate.md.
MIN_SIMILARITY = 0.25
_MAX_COMPARED_SENTENCES = 5
_MAX_COMPARED_CHARS = 1000
# With vectors its similarity to a claim is never exactly 0; without vectors it is, because it shares no word with any.
_PROBE = "?"

COMPARE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class CitationCheck:
    """The result of a check: the rejected citations, as pairs of the marker's index in `find_markers` and a position.

    `has_overrun` says that some citations could not be compared in time; they stay.
    """

    rejections: frozenset[tuple[int, int]]
    has_overrun: bool = False


@dataclass(frozen=True, slots=True)
class _UndecidedCitation:
    """A citation that needs a comparison of vectors."""

    rejection: tuple[int, int]
    claim_texts: tuple[str, ...]
    features: PassageFeatures


class CheckDependencies(Protocol):
    """The part of an answer's dependencies that the support check needs."""

    @property
    def settings(self) -> Settings:
        """The configuration: `evidence.support_check` may switch the check off."""
        ...

    @property
    def library(self) -> Library:
        """Compares texts by their vectors."""
        ...

    @property
    def turnstile(self) -> CpuTurnstile:
        """Lets steps that hold the event loop for some milliseconds take turns."""
        ...


async def verify_citations(
    text: str,
    passages: Sequence[Passage],
    deps: CheckDependencies,
    budget: Budget,
    *,
    question: str = "",
    allow_bare: bool = True,
) -> ResolvedCitations:
    """Resolve the citation markers of an answer, without those whose passage does not support its sentence.

    Comparing vectors has a share of the budget; when it takes longer, the stage `support` is degraded and the citations
    in question stay.
    """
    if not passages or deps.settings.evidence.support_check == "none":
        return resolve_markers(text, passages, allow_bare=allow_bare)
    with budget.timed("support"):
        timeout_s = min(COMPARE_TIMEOUT_S, budget.share("look_back"))
        check = await find_unsupported(
            text, passages, deps.library, timeout_s, question=question, allow_bare=allow_bare, turnstile=deps.turnstile
        )
    if check.has_overrun:
        budget.degrade("support", "late")
    return resolve_markers(text, passages, check.rejections, allow_bare=allow_bare)


async def find_unsupported(
    text: str,
    passages: Sequence[Passage],
    library: Library | None,
    timeout_s: float = COMPARE_TIMEOUT_S,
    *,
    question: str = "",
    allow_bare: bool = True,
    turnstile: CpuTurnstile | None = None,
) -> CitationCheck:
    """Return the citations of a text that its passages do not support.

    What the question itself says needs no support. Comparing vectors may take `timeout_s` seconds; without a library
    only words decide. `allow_bare` is that of `find_markers`; `turnstile` runs the comparison of words in a thread.
    """
    # A long answer takes some milliseconds: too long for the event loop.
    rejections, undecided_citations = await (turnstile or CpuTurnstile()).run_in_thread(
        _compare_words, text, passages, question, allow_bare
    )
    if library is None or not undecided_citations:
        return CitationCheck(frozenset(rejections))
    try:
        async with asyncio.timeout(timeout_s):
            for citation in undecided_citations:
                if all(
                    [
                        await _is_dissimilar(claim_text, citation.features, library)
                        for claim_text in citation.claim_texts
                    ]
                ):
                    rejections.add(citation.rejection)
    except (TimeoutError, ServiceError) as error:
        # The citations rejected so far are fully decided.
        _log.warning("support.without_vectors", error=str(error) or f"not in {timeout_s:.1f} s")
        return CitationCheck(frozenset(rejections), has_overrun=True)
    return CitationCheck(frozenset(rejections))


def _compare_words(
    text: str, passages: Sequence[Passage], question: str, allow_bare: bool
) -> tuple[set[tuple[int, int]], list[_UndecidedCitation]]:
    all_claims = extract_claims(text, allow_bare=allow_bare)
    cited_positions = {
        position for claim in all_claims for position in claim.positions if 0 <= position < len(passages)
    }
    if not cited_positions:
        return set(), []
    passage_features = [PassageFeatures(passage) for passage in passages]
    idf = get_idf_weights(passage_features)

    # Many claims may share a sentence or a block: each text is compared once.
    @cache
    def check_text(text: str, position: int) -> SupportVerdict:
        return check_support(text, passage_features[position], idf, question)

    @cache
    def is_text_comparable(text: str, position: int) -> bool:
        return is_comparable(text, passage_features[position])

    rejections: set[tuple[int, int]] = set()
    undecided_citations: list[_UndecidedCitation] = []
    for claim in all_claims:
        for position in sorted(cited_positions.intersection(claim.positions)):
            verdict = _judge_by_words(claim, position, check_text)
            if verdict == "no":
                rejections.add((claim.marker_index, position))
            elif verdict == "unsure" and all(is_text_comparable(claim_text, position) for claim_text in claim.texts):
                undecided_citations.append(
                    _UndecidedCitation((claim.marker_index, position), claim.texts, passage_features[position])
                )
    return rejections, undecided_citations


def _judge_by_words(claim: Claim, position: int, check_text: Callable[[str, int], SupportVerdict]) -> SupportVerdict:
    verdicts = {check_text(text, position) for text in claim.texts}
    if "yes" in verdicts or verdicts == {"no"}:
        return "yes" if "yes" in verdicts else "no"
    context_verdicts = {check_text(context, position) for context in claim.context}
    return "yes" if "yes" in context_verdicts else "unsure"


async def _is_dissimilar(claim_text: str, features: PassageFeatures, library: Library) -> bool:
    claim_stems = set(extract_stems(claim_text))
    nearest_sentences = sorted(
        split_sentences(features.body), key=lambda sentence: -len(claim_stems & set(extract_stems(sentence)))
    )[:_MAX_COMPARED_SENTENCES]
    *similarities, probe_similarity = await library.similarity(
        claim_text, [*nearest_sentences, features.body[:_MAX_COMPARED_CHARS], _PROBE]
    )
    if probe_similarity == 0:
        return False
    return max(similarities) < MIN_SIMILARITY
