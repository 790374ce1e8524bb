"""Opens the operator's page of a daemon."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from core.errors import StoreError, UsageError
from core.observability.logs import buffered_logs
from core.runtime.timers import run_periodically
from core.settings import Settings
from core.settings.loader import get_secret_values

if TYPE_CHECKING:
    from bots.daemon.alerts import AlertRules
    from bots.daemon.bootstrap import Daemon
    from bots.daemon.monitor import Monitor
    from bots.operator_page.context import PageContext
    from bots.operator_page.setup_port import Setup
    from core.storage.overrides import Reloaded

PREPARE_MINUTES = 10.0


@asynccontextmanager
async def open_operator_page(
    settings: Settings, daemon: Daemon, make_setup: Callable[[], Setup] | None = None
) -> AsyncIterator[None]:
    """Serve the page for the length of the block, where it has a port; with a setup, owners change the configuration.

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
            daemon.live,
            daemon.journal.database,
            daemon.refresh_scheduler,
            daemon.app.shared_library,
            log_buffer,
            secrets=secrets,
            find_problems=partial(find_problems, daemon.monitor, daemon.alerts.rules.at_once()),
            setup=make_setup() if make_setup else None,
            reload=partial(reload, daemon),
            answer=daemon.answer,
            platform_failures=daemon.monitor.platform_failures,
        )
        async with serve_operator_page(settings.operator_page, context), prepared(context):
            yield


@asynccontextmanager
async def prepared(context: PageContext) -> AsyncIterator[None]:
    """Have what the questions without an answer mean ready for whoever opens their page, where that costs nobody."""
    from bots.operator_page.views import find_context_gaps

    async def prepare() -> None:
        await find_context_gaps(context)

    if context.settings.knowledge.embedding.provider != "local":
        yield
        return
    async with run_periodically(PREPARE_MINUTES, prepare):
        yield


async def reload(daemon: Daemon) -> Reloaded:
    """Read the configuration again, and take up what can be. Raises `KimasError`; then nothing has changed."""
    commands = daemon.commands
    if commands.reload_settings is None:
        raise UsageError("the configuration cannot be read again here")
    return await commands.reload(await commands.reload_settings())


async def find_problems(monitor: Monitor, rules: AlertRules) -> Sequence[str]:
    """Return what is wrong, one line each: of the daemon, and what alerts would report if it lasted."""
    lines = [*monitor.get_problems(), *monitor.get_warnings()]
    try:
        found = await rules.find_problems(datetime.now(UTC))
    except StoreError as error:
        return [*lines, str(error)]
    # The monitor says why a platform is away. The page shows no Markdown.
    return lines + [line.replace("`", "") for key, line in found.items() if not key.startswith("platform ")]
