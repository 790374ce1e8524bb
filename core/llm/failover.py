"""One call on several endpoints: failover to the next one, one retry on a single endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.errors import ModelError, ReplyCut, ServiceError
from core.llm.client import OpenAIClient
from core.llm.usage import TokenEstimator
from core.observability.logs import get_logger
from core.observability.metrics import MetricsRecorder, ModelCallOutcome
from core.ports import RequestBudget
from core.settings.answering import CircuitSettings, FallbackSettings

_log = get_logger(__name__)

T = TypeVar("T")
# A silence shorter than this, in seconds, is no failure of the endpoint.
TIMEOUT_GRACE_S = 1.0
# The wait before the retry on a single endpoint that names none itself, in seconds.
RETRY_DELAY_S = 0.25
# The endpoint rejects the request: it is healthy, and another endpoint may accept it.
BAD_REQUEST_STATUSES = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Deployment:
    """An endpoint with its settings and its circuit breaker.

    The metrics recorder counts its calls, the estimator learns how it counts tokens.
    """

    client: OpenAIClient
    settings: FallbackSettings
    circuit_breaker: CircuitBreaker
    metrics_recorder: MetricsRecorder = field(default_factory=MetricsRecorder)
    estimator: TokenEstimator = field(default_factory=TokenEstimator)

    def begin_attempt(self, start_timeout_s: float, budget: RequestBudget) -> Attempt:
        """Start a call. A silence longer than `start_timeout_s` or `TIMEOUT_GRACE_S` seconds counts as a failure."""
        deadline = time.monotonic() + min(self.settings.timeout_s, budget.remaining())
        return Attempt(self, self.circuit_breaker.begin_call(), deadline, min(TIMEOUT_GRACE_S, start_timeout_s))

    def make_error(self, text: str) -> ModelError:
        """Return an error that names this endpoint."""
        return ModelError(f"{self.client.base_url}: {self.settings.model} {text}")


@dataclass(slots=True)
class Attempt:
    """One call on one endpoint. It must be ended exactly once; its outcome goes to the endpoint's circuit breaker.

    The deadline of the whole call is on the monotonic clock.
    """

    deployment: Deployment
    is_probe: bool
    deadline: float
    timeout_grace_s: float
    started_at: float = field(default_factory=lambda: time.monotonic())  # noqa: PLW0108 (tests replace the clock)

    def record_success(self) -> None:
        """End the call: the reply is complete."""
        self.deployment.circuit_breaker.record_success()
        self._record_call("ok")

    def record_failure(self, error: ModelError) -> None:
        """End the call: the endpoint rejected it or broke off. A reply that it cut is no failure of it."""
        if isinstance(error, ReplyCut):
            self.record_success()
        elif error.status in BAD_REQUEST_STATUSES:
            self.deployment.circuit_breaker.release(self.is_probe)
            self._record_call("refused")
        else:
            self.deployment.circuit_breaker.record_failure(self.is_probe)
            self._record_call("failed")

    def record_timeout(self) -> None:
        """End the call because nobody waits any longer: a failure if the endpoint had enough time."""
        if time.monotonic() - self.started_at >= self.timeout_grace_s:
            self.deployment.circuit_breaker.record_failure(self.is_probe)
            self._record_call("timeout")
        else:
            self.release()

    def release(self) -> None:
        """End the call for a reason that says nothing about the endpoint."""
        self.deployment.circuit_breaker.release(self.is_probe)
        self._record_call("cancelled")

    def _record_call(self, outcome: ModelCallOutcome) -> None:
        settings = self.deployment.settings
        self.deployment.metrics_recorder.record_model_call(
            settings.model, settings.base_url, outcome, time.monotonic() - self.started_at
        )


@dataclass(frozen=True, slots=True)
class FailoverCall(Generic[T]):
    """The call to make: `start` returns its successful start or raises.

    `start_timeout_s` is how long a start may take, in seconds, while another endpoint is left to try. With
    `cancel_means_timeout` a cancelled call counts as too slow.
    """

    start: Callable[[Attempt], Awaitable[T]]
    start_timeout_s: float
    cancel_means_timeout: bool = True


class FailoverClient:
    """The endpoints of one role, in the order in which they are tried."""

    def __init__(self, deployments: Sequence[Deployment]) -> None:
        self.deployments = deployments

    async def first_success(self, call: FailoverCall[T], budget: RequestBudget) -> T:
        """Return the first successful start. Raises `ModelError` with the errors of all endpoints that were tried.

        Endpoints whose circuit is open come last, the one that failed longest ago first.
        """
        candidates = list(self.deployments)
        errors = list[ModelError]()
        has_retried = False
        while candidates and (not errors or budget.remaining() > 0):
            deployment, alternatives = _choose_deployment(candidates)
            try:
                return await _run_attempt(call, deployment, len(alternatives), budget)
            except ModelError as error:
                errors.append(error)
            candidates.remove(deployment)
            if len(self.deployments) == 1 and not has_retried and await _wait_before_retry(errors[-1], budget):
                candidates = list(self.deployments)
                errors.clear()
                has_retried = True
            elif candidates:
                _log.warning("model.failed_over", error=str(errors[-1]))
        raise _combine_errors(errors)


async def _run_attempt(
    call: FailoverCall[T], deployment: Deployment, alternative_count: int, budget: RequestBudget
) -> T:
    """Return the successful start of one call. Raises `ModelError`, also after this endpoint's share of the time."""
    attempt = deployment.begin_attempt(call.start_timeout_s, budget)
    timeout_s = max(0.0, attempt.deadline - time.monotonic())
    if alternative_count:
        # The time left is divided equally among the endpoints left.
        timeout_s = min(call.start_timeout_s, timeout_s / (alternative_count + 1))
    try:
        async with asyncio.timeout(timeout_s):
            return await call.start(attempt)
    except TimeoutError as error:
        attempt.record_timeout()
        message = f"did not answer within {timeout_s:.1f} s" if alternative_count else "did not answer in time"
        timeout_error = deployment.make_error(message)
        timeout_error.is_timeout = True
        raise timeout_error from error
    except ServiceError as error:
        model_error = error if isinstance(error, ModelError) else ModelError(str(error))
        attempt.record_failure(model_error)
        raise model_error from error.__cause__
    except asyncio.CancelledError:
        if call.cancel_means_timeout:
            attempt.record_timeout()
        else:
            attempt.release()
        raise
    except BaseException:
        attempt.release()
        raise


def _choose_deployment(candidates: Sequence[Deployment]) -> tuple[Deployment, Sequence[Deployment]]:
    """Return the endpoints to try now, and those that could still take over."""
    available_deployments = [deployment for deployment in candidates if deployment.circuit_breaker.is_available()]
    deployments = available_deployments or sorted(
        candidates, key=lambda deployment: deployment.circuit_breaker.last_failure_at
    )
    return deployments[0], deployments[1:]


async def _wait_before_retry(error: ModelError, budget: RequestBudget) -> bool:
    """Wait as long as an overloaded endpoint requests, or a moment, if at least as much time is left afterwards."""
    if error.status is None or not (error.status == 429 or error.status >= 500):
        return False
    wait_s = RETRY_DELAY_S if error.retry_after is None else max(0.0, error.retry_after)
    if 2 * wait_s > budget.remaining():
        return False
    await asyncio.sleep(wait_s)
    return True


def _combine_errors(errors: Sequence[ModelError]) -> ModelError:
    if len(errors) == 1:
        return errors[0]
    message = "; ".join(dict.fromkeys(str(error) for error in errors))
    combined_error = ModelError(message, status=errors[-1].status, retry_after=errors[-1].retry_after)
    combined_error.__cause__ = errors[-1]
    return combined_error


class CircuitBreaker:
    """The circuit breaker of one endpoint: closed (in use), open (no calls), or open with one call that probes it.

    Check `is_available`, call `begin_call` when a call starts, then exactly one of `record_success`, `record_failure`
    and `release`, the last two with the result of `begin_call`. `is_open` says that the endpoint gets no calls, or a
    probe alone; `last_failure_at` is on the monotonic clock.
    """

    def __init__(self, name: str, settings: CircuitSettings) -> None:
        self._name = name
        self._settings = settings
        self._consecutive_failures = 0
        self.is_open = False
        self._is_probing = False
        self.last_failure_at = 0.0

    def is_available(self) -> bool:
        """Return whether a call may use the endpoint: the circuit is closed, or a probe is due."""
        if not self.is_open:
            return True
        return not self._is_probing and time.monotonic() - self.last_failure_at >= self._settings.rest_s

    def begin_call(self) -> bool:
        """Record that a call starts; return whether it is the probe of an open circuit."""
        is_probe = self.is_open and self.is_available()
        if is_probe:
            _log.info("circuit.probed", endpoint=self._name)
            self._is_probing = True
        return is_probe

    def record_success(self) -> None:
        """Record a good reply, which closes the circuit."""
        if self.is_open:
            _log.info("circuit.closed", endpoint=self._name)
        self._consecutive_failures = 0
        self.is_open = False
        self._is_probing = False

    def record_failure(self, is_probe: bool) -> None:
        """Record a failure: too many in a row, or a failed probe, open the circuit."""
        self._consecutive_failures += 1
        self.last_failure_at = time.monotonic()
        if not self.is_open and self._consecutive_failures >= self._settings.failures:
            _log.warning(
                "circuit.opened", endpoint=self._name, failures=self._consecutive_failures, rest_s=self._settings.rest_s
            )
            self.is_open = True
        self.release(is_probe)

    def release(self, is_probe: bool) -> None:
        """Record the end of a call that says nothing about the endpoint."""
        if is_probe:
            self._is_probing = False
