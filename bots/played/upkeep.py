"""What a group that is played knows of the sources: how they stand, as `kimas sources` shows it."""

from __future__ import annotations

from collections.abc import Sequence

from bots.sources import read_states
from core.errors import UsageError
from core.settings import Settings
from core.types import SourceState


class Looking:
    """Implements `core.ports.Upkeep` for who only looks: nothing is refreshed from a play."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def states(self) -> Sequence[SourceState]:
        """Return how every stored source stands, in the order of the configuration. Raises `StoreError`."""
        return list((await read_states(self._settings)).values())

    async def refresh(self, names: Sequence[str] = ()) -> None:
        """Raise `UsageError`."""
        raise UsageError("I cannot refresh sources here: `kimas run` does, and `kimas ingest` by hand.")

    async def pause(self, name: str) -> None:
        """Raise `UsageError`."""
        raise _no_plan()

    async def resume(self, name: str) -> None:
        """Raise `UsageError`."""
        raise _no_plan()


def _no_plan() -> UsageError:
    return UsageError("I do not refresh sources here: `kimas sources pause NAME` and `resume NAME` do the same.")
