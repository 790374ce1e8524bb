"""Remembers why a model failed: an answer that is quoted instead does not say it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from core.errors import ModelError
from core.ports import ChatModel, ModelRole, RequestBudget
from core.types import ResponseSchema, Turn


class ErrorRecordingModel:
    """A `ChatModel` that keeps the errors of the streams of another one in `stream_errors`: those of its answers."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.stream_errors: list[ModelError] = []

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply in chunks. Raises `ModelError`."""
        try:
            async with aclosing(self._model.stream(system, turns, role=role, budget=budget, agent=agent)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ModelError as error:
            self.stream_errors.append(error)
            raise

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
        """Return the whole reply. Raises `ModelError`."""
        return await self._model.complete(
            system, turns, role=role, budget=budget, response_schema=response_schema, agent=agent
        )
