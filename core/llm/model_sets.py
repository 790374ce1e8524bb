"""All language models of a process: the general ones, and the sets that only some chats use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from core.llm.failover import Deployment, FailoverClient
from core.llm.role_models import RoleChatModel
from core.observability.metrics import MetricsRecorder
from core.settings.answering import ModelsSettings


@dataclass(frozen=True, slots=True)
class ModelSets:
    """The opened models: `general`, and `by_name` those of `models.sets`; None where there is none."""

    general: RoleChatModel | None = None
    by_name: Mapping[str, RoleChatModel | None] = field(default_factory=dict)

    @classmethod
    def open(cls, settings: ModelsSettings, metrics_recorder: MetricsRecorder | None = None) -> ModelSets:
        """Return the configured models. One that several sets name in the same way has one circuit breaker."""
        clients: dict[str, FailoverClient] = {}
        general = RoleChatModel.open(settings, metrics_recorder, clients=clients)
        by_name = {
            name: RoleChatModel.open(settings.get_set(name), metrics_recorder, clients=clients)
            for name in settings.sets
        }
        return cls(general, by_name)

    async def warm_up(self) -> None:
        """Load the clients ahead of the first question."""
        for models in self._iter_opened():
            await models.warm_up()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        for models in self._iter_opened():
            await models.close()

    def deployments(self) -> Sequence[Deployment]:
        """Return the endpoints of all roles with their state; a shared endpoint appears once for each role."""
        return [deployment for models in self._iter_opened() for deployment in models.deployments()]

    def _iter_opened(self) -> Iterator[RoleChatModel]:
        yield from (models for models in (self.general, *self.by_name.values()) if models)
