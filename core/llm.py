"""Language models by role, over OpenAI-compatible endpoints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from core.budget import Budget
from core.endpoint import Endpoint
from core.errors import ModelError
from core.ports import Form, Role
from core.settings import ModelSettings, ModelsSettings
from core.types import Turn

OPENAI_HOST = "api.openai.com"


class RoleModels:
    """A `ChatModel` that sends each role to its endpoint; `light` falls back to `main` when it is not configured."""

    def __init__(self, roles: Mapping[Role, tuple[Endpoint, ModelSettings]]) -> None:
        self._roles = roles

    @classmethod
    def open(cls, settings: ModelsSettings) -> RoleModels | None:
        """Return the configured models, or None when there is none: then answers are extractive."""
        main = settings.main or settings.light
        if main is None:
            return None
        light = settings.light or main
        opened = {id(one): (_open(one), one) for one in (main, light)}
        return cls({"main": opened[id(main)], "light": opened[id(light)]})

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: Role, budget: Budget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply piece by piece. Raises `ModelError`, also when the budget's deadline passes."""
        endpoint, settings = self._roles[role]
        ends = time.monotonic() + min(settings.timeout_s, budget.remaining())
        async with aclosing(endpoint.stream(_request(settings, system, turns))) as pieces:
            while True:
                # A time-out around the whole loop would fire inside the caller's code, between two pieces.
                try:
                    async with asyncio.timeout(max(0.0, ends - time.monotonic())):
                        piece = await anext(pieces, None)
                except TimeoutError as fault:
                    raise ModelError(f"{endpoint.base_url}: {settings.model} did not finish in time") from fault
                if piece is None:
                    return
                budget.count(agent or role, piece.prompt_tokens, piece.completion_tokens)
                if piece.text:
                    yield piece.text

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
        """Return the whole reply. Raises `ModelError`, also when the budget's deadline passes."""
        endpoint, settings = self._roles[role]
        try:
            async with asyncio.timeout(min(settings.timeout_s, budget.remaining())):
                piece = await endpoint.complete({**_request(settings, system, turns), **_formed(settings, form)})
        except TimeoutError as fault:
            raise ModelError(f"{endpoint.base_url}: {settings.model} did not answer in time") from fault
        budget.count(agent or role, piece.prompt_tokens, piece.completion_tokens)
        return piece.text

    async def warm_up(self) -> None:
        """Load the clients ahead of the first question."""
        for endpoint, _ in self._roles.values():
            await endpoint.warm_up()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        for endpoint in {id(endpoint): endpoint for endpoint, _ in self._roles.values()}.values():
            await endpoint.close()


def _open(settings: ModelSettings) -> Endpoint:
    key = settings.api_key.value() if settings.api_key else ""
    return Endpoint.open(settings.base_url, key, settings.timeout_s)


def _request(settings: ModelSettings, system: str, turns: Sequence[Turn]) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}]
    for turn in turns:
        # Some chat templates refuse two messages of one role in a row, such as a quoted message and a question.
        if messages[-1]["role"] == turn.role:
            messages[-1]["content"] += f"\n\n{turn.text}"
        else:
            messages.append({"role": turn.role, "content": turn.text})
    # OpenAI's own newer models refuse max_tokens; most compatible servers know nothing else.
    limit = "max_completion_tokens" if OPENAI_HOST in settings.base_url else "max_tokens"
    request: dict[str, Any] = {"model": settings.model, "messages": messages, limit: settings.max_tokens}
    if settings.temperature is not None:
        request["temperature"] = settings.temperature
    if settings.extra_body:
        request["extra_body"] = dict(settings.extra_body)
    return request


def _formed(settings: ModelSettings, form: Form | None) -> dict[str, Any]:
    """Return what asks for a form, where the endpoint is configured to know it."""
    if form is None:
        return {}
    if form.tool:
        tool = {"name": form.name, "description": form.description, "parameters": dict(form.schema)}
        return {"tools": [{"type": "function", "function": tool}]} if settings.tools else {}
    schema = {"name": form.name, "schema": dict(form.schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}} if settings.json_schema else {}
