"""One call on several endpoints: failover to the next one, hedging when one is slow, one retry on a single endpoint."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from core.errors import ModelError, ServiceError
from core.llm.client import OpenAIClient
from core.llm.usage import TokenEstimator
from core.observability.logs import get_logger
from core.observability.metrics import MetricsRecorder, ModelCallOutcome
from core.ports import RequestBudget
from core.runtime.tasks import task_group
from core.settings.answering import CircuitSettings, FallbackSettings, ModelSettings

_log = get_logger(__name__)

T = TypeVar("T")
# A silence shorter than this, in seconds, is no failure of the endpoint.
TIMEOUT_GRACE_S = 1.0
# The wait before the retry on a single endpoint that names none itself, in seconds.
RETRY_DELAY_S = 0.25
# The number of hedges that can accumulate while everything is fast.
MAX_HEDGE_CREDITS = 5.0
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

    def ignore_timeout(self) -> None:
        """End the call without a failure: another endpoint was faster."""
        self.timeout_grace_s = math.inf

    def record_success(self) -> None:
        """End the call: the reply is complete."""
        self.deployment.circuit_breaker.record_success()
        self._record_call("ok")

    def record_failure(self, error: ModelError) -> None:
        """End the call: the endpoint rejected it or broke off."""
        if error.status in BAD_REQUEST_STATUSES:
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
    """The call to make: `start` returns its successful start or raises; `discard` releases a start that is not needed.

    `start_timeout_s` is how long a start may take, in seconds, while another endpoint is left to try. With
    `cancel_means_timeout` a cancelled call counts as too slow.
    """

    start: Callable[[Attempt], Awaitable[T]]
    discard: Callable[[T], Awaitable[None]]
    start_timeout_s: float
    cancel_means_timeout: bool = True


@dataclass(frozen=True, slots=True)
class _Success(Generic[T]):
    result: T


@dataclass(frozen=True, slots=True)
class _Failure:
    errors: list[ModelError]


class FailoverClient:
    """The endpoints of one role, in the order in which they are tried."""

    def __init__(self, deployments: Sequence[Deployment], settings: ModelSettings) -> None:
        self.deployments = deployments
        self._settings = settings
        self._hedge_credits = 1.0

    async def first_success(self, call: FailoverCall[T], budget: RequestBudget) -> T:
        """Return the first successful start. Raises `ModelError` with the errors of all endpoints that were tried.

        Endpoints whose circuit is open come last, the one that failed longest ago first.
        """
        self._hedge_credits = min(MAX_HEDGE_CREDITS, self._hedge_credits + self._settings.hedge_share)
        candidates = list(self.deployments)
        errors = list[ModelError]()
        has_retried = False
        has_hedged = False
        while candidates and (not errors or budget.remaining() > 0):
            deployment, alternatives = _choose_deployment(candidates)
            if has_hedged or self._settings.hedge_after_s is None:
                attempted_deployments = [deployment]
                outcome = await self._run_attempt(call, deployment, alternatives, budget, [])
            else:
                attempted_deployments, outcome = await self._run_hedged(
                    call, deployment, alternatives, budget, self._settings.hedge_after_s
                )
            if isinstance(outcome, _Success):
                return outcome.result
            has_hedged = has_hedged or len(attempted_deployments) > 1
            errors += outcome.errors
            candidates = [candidate for candidate in candidates if candidate not in attempted_deployments]
            if len(self.deployments) == 1 and not has_retried and await _wait_before_retry(errors[-1], budget):
                candidates = list(self.deployments)
                errors = []
                has_retried = True
            elif candidates:
                _log.warning("model.failed_over", error=str(errors[-1]))
        raise _combine_errors(errors)

    async def _run_hedged(
        self,
        call: FailoverCall[T],
        deployment: Deployment,
        alternatives: Sequence[Deployment],
        budget: RequestBudget,
        hedge_after_s: float,
    ) -> tuple[list[Deployment], _Success[T] | _Failure]:
        """Make one attempt, and a second one when the first is slow. Return the endpoints tried and the outcome."""
        attempted_deployments = [deployment]
        attempts = list[Attempt]()
        attempt_tasks: list[asyncio.Task[_Success[T] | _Failure]] = []
        returned_outcome: _Success[T] | _Failure | None = None
        try:
            async with task_group() as tasks:
                attempt_tasks.append(
                    tasks.create_task(self._run_attempt(call, deployment, alternatives, budget, attempts))
                )
                done_tasks, _ = await asyncio.wait(attempt_tasks, timeout=hedge_after_s)
                if not done_tasks and self._take_hedge_credit():
                    backup = alternatives[0] if alternatives else deployment
                    _log.info("model.hedged", endpoint=backup.client.base_url, model=backup.settings.model)
                    attempted_deployments.append(backup)
                    attempt_tasks.append(
                        tasks.create_task(self._run_attempt(call, backup, alternatives[1:], budget, attempts))
                    )
                outcome = await _first_success(attempt_tasks)
                for attempt in attempts:
                    attempt.ignore_timeout()
                for task in attempt_tasks:
                    task.cancel()
            returned_outcome = outcome
        finally:
            await _discard_others(attempt_tasks, returned_outcome, call)
        return attempted_deployments, outcome

    def _take_hedge_credit(self) -> bool:
        """Take one hedge. Each call adds a fraction of one, so that a crowd cannot double its own load."""
        if self._hedge_credits < 1:
            return False
        self._hedge_credits -= 1
        return True

    async def _run_attempt(
        self,
        call: FailoverCall[T],
        deployment: Deployment,
        alternatives: Sequence[Deployment],
        budget: RequestBudget,
        attempts: list[Attempt],
    ) -> _Success[T] | _Failure:
        """Make one attempt and add it to `attempts`, where the caller can end it without a failure."""
        # Started inside the task: one that is cancelled before its first step leaves no call to end.
        attempt = deployment.begin_attempt(call.start_timeout_s, budget)
        attempts.append(attempt)
        remaining_s = max(0.0, attempt.deadline - time.monotonic())
        # The time left is divided equally among the endpoints left.
        timeout_s = min(call.start_timeout_s, remaining_s / (len(alternatives) + 1)) if alternatives else remaining_s
        try:
            async with asyncio.timeout(timeout_s):
                return _Success(await call.start(attempt))
        except TimeoutError:
            attempt.record_timeout()
            message = f"did not answer within {timeout_s:.1f} s" if alternatives else "did not answer in time"
            return _Failure([deployment.make_error(message)])
        except ServiceError as error:
            model_error = error if isinstance(error, ModelError) else ModelError(str(error))
            model_error.__cause__ = error.__cause__
            attempt.record_failure(model_error)
            return _Failure([model_error])
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


async def _first_success(attempt_tasks: Sequence[asyncio.Task[_Success[T] | _Failure]]) -> _Success[T] | _Failure:
    """Return the first successful outcome, or all failures as one."""
    pending_tasks = set(attempt_tasks)
    errors = list[ModelError]()
    while pending_tasks:
        done_tasks, pending_tasks = await asyncio.wait(pending_tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in sorted(done_tasks, key=attempt_tasks.index):
            outcome = task.result()
            if isinstance(outcome, _Success):
                return outcome
            errors += outcome.errors
    return _Failure(errors)


async def _discard_others(
    attempt_tasks: Sequence[asyncio.Task[_Success[T] | _Failure]],
    returned_outcome: _Success[T] | _Failure | None,
    call: FailoverCall[T],
) -> None:
    """Release successful starts that came too late, or that nobody needs any more."""
    for task in attempt_tasks:
        if task.done() and not task.cancelled() and task.exception() is None:
            outcome = task.result()
            if outcome is not returned_outcome and isinstance(outcome, _Success):
                await call.discard(outcome.result)


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
    and `release`, the last two with the result of `begin_call`. `last_failure_at` is on the monotonic clock.
    """

    def __init__(self, name: str, settings: CircuitSettings) -> None:
        self._name = name
        self._settings = settings
        self._consecutive_failures = 0
        self._is_open = False
        self._is_probing = False
        self.last_failure_at = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether the endpoint gets no calls, or only a probe."""
        return self._is_open

    def is_available(self) -> bool:
        """Return whether a call may use the endpoint: the circuit is closed, or a probe is due."""
        if not self._is_open:
            return True
        return not self._is_probing and time.monotonic() - self.last_failure_at >= self._settings.rest_s

    def begin_call(self) -> bool:
        """Record that a call starts; return whether it is the probe of an open circuit."""
        is_probe = self._is_open and self.is_available()
        if is_probe:
            _log.info("circuit.probed", endpoint=self._name)
            self._is_probing = True
        return is_probe

    def record_success(self) -> None:
        """Record a good reply, which closes the circuit."""
        if self._is_open:
            _log.info("circuit.closed", endpoint=self._name)
        self._consecutive_failures = 0
        self._is_open = False
        self._is_probing = False

    def record_failure(self, is_probe: bool) -> None:
        """Record a failure: too many in a row, or a failed probe, open the circuit."""
        self._consecutive_failures += 1
        self.last_failure_at = time.monotonic()
        if not self._is_open and self._consecutive_failures >= self._settings.failures:
            _log.warning(
                "circuit.opened", endpoint=self._name, failures=self._consecutive_failures, rest_s=self._settings.rest_s
            )
            self._is_open = True
        self.release(is_probe)

    def release(self, is_probe: bool) -> None:
        """Record the end of a call that says nothing about the endpoint."""
        if is_probe:
            self._is_probing = False
