"""Language models by role, over OpenAI-compatible endpoints."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, cast

from core.errors import ModelError
from core.llm.client import OpenAIClient
from core.llm.failover import Attempt, CircuitBreaker, Deployment, FailoverCall, FailoverClient
from core.llm.reasoning import ReasoningFilter, remove_reasoning
from core.llm.sse import StreamChunk
from core.llm.usage import CallMeter
from core.observability.metrics import MetricsRecorder
from core.ports import ModelRole, RequestBudget
from core.settings.answering import CircuitSettings, FallbackSettings, ModelSettings, ModelsSettings
from core.types import ResponseSchema, ToolCall, Turn

# Several times the longest answer that a platform shows: all of it is searched for markers whenever more is shown, and
# its citations are checked.
MAX_VISIBLE_CHARS = 100_000
# After a longer pause in the middle of a reply, it is closed as cut off.
STALL_S = 20.0
CIRCUIT = CircuitSettings()


class RoleChatModel:
    """A `ChatModel` that sends each role to its endpoints; `light` and `vision` are `main` when not configured.

    When an endpoint fails or is silent before the first token, the next one of its role takes over.
    """

    def __init__(self, roles: Mapping[ModelRole, tuple[FailoverClient, ModelSettings]]) -> None:
        self._roles = roles

    @classmethod
    def open(
        cls,
        settings: ModelsSettings,
        metrics_recorder: MetricsRecorder | None = None,
        circuit: CircuitSettings = CIRCUIT,
        clients: dict[str, FailoverClient] | None = None,
    ) -> RoleChatModel | None:
        """Return the configured models, or None when there is none: then answers are extractive.

        Equal ones share a client, also with those that are in `clients` already.
        """
        metrics_recorder = metrics_recorder or MetricsRecorder()
        clients = {} if clients is None else clients
        main = settings.main or settings.light
        if main is None:
            return None
        light = settings.light or main
        vision = settings.get_vision_model() or main
        roles: dict[ModelRole, tuple[FailoverClient, ModelSettings]] = {}
        for role, model_settings in (("main", main), ("light", light), ("vision", vision)):
            key = model_settings.model_dump_json()
            if key not in clients:
                clients[key] = _open_failover(model_settings, circuit, metrics_recorder)
            roles[cast("ModelRole", role)] = clients[key], model_settings
        return cls(roles)

    @classmethod
    def open_judge(cls, settings: ModelSettings) -> RoleChatModel:
        """Return a model with the role `judge` alone: it measures answers, and no part of the daemon calls it."""
        return cls({"judge": (_open_failover(settings, CIRCUIT, MetricsRecorder()), settings)})

    @classmethod
    def open_endpoint(cls, endpoint: FallbackSettings) -> RoleChatModel:
        """Return a model that is one endpoint alone in each role: to try it."""
        settings = ModelSettings.model_construct(**{**dict(endpoint), "fallbacks": {}})
        client = _open_failover(settings, CIRCUIT, MetricsRecorder())
        return cls({"main": (client, settings), "light": (client, settings)})

    async def stream(
        self, system: str, turns: Sequence[Turn], *, role: ModelRole, budget: RequestBudget, agent: str = ""
    ) -> AsyncGenerator[str]:
        """Yield the reply piece by piece, without its reasoning (`append_visible` joins the pieces).

        Raises `ModelError`, also when the budget's deadline passes, and after `MAX_VISIBLE_CHARS` characters.
        """
        client, settings = self._roles[role]

        async def start(attempt: Attempt) -> ModelStream:
            request = _build_request(attempt.deployment.settings, system, turns)
            meter = _start_meter(attempt, request, budget, agent or role, is_stream=True)
            chunks = attempt.deployment.client.stream(request)
            return await ModelStream.start(attempt, chunks, meter)

        # Nobody cancels a stream for being slow, but because the answer is not needed any more.
        call = FailoverCall(start, settings.first_token_s, cancel_means_timeout=False)
        model_stream = await client.first_success(call, budget)
        reasoning_filter = ReasoningFilter(starts_inside=model_stream.starts_in_reasoning)
        remaining_chars = MAX_VISIBLE_CHARS
        try:
            while model_stream.text:
                if visible_text := reasoning_filter.feed(model_stream.text):
                    yield visible_text[:remaining_chars]
                    remaining_chars -= len(visible_text)
                    if remaining_chars < 0:
                        raise ModelError(f"{settings.model} wrote more than {MAX_VISIBLE_CHARS} characters")
                await model_stream.advance(STALL_S)
            if visible_text := reasoning_filter.flush():
                yield visible_text
        finally:
            model_stream.learn(reasoning_filter)
            await model_stream.close()

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
        """Return the whole reply without its reasoning. Raises `ModelError`, also when the budget's deadline passes."""
        client, settings = self._roles[role]

        async def start(attempt: Attempt) -> str:
            deployment_settings = attempt.deployment.settings
            request = {
                **_build_request(deployment_settings, system, turns),
                **_response_format(deployment_settings, response_schema),
            }
            meter = _start_meter(attempt, request, budget, agent or role, is_stream=False)
            # Counted here, because a call that is cancelled has used tokens too.
            try:
                completion = await attempt.deployment.client.complete(request)
                meter.count(completion)
            except BaseException as error:
                meter.fail(error)
                raise
            finally:
                meter.close()
            attempt.record_success()
            text = remove_reasoning(completion.text, starts_inside=deployment_settings.starts_in_reasoning)
            # Reasoning that was cut off may contain the decision: its parser looks for it there.
            return text or (completion.text if response_schema else "")

        return await client.first_success(FailoverCall(start, settings.whole_s), budget)

    async def warm_up(self) -> None:
        """Load the clients ahead of the first question."""
        for client in self._clients():
            await client.warm_up()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        for client in self._clients():
            await client.close()

    def deployments(self) -> Sequence[Deployment]:
        """Return the endpoints of all roles with their state; a shared endpoint appears once for each role."""
        return [deployment for client, _ in self._roles.values() for deployment in client.deployments]

    def _clients(self) -> Sequence[OpenAIClient]:
        return list(dict.fromkeys(deployment.client for deployment in self.deployments()))


def _open_failover(
    settings: ModelSettings, circuit: CircuitSettings, metrics_recorder: MetricsRecorder
) -> FailoverClient:
    deployments = [
        _open_deployment(deployment_settings, circuit, metrics_recorder)
        for deployment_settings in (settings, *settings.fallbacks.values())
    ]
    return FailoverClient(deployments)


def _open_deployment(
    settings: FallbackSettings, circuit: CircuitSettings, metrics_recorder: MetricsRecorder
) -> Deployment:
    api_key = settings.api_key.value() if settings.api_key else ""
    client = OpenAIClient.open(settings.base_url, api_key, settings.timeout_s)
    return Deployment(
        client, settings, CircuitBreaker(f"{settings.model} at {settings.base_url}", circuit), metrics_recorder
    )


def _start_meter(
    attempt: Attempt, request: Mapping[str, Any], budget: RequestBudget, agent: str, *, is_stream: bool
) -> CallMeter:
    deployment = attempt.deployment
    sinks = budget, deployment.metrics_recorder
    return CallMeter(request, deployment.settings, deployment.estimator, sinks, agent, is_stream=is_stream)


def _build_request(settings: FallbackSettings, system: str, turns: Sequence[Turn]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for turn in turns:
        if not (turn.text.strip() or turn.tool_call or turn.images):
            # Some servers refuse a message without text.
            continue
        if turn.tool_call and settings.tools:
            messages.append(_to_tool_message(turn, turn.tool_call))
        elif turn.images:
            image_parts = [{"type": "image_url", "image_url": {"url": image.url}} for image in turn.images]
            messages.append({"role": turn.role, "content": [{"type": "text", "text": turn.text}, *image_parts]})
        # Some chat templates reject two consecutive messages of one role, such as a quoted message and a question.
        elif messages[-1]["role"] == turn.role and isinstance(messages[-1]["content"], str):
            messages[-1]["content"] += f"\n\n{turn.text}"
        else:
            messages.append({"role": turn.role, "content": turn.text})
    # OpenAI's newer models refuse max_tokens, which the client then renames; many servers know nothing else.
    request: dict[str, Any] = {"model": settings.model, "messages": messages, "max_tokens": settings.max_tokens}
    if settings.temperature is not None:
        request["temperature"] = settings.temperature
    if settings.extra_body:
        request["extra_body"] = dict(settings.extra_body)
    return request


def _to_tool_message(turn: Turn, call: ToolCall) -> dict[str, Any]:
    if turn.role == "user":
        return {"role": "tool", "tool_call_id": call.id, "content": turn.text}
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)}
    tool_calls = [{"id": call.id, "type": "function", "function": function}]
    # The text is for an endpoint that turns out to support no tools.
    return {"role": "assistant", "content": turn.text, "tool_calls": tool_calls}


def _response_format(settings: FallbackSettings, response_schema: ResponseSchema | None) -> dict[str, Any]:
    """Return the fields of the request for a response schema, if the endpoint is configured to support it."""
    if response_schema is None:
        return {}
    if response_schema.is_tool:
        tool = {
            "name": response_schema.name,
            "description": response_schema.description,
            "parameters": dict(response_schema.schema),
        }
        return {"tools": [{"type": "function", "function": tool}]} if settings.tools else {}
    schema = {"name": response_schema.name, "schema": dict(response_schema.schema), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}} if settings.json_schema else {}


class ModelStream:
    """A reply that has begun: `text` is the latest chunk, empty at the end. It must be closed in any case."""

    def __init__(self, attempt: Attempt, chunks: AsyncGenerator[StreamChunk], meter: CallMeter) -> None:
        self.text = ""
        self._attempt = attempt
        self._chunks = chunks
        self._meter = meter
        self._is_finished = False

    @classmethod
    async def start(cls, attempt: Attempt, chunks: AsyncGenerator[StreamChunk], meter: CallMeter) -> ModelStream:
        """Return the reply at its first text, or at its end if it has none. Raises `ModelError`."""
        stream = cls(attempt, chunks, meter)
        try:
            await stream._read_next()
        except BaseException as error:
            meter.fail(error)
            await stream._close_connection()
            raise
        return stream

    @property
    def starts_in_reasoning(self) -> bool:
        """Return whether the reply begins within a block of reasoning, as configured or learned before."""
        deployment = self._attempt.deployment
        return deployment.settings.starts_in_reasoning or deployment.client.starts_in_reasoning

    def learn(self, reasoning_filter: ReasoningFilter) -> None:
        """Remember for the next reply whether this one ended a block that it had not opened."""
        client = self._attempt.deployment.client
        # A reply that ended within what was only supposed to be a block may have been no reasoning at all.
        is_refuted = self._is_finished and reasoning_filter.is_inside
        client.starts_in_reasoning = reasoning_filter.has_stray_end or (client.starts_in_reasoning and not is_refuted)

    async def advance(self, stall_s: float) -> None:
        """Read the next text. Raises `ModelError`, also after a silence of `stall_s` seconds."""
        remaining_s = max(0.0, self._attempt.deadline - time.monotonic())
        try:
            async with asyncio.timeout(min(remaining_s, stall_s)):
                await self._read_next()
        except TimeoutError as timeout_error:
            is_stalled = stall_s < remaining_s
            message = (
                f"stopped for {stall_s:g} s in the middle of its reply" if is_stalled else "did not finish in time"
            )
            error = self._attempt.deployment.make_error(message)
            # A reply that is too long for the time left is no failure of the endpoint.
            self._finish(error if is_stalled else None)
            raise error from timeout_error
        except ModelError as error:
            self._finish(error)
            raise

    async def close(self) -> None:
        """Release the connection and count the tokens. Idempotent."""
        self._finish(None)
        await self._close_connection()

    async def _read_next(self) -> None:
        async for chunk in self._chunks:
            self._meter.count(chunk)
            if chunk.text:
                self.text = chunk.text
                return
        self.text = ""
        self._is_finished = True
        self._attempt.record_success()

    def _finish(self, error: ModelError | None) -> None:
        if self._is_finished:
            return
        self._is_finished = True
        if error:
            self._attempt.record_failure(error)
        else:
            self._attempt.release()

    async def _close_connection(self) -> None:
        try:
            await self._chunks.aclose()
        finally:
            self._meter.close()
