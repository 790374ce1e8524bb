"""Opens the operator's page of a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from core.observability.logs import buffered_logs
from core.settings import Settings
from core.settings.loader import get_secret_values

if TYPE_CHECKING:
    from bots.daemon.bootstrap import Daemon


@asynccontextmanager
async def open_operator_page(settings: Settings, daemon: Daemon) -> AsyncIterator[None]:
    """Serve the page for the length of the block, where it has a port.

    Raises `UsageError` for an address that cannot be listened on, and for a token that is too short.
    """
    if settings.operator_page.port is None:
        yield
        return
    from bots.operator_page.context import make_context
    from bots.operator_page.server import serve_operator_page

    secrets = get_secret_values(settings)
    with buffered_logs(secrets) as log_buffer:
        context = make_context(
            settings,
            daemon.journal.database,
            daemon.refresh_scheduler,
            log_buffer,
            secrets=secrets,
            get_problems=daemon.monitor.get_problems,
        )
        async with serve_operator_page(settings.operator_page, context):
            yield
