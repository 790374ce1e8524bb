"""What the parts of the line tell whoever counts, and the one who counts nothing."""

from __future__ import annotations

from typing import Literal, Protocol

Settled = Literal["answered", "silent", "failed"]
CallOutcome = Literal["ok", "failed", "refused", "timeout", "cancelled"]
RefreshOutcome = Literal["succeeded", "stale", "failed"]
LiveOutcome = Literal["answered", "failed", "cut"]


class Meter(Protocol):
    """Counts what happens. No method waits, fails or keeps what people said."""

    def settled(self, platform: str, outcome: Settled, reason: str = "") -> None:
        """Count a message that came to its end; `reason` says why there was silence, in the journal's words."""
        ...

    def called(self, model: str, base_url: str, outcome: CallOutcome, seconds: float) -> None:
        """Count one call of a language model on one endpoint."""
        ...

    def consumed(self, agent: str, prompt: int, completion: int, cost: float) -> None:
        """Count the tokens of one call, and their cost in the currency of the configured prices."""
        ...

    def refreshed(self, source: str, outcome: RefreshOutcome, seconds: float) -> None:
        """Count one refresh of a source."""
        ...

    def asked(self, source: str, outcome: LiveOutcome, seconds: float) -> None:
        """Count that a live source was asked."""
        ...


class Unmetered:
    """A `Meter` that counts nothing."""

    def settled(self, platform: str, outcome: Settled, reason: str = "") -> None:
        """Count nothing."""

    def called(self, model: str, base_url: str, outcome: CallOutcome, seconds: float) -> None:
        """Count nothing."""

    def consumed(self, agent: str, prompt: int, completion: int, cost: float) -> None:
        """Count nothing."""

    def refreshed(self, source: str, outcome: RefreshOutcome, seconds: float) -> None:
        """Count nothing."""

    def asked(self, source: str, outcome: LiveOutcome, seconds: float) -> None:
        """Count nothing."""
