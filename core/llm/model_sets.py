"""All language models of a process: the general ones, and the sets that only some chats use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from core.llm.failover import Deployment, FailoverClient
from core.llm.role_models import RoleChatModel
from core.llm.transcription import Transcriber
from core.observability.metrics import MetricsRecorder
from core.settings.answering import ModelsSettings


@dataclass(frozen=True, slots=True)
class ModelSets:
    """The opened models: `general`, and `by_name` those of `models.sets`; None where there is none.

    `transcriber` and `transcribers` write down voice messages, in the same way.
    """

    general: RoleChatModel | None = None
    by_name: Mapping[str, RoleChatModel | None] = field(default_factory=dict)
    transcriber: Transcriber | None = None
    transcribers: Mapping[str, Transcriber | None] = field(default_factory=dict)

    @classmethod
    def open(cls, settings: ModelsSettings, metrics_recorder: MetricsRecorder | None = None) -> ModelSets:
        """Return the configured models. One that several sets name in the same way has one circuit breaker."""
        clients: dict[str, FailoverClient] = {}
        general = RoleChatModel.open(settings, metrics_recorder, clients=clients)
        by_name = {
            name: RoleChatModel.open(settings.get_set(name), metrics_recorder, clients=clients)
            for name in settings.sets
        }
        transcriber = Transcriber.open(settings.transcription, metrics_recorder)
        transcribers = {
            name: Transcriber.open(model_set.transcription, metrics_recorder)
            for name, model_set in settings.sets.items()
        }
        return cls(general, by_name, transcriber, transcribers)

    async def warm_up(self) -> None:
        """Load the clients ahead of the first question."""
        for models in self._iter_opened():
            await models.warm_up()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        for models in self._iter_opened():
            await models.close()

    def deployments(self) -> Sequence[Deployment]:
        """Return all endpoints with their state; a shared endpoint appears once for each role."""
        return [deployment for models in self._iter_opened() for deployment in models.deployments()]

    def _iter_opened(self) -> Iterator[RoleChatModel | Transcriber]:
        yield from (models for models in (self.general, *self.by_name.values()) if models)
        yield from (transcriber for transcriber in (self.transcriber, *self.transcribers.values()) if transcriber)
