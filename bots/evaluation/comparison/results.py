"""The parts of a comparison: systems, their answers, and the judgements on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bots.common.reply_json import usage_as_json
from core.settings import Settings
from core.storage.usage import TokenUsage

CRITERIA = ("informativeness", "completeness", "novelty", "actionability")
# The configured set of strategies, of which the router chooses one for each question.
ROUTER = "router"
MAX_SCORE = 5
PASSES = 2


@dataclass(frozen=True, slots=True)
class System:
    """One way to answer: its name, and the settings that make it."""

    name: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class SystemAnswer:
    """The answer of one system to one question. Without `text` it failed, and `error` says why.

    An answer with both was quoted from the passages because the model failed.
    """

    question_id: str
    system: str
    text: str
    error: str = ""
    strategy: str = ""
    first_token_ms: float | None = None
    total_ms: float | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)
    degrade_reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_quoted(self) -> bool:
        """Return whether the passages were quoted because the model failed: such an answer is not the strategy's."""
        return bool(self.text and self.error)

    @property
    def is_degraded(self) -> bool:
        """Return whether a service failed on the way, so that another run may answer better."""
        return "failed" in self.degrade_reasons.values()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One pass over the answers to one question: scores (0 to 5, in the order of `CRITERIA`) and reasons by system.

    Without `scores` the judge's replies could not be read; `unreadable_reply` is then the beginning of the last one.
    """

    question_id: str
    pass_number: int
    scores: Mapping[str, tuple[float, ...]]
    reasons: Mapping[str, str]
    attempts: int
    usage: TokenUsage
    unreadable_reply: str = ""


def answer_as_record(answer: SystemAnswer) -> dict[str, Any]:
    """Return an answer as JSON, for the file of kept results and for `--json`."""
    return {
        "id": answer.question_id,
        "system": answer.system,
        "answer": answer.text,
        "error": answer.error,
        "strategy": answer.strategy,
        "first_token_ms": answer.first_token_ms,
        "total_ms": answer.total_ms,
        "usage": usage_as_json(answer.usage),
        "why_cut": dict(answer.degrade_reasons),
    }


def answer_from_record(record: Mapping[str, Any]) -> SystemAnswer:
    """Return the answer that `answer_as_record` wrote."""
    return SystemAnswer(
        record["id"],
        record["system"],
        record["answer"],
        record["error"],
        record["strategy"],
        record["first_token_ms"],
        record["total_ms"],
        usage_from_record(record["usage"]),
        record["why_cut"],
    )


def usage_from_record(record: Mapping[str, Any]) -> TokenUsage:
    """Return the usage that `usage_as_json` wrote."""
    return TokenUsage(int(record["prompt"]), int(record["completion"]), float(record["cost"]))
