"""The usage of a call of a language model: as the provider counts it, or an estimate where it does not say.

A provider bills a call whose answer nobody reads to its end: one that was cancelled, cut off or too slow. It sends no
counts then. So each call ends in exactly one record: the provider's counts, an estimate, or nothing for a call that was
refused or never sent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from core.errors import ModelError
from core.language.tokens import estimate_tokens
from core.llm.sse import StreamChunk
from core.observability.metrics import MetricsRecorder
from core.observability.tracing import end_span, start_span
from core.ports import RequestBudget
from core.settings.answering import FallbackSettings

TOKENS_PER_PRICE_UNIT = 1_000_000
# Chat templates put about so many tokens around each message; a picture counts as so many.
MESSAGE_TOKENS = 4
IMAGE_TOKENS = 800
# The weight of the newest call in what is usual.
LEARNING_RATE = 0.2
# Most servers send a token per event; those that send more at once are known by the length of their texts.
MAX_TOKENS_PER_EVENT = 2


def estimate_prompt_tokens(request: Mapping[str, Any]) -> int:
    """Estimate the prompt tokens of the body of a chat completion."""
    contents: list[Any] = [message.get("content") or "" for message in request["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    texts = [content for content in contents if isinstance(content, str)]
    texts += [str(part["text"]) for part in parts if part.get("type") == "text"]
    image_count: int = sum(part.get("type") == "image_url" for part in parts)
    text_tokens = sum(estimate_tokens(text) for text in texts)
    return MESSAGE_TOKENS * len(contents) + text_tokens + IMAGE_TOKENS * image_count


class TokenEstimator:
    """Estimates the tokens of one endpoint, and learns from the counts that it sends how it counts."""

    def __init__(self) -> None:
        self._prompt_ratio: float | None = None
        self._completion_tokens = 0.0
        self._completion_s = 0.0

    def learn(self, estimated_prompt_tokens: int, usage: StreamChunk, seconds: float) -> None:
        """Learn from a call that came to its end after so many seconds."""
        if estimated_prompt_tokens and usage.prompt_tokens:
            ratio = usage.prompt_tokens / estimated_prompt_tokens
            self._prompt_ratio = _average(ratio if self._prompt_ratio is None else self._prompt_ratio, ratio)
        self._completion_tokens = _average(self._completion_tokens or usage.completion_tokens, usage.completion_tokens)
        self._completion_s = _average(self._completion_s or seconds, seconds)

    def estimate_prompt(self, estimated_prompt_tokens: int) -> int:
        """Return what the endpoint is likely to count for a prompt."""
        return round(estimated_prompt_tokens * (1.0 if self._prompt_ratio is None else self._prompt_ratio))

    def estimate_unseen_completion(self, seconds: float) -> int:
        """Return the tokens that were probably written in so many seconds of a reply that comes as a whole."""
        share = min(1.0, seconds / self._completion_s) if self._completion_s else 0.0
        return round(self._completion_tokens * share)


class CallMeter:
    """Counts what one call consumes, and adds it to the budget and the metrics once, when it is closed.

    `agent` is who called; `is_stream` says that the reply comes piece by piece.
    """

    def __init__(
        self,
        request: Mapping[str, Any],
        settings: FallbackSettings,
        estimator: TokenEstimator,
        sinks: tuple[RequestBudget, MetricsRecorder],
        agent: str,
        *,
        is_stream: bool,
    ) -> None:
        self._settings = settings
        self._estimator = estimator
        self._agent = agent
        self._is_stream = is_stream
        self._budget, self._metrics_recorder = sinks
        self._prompt_tokens = estimate_prompt_tokens(request)
        self._started_at = time.monotonic()
        self._text_tokens = 0
        self._events = 0
        self._usage: StreamChunk | None = None
        self._is_billed = True
        self._is_closed = False
        self._span = start_span("model.call", **{"gen_ai.request.model": settings.model, "kimas.agent": agent})

    def count(self, chunk: StreamChunk) -> None:
        """Count a chunk of the reply, or the whole reply. Of running totals the last one counts."""
        self._text_tokens += estimate_tokens(chunk.text)
        self._events += chunk.events
        if chunk.prompt_tokens or chunk.completion_tokens:
            self._usage = chunk

    def fail(self, error: BaseException) -> None:
        """Note how the call failed: nothing is billed for one that was refused or never sent."""
        is_refused = isinstance(error, ModelError) and (error.status is not None or error.is_unsent)
        self._is_billed = bool(self._events) or not (is_refused or not _could_be_sent(error))

    def close(self) -> None:
        """Record what the call consumed. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        seconds = time.monotonic() - self._started_at
        if self._usage:
            self._estimator.learn(self._prompt_tokens, self._usage, seconds)
            self._record(self._usage.prompt_tokens, self._usage.completion_tokens, is_estimated=False)
        elif self._is_billed:
            prompt_tokens = self._estimator.estimate_prompt(self._prompt_tokens)
            self._record(prompt_tokens, self._estimate_completion(seconds), is_estimated=True)
        end_span(self._span)

    def _estimate_completion(self, seconds: float) -> int:
        if not self._is_stream:
            return self._text_tokens or self._estimator.estimate_unseen_completion(seconds)
        is_per_token = self._text_tokens <= MAX_TOKENS_PER_EVENT * self._events
        return self._events if is_per_token else self._text_tokens

    def _record(self, prompt_tokens: int, completion_tokens: int, *, is_estimated: bool) -> None:
        prompt_price = self._settings.price_prompt or 0
        completion_price = self._settings.price_completion or 0
        cost = (prompt_tokens * prompt_price + completion_tokens * completion_price) / TOKENS_PER_PRICE_UNIT
        model = self._settings.model
        self._budget.add_usage(
            self._agent, prompt_tokens, completion_tokens, cost, is_estimated=is_estimated, model=model
        )
        tokens = {"gen_ai.usage.input_tokens": prompt_tokens, "gen_ai.usage.output_tokens": completion_tokens}
        end_span(self._span, **tokens, is_estimated=is_estimated)
        self._metrics_recorder.record_tokens(self._agent, prompt_tokens, completion_tokens, cost)


def _could_be_sent(error: BaseException) -> bool:
    """Return whether a failure can come after the request: a client that cannot be made is another service's error."""
    return isinstance(error, ModelError) or not isinstance(error, Exception) or isinstance(error, TimeoutError)


def _average(average: float, value: float) -> float:
    return average + LEARNING_RATE * (value - average)
