"""A small typed decision from a possibly weak model.

The endpoint is told the JSON Schema, or offered a tool, where it can be told; whatever comes back is read tolerantly:
JSON with any kind of damage, bracket actions, `key: value` lines, words and ordinals, in English or Chinese. What
cannot be read gets one repair by the model while there is time, then the caller's default. Nobody gets an exception
from nonsense.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from core.errors import ServiceError
from core.llm.decision_schema import Record, Shape, records
from core.llm.prompts import Prompts
from core.observability.logs import logger
from core.ports import ChatModel, Form
from core.runtime.budget import Budget, Why
from core.types import Turn

T = TypeVar("T")
MAX_REPAIR_CHARS = 2000


@dataclass(slots=True)
class Calls:
    """How many model calls a strategy may still make."""

    left: int

    def take(self) -> bool:
        """Use one up; false when there is none."""
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class Ask:
    """One decision to ask for.

    `stage` is its name in the trace and `share` the share of the budget that it may take, repair included. `form` is
    what the endpoint is told; None means the shape's own. `calls` are the strategy's; None sets no limit.
    """

    stage: str
    share: str
    shape: Shape
    system: str
    turns: Sequence[Turn]
    form: Form | None = None
    calls: Calls | None = None


class ModelDependencies(Protocol):
    """What a decision needs of an answer's dependencies: the model, if one is configured, and its prompts."""

    @property
    def model(self) -> ChatModel | None:
        """The language model, or None where none is configured."""
        ...

    @property
    def prompts(self) -> Prompts:
        """The prompt templates."""
        ...


def read(reply: str, shape: Shape, accept: Callable[[Record], T | None]) -> T | None:
    """Return the first reading of a reply that `accept` takes, or None. Never raises for any text."""
    accepted = (accept(record) for record in records(reply, shape))
    return next((value for value in accepted if value is not None), None)


async def decide(
    ask: Ask, accept: Callable[[Record], T | None], default: T, parts: ModelDependencies, budget: Budget
) -> T:
    """Return what the light model decided, or the default.

    `accept` makes the result of a reading and returns None for one that makes no sense. The default is used when there
    is no model or no call left, and, with the stage cut, when it fails, overruns its share, or cannot be understood
    after the repair.
    """
    if parts.model is None or (ask.calls and not ask.calls.take()):
        return default
    why: Why
    with budget.timed(ask.stage):
        try:
            async with asyncio.timeout(budget.share(ask.share)):
                decided = await _decided(ask, accept, parts.model, parts.prompts, budget)
            if decided is not None:
                return decided
            reason, why = "the reply cannot be read", "unreadable"
        except TimeoutError:
            reason, why = "overran its share", "late"
        except ServiceError as fault:
            reason, why = str(fault), "failed"
    budget.cut_off(ask.stage, why)
    logger(__name__).warning("decision.default", stage=ask.stage, why=why, reason=reason)
    return default


async def _decided(
    ask: Ask, accept: Callable[[Record], T | None], model: ChatModel, prompts: Prompts, budget: Budget
) -> T | None:
    form = ask.form or ask.shape.form()
    allowed, started = budget.share(ask.share), time.monotonic()
    reply = await model.complete(ask.system, ask.turns, role="light", budget=budget, form=form, agent=ask.stage)
    decided = read(reply, ask.shape, accept)
    spent = time.monotonic() - started
    # A repair takes about as long as the first try: where that no longer fits, the default comes sooner without it.
    if decided is not None or 2 * spent > allowed or (ask.calls and not ask.calls.take()):
        return decided
    logger(__name__).info("decision.repair", stage=ask.stage, characters=len(reply))
    keys = "\n".join(f'- "{slot.name}": {slot.description}' for slot in ask.shape.slots)
    turns = [
        Turn("assistant", reply[:MAX_REPAIR_CHARS].strip() or "..."),
        Turn("user", prompts.fill("repair", keys=keys)),
    ]
    asked = [*ask.turns, *turns]
    again = await model.complete(ask.system, asked, role="light", budget=budget, form=ask.shape.form(), agent=ask.stage)
    return read(again, ask.shape, accept)
