"""The statistics of judgements: means with intervals, wins, paired tests, and how far the two passes agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bots.evaluation.comparison.results import CRITERIA, PASSES, Judgement
from bots.evaluation.metrics import mean_with_interval
from core.messaging.gate.classification_metrics import Estimate

OVERALL = "overall"
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two systems over the same questions.

    `win_rate` is the share of the questions that `first` wins, a draw being half a win; None where no question was
    judged. `p` is that of a paired t-test of the overall scores, `p_holm` the same corrected for the number of pairs
    (Holm); None where no two scores differ in a different way, or there is one question only.
    """

    first: str
    second: str
    win_rate: float | None
    difference: Estimate
    p: float | None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the two passes say the same.

    `same_winner` is the share of the pairs of answers of which both passes prefer the same one, or none.
    `mean_difference` is between the overall scores of one answer, 0 to 5. `correlation` is Pearson's, None where one
    pass gave all answers the same score.
    """

    same_winner: float | None
    mean_difference: float | None
    correlation: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All judgements together: `scores` by system and criterion, and `overall`; `judged` is a number of questions."""

    judged: int
    scores: Mapping[str, Mapping[str, Estimate]]
    pairs: Sequence[Pair]
    agreement: Agreement
    asked_again: int
    unreadable: int


def compare_judgements(judgements: Sequence[Judgement], systems: Sequence[str]) -> Comparison:
    """Return what the judgements of all questions say. Blocking.

    A question counts with the mean of its passes; a pass that could not be read is left out.
    """
    passes = _collect_passes(judgements, systems)
    # Shape (questions, systems, criteria).
    values = np.array([np.mean(scores, axis=0) for scores in passes.values()]).reshape(-1, len(systems), len(CRITERIA))
    overall_scores = values.mean(axis=2)
    figures = {
        name: {
            **{criterion: mean_with_interval(values[:, row, column]) for column, criterion in enumerate(CRITERIA)},
            OVERALL: mean_with_interval(overall_scores[:, row]),
        }
        for row, name in enumerate(systems)
    }
    pairs = [
        _compare_pair(systems[first], systems[second], overall_scores[:, first], overall_scores[:, second])
        for first, second in combinations(range(len(systems)), 2)
    ]
    return Comparison(
        len(passes),
        figures,
        correct_by_holm(pairs),
        _compute_agreement(list(passes.values())),
        sum(judgement.attempts > 1 for judgement in judgements),
        sum(not judgement.scores for judgement in judgements),
    )


def _collect_passes(judgements: Sequence[Judgement], systems: Sequence[str]) -> dict[str, list[Scores]]:
    """Return the readable passes of every question, in order, each with the shape (systems, criteria)."""
    passes: dict[str, list[Scores]] = {}
    for judgement in sorted(judgements, key=lambda item: (item.question_id, item.pass_number)):
        if judgement.scores:
            scores = np.array([judgement.scores[name] for name in systems], dtype=float)
            passes.setdefault(judgement.question_id, []).append(scores)
    return passes


def _compare_pair(first: str, second: str, first_scores: Scores, second_scores: Scores) -> Pair:
    differences = first_scores - second_scores
    win_rate = float(np.mean(np.sign(differences) / 2 + 0.5)) if len(differences) else None
    return Pair(first, second, win_rate, mean_with_interval(differences), _paired_p(differences))


def _paired_p(differences: Scores) -> float | None:
    """Return the p of a paired t-test; None where it is not defined: one question, or the same difference in all."""
    from scipy.stats import ttest_1samp

    if len(differences) < 2 or np.ptp(differences) == 0:
        return None
    return float(ttest_1samp(differences, 0.0).pvalue)


def correct_by_holm(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with their p corrected by Holm's step-down method."""
    tested_values = sorted((pair.p, index) for index, pair in enumerate(pairs) if pair.p is not None)
    corrected_values: dict[int, float] = {}
    highest = 0.0
    for rank, (p, index) in enumerate(tested_values):
        highest = max(highest, min(1.0, p * (len(tested_values) - rank)))
        corrected_values[index] = highest
    return [
        Pair(pair.first, pair.second, pair.win_rate, pair.difference, pair.p, corrected_values.get(index))
        for index, pair in enumerate(pairs)
    ]


def _compute_agreement(passes: Sequence[Sequence[Scores]]) -> Agreement:
    complete_passes = [scores for scores in passes if len(scores) == PASSES]
    if not complete_passes:
        return Agreement(None, None, None)
    # Shape (passes, questions, systems).
    overall_scores = np.array(complete_passes).mean(axis=3).swapaxes(0, 1)
    winners = np.sign(overall_scores[:, :, :, None] - overall_scores[:, :, None, :])
    upper = np.triu_indices(overall_scores.shape[2], 1)
    same_winners = (winners[0] == winners[1])[:, upper[0], upper[1]]
    first = overall_scores[0].ravel()
    second = overall_scores[1].ravel()
    is_varied = np.ptp(first) > 0 and np.ptp(second) > 0
    correlation = float(np.corrcoef(first, second)[0, 1]) if is_varied else None
    return Agreement(float(same_winners.mean()), float(np.abs(first - second).mean()), correlation)
