"""The judge: a model that reads answers and says what they are worth, as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from core.answering.agents.conversation import format_question
from core.errors import UsageError
from core.evidence.rendering import escape_delimiters
from core.formatting import replace_lone_surrogates
from core.llm.prompts import Prompts
from core.llm.reply_parsing import extract_json
from core.llm.role_models import RoleChatModel
from core.ports import ChatModel
from core.runtime.budget import Budget
from core.settings import BudgetSettings, FallbackSettings, ModelSettings, Settings
from core.storage.usage import TokenUsage, total_usage
from core.types import Question, Turn

S = TypeVar("S", bound=FallbackSettings)
T = TypeVar("T")
ATTEMPTS = 2
# Every answer gets a reason: a reply is longer than those of the other roles.
MAX_REPLY_TOKENS = 4096
MAX_REPLY_CHARS = 100_000
SHOWN_REPLY_CHARS = 100
NO_JUDGE = (
    "no judge is configured: set models.judge to an endpoint and a model (docs/evaluate.md), "
    "best another model than the one that writes the answers"
)


@dataclass(frozen=True, slots=True)
class Verdict(Generic[T]):
    """The verdict of the judge; `value` is None where no reply could be read. `usage` is that of all `attempts`.

    `unreadable_reply` is the beginning of the last reply where none could be read.
    """

    value: T | None
    attempts: int
    usage: TokenUsage
    unreadable_reply: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks the model of the role `judge`."""

    model: ChatModel
    settings: ModelSettings
    budget_settings: BudgetSettings
    prompts: Prompts

    @property
    def name(self) -> str:
        """The model and its endpoint, as results name them."""
        return f"{self.settings.model} at {self.settings.base_url}"

    async def ask(
        self, system: str, request: str, keys: str, parse: Callable[[Mapping[Any, Any]], T | None]
    ) -> Verdict[T]:
        """Return what `parse` makes of the reply's JSON object; an unreadable reply is asked for once more.

        `keys` says in that case what the object must have. Raises `ModelError`.
        """
        turns = [Turn("user", request)]
        budget = Budget(self.budget_settings.model_copy(update={"deadline_s": ATTEMPTS * self.settings.timeout_s}))
        value = None
        attempts = 0
        reply = ""
        while value is None and attempts < ATTEMPTS:
            attempts += 1
            reply = await self.model.complete(system, turns, role="judge", budget=budget, agent="judge")
            value = _parse(reply, parse)
            repair_request = self.prompts.fill("repair", keys=keys)
            turns = [*turns, Turn("assistant", reply.strip() or "..."), Turn("user", repair_request)]
        unreadable_reply = shorten_reply(reply) if value is None else ""
        return Verdict(value, attempts, total_usage(budget.tokens, budget.cost), unreadable_reply)


def shorten_reply(reply: str) -> str:
    """Return the beginning of an unreadable reply on one line.

    >>> shorten_reply("I cannot\\n  say.")
    'I cannot say.'
    """
    return " ".join(replace_lone_surrogates(reply).split())[:SHOWN_REPLY_CHARS] or "(empty)"


def _parse(reply: str, parse: Callable[[Mapping[Any, Any]], T | None]) -> T | None:
    values = (parse(value) for value in extract_json(reply[:MAX_REPLY_CHARS]) if isinstance(value, Mapping))
    return next((value for value in values if value is not None), None)


def without_chance(settings: ModelSettings) -> ModelSettings:
    """Return the settings of a model and its fallbacks with temperature 0, where they name none.

    Two runs are to say the same.
    """
    fallbacks = {name: _at_zero(fallback) for name, fallback in settings.fallbacks.items()}
    return _at_zero(settings).model_copy(update={"fallbacks": fallbacks})


def _at_zero(settings: S) -> S:
    if "temperature" in settings.model_fields_set:
        return settings
    return settings.model_copy(update={"temperature": 0.0})


@asynccontextmanager
async def open_judge(settings: Settings) -> AsyncIterator[Judge]:
    """Open the configured judge. Raises `UsageError` where none is configured."""
    judge_settings = settings.models.judge
    if judge_settings is None:
        raise UsageError(NO_JUDGE)
    if "max_tokens" not in judge_settings.model_fields_set:
        judge_settings = judge_settings.model_copy(update={"max_tokens": MAX_REPLY_TOKENS})
    judge_settings = without_chance(judge_settings)
    model = RoleChatModel.open_judge(judge_settings)
    try:
        yield Judge(model, judge_settings, settings.budget, Prompts.read(settings.prompts))
    finally:
        await model.close()


def format_case(question: Question, reference: str) -> str:
    """Return a question with its conversation and its reference, fenced as data."""
    reference_block = f"\n<reference>\n{escape_delimiters(reference)}\n</reference>" if reference else ""
    return format_question(question) + reference_block
