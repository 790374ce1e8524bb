"""Answering within the limits and on the record: who may ask now, and what the answer consumed in the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from core.budget import Budget
from core.errors import StoreError
from core.logs import logger
from core.ports import ChatModel, Form, Role, Sink
from core.types import Question, Reply, Turn

if TYPE_CHECKING:
    from core.limits import Limits
    from core.usage import Consumed, Ledger, Outcome


@dataclass(slots=True)
class MeteredModel:
    """A language model for one answer: it passes everything on and knows the budget that its calls are counted in.

    So what an answer consumed is known even when it fails.
    """

    model: ChatModel
    _budgets: dict[int, Budget] = field(default_factory=dict)

    def stream(
        self, system: str, turns: Sequence[Turn], *, role: Role, budget: Budget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Stream as the model does."""
        self._budgets[id(budget)] = budget
        return self.model.stream(system, turns, role=role, budget=budget, agent=agent)

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: Role,
        budget: Budget,
        form: Form | None = None,
        agent: str = "",
    ) -> str:
        """Complete as the model does."""
        self._budgets[id(budget)] = budget
        return await self.model.complete(system, turns, role=role, budget=budget, form=form, agent=agent)

    def consumed(self) -> Mapping[str, Consumed]:
        """Return what the calls consumed so far, by agent."""
        from core.usage import by_agent

        tokens: Counter[str] = Counter()
        cost: defaultdict[str, float] = defaultdict(float)
        for budget in self._budgets.values():
            for name, count in budget.tokens.items():
                tokens[name] += count
            for name, amount in budget.cost.items():
                cost[name] += amount
        return by_agent(tokens, cost)


async def answer_on_record(
    question: Question,
    sink: Sink,
    model: ChatModel,
    make: Callable[[Question, Sink, ChatModel], Awaitable[Reply]],
    *,
    limits: Limits,
    ledger: Ledger,
) -> Reply:
    """Make an answer with the model when the limits allow it, and write down what it consumed, also when it fails.

    Raises `UsageError` when a limit is used up, and what `make` raises.
    """
    metered = MeteredModel(model)
    async with limits.admitted(question):
        outcome: Outcome = "failed"
        try:
            reply = await make(question, sink, metered)
            outcome = "answered"
        finally:
            agents = metered.consumed()
            if agents or outcome == "answered":
                await record(ledger, question, outcome, agents)
    return reply


async def record(ledger: Ledger, question: Question, outcome: Outcome, agents: Mapping[str, Consumed]) -> None:
    """Write one answer into the ledger. The answer is with the asker already: a ledger that refuses is logged."""
    try:
        await ledger.record(question, outcome, agents, datetime.now().astimezone().date())
    except StoreError as fault:
        logger(__name__).error("usage.not_recorded", error=str(fault))
