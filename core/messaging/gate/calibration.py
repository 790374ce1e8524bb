"""Fits the threshold of one chat to its labelled messages, with the configured model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import UsageError
from core.language.questions import mentions_person, unanswerable_reason
from core.messaging.gate.classification_metrics import Counts, Scores, compute_scores
from core.messaging.gate.features import GateFeatures, extract_features
from core.messaging.gate.model import SHIPPED, GateModel, load_model
from core.messaging.gate.relevance import measure_relevance
from core.ports import Library
from core.settings import Settings

FOLDS = 5
# Of each kind. With fewer a fold has one or two, and one odd message moves the threshold.
MIN_CASES = 10
_SEED = 20_240_601

# A search for each: the newest ones tell most about a chat, and so many take seconds.
MAX_CALIBRATION_MESSAGES = 500
_LABELING_HINT = "Rate answers in this chat: 👍 makes a question one to answer, 👎 one to leave alone."


@dataclass(frozen=True, slots=True)
class GateCase:
    """A message in a group, and whether the bot should answer it without being addressed."""

    id: str
    text: str
    should_answer: bool


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """A case with what the gate saw in it; None where silence is certain."""

    case: GateCase
    features: GateFeatures | None

    def confidence(self, model: GateModel) -> float:
        """Return how sure the gate is, from 0 to 1."""
        return model.probability(self.features) if self.features else 0.0


@dataclass(frozen=True, slots=True)
class ClassifierScores:
    """The scores of one way to decide, and the area under its ROC curve (None when all cases are of one kind)."""

    scores: Scores
    auc: float | None


def is_rejected_by_rules(text: str) -> bool:
    """Return whether the words of a message alone are enough for silence: no threshold and no model changes that."""
    return bool(unanswerable_reason(text)) or mentions_person(text)


def describe_shortage(cases: Sequence[GateCase]) -> str:
    """Return how many cases of each kind fitting needs and how many there are; an empty text where they are enough.

    Cases that words alone decide do not count.
    """
    labels = [case.should_answer for case in cases if not is_rejected_by_rules(case.text)]
    answer_count = sum(labels)
    ignore_count = len(labels) - sum(labels)
    if min(answer_count, ignore_count) >= MIN_CASES:
        return ""
    return (
        f"{MIN_CASES} messages to answer and {MIN_CASES} to leave alone at least, besides those that words alone "
        f"decide; there are {answer_count} and {ignore_count}"
    )


def require_enough_cases(cases: Sequence[GateCase], purpose: str, hint: str) -> None:
    """Raise `UsageError` for fewer cases of either kind than anything can be fitted to.

    `purpose` begins the message; `hint` says where more cases come from.
    """
    if shortage := describe_shortage(cases):
        raise UsageError(f"{purpose} needs {shortage}. {hint}")


async def score_cases(cases: Sequence[GateCase], library: Library, settings: Settings) -> list[ScoredCase]:
    """Extract the features of every case as the gate does. Raises what the library raises."""
    scored_cases = []
    for case in cases:
        is_rejected = is_rejected_by_rules(case.text)
        scored_cases.append(
            ScoredCase(
                case,
                None
                if is_rejected
                else extract_features(case.text, await measure_relevance(case.text, library, settings)),
            )
        )
    return scored_cases


def cross_validate_threshold(cases: Sequence[ScoredCase], model: GateModel) -> Sequence[bool]:
    """Return of every case whether the gate speaks with the threshold that the cases of the other folds give."""
    confidences = [scored_case.confidence(model) for scored_case in cases]
    predictions = [False] * len(cases)
    for fold in split_folds([scored_case.case.should_answer for scored_case in cases]):
        held_out = set(fold)
        threshold = best_threshold(
            [scored_case for index, scored_case in enumerate(cases) if index not in held_out], model
        )
        for index in fold:
            predictions[index] = cases[index].features is not None and confidences[index] >= threshold
    return predictions


def best_threshold(scored_cases: Sequence[ScoredCase], model: GateModel) -> float:
    """Return the threshold with the best F0.5: to speak where nobody wants it is worse than to be silent."""
    positives = sum(scored_case.case.should_answer for scored_case in scored_cases)
    confidence_pairs = sorted(
        (
            (scored_case.confidence(model), scored_case.case.should_answer)
            for scored_case in scored_cases
            if scored_case.features
        ),
        reverse=True,
    )
    best_score = -1.0
    threshold = 0.5
    true_positives = 0
    for count, (confidence, label) in enumerate(confidence_pairs, 1):
        true_positives += label
        next_confidence = confidence_pairs[count][0] if count < len(confidence_pairs) else 0.0
        f_half = 1.25 * true_positives / (count + 0.25 * positives) if true_positives else 0.0
        if f_half > best_score and next_confidence < confidence:
            best_score = f_half
            threshold = (confidence + next_confidence) / 2
    return round(threshold, 2)


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float | None:
    """Return how often a case to answer scores above one to be silent about; equal scores count half."""
    positives = [value for value, label in zip(scores, labels, strict=True) if label]
    negatives = [value for value, label in zip(scores, labels, strict=True) if not label]
    if not (positives and negatives):
        return None
    return sum((high > low) + (high == low) / 2 for high in positives for low in negatives) / (
        len(positives) * len(negatives)
    )


def split_folds(labels: Sequence[bool]) -> list[list[int]]:
    """Split the cases into folds, each kind evenly, the same at every run."""
    order = list(range(len(labels)))
    random.Random(_SEED).shuffle(order)  # noqa: S311 (dealing cases out, no secrets)
    order.sort(key=lambda index: labels[index])
    return [order[fold::FOLDS] for fold in range(FOLDS)]


def classification_scores(predictions: Sequence[bool], labels: Sequence[bool]) -> Scores:
    """Return the scores of speaking where that was right."""
    return compute_scores(
        [
            Counts(int(predicted and label), int(predicted and not label), int(label and not predicted))
            for predicted, label in zip(predictions, labels, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class CalibrationResult:
    """The current and the fitted threshold, and the scores of both on the same labelled messages.

    `cross_validated_scores` judge every message by the threshold that the other messages give. `answer_count` messages
    deserved their answer and `ignore_count` did not; the words alone decide `rule_based_count` of them.
    """

    answer_count: int
    ignore_count: int
    rule_based_count: int
    current_threshold: float
    fitted_threshold: float
    current_scores: Scores
    cross_validated_scores: Scores

    @property
    def is_better(self) -> bool:
        """Return whether fitting does better than the threshold before, on messages that were not fitted to."""
        return self.fitted_threshold != self.current_threshold and _f_half(
            self.cross_validated_scores.counts
        ) > _f_half(self.current_scores.counts)

    @property
    def recommended_threshold(self) -> float:
        """The threshold that the chat should have: the one before, unless fitting does better."""
        return self.fitted_threshold if self.is_better else self.current_threshold


async def calibrate(
    cases: Sequence[GateCase], library: Library, settings: Settings, current_threshold: float
) -> CalibrationResult:
    """Fit the threshold to labelled messages, oldest first, by what the library knows now.

    Raises `UsageError` for too few of either kind, and what the library raises.
    """
    newest = cases[-MAX_CALIBRATION_MESSAGES:]
    require_enough_cases(newest, "Fitting the threshold", _LABELING_HINT)
    scored_cases = await score_cases(newest, library, settings)
    model = await asyncio.to_thread(load_model, settings.gate.model or SHIPPED)
    return await asyncio.to_thread(_calibrate, scored_cases, model, current_threshold)


def _calibrate(scored_cases: Sequence[ScoredCase], model: GateModel, current_threshold: float) -> CalibrationResult:
    # A threshold counts by the model that it was fitted with: the one in force, which a chat cannot have its own of.
    labels = [scored_case.case.should_answer for scored_case in scored_cases]
    current_scores = [
        scored_case.features is not None and scored_case.confidence(model) >= current_threshold
        for scored_case in scored_cases
    ]
    return CalibrationResult(
        sum(labels),
        len(labels) - sum(labels),
        sum(scored_case.features is None for scored_case in scored_cases),
        current_threshold,
        best_threshold(scored_cases, model),
        classification_scores(current_scores, labels),
        classification_scores(cross_validate_threshold(scored_cases, model), labels),
    )


def _f_half(counts: Counts) -> float:
    """Return F0.5, which the threshold is fitted to."""
    expected = counts.true_positives + counts.false_negatives
    predicted = counts.true_positives + counts.false_positives
    return 1.25 * counts.true_positives / (predicted + 0.25 * expected) if counts.true_positives else 0.0
