"""What the handlers of the commands work with."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from core.errors import UsageError
from core.messaging.policy.permissions import Permissions
from core.ports import Library, Upkeep
from core.settings import Settings
from core.storage.audit import Audit
from core.storage.messages import Journal
from core.storage.overrides import Steering

# Reads the configuration as the daemon did at its start. Raises `ConfigurationError`.
Reread = Callable[[], Awaitable[Settings]]
Adopt = Callable[[Settings], None]


@dataclass(slots=True)
class Office:
    """The parts that commands read and change.

    `settings` are those in force: `/reload` replaces them. `adopters` take over new settings without a restart, by the
    section they are for; a section without one needs a restart. Without `upkeep` nothing is known of how sources stand,
    without `reread` the configuration cannot be read again, without a `library` no threshold can be fitted.
    """

    settings: Settings
    journal: Journal
    steering: Steering
    audit: Audit
    permissions: Permissions
    upkeep: Upkeep | None = None
    reread: Reread | None = None
    library: Library | None = None
    adopters: dict[str, Adopt] = field(default_factory=dict)
    platforms: set[str] = field(default_factory=set)
    started: float = field(default_factory=time.monotonic)
    # When each source was last asked for by /refresh; "" stands for all of them.
    asked_for: dict[str, float] = field(default_factory=dict)

    def known_source(self, name: str) -> str:
        """Return the name of a configured source. Raises `UsageError` for another one."""
        if name in self.settings.sources:
            return name
        known = ", ".join(f"`{one}`" for one in self.settings.sources) or "none are configured"
        raise UsageError(f"No source has that name. The sources are: {known}.")
