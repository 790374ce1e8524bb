"""The expected cost of a comparison, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bots.evaluation.comparison.results import System
from core.formatting import pluralize
from core.settings import ModelSettings, Settings

# Calls of the light model for one answer, by what the strategies make at their usual length.
_LIGHT_CALLS = {"none": 0, "simple": 0, "single": 1, "parallel": 3, "react": 4, "planning": 6, "router": 4}
_LIGHT_TOKENS = (1_500, 100)
_PROMPT_TOKENS = 1_000
_ANSWER_TOKENS = 400
_JUDGE_PROMPT_TOKENS = 1_200
_JUDGE_REPLY_TOKENS = 150


@dataclass(frozen=True, slots=True)
class Estimation:
    """Work that is not done yet. `tokens` and `cost` are estimates; `cost` is None where a price is unknown."""

    answers: int
    judgements: int
    tokens: int
    cost: float | None


def estimate(settings: Settings, missing_answers: Sequence[System], judgements: int, systems: int) -> Estimation:
    """Return what answering (one entry of `missing_answers` for each answer) and judging may take."""
    models = settings.models
    judge_tokens = _JUDGE_PROMPT_TOKENS + systems * _ANSWER_TOKENS, systems * _JUDGE_REPLY_TOKENS
    calls = [(models.judge, judge_tokens, judgements)]
    if writer := models.main or models.light:
        calls.append((writer, (_PROMPT_TOKENS + settings.evidence_tokens(), _ANSWER_TOKENS), len(missing_answers)))
        light_calls = sum(_LIGHT_CALLS[system.name] for system in missing_answers)
        calls.append((models.light or writer, _LIGHT_TOKENS, light_calls))
    tokens = sum((prompt + completion) * count for _, (prompt, completion), count in calls)
    costs = [_cost(model, prompt * count, completion * count) for model, (prompt, completion), count in calls if count]
    return Estimation(
        len(missing_answers), judgements, tokens, None if None in costs else sum(cost or 0.0 for cost in costs)
    )


def _cost(model: ModelSettings | None, prompt_tokens: int, completion_tokens: int) -> float | None:
    if model and not model.is_paid():
        return 0.0
    if model is None or model.price_prompt is None or model.price_completion is None:
        return None
    return (prompt_tokens * model.price_prompt + completion_tokens * model.price_completion) / 1_000_000


def format_estimation(estimation: Estimation) -> str:
    """Return the estimate as one line."""
    if not (estimation.answers or estimation.judgements):
        return "Nothing is left to do: every answer and judgement is that of an earlier run"
    price = "no price is known for a model"
    if estimation.cost is not None:
        price = f"about {estimation.cost:.2f}" if estimation.cost else "none, the models to be called are free"
    return (
        f"To do: {pluralize(estimation.answers, 'answer')} and {pluralize(estimation.judgements, 'judgement')}, "
        f"about {estimation.tokens:,} tokens; cost: {price}"
    )
