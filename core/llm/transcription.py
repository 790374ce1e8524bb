"""Writes down what is said in a recording, by an OpenAI-compatible endpoint."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.formatting import replace_lone_surrogates, strip_control_characters
from core.llm.client import OpenAIClient
from core.llm.failover import Attempt, CircuitBreaker, Deployment, FailoverCall, FailoverClient
from core.llm.recordings import Recording
from core.observability.metrics import MetricsRecorder
from core.ports import RequestBudget
from core.settings import FallbackSettings, TranscriptionSettings
from core.settings.answering import CircuitSettings

# What models write where nobody speaks: [BLANK_AUDIO], (music), *coughs*, ♪.
_SOUND = re.compile(r"\[[^\[\]]{0,80}\]|\([^()]{0,80}\)|\*[^*]{0,80}\*")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Transcriber:
    """One endpoint."""

    client: FailoverClient

    @classmethod
    def open(
        cls, settings: TranscriptionSettings | None, metrics_recorder: MetricsRecorder | None = None
    ) -> Transcriber | None:
        """Prepare the client without sending anything; None where no endpoint is configured."""
        if settings is None:
            return None
        api_key = settings.api_key.value() if settings.api_key else ""
        client = OpenAIClient.open(settings.base_url, api_key, settings.timeout_s)
        circuit_breaker = CircuitBreaker(settings.base_url, CircuitSettings())
        endpoint = FallbackSettings(**dict(settings))
        deployment = Deployment(client, endpoint, circuit_breaker, metrics_recorder or MetricsRecorder())
        return cls(FailoverClient([deployment]))

    async def transcribe(self, recording: Recording, budget: RequestBudget) -> str:
        """Return what is said in a recording, as one line; "" where nothing is.

        An endpoint that is overloaded is asked once more, after the wait that it names, as far as the budget allows.
        Raises `ModelError`.
        """

        async def start(attempt: Attempt) -> str:
            deployment = attempt.deployment
            text = await deployment.client.transcribe(deployment.settings.model, recording)
            attempt.record_success()
            return text

        timeout_s = self.client.deployments[0].settings.timeout_s
        return clean_transcript(await self.client.first_success(FailoverCall(start, timeout_s), budget))

    async def warm_up(self) -> None:
        """Load the client ahead of the first voice message."""
        for deployment in self.client.deployments:
            await deployment.client.warm_up()

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        for deployment in self.client.deployments:
            await deployment.client.close()

    def deployments(self) -> Sequence[Deployment]:
        """Return the endpoint with its state."""
        return self.client.deployments


def clean_transcript(text: str) -> str:
    """Return what was said as one line; "" for a transcript that only names sounds.

    >>> clean_transcript(" How do I\\n install it? "), clean_transcript("[BLANK_AUDIO]")
    ('How do I install it?', '')
    """
    line = " ".join(strip_control_characters(replace_lone_surrogates(text)).split())
    return line if _WORD.search(_SOUND.sub("", line)) else ""
