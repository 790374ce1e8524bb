"""A comparison as a table, a picture and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bots.common.reply_json import usage_as_json
from bots.common.terminal import format_table
from bots.evaluation import charts, output
from bots.evaluation.comparison.results import (
    CRITERIA,
    MAX_SCORE,
    Judgement,
    SystemAnswer,
    answer_as_record,
)
from bots.evaluation.comparison.statistics import (
    OVERALL,
    Agreement,
    Comparison,
    Pair,
    PairTest,
    StrategyRow,
    TTest,
)
from core.formatting import pluralize
from core.messaging.gate.classification_metrics import CONFIDENCE_LEVEL, Estimate
from core.storage.usage import TokenUsage, add_up

FIGURES = (OVERALL, *CRITERIA)
ALPHA = 1 - CONFIDENCE_LEVEL
TEST_HEADINGS = ("wins", "difference", "t, p (paired)", "t, p (Welch)", "p (Holm)")


def comparison_as_json(
    comparison: Comparison,
    answers: Sequence[SystemAnswer],
    judgements: Sequence[Judgement],
    judge: str,
    redact: Callable[[str], str],
) -> dict[str, Any]:
    """Return the object that `kimas eval compare --json` prints (a contract). `redact` removes secrets from errors."""
    return {
        "kind": "compare",
        "judge": judge,
        "questions": len({answer.question_id for answer in answers}),
        "judged": comparison.judged,
        "level": CONFIDENCE_LEVEL,
        "systems": {
            name: {
                **output.figures_as_json(figures),
                "win_share": {figure: _round(share) for figure, share in comparison.win_shares[name].items()},
                **_summarize(_of_system(answers, name)),
            }
            for name, figures in comparison.scores.items()
        },
        "pairs": [_pair_as_json(pair) for pair in comparison.pairs],
        "by_strategy": [
            {
                "strategy": row.strategy,
                "against": row.system,
                "questions": row.questions,
                **_test_as_json(row.test),
            }
            for row in comparison.by_strategy
        ],
        "agreement": {
            "same_winner": _round(comparison.agreement.same_winner),
            "mean_difference": _round(comparison.agreement.mean_difference),
            "correlation": _round(comparison.agreement.correlation),
        },
        "judge_usage": usage_as_json(add_up([judgement.usage for judgement in judgements])),
        "asked_again": comparison.asked_again,
        "unreadable": comparison.unreadable,
        "unreadable_reply": redact(find_unreadable_reply(judgements)),
        "answers": [{**answer_as_record(answer), "error": redact(answer.error)} for answer in answers],
        "judgements": [
            {
                "id": judgement.question_id,
                "pass": judgement.pass_number + 1,
                "scores": {name: dict(zip(CRITERIA, scores, strict=True)) for name, scores in judgement.scores.items()},
                "reasons": dict(judgement.reasons),
            }
            for judgement in judgements
        ],
    }


def _of_system(answers: Sequence[SystemAnswer], name: str) -> list[SystemAnswer]:
    return [answer for answer in answers if answer.system == name]


def _summarize(answers: Sequence[SystemAnswer]) -> dict[str, Any]:
    """Return what the answers of one system took: medians of times, the sum of tokens and cost."""
    first_tokens = [answer.first_token_ms for answer in answers if answer.first_token_ms is not None]
    totals = [answer.total_ms for answer in answers if answer.total_ms is not None]
    return {
        "failed": sum(not answer.text for answer in answers),
        "degraded": sum(answer.is_degraded for answer in answers),
        "quoted": sum(answer.is_quoted for answer in answers),
        "first_token_ms": round(float(np.median(first_tokens)), 1) if first_tokens else None,
        "total_ms": round(float(np.median(totals)), 1) if totals else None,
        "usage": usage_as_json(add_up([answer.usage for answer in answers])),
    }


def _pair_as_json(pair: Pair) -> dict[str, Any]:
    # The figures of `overall` stand beside the names as well, as before the criteria were tested.
    overall = _test_as_json(pair.tests[OVERALL])
    return {
        "first": pair.first,
        "second": pair.second,
        "win_rate": overall["win_rate"],
        "difference": overall["difference"],
        "p": overall["p"],
        "p_holm": overall["p_holm"],
        "tests": {figure: _test_as_json(test) for figure, test in pair.tests.items()},
    }


def _test_as_json(test: PairTest) -> dict[str, Any]:
    return {
        "win_rate": _round(test.win_rate),
        "difference": output.figure_as_json(test.difference),
        "t": _round(test.paired.t if test.paired else None),
        "p": _round(test.paired.p if test.paired else None),
        "welch_t": _round(test.welch.t if test.welch else None),
        "welch_p": _round(test.welch.p if test.welch else None),
        "p_holm": _round(test.p_holm),
    }


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def format_lines(
    comparison: Comparison,
    answers: Sequence[SystemAnswer],
    judgements: Sequence[Judgement],
    judge: str,
    redact: Callable[[str], str],
) -> list[str]:
    """Return the tables."""
    question_count = len({answer.question_id for answer in answers})
    judge_usage = add_up([judgement.usage for judgement in judgements])
    price_heading = ("", "first token", "whole answer", "tokens", "cost", "degraded", "failed")
    return [
        f"{pluralize(question_count, 'question')}, {comparison.judged} judged by {judge}; scores 0 to {MAX_SCORE}; "
        f"intervals hold {CONFIDENCE_LEVEL:.0%} of the resamples",
        "",
        *format_table([("", *FIGURES), *_score_rows(comparison.scores)]),
        "",
        *format_table([price_heading, *_price_rows(comparison, answers)]),
        "",
        *format_table([("", *FIGURES), *_win_share_rows(comparison.win_shares)]),
        "",
        *format_table([("", *TEST_HEADINGS), *(row for pair in comparison.pairs for row in _pair_rows(pair))]),
        "",
        *_format_by_strategy(comparison.by_strategy),
        *_format_agreement(comparison.agreement),
        f"The judge consumed {_format_tokens(judge_usage)} tokens, cost {output.format_cost(judge_usage)}; it was "
        f"asked again {pluralize(comparison.asked_again, 'time')}; {comparison.unreadable} of {len(judgements)} "
        "judgements were not readable.",
        *output.format_unreadable_reply(redact(find_unreadable_reply(judgements))),
        *(
            f"{answer.question_id} failed with {answer.system}: {redact(answer.error)}"
            for answer in answers
            if not answer.text
        ),
        *_format_quoted(comparison, answers, redact),
    ]


def _format_quoted(
    comparison: Comparison, answers: Sequence[SystemAnswer], redact: Callable[[str], str]
) -> Iterator[str]:
    """Yield a line for every system whose answers are not its own: they were quoted, and ranked nevertheless."""
    for name in comparison.scores:
        system_answers = _of_system(answers, name)
        quoted_answers = [answer for answer in system_answers if answer.is_quoted]
        if quoted_answers:
            count = f"{len(quoted_answers)} of {pluralize(len(system_answers), 'answer')} of {name}"
            verb = "was" if len(quoted_answers) == 1 else "were"
            yield f"{count} {verb} quoted because the model failed: {redact(quoted_answers[0].error)}"


def find_unreadable_reply(judgements: Sequence[Judgement]) -> str:
    """Return the beginning of the first reply that could not be read; an empty text where there is none."""
    return next((judgement.unreadable_reply for judgement in judgements if judgement.unreadable_reply), "")


def _format_agreement(agreement: Agreement) -> list[str]:
    if agreement.same_winner is None:
        return []
    return [
        f"The two passes agree on the better answer of a pair in {agreement.same_winner:.0%} of the cases; the scores "
        f"of one answer differ by {_format_number(agreement.mean_difference)} on average; correlation "
        f"{_format_number(agreement.correlation)}."
    ]


def _score_rows(scores: Mapping[str, Mapping[str, Estimate]]) -> list[tuple[str, ...]]:
    return [
        (name, *(output.format_figure(figures[figure]) for figure in FIGURES))
        for name, figures in sorted(scores.items(), key=lambda item: -(item[1][OVERALL].value or 0.0))
    ]


def _price_rows(comparison: Comparison, answers: Sequence[SystemAnswer]) -> list[tuple[str, ...]]:
    rows = []
    for name in comparison.scores:
        system_answers = _of_system(answers, name)
        summary = _summarize(system_answers)
        usage = add_up([answer.usage for answer in system_answers])
        figures = (summary["first_token_ms"], summary["total_ms"])
        times = ["-" if value is None else f"{value:.0f} ms" for value in figures]
        counts = (str(summary["degraded"]), str(summary["failed"]))
        rows.append((name, *times, _format_tokens(usage), output.format_cost(usage), *counts))
    return rows


def _win_share_rows(win_shares: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    return [
        (f"wins of {name}", *(f"{shares[figure]:.0%}" for figure in FIGURES)) for name, shares in win_shares.items()
    ]


def _pair_rows(pair: Pair) -> list[tuple[str, ...]]:
    """Return a row for `overall`, named after the pair, and one for each criterion."""
    title = f"{pair.first} against {pair.second}"
    return [(title if figure == OVERALL else f"  {figure}", *_test_cells(pair.tests[figure])) for figure in FIGURES]


def _test_cells(test: PairTest) -> tuple[str, ...]:
    mark = " *" if test.p_holm is not None and test.p_holm < ALPHA else ""
    return (
        "-" if test.win_rate is None else f"{test.win_rate:.0%}",
        output.format_difference(test.difference),
        _format_t_test(test.paired),
        _format_t_test(test.welch),
        "-" if test.p_holm is None else f"{test.p_holm:.3f}{mark}",
    )


def _format_t_test(test: TTest | None) -> str:
    return "-" if test is None else f"{test.t:+.2f}, {test.p:.3f}"


def _format_by_strategy(rows: Sequence[StrategyRow]) -> list[str]:
    if not rows:
        return []
    cells = [(f"{row.strategy} ({row.questions})", row.system, *_test_cells(row.test)[:-1]) for row in rows]
    return [*format_table([("router chose", "against", *TEST_HEADINGS[:-1]), *cells]), ""]


def _format_tokens(usage: TokenUsage) -> str:
    return f"{usage.total_tokens:,}"


def _format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def comparison_charts(comparison: Comparison) -> list[charts.Chart]:
    """Return the scores of every system as shares of the best possible, with intervals."""
    series = [
        charts.Series(name, charts.interval_points([_to_share(figures[figure]) for figure in FIGURES]), is_joined=False)
        for name, figures in comparison.scores.items()
    ]
    title = f"{comparison.judged} questions; {charts.INTERVALS_NOTE}"
    return [charts.Chart(title, "", f"score / {MAX_SCORE}", series, FIGURES)]


def _to_share(figure: Estimate) -> Estimate:
    values = (figure.value, figure.low, figure.high)
    return Estimate(*(None if value is None else value / MAX_SCORE for value in values))
