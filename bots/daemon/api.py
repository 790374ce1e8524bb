"""Opens the API of a daemon for other programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from core.settings import Settings

if TYPE_CHECKING:
    from bots.daemon.bootstrap import Daemon


@asynccontextmanager
async def open_api(settings: Settings, daemon: Daemon) -> AsyncIterator[None]:
    """Serve other programs for the length of the block, where the API has a port.

    Raises `UsageError` for an address that cannot be listened on, and for a token that is too short.
    """
    if settings.api.port is None:
        yield
        return
    from bots.api.server import serve_api

    parts = (daemon.live, daemon.answer, daemon.app.get_deps, settings.run.workers)
    async with serve_api(settings.api, *parts, journal=daemon.journal):
        yield
