"""Language models, and the time and cost of their calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Literal, Protocol

from core.types import ResponseSchema, Turn

ModelRole = Literal["main", "light", "vision", "judge"]


class RequestBudget(Protocol):
    """The time that a call of a language model may take, and the count of its tokens and cost."""

    @property
    def tokens(self) -> Mapping[str, int]:
        """Tokens used so far, by "agent.prompt" and "agent.completion"."""
        ...

    @property
    def cost(self) -> Mapping[str, float]:
        """Cost so far by agent, in the currency of the configured prices."""
        ...

    def remaining(self) -> float:
        """Return the seconds left before the deadline, never below zero."""
        ...

    def add_usage(
        self,
        agent: str,
        prompt_tokens: int,
        completion_tokens: int,
        cost: float = 0.0,
        *,
        is_estimated: bool = False,
        model: str = "",
    ) -> None:
        """Add the tokens of one call of `model`, and its cost in the currency of the configured prices."""
        ...


class ChatModel(Protocol):
    """A language model behind named roles.

    Both calls end by the budget's deadline and add their tokens to the budget, under the name of the calling agent (or
    the role). Both raise `ModelError`.
    """

    def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply in chunks, without its reasoning; `core.llm.reasoning.append_visible` joins them.

        There is no retry after the first chunk.
        """
        ...

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: ModelRole,
        budget: RequestBudget,
        response_schema: ResponseSchema | None = None,
        agent: str = "",
    ) -> str:
        """Return the whole reply."""
        ...
