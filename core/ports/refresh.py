"""The refresh of the stored sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from core.types import SourceState


class SourceRefresher(Protocol):
    """Keeps the stored sources up to date, as the bot's administrators see it.

    `refresh`, `pause` and `resume` raise `UsageError` for an unknown source.
    """

    async def states(self) -> Sequence[SourceState]:
        """Return the state of every stored source, in the order of the configuration."""
        ...

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Request a refresh of these sources (by default all) as soon as possible, without waiting for it."""
        ...

    async def pause(self, name: str) -> None:
        """Refresh a source only on request until it is resumed, also after a restart."""
        ...

    async def resume(self, name: str) -> None:
        """Refresh a source by its schedule again; one refresh makes up for the missed ones."""
        ...


async def refresh_taught(refresher: SourceRefresher) -> None:
    """Request a refresh of the sources that hold what people taught: somebody has decided about an answer."""
    if names := [state.name for state in await refresher.states() if state.kind == "learned"]:
        await refresher.refresh(names)
