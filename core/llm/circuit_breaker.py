"""A circuit breaker: an endpoint that keeps failing is left alone for a while, then tried by one call."""

from __future__ import annotations

import time

from core.observability.logs import logger
from core.settings.models import CircuitSettings


class Circuit:
    """The state of one endpoint: closed (used), open (left alone), or open with one call probing it.

    Use as: `ready` to choose, `begin` when a call starts, then exactly one of `succeeded`, `failed` and `released`, the
    last two with what `begin` returned. `failed_at` is the time of the last failure, on the monotonic clock.
    """

    def __init__(self, name: str, settings: CircuitSettings) -> None:
        self._name = name
        self._settings = settings
        self._failures = 0
        self._open = False
        self._probing = False
        self.failed_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether the endpoint is left alone, or has rested and not yet shown that it is well."""
        return self._open

    def ready(self) -> bool:
        """Say whether a call may use the endpoint: it is well, or it has rested and nobody probes it yet."""
        if not self._open:
            return True
        return not self._probing and time.monotonic() - self.failed_at >= self._settings.rest_s

    def begin(self) -> bool:
        """Note that a call starts, and say whether it is the probe of an open circuit."""
        probe = self._open and self.ready()
        if probe:
            logger(__name__).info("circuit.probed", endpoint=self._name)
            self._probing = True
        return probe

    def succeeded(self) -> None:
        """Note a good reply: the circuit is closed."""
        if self._open:
            logger(__name__).info("circuit.closed", endpoint=self._name)
        self._failures, self._open, self._probing = 0, False, False

    def failed(self, probe: bool) -> None:
        """Note a failure: too many in a row open the circuit, and a failed probe lets the endpoint rest again."""
        self._failures += 1
        self.failed_at = time.monotonic()
        if not self._open and self._failures >= self._settings.failures:
            logger(__name__).warning(
                "circuit.opened", endpoint=self._name, failures=self._failures, rest_s=self._settings.rest_s
            )
            self._open = True
        self.released(probe)

    def released(self, probe: bool) -> None:
        """Note the end of a call that says nothing about the endpoint."""
        if probe:
            self._probing = False
