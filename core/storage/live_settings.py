"""The settings in force while the process runs: the configuration as last read, and what commands set above it."""

from __future__ import annotations

from core.settings import Settings
from core.settings.platforms import GateMode
from core.storage.overrides import RuntimeOverrides

# The sections that `/reload` changes at once. Every other section needs a restart.
LIVE_SECTIONS = frozenset({"gate", "administration", "limits"})


class LiveSettings:
    """Everybody who has to follow `/reload` and the commands reads this one object, and keeps no copy of its values.

    Call `load` before reading what commands have set; it raises `StoreError`. Without `overrides` no command can
    have set anything.
    """

    def __init__(self, settings: Settings, overrides: RuntimeOverrides | None = None) -> None:
        self.settings = settings
        self._overrides = overrides

    @property
    def overrides(self) -> RuntimeOverrides:
        """What commands have set. Raises `RuntimeError` where there are no commands."""
        if self._overrides is None:
            raise RuntimeError("these settings have no overrides")
        return self._overrides

    async def load(self) -> None:
        """Read what commands have set, unless that was done a moment ago. Raises `StoreError`."""
        if self._overrides:
            await self._overrides.load()

    def reload(self, new_settings: Settings) -> tuple[list[str], list[str]]:
        """Take over the live sections; return the sections that changed now, and those that need a restart."""
        changed = [
            name for name in Settings.model_fields if getattr(new_settings, name) != getattr(self.settings, name)
        ]
        live = [name for name in changed if name in LIVE_SECTIONS]
        # What needs a restart stays as it is, as a whole: half of it would be neither the old nor the new.
        self.settings = self.settings.model_copy(update={name: getattr(new_settings, name) for name in live})
        return live, [name for name in changed if name not in LIVE_SECTIONS]

    def mode(self, chat: str, *, private: bool) -> GateMode:
        """Return when the bot speaks in a chat (`platform:chat`)."""
        override = self._overrides.mode(chat) if self._overrides else None
        return override or self.settings.gate.get_mode(chat, private=private)

    def threshold(self, chat: str) -> float:
        """Return how sure the bot must be to speak unasked in a chat."""
        override = self._overrides.threshold(chat) if self._overrides else None
        return self.settings.gate.get_threshold(chat) if override is None else override

    def paused_until(self, chat: str) -> str:
        """Return until when a chat is paused (ISO, or `INDEFINITELY`), or "" where it is not."""
        return self._overrides.paused_until(chat) if self._overrides else ""

    def limit(self, name: str) -> float | None:
        """Return a daily limit, None for no limit."""
        configured: float | None = getattr(self.settings.limits, name)
        return self._overrides.limit(name, configured) if self._overrides else configured
