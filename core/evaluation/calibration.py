"""The threshold that suits the labelled messages of one chat, by the weights that are configured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from core.evaluation.gate import (
    Case,
    Judged,
    best_threshold,
    cross_validated,
    judge,
    refuse_too_few,
    spoken_scores,
)
from core.evaluation.scores import Counts, Scores
from core.ports import Library
from core.settings import Settings

# A search for each: the newest ones tell most about a chat, and so many take seconds.
MOST = 500
_MORE = "Rate answers in this chat: 👍 makes a question one to answer, 👎 one to leave alone."


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The `fitted` threshold beside the one `before`, and the scores of both on the same labelled messages.

    `crossed` is by cross-validation: every message with the threshold that the other messages give. `answer` messages
    deserved their answer and `leave` did not; `by_words` of them are decided by their words alone.
    """

    answer: int
    leave: int
    by_words: int
    before: float
    fitted: float
    present: Scores
    crossed: Scores

    @property
    def better(self) -> bool:
        """Whether fitting does better than the threshold before, on messages that were not fitted to."""
        return self.fitted != self.before and _worth(self.crossed.counts) > _worth(self.present.counts)

    @property
    def after(self) -> float:
        """The threshold that the chat should have: the one before, unless fitting does better."""
        return self.fitted if self.better else self.before


async def calibrate(cases: Sequence[Case], library: Library, settings: Settings, before: float) -> Calibrated:
    """Fit the threshold to labelled messages, oldest first, by what the library knows now.

    Raises `UsageError` for too few of either kind, and what the library raises.
    """
    newest = cases[-MOST:]
    refuse_too_few(newest, "Fitting the threshold", _MORE)
    judged = await judge(newest, library, settings)
    return await asyncio.to_thread(_calibrated, judged, settings, before)


def _calibrated(judged: Sequence[Judged], settings: Settings, before: float) -> Calibrated:
    # A threshold counts by the weights that it was fitted with: those in force, which a chat cannot have its own of.
    weights = settings.gate.weights
    truths = [one.case.should_answer for one in judged]
    crossed = cross_validated(judged, lambda others: (weights, best_threshold(others, weights)))
    return Calibrated(
        sum(truths),
        len(truths) - sum(truths),
        sum(one.signs is None for one in judged),
        before,
        best_threshold(judged, weights),
        spoken_scores([one.speaks(weights, before) for one in judged], truths),
        spoken_scores([speaks for _, speaks in crossed], truths),
    )


def _worth(counts: Counts) -> float:
    """Return F0.5, which the threshold is fitted to."""
    wanted, spoken = counts.right + counts.missed, counts.right + counts.wrong
    return 1.25 * counts.right / (spoken + 0.25 * wanted) if counts.right else 0.0
