"""The threshold that suits the labelled messages of one chat, by the weights that are configured."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.errors import UsageError
from core.messaging.gate.relevance import Signs, chance, fit, relevance, signs_of
from core.messaging.gate.scores import Counts, Scores, score
from core.ports import Library
from core.settings import Settings
from core.settings.platforms import GateWeightSettings
from core.text.question_detection import for_somebody_else, no_question

FOLDS = 5
# Of each kind. With fewer a fold has one or two, and one odd message moves the threshold.
FEWEST = 10
_SEED = 20_240_601


@dataclass(frozen=True, slots=True)
class Case:
    """What somebody said in a group, and whether the bot should answer it unasked."""

    id: str
    text: str
    should_answer: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """A case with what the gate saw in it; None where its words alone were enough for silence."""

    case: Case
    signs: Signs | None

    def sure(self, weights: GateWeightSettings) -> float:
        """Return how sure the gate is, from 0 to 1."""
        return chance(self.signs, weights) if self.signs else 0.0

    def speaks(self, weights: GateWeightSettings, threshold: float) -> bool:
        """Say whether the gate lets it through."""
        return self.signs is not None and self.sure(weights) >= threshold


@dataclass(frozen=True, slots=True)
class Outcome:
    """The scores of one way to decide, and the area under its ROC curve (None when all cases are of one kind)."""

    scores: Scores
    auc: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """The gate as `configured`, and `crossed`: weights and threshold fitted on other cases than those measured.

    `by_words` cases needed no search. `weights` and `threshold` are fitted on all cases.
    """

    cases: int
    by_words: int
    configured: Outcome
    crossed: Outcome
    weights: GateWeightSettings
    threshold: float


# What fits weights and a threshold to cases.
Fit = Callable[[Sequence[Judged]], tuple[GateWeightSettings, float]]


def by_words(text: str) -> bool:
    """Say whether the words of a message alone are enough for silence: no threshold and no weight changes that."""
    return bool(no_question(text)) or for_somebody_else(text)


def refuse_too_few(cases: Sequence[Case], what: str, hint: str) -> None:
    """Raise `UsageError` for fewer cases of either kind than anything can be fitted to.

    Those that their words alone decide do not count. `what` is to be fitted, `hint` says where more cases come from.
    """
    truths = [case.should_answer for case in cases if not by_words(case.text)]
    answer, leave = sum(truths), len(truths) - sum(truths)
    if min(answer, leave) < FEWEST:
        raise UsageError(
            f"{what} needs {FEWEST} messages to answer and {FEWEST} to leave alone at least, besides those that words "
            f"alone decide; there are {answer} and {leave}. {hint}"
        )


async def judge(cases: Sequence[Case], library: Library, settings: Settings) -> list[Judged]:
    """Look at every case as the gate does. Raises what the library raises."""
    judged = []
    for case in cases:
        silent = by_words(case.text)
        judged.append(
            Judged(case, None if silent else signs_of(case.text, await relevance(case.text, library, settings)))
        )
    return judged


async def measure(judged: Sequence[Judged], settings: Settings) -> Measured:
    """Measure the gate as it is configured, and what fitting it to such data would bring."""
    return await asyncio.to_thread(_measured, judged, settings)


def _measured(judged: Sequence[Judged], settings: Settings) -> Measured:
    truths = [one.case.should_answer for one in judged]
    gate = settings.gate
    configured = [one.sure(gate.weights) for one in judged]
    spoken = [one.speaks(gate.weights, gate.threshold) for one in judged]
    crossed = cross_validated(judged, fitted)
    weights, threshold = fitted(judged)
    return Measured(
        len(judged),
        sum(one.signs is None for one in judged),
        Outcome(spoken_scores(spoken, truths), auc(configured, truths)),
        Outcome(spoken_scores([speaks for _, speaks in crossed], truths), auc([sure for sure, _ in crossed], truths)),
        weights,
        threshold,
    )


def cross_validated(judged: Sequence[Judged], fit_to: Fit) -> Sequence[tuple[float, bool]]:
    """Return of every case how sure the gate is and whether it speaks, by what `fit_to` makes of the other folds."""
    found = [(0.0, False)] * len(judged)
    for fold in _folds([one.case.should_answer for one in judged]):
        held = set(fold)
        weights, threshold = fit_to([one for at, one in enumerate(judged) if at not in held])
        for at in fold:
            found[at] = judged[at].sure(weights), judged[at].speaks(weights, threshold)
    return found


def fitted(judged: Sequence[Judged]) -> tuple[GateWeightSettings, float]:
    """Return the weights and the threshold that suit these cases best."""
    known = [(one.signs, one.case.should_answer) for one in judged if one.signs]
    weights = fit([signs for signs, _ in known], [truth for _, truth in known])
    return weights, best_threshold(judged, weights)


def best_threshold(judged: Sequence[Judged], weights: GateWeightSettings) -> float:
    """Return the threshold with the best F0.5: to speak where nobody wants it is worse than to be silent."""
    wanted = sum(one.case.should_answer for one in judged)
    ordered = sorted(((one.sure(weights), one.case.should_answer) for one in judged if one.signs), reverse=True)
    best, threshold, right = -1.0, 0.5, 0
    for count, (sure, truth) in enumerate(ordered, 1):
        right += truth
        below = ordered[count][0] if count < len(ordered) else 0.0
        value = 1.25 * right / (count + 0.25 * wanted) if right else 0.0
        if value > best and below < sure:
            best, threshold = value, (sure + below) / 2
    return round(threshold, 2)


def auc(scores: Sequence[float], truths: Sequence[bool]) -> float | None:
    """Return how often a case to answer scores above one to be silent about; equal scores count half."""
    yes = [one for one, truth in zip(scores, truths, strict=True) if truth]
    no = [one for one, truth in zip(scores, truths, strict=True) if not truth]
    if not (yes and no):
        return None
    return sum((high > low) + (high == low) / 2 for high in yes for low in no) / (len(yes) * len(no))


def _folds(truths: Sequence[bool]) -> list[list[int]]:
    """Deal the cases out, each kind evenly, the same at every run."""
    order = list(range(len(truths)))
    random.Random(_SEED).shuffle(order)  # noqa: S311 (dealing cases out, no secrets)
    order.sort(key=lambda at: truths[at])
    return [order[fold::FOLDS] for fold in range(FOLDS)]


def spoken_scores(spoken: Sequence[bool], truths: Sequence[bool]) -> Scores:
    """Return the scores of speaking where that was right."""
    return score(
        [
            Counts(int(speaks and truth), int(speaks and not truth), int(truth and not speaks))
            for speaks, truth in zip(spoken, truths, strict=True)
        ]
    )


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
