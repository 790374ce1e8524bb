"""The support check: a sentence whose cited passage does not support it loses that citation.

Words, numbers, names and denials decide most (`core.grounding.support`); where they do not tell, meaning does, as the
library compares it. Without vectors, in another language than the passage's, or out of time, the citation stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.errors import ServiceError
from core.grounding.citations import Cited, Claim, claims, resolve, sentences
from core.grounding.fact_extraction import terms
from core.grounding.support import Known, Verdict, comparable, judge, rarities
from core.observability.logs import logger
from core.ports import Library
from core.runtime.budget import Budget
from core.runtime.tasks import Turns
from core.settings import Settings
from core.types import Passage

# A claim less alike than this to all that a passage says is about something else. Chosen on one half of
# tests/core/data/citations.jsonl and confirmed on the other: docs/evaluate.md.
DIFFERENT = 0.25
_COMPARED_SENTENCES, _COMPARED_CHARS = 5, 1000
# With vectors hardly anything is exactly 0 away from a claim; without them this shares no word with any.
_PROBE = "?"

SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """What a check found: the refused citations, each the place of its mark in `marks(text)` and a position it names.

    `overran` says that some could not be compared in time, and were kept.
    """

    refused: frozenset[tuple[int, int]]
    overran: bool = False


@dataclass(frozen=True, slots=True)
class _Open:
    """A citation that words alone cannot decide."""

    refused: tuple[int, int]
    said: tuple[str, ...]
    known: Known


class CheckDependencies(Protocol):
    """What the support check needs of an answer's dependencies."""

    @property
    def settings(self) -> Settings:
        """The configuration: `evidence.support_check` may switch the check off."""
        ...

    @property
    def library(self) -> Library:
        """Compares texts by meaning where words alone do not tell."""
        ...

    @property
    def turns(self) -> Turns:
        """Lets steps that hold the event loop for some milliseconds take turns."""
        ...


async def resolve_supported(
    text: str,
    passages: Sequence[Passage],
    parts: CheckDependencies,
    budget: Budget,
    *,
    asked: str = "",
    bare: bool = True,
) -> Cited:
    """Resolve the marks of an answer, without those whose passages do not support what they stand behind.

    Comparing meanings gets a share of the budget; when it is too slow, the stage `support` is cut.
    """
    if parts.settings.evidence.support_check == "none":
        return resolve(text, passages, bare=bare)
    with budget.timed("support"):
        seconds = min(SECONDS, budget.share("look_back"))
        check = await unsupported(text, passages, parts.library, seconds, asked=asked, bare=bare, turns=parts.turns)
    if check.overran:
        budget.cut_off("support", "late")
    return resolve(text, passages, check.refused, bare=bare)


async def unsupported(
    text: str,
    passages: Sequence[Passage],
    library: Library | None,
    seconds: float = SECONDS,
    *,
    asked: str = "",
    bare: bool = True,
    turns: Turns | None = None,
) -> Check:
    """Return the citations of a text that its passages do not support.

    `asked` is the question: what it says itself needs no support. Comparing meanings may take `seconds`; without a
    library only words decide. `bare` as for `core.citations.marks`. Words are compared by `turns`.
    """
    # Some milliseconds for a long answer: longer than the event loop should wait.
    refused, undecided = await (turns or Turns()).aside(_compare_words, text, passages, asked, bare)
    if library is None or not undecided:
        return Check(frozenset(refused))
    try:
        async with asyncio.timeout(seconds):
            for one in undecided:
                if all([await _unlike(said, one.known, library) for said in one.said]):
                    refused.add(one.refused)
    except (TimeoutError, ServiceError) as fault:
        # Those refused so far were decided in full.
        logger(__name__).warning("support.by_words", error=str(fault) or f"not in {seconds:.1f} s")
        return Check(frozenset(refused), overran=True)
    return Check(frozenset(refused))


def _compare_words(
    text: str, passages: Sequence[Passage], asked: str, bare: bool
) -> tuple[set[tuple[int, int]], list[_Open]]:
    found = claims(text, bare=bare)
    cited = {position for claim in found for position in claim.positions if 0 <= position < len(passages)}
    if not cited:
        return set(), []
    known = [Known(passage) for passage in passages]
    rarity = rarities(known)
    refused: set[tuple[int, int]] = set()
    undecided: list[_Open] = []
    for claim in found:
        for position in sorted(cited.intersection(claim.positions)):
            verdict = _by_words(claim, known[position], rarity, asked)
            if verdict == "no":
                refused.add((claim.place, position))
            elif verdict == "unsure" and all(comparable(said, known[position]) for said in claim.said):
                undecided.append(_Open((claim.place, position), claim.said, known[position]))
    return refused, undecided


def _by_words(claim: Claim, known: Known, rarity: Mapping[str, float], asked: str) -> Verdict:
    verdicts = {judge(said, known, rarity, asked) for said in claim.said}
    if "yes" in verdicts or verdicts == {"no"}:
        return "yes" if "yes" in verdicts else "no"
    around = {judge(context, known, rarity, asked) for context in claim.context}
    return "yes" if "yes" in around else "unsure"


async def _unlike(said: str, known: Known, library: Library) -> bool:
    wanted = set(terms(said))
    nearest = sorted(sentences(known.body), key=lambda one: -len(wanted & set(terms(one))))[:_COMPARED_SENTENCES]
    *closeness, probe = await library.similarity(said, [*nearest, known.body[:_COMPARED_CHARS], _PROBE])
    if probe == 0:
        return False
    return max(closeness) < DIFFERENT
