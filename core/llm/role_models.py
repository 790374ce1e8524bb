"""Language models by role, over OpenAI-compatible endpoints."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from typing import Any

from core.llm.circuit_breaker import Circuit
from core.llm.client import Endpoint
from core.llm.failover import Attempt, Call, Fallback, Target
from core.llm.sse import Piece
from core.llm.streaming import Flow
from core.observability.recorder import Meter, Unmetered
from core.ports import CallBudget, Form, Role
from core.settings.models import CircuitSettings, FallbackSettings, ModelSettings, ModelsSettings
from core.types import Turn

OPENAI_HOST = "api.openai.com"
PRICED_TOKENS = 1_000_000


class RoleModels:
    """A `ChatModel` that sends each role to its endpoints; `light` and `vision` are `main` when not configured.

    An endpoint that fails or is silent before the first token is followed by the next of its role.
    """

    def __init__(self, roles: Mapping[Role, tuple[Fallback, ModelSettings]]) -> None:
        self._roles = roles

    @classmethod
    def open(cls, settings: ModelsSettings, meter: Meter | None = None) -> RoleModels | None:
        """Return the configured models, or None when there is none: then answers are extractive."""
        meter = meter or Unmetered()
        main = settings.main or settings.light
        if main is None:
            return None
        light = settings.light or main
        vision = settings.seeing() or main
        opened = {id(one): (_open(one, settings.circuit, meter), one) for one in (main, light, vision)}
        return cls({"main": opened[id(main)], "light": opened[id(light)], "vision": opened[id(vision)]})

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: Role, budget: CallBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply piece by piece. Raises `ModelError`, also when the budget's deadline passes."""
        fallback, settings = self._roles[role]
        count = partial(_count, budget, agent or role)

        async def start(attempt: Attempt) -> Flow:
            request = _request(attempt.target.settings, system, turns)
            return await Flow.begin(attempt, attempt.target.endpoint.stream(request), count)

        # No stage cuts a stream for being slow: it is given up when nobody wants the answer, or another one.
        call = Call(start, Flow.close, settings.first_token_s, cut_when_slow=False)
        flow = await fallback.first_good(call, budget)
        try:
            while flow.text:
                yield flow.text
                await flow.advance(settings.stall_s)
        finally:
            await flow.close()

    async def complete(
        self,
        system: str,
        turns: Sequence[Turn],
        *,
        role: Role,
        budget: CallBudget,
        form: Form | None = None,
        agent: str = "",
    ) -> str:
        """Return the whole reply. Raises `ModelError`, also when the budget's deadline passes."""
        fallback, settings = self._roles[role]

        async def start(attempt: Attempt) -> str:
            known = attempt.target.settings
            request = {**_request(known, system, turns), **_formed(known, form)}
            piece = await attempt.target.endpoint.complete(request)
            # Here, for a hedge that comes second has used its tokens too.
            _count(budget, agent or role, attempt, piece)
            attempt.succeeded()
            return piece.text

        return await fallback.first_good(Call(start, _keep_nothing, settings.whole_s), budget)

    async def warm_up(self) -> None:
        """Load the clients ahead of the first question."""
        for endpoint in self._endpoints():
            await endpoint.warm_up()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        for endpoint in self._endpoints():
            await endpoint.close()

    def targets(self) -> Sequence[Target]:
        """Return the endpoints of all roles with their state; one that several roles share is named for each."""
        return [target for fallback, _ in self._roles.values() for target in fallback.targets]

    def _endpoints(self) -> Sequence[Endpoint]:
        return list(dict.fromkeys(target.endpoint for target in self.targets()))


def _open(settings: ModelSettings, circuit: CircuitSettings, meter: Meter) -> Fallback:
    targets = [_target(one, circuit, meter) for one in (settings, *settings.fallbacks.values())]
    return Fallback(targets, settings)


def _target(settings: FallbackSettings, circuit: CircuitSettings, meter: Meter) -> Target:
    key = settings.api_key.value() if settings.api_key else ""
    endpoint = Endpoint.open(settings.base_url, key, settings.timeout_s)
    return Target(endpoint, settings, Circuit(f"{settings.model} at {settings.base_url}", circuit), meter)


def _count(budget: CallBudget, agent: str, attempt: Attempt, used: Piece) -> None:
    settings = attempt.target.settings
    price = used.prompt_tokens * (settings.price_prompt or 0) + used.completion_tokens * (
        settings.price_completion or 0
    )
    budget.count(agent, used.prompt_tokens, used.completion_tokens, price / PRICED_TOKENS)
    attempt.target.meter.consumed(agent, used.prompt_tokens, used.completion_tokens, price / PRICED_TOKENS)


async def _keep_nothing(_reply: str) -> None:
    """A whole reply holds no connection."""


def _request(settings: FallbackSettings, system: str, turns: Sequence[Turn]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for turn in turns:
        if turn.images:
            shown = [{"type": "image_url", "image_url": {"url": image.url}} for image in turn.images]
            messages.append({"role": turn.role, "content": [{"type": "text", "text": turn.text}, *shown]})
        # Some chat templates refuse two messages of one role in a row, such as a quoted message and a question.
        elif messages[-1]["role"] == turn.role and isinstance(messages[-1]["content"], str):
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


def _formed(settings: FallbackSettings, form: Form | None) -> dict[str, Any]:
    """Return what asks for a form, where the endpoint is configured to know it."""
    if form is None:
        return {}
    if form.tool:
        tool = {"name": form.name, "description": form.description, "parameters": dict(form.schema)}
        return {"tools": [{"type": "function", "function": tool}]} if settings.tools else {}
    schema = {"name": form.name, "schema": dict(form.schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}} if settings.json_schema else {}
