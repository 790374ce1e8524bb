"""A circuit breaker: an endpoint that keeps failing is left alone for a while, then tried by one call."""

from __future__ import annotations

import time

from core.observability.logs import get_logger
from core.settings.models import CircuitSettings


class CircuitBreaker:
    """The state of one endpoint: closed (used), open (left alone), or open with one call probing it.

    Use as: `ready` to choose, `begin` when a call starts, then exactly one of `succeeded`, `failed` and `released`, the
    last two with what `begin` returned. `failed_at` is the time of the last failure, on the monotonic clock.
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
        """Whether the endpoint is left alone, or has rested and not yet shown that it is well."""
        return self._is_open

    def is_available(self) -> bool:
        """Say whether a call may use the endpoint: it is well, or it has rested and nobody probes it yet."""
        if not self._is_open:
            return True
        return not self._is_probing and time.monotonic() - self.last_failure_at >= self._settings.rest_s

    def begin_call(self) -> bool:
        """Note that a call starts, and say whether it is the probe of an open circuit."""
        is_probe = self._is_open and self.is_available()
        if is_probe:
            get_logger(__name__).info("circuit.probed", endpoint=self._name)
            self._is_probing = True
        return is_probe

    def record_success(self) -> None:
        """Note a good reply: the circuit is closed."""
        if self._is_open:
            get_logger(__name__).info("circuit.closed", endpoint=self._name)
        self._consecutive_failures, self._is_open, self._is_probing = 0, False, False

    def record_failure(self, is_probe: bool) -> None:
        """Note a failure: too many in a row open the circuit, and a failed probe lets the endpoint rest again."""
        self._consecutive_failures += 1
        self.last_failure_at = time.monotonic()
        if not self._is_open and self._consecutive_failures >= self._settings.failures:
            get_logger(__name__).warning(
                "circuit.opened", endpoint=self._name, failures=self._consecutive_failures, rest_s=self._settings.rest_s
            )
            self._is_open = True
        self.release(is_probe)

    def release(self, is_probe: bool) -> None:
        """Note the end of a call that says nothing about the endpoint."""
        if is_probe:
            self._is_probing = False
