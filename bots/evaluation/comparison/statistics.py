"""The statistics of judgements: means with intervals, wins, t-tests, and how far the two passes agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from bots.evaluation.comparison.results import CRITERIA, PASSES, ROUTER, Judgement
from bots.evaluation.metrics import mean_with_interval
from core.messaging.gate.classification_metrics import Estimate

OVERALL = "overall"
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TTest:
    """The result of a t-test, two-sided."""

    t: float
    p: float


@dataclass(frozen=True, slots=True)
class PairTest:
    """Two systems over the same questions, by one figure.

    `win_rate` is the share of the questions that the first one wins, a draw being half a win; None where no question
    was judged. `paired` compares the scores question by question, `welch` as two independent samples, as the paper on
    SRSA does. `p_holm` is that of `paired`, corrected for the number of pairs (Holm). A test is None where no two
    scores differ in a different way, or there is one question only.
    """

    win_rate: float | None
    difference: Estimate
    paired: TTest | None
    welch: TTest | None = None
    p_holm: float | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two systems, compared by `overall` and by each criterion."""

    first: str
    second: str
    tests: Mapping[str, PairTest]


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """The questions for which the router chose one strategy: how it did there against another system, by `overall`."""

    strategy: str
    system: str
    questions: int
    test: PairTest


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
    """All judgements together.

    `scores` are by system and criterion, and `overall`; `judged` is a number of questions. `win_shares` are the shares
    of the questions that each system wins against all others, by the same figures: a question with several winners
    counts a part for each of them, so that they add up to 1. `by_strategy` is empty without a router.
    """

    judged: int
    scores: Mapping[str, Mapping[str, Estimate]]
    win_shares: Mapping[str, Mapping[str, float]]
    pairs: Sequence[Pair]
    by_strategy: Sequence[StrategyRow]
    agreement: Agreement
    asked_again: int
    unreadable: int


def compare_judgements(
    judgements: Sequence[Judgement], systems: Sequence[str], chosen_strategies: Mapping[str, str] | None = None
) -> Comparison:
    """Return what the judgements of all questions say. Blocking.

    A question counts with the mean of its passes; a pass that could not be read is left out. `chosen_strategies` are
    those of the system `ROUTER` by question.
    """
    passes = _collect_passes(judgements, systems)
    # Shape (questions, systems, criteria).
    values = np.array([np.mean(scores, axis=0) for scores in passes.values()]).reshape(-1, len(systems), len(CRITERIA))
    # Shape (questions, systems), by figure.
    figures = {OVERALL: values.mean(axis=2)}
    figures |= {criterion: values[:, :, column] for column, criterion in enumerate(CRITERIA)}
    pairs = [
        Pair(systems[first], systems[second], {name: _test(scores, first, second) for name, scores in figures.items()})
        for first, second in combinations(range(len(systems)), 2)
    ]
    return Comparison(
        len(passes),
        {
            system: {name: mean_with_interval(scores[:, row]) for name, scores in figures.items()}
            for row, system in enumerate(systems)
        },
        {
            system: {name: float(_win_shares(scores)[row]) for name, scores in figures.items()}
            for row, system in enumerate(systems)
        },
        correct_by_holm(pairs),
        _compare_by_strategy(figures[OVERALL], list(passes), systems, chosen_strategies or {}),
        _compute_agreement(list(passes.values())),
        sum(judgement.attempts > 1 for judgement in judgements),
        sum(not judgement.scores for judgement in judgements),
    )


def _win_shares(scores: Scores) -> Scores:
    """Return the share of the questions that each system wins, shape (systems,)."""
    if not len(scores):
        return np.zeros(scores.shape[1])
    is_best = scores == scores.max(axis=1, keepdims=True)
    shares: Scores = (is_best / is_best.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares


def _compare_by_strategy(
    scores: Scores, questions: Sequence[str], systems: Sequence[str], chosen_strategies: Mapping[str, str]
) -> list[StrategyRow]:
    rows = []
    for strategy in dict.fromkeys(chosen_strategies.values()):
        chosen = np.array([chosen_strategies.get(question) == strategy for question in questions], dtype=bool)
        for other, system in enumerate(systems):
            if system != ROUTER and chosen.any():
                test = _test(scores[chosen], systems.index(ROUTER), other)
                rows.append(StrategyRow(strategy, system, int(chosen.sum()), test))
    return rows


def _collect_passes(judgements: Sequence[Judgement], systems: Sequence[str]) -> dict[str, list[Scores]]:
    """Return the readable passes of every question, in order, each with the shape (systems, criteria)."""
    passes: dict[str, list[Scores]] = {}
    for judgement in sorted(judgements, key=lambda item: (item.question_id, item.pass_number)):
        if judgement.scores:
            scores = np.array([judgement.scores[name] for name in systems], dtype=float)
            passes.setdefault(judgement.question_id, []).append(scores)
    return passes


def _test(scores: Scores, first: int, second: int) -> PairTest:
    from scipy.stats import ttest_ind_from_stats, ttest_rel

    first_scores = scores[:, first]
    second_scores = scores[:, second]
    differences = first_scores - second_scores
    difference = mean_with_interval(differences)
    win_rate = float(np.mean(np.sign(differences) / 2 + 0.5)) if len(differences) else None
    if len(differences) < 2 or np.ptp(differences) == 0:
        return PairTest(win_rate, difference, None)
    paired = ttest_rel(first_scores, second_scores)
    # From the moments: scipy warns of scores that are all the same, which is no fault here.
    moments = [
        value for sample in (first_scores, second_scores) for value in (sample.mean(), sample.std(ddof=1), len(sample))
    ]
    welch = ttest_ind_from_stats(*moments, equal_var=False)
    return PairTest(
        win_rate,
        difference,
        TTest(float(paired.statistic), float(paired.pvalue)),
        TTest(float(welch.statistic), float(welch.pvalue)),
    )


def correct_by_holm(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with the p of each figure corrected by Holm's step-down method, for the number of pairs."""
    corrected_values: dict[tuple[int, str], float] = {}
    for figure in (OVERALL, *CRITERIA):
        tests = [(index, pair.tests[figure].paired) for index, pair in enumerate(pairs) if figure in pair.tests]
        tested_values = sorted((test.p, index) for index, test in tests if test)
        highest = 0.0
        for rank, (p, index) in enumerate(tested_values):
            highest = max(highest, min(1.0, p * (len(tested_values) - rank)))
            corrected_values[index, figure] = highest
    return [
        replace(
            pair,
            tests={
                figure: replace(test, p_holm=corrected_values.get((index, figure)))
                for figure, test in pair.tests.items()
            },
        )
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
