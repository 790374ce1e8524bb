"""The daemon: adapters, workers and the refresh in one task group, from start to an orderly end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import TYPE_CHECKING

from bots.app import App, make_adapters, open_app, open_journal
from core.errors import KimasError
from core.intake import Intake
from core.logs import logger
from core.ports import Adapter
from core.scheduler import every
from core.settings import Settings
from core.tasks import task_group

if TYPE_CHECKING:
    from sdnotify import SystemdNotifier


async def run(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT and return the exit code.

    A first signal stops taking messages and gives the answers in the making `run.grace_s` seconds; what is not done by
    then is taken up at the next start. A second signal ends the waiting.
    """
    stop, hurry = _signals()
    async with AsyncExitStack() as stack:
        journal = await open_journal(settings)
        stack.push_async_callback(journal.close)
        adapters = make_adapters(settings, journal)
        for adapter in adapters:
            stack.push_async_callback(adapter.close)
        async with task_group() as opening:
            for adapter in adapters:
                opening.create_task(adapter.open())
            app = await stack.enter_async_context(open_app(settings))
        intake = Intake(settings, journal, app.answer)
        stack.push_async_callback(intake.drain, 0)
        async with task_group() as tasks:
            await stack.enter_async_context(every(settings.knowledge.refresh_minutes, lambda: _refresh(app)))
            listeners = [tasks.create_task(_listen(adapter, intake)) for adapter in adapters]
            async with _service_manager(tasks):
                logger(__name__).info("daemon.ready", platforms=[adapter.name for adapter in adapters])
                tasks.create_task(app.warm_up())
                await stop.wait()
                logger(__name__).info("daemon.stopping", grace_s=settings.run.grace_s)
                for listener in listeners:
                    listener.cancel()
                await _drain(intake, settings.run.grace_s, hurry)
    logger(__name__).info("daemon.stopped")
    return 0


async def _listen(adapter: Adapter, intake: Intake) -> None:
    await intake.resume(adapter)
    await adapter.listen(intake.receiver(adapter))


async def _drain(intake: Intake, grace_s: float, hurry: asyncio.Event) -> None:
    hurried = asyncio.create_task(hurry.wait())
    drained = asyncio.create_task(intake.drain(grace_s))
    await asyncio.wait((hurried, drained), return_when=asyncio.FIRST_COMPLETED)
    left = await (drained if drained.done() else intake.drain(0))
    hurried.cancel()
    await asyncio.gather(drained, hurried, return_exceptions=True)
    if left:
        logger(__name__).warning("daemon.handed_back", messages=left)


async def _refresh(app: App) -> None:
    """Refresh all sources; whatever goes wrong, the daemon goes on with what it knows."""
    try:
        done = await app.refresh()
    except KimasError as fault:
        logger(__name__).error("refresh.failed", error=str(fault))
        return
    for report in done.reports:
        logger(__name__).info(
            "source.refreshed",
            source=report.name,
            added=report.added,
            updated=report.updated,
            deleted=report.deleted,
            passages=report.passages,
            seconds=round(report.seconds, 2),
        )


def _signals() -> tuple[asyncio.Event, asyncio.Event]:
    stop, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    return stop, hurry


@asynccontextmanager
async def _service_manager(tasks: asyncio.TaskGroup) -> AsyncIterator[None]:
    """Tell systemd when the block is entered and left, and in between that the event loop is alive."""
    if not os.environ.get("NOTIFY_SOCKET"):
        yield
        return
    from sdnotify import SystemdNotifier

    notifier = SystemdNotifier(debug=True)
    with closing(notifier.socket):
        notifier.notify("READY=1")
        watchdog = tasks.create_task(_watchdog(notifier, int(os.environ.get("WATCHDOG_USEC", "0"))))
        try:
            yield
        finally:
            notifier.notify("STOPPING=1")
            watchdog.cancel()


async def _watchdog(notifier: SystemdNotifier, interval_us: int) -> None:
    while interval_us:
        notifier.notify("WATCHDOG=1")
        await asyncio.sleep(interval_us / 2_000_000)
