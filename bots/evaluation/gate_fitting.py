"""Fits the gate's model to labelled messages: a logistic regression with a Gaussian prior, by Newton's method.

The regression is solved in its dual form, with a matrix of the messages' inner products: there are fewer messages than
n-grams, and the same matrix says what each message would have got if it had been left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from core.evidence.ranking import logistic
from core.messaging.gate.calibration import (
    ClassifierScores,
    ScoredCase,
    auc,
    classification_scores,
    describe_shortage,
    split_folds,
)
from core.messaging.gate.features import FEATURE_NAMES, NGRAM_BUCKETS, OWN_GROUP_FEATURES, GateFeatures
from core.messaging.gate.model import FittedOn, GateModel
from core.settings import GateSettings

Array = NDArray[np.float64]

# How freely the weights of the n-grams are fitted, in comparison with those of the other features.
NGRAM_SCALE = 4.0
# The tolerance is one of log-odds.
_MAX_STEPS = 30
_TOLERANCE = 1e-2
_MIN_CURVATURE = 0.03
INTERCEPT_SCALE = 2.0
_MAX_INT8 = 127

# With fewer messages than this, fitting only corrects the shipped model.
MIN_OWN_MESSAGES = 400

# A fitted threshold keeps this precision where it can: to speak unprompted and wrongly costs more than silence.
MIN_PRECISION = 0.8

# One of so many messages counts on each side of a threshold.
_SMOOTHED_SHARE = 50


@dataclass(frozen=True, slots=True, eq=False)
class LabelledSet:
    """The features of the messages of one group, and whether each should be answered."""

    name: str
    features: Sequence[GateFeatures]
    labels: Sequence[bool]


@dataclass(frozen=True, slots=True, eq=False)
class FittedModel:
    """A model, and the log-odds of each message that it was fitted on as if that one had been left out."""

    model: GateModel
    held_out_log_odds: Array


def fit_model(sets: Sequence[LabelledSet], prior: GateModel | None = None) -> FittedModel:
    """Fit a model to labelled sets, of which each counts by the square root of its size. Blocking.

    With a `prior` the fit starts from that model and leaves it as far as the labels ask for it.
    """
    features = [item for labelled in sets for item in labelled.features]
    labels = np.array([label for labelled in sets for label in labelled.labels], float)
    importance = np.concatenate([np.full(len(labelled.labels), len(labelled.labels) ** -0.5) for labelled in sets])
    importance *= len(labels) / importance.sum()
    values = np.array([item.values for item in features])
    means, scales = _standardization(values) if prior is None else (np.array(prior.means), np.array(prior.scales))
    freedom = np.array([len(sets) == 1 or name not in OWN_GROUP_FEATURES for name in FEATURE_NAMES], float)
    rows = np.nan_to_num((values - means) / scales) * freedom
    ngrams = _to_matrix(features)
    offsets = np.array([0.0 if prior is None else prior.log_odds(item) for item in features])
    kernel = rows @ rows.T + NGRAM_SCALE**2 * (ngrams @ ngrams.T).astype(float)
    duals, intercept, held_out = _solve(kernel, labels, importance, offsets)
    weights = freedom * (rows.T @ duals)
    ngram_weights = NGRAM_SCALE**2 * (ngrams.T @ duals.astype(np.float32)).astype(float)
    if prior is not None:
        weights += np.array(prior.weights)
        ngram_weights += prior.ngram_step * np.array(prior.ngram_weights, float)
        intercept += prior.intercept
    step = max(float(np.abs(ngram_weights).max(initial=0.0)) / _MAX_INT8, 1e-9)
    model = GateModel(
        date.today().isoformat(),
        tuple(FittedOn(item.name, len(item.labels), sum(item.labels)) for item in sets),
        intercept,
        tuple(means.tolist()),
        tuple(scales.tolist()),
        tuple(weights.tolist()),
        step,
        np.rint(ngram_weights / step).astype(int).tolist(),
    )
    return FittedModel(model, held_out)


def _standardization(values: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of each feature over the messages where it is known; 0 and 1 for no spread."""
    has_value = ~np.isnan(values)
    counts = np.maximum(has_value.sum(axis=0), 1)
    means = np.where(has_value, values, 0.0).sum(axis=0) / counts
    deviations = np.sqrt(np.where(has_value, (values - means) ** 2, 0.0).sum(axis=0) / counts)
    return means, np.where(deviations > 1e-9, deviations, 1.0)


def _to_matrix(features: Sequence[GateFeatures]) -> NDArray[np.float32]:
    matrix = np.zeros((len(features), NGRAM_BUCKETS), np.float32)
    for row, item in zip(matrix, features, strict=True):
        row[list(item.ngrams)] = list(item.ngrams.values())
    return matrix


def _solve(kernel: Array, labels: Array, importance: Array, offsets: Array) -> tuple[Array, float, Array]:
    """Return the dual weights, the intercept and the held-out log-odds of the regression (Newton's method).

    Each step is a weighted least squares problem. Its solution says, too, what each message would get without itself
    (Cawley and Talbot 2008, approximate leave-one-out for kernel logistic regression).
    """
    kernel = kernel + INTERCEPT_SCALE**2
    duals: Array = np.zeros(len(labels))
    for _ in range(_MAX_STEPS):
        log_odds = kernel @ duals
        probabilities = 1 / (1 + np.exp(-np.clip(log_odds + offsets, -60, 60)))
        # The floor bounds the steps; where they end it changes nothing.
        curvature = importance * np.maximum(probabilities * (1 - probabilities), _MIN_CURVATURE)
        target = log_odds + importance * (labels - probabilities) / curvature
        system = kernel + np.diag(1 / curvature)
        duals = np.asarray(np.linalg.solve(system, target), float)
        if float(np.abs(kernel @ duals - log_odds).max(initial=0.0)) < _TOLERANCE:
            break
    held_out: Array = target - duals / np.diag(np.linalg.inv(system)) + offsets
    intercept = INTERCEPT_SCALE**2 * float(duals.sum())
    return duals, intercept, held_out


@dataclass(frozen=True, slots=True)
class GateEvaluation:
    """The gate as `configured`, and `cross_validated`: model and threshold fitted on other cases than those measured.

    `rule_based_count` cases needed no search. `model` and `threshold` are fitted on all cases. `shortage` says which
    cases are missing: without them nothing is cross-validated, because a few cases that all come out right prove
    nothing.
    """

    cases: int
    rule_based_count: int
    configured: ClassifierScores
    cross_validated: ClassifierScores
    model: GateModel
    threshold: float
    shortage: str = ""


def evaluate_gate(
    cases: Sequence[ScoredCase], name: str, configured: GateModel, threshold: float, prior: GateModel
) -> GateEvaluation:
    """Measure the gate as it is configured, and what fitting it to such cases would bring. Blocking."""
    labels = [scored_case.case.should_answer for scored_case in cases]
    confidences = [scored_case.confidence(configured) for scored_case in cases]
    decisions = [
        scored_case.features is not None and scored_case.confidence(configured) >= threshold for scored_case in cases
    ]
    shortage = describe_shortage([scored_case.case for scored_case in cases])
    predictions = [] if shortage else _cross_validate(cases, labels, name, prior)
    predicted_labels = labels[: len(predictions)]
    model, fitted_threshold = fit_gate(cases, name, prior)
    return GateEvaluation(
        len(cases),
        sum(scored_case.features is None for scored_case in cases),
        ClassifierScores(classification_scores(decisions, labels), auc(confidences, labels)),
        ClassifierScores(
            classification_scores([speaks for _, speaks in predictions], predicted_labels),
            auc([confidence for confidence, _ in predictions], predicted_labels),
        ),
        model,
        fitted_threshold,
        shortage,
    )


def _cross_validate(
    cases: Sequence[ScoredCase], labels: Sequence[bool], name: str, prior: GateModel
) -> list[tuple[float, bool]]:
    predictions = [(0.0, False)] * len(cases)
    for fold in split_folds(labels):
        held_out = set(fold)
        model, fold_threshold = fit_gate(
            [scored_case for index, scored_case in enumerate(cases) if index not in held_out], name, prior
        )
        for index in fold:
            confidence = cases[index].confidence(model)
            predictions[index] = confidence, cases[index].features is not None and confidence >= fold_threshold
    return predictions


def fit_gate(cases: Sequence[ScoredCase], name: str, prior: GateModel) -> tuple[GateModel, float]:
    """Return the model and the threshold that suit these cases; few cases correct the prior. Blocking."""
    labelled = to_labelled_set(cases, name)
    if len(set(labelled.labels)) < 2:
        # One kind of message tells nothing of the other.
        return prior, GateSettings().threshold
    fitted_model = fit_model([labelled], prior if len(labelled.labels) < MIN_OWN_MESSAGES else None)
    return fitted_model.model, choose_threshold(fitted_model.held_out_log_odds, labelled.labels)


def to_labelled_set(cases: Sequence[ScoredCase], name: str) -> LabelledSet:
    """Return what a model can be fitted on: the cases where silence is not certain."""
    pairs = [(scored_case.features, scored_case.case.should_answer) for scored_case in cases if scored_case.features]
    return LabelledSet(name, [features for features, _ in pairs], [label for _, label in pairs])


def choose_threshold(log_odds: Array, labels: Sequence[bool]) -> float:
    """Return the probability with the best F1 among those with `MIN_PRECISION`; without any, the best of all.

    Both are smoothed over neighbouring thresholds: a peak that few messages make is chance.
    """
    order = np.argsort(-log_odds, kind="stable")
    sorted_log_odds = log_odds[order]
    hits = np.cumsum(np.array(labels)[order])
    counts = np.arange(1, len(hits) + 1)
    width = len(hits) // _SMOOTHED_SHARE
    f1 = _smooth(2 * hits / (counts + hits[-1]), width)
    is_precise = _smooth(hits / counts, width) >= MIN_PRECISION
    best = int(np.argmax(np.where(is_precise, f1, f1 - 2) if is_precise.any() else f1))
    next_log_odds = sorted_log_odds[best + 1] if best + 1 < len(counts) else sorted_log_odds[best] - 1
    return round(logistic(float(sorted_log_odds[best] + next_log_odds) / 2), 2)


def _smooth(values: Array, width: int) -> Array:
    """Return the mean of each value and the `width` ones on each side."""
    window = np.full(2 * width + 1, 1 / (2 * width + 1))
    return np.convolve(np.pad(values, width, mode="edge"), window, "valid")
