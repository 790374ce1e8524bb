"""What the parts of the line tell whoever counts, and the one who counts nothing."""

from __future__ import annotations

from typing import Literal, Protocol

from core.types import Skip

ProcessingOutcome = Literal["answered", "silent", "failed"]
ModelCallOutcome = Literal["ok", "failed", "refused", "timeout", "cancelled"]
RefreshOutcome = Literal["succeeded", "stale", "failed"]
LiveCallOutcome = Literal["answered", "failed", "cut"]


class MetricsRecorder(Protocol):
    """Counts what happens. No method waits, fails or keeps what people said."""

    def record_message(self, platform: str, outcome: ProcessingOutcome, skip: Skip | None = None) -> None:
        """Count a message that came to its end; `skip` says why the bot was silent."""
        ...

    def record_model_call(self, model: str, base_url: str, outcome: ModelCallOutcome, seconds: float) -> None:
        """Count one call of a language model on one endpoint."""
        ...

    def record_tokens(self, agent: str, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
        """Count the tokens of one call, and their cost in the currency of the configured prices."""
        ...

    def record_refresh(self, source: str, outcome: RefreshOutcome, seconds: float) -> None:
        """Count one refresh of a source."""
        ...

    def record_live_call(self, source: str, outcome: LiveCallOutcome, seconds: float) -> None:
        """Count that a live source was asked."""
        ...


class NullMetrics:
    """A `Meter` that counts nothing."""

    def record_message(self, platform: str, outcome: ProcessingOutcome, skip: Skip | None = None) -> None:
        """Count nothing."""

    def record_model_call(self, model: str, base_url: str, outcome: ModelCallOutcome, seconds: float) -> None:
        """Count nothing."""

    def record_tokens(self, agent: str, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
        """Count nothing."""

    def record_refresh(self, source: str, outcome: RefreshOutcome, seconds: float) -> None:
        """Count nothing."""

    def record_live_call(self, source: str, outcome: LiveCallOutcome, seconds: float) -> None:
        """Count nothing."""
