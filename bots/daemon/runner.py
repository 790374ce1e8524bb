"""The daemon: adapters, workers and the refresh in one task group, from start to an orderly end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from bots.common.dry_run import COPY, DryRun, copy_journal, remove_copy
from bots.daemon.adapters import make_adapters
from bots.daemon.bootstrap import App, open_app, open_journal
from bots.daemon.feeds import FeedFollower, make_followers
from bots.daemon.monitor import Monitor, monitoring
from core.errors import KimasError
from core.messaging.commands.context import Reread
from core.messaging.commands.dispatcher import Desk
from core.messaging.multi_bot import label_of
from core.messaging.processor import Intake
from core.observability.logs import logger
from core.ports import Adapter
from core.runtime.locks import daemon_lock
from core.runtime.tasks import task_group
from core.runtime.timers import every
from core.settings import Settings
from core.storage.retention import forget
from knowledge.ingestion.scheduler import Keeper

if TYPE_CHECKING:
    from sdnotify import SystemdNotifier

    from core.storage.messages import Journal

DAILY_MINUTES = 24 * 60

Result = TypeVar("Result")


async def run(settings: Settings, *, dry: bool = False, reread: Reread | None = None) -> int:
    """Run until SIGTERM or SIGINT and return the exit code; a `dry` run logs what it would say and shows nothing.

    A first signal stops taking messages and gives the answers in the making `run.grace_s` seconds; what is not done by
    then is taken up at the next start. A second signal ends the waiting. A platform that fails for good ends the
    daemon in the same way, and its error is raised afterwards. `reread` reads the configuration again, for /reload.
    Raises `StoreLocked` beside another daemon.
    """
    stop, hurry = _signals()
    async with AsyncExitStack() as stack:
        stack.enter_context(daemon_lock(settings.data_dir))
        monitor = await stack.enter_async_context(monitoring(settings))
        opened = await _unless(stop, _open(settings, stack, monitor, reread, dry=dry))
        if opened:
            # What a dry run tries out may be a configuration that lacks a source by mistake.
            await stack.enter_async_context(opened.keeper.keeping(forgetting=not dry))
            await _serve(settings, opened, stack, stop, hurry)
    logger(__name__).info("daemon.stopped")
    return 0


@dataclass(frozen=True, slots=True)
class _Opened:
    """What the daemon works with, once all of it is open."""

    app: App
    adapters: Sequence[Adapter]
    feeds: Sequence[FeedFollower]
    intake: Intake
    journal: Journal
    keeper: Keeper
    monitor: Monitor


async def _open(
    settings: Settings, stack: AsyncExitStack, monitor: Monitor, reread: Reread | None, *, dry: bool
) -> _Opened:
    # A dry run that was killed has left its own behind.
    await remove_copy(settings.data_dir)
    if dry:
        await copy_journal(settings.data_dir)
        stack.push_async_callback(remove_copy, settings.data_dir)
    journal = await open_journal(settings, COPY if dry else "journal.db", monitor.meter)
    stack.push_async_callback(journal.close)
    connected = adapters = make_adapters(settings, journal, mute=dry)
    if dry:
        adapters = [DryRun(adapter) for adapter in adapters]
    feeds = make_followers(settings, adapters, journal)
    for adapter in adapters:
        stack.push_async_callback(adapter.close)
    async with task_group() as opening:
        for adapter in adapters:
            opening.create_task(adapter.open())
        app = await stack.enter_async_context(open_app(settings, database=journal.database, meter=monitor.meter))
    keeper = app.keeper(journal.database, monitor.meter)
    desk = Desk(settings, journal, upkeep=keeper, reread=reread, library=app.parts.library)
    if app.answering.limits:
        desk.office.adopters["limits"] = app.answering.limits.adopt
    intake = Intake(settings, journal, monitor.answering(app.answer), app.parts.library, desk)
    stack.push_async_callback(intake.drain, 0)
    monitor.look_at(connected, intake, keeper, app.models)
    return _Opened(app, adapters, feeds, intake, journal, keeper, monitor)


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, Result]) -> Result | None:
    """Return what the work returns, or None when `stop` came first; the work is then cancelled and has ended."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def _serve(
    settings: Settings, opened: _Opened, stack: AsyncExitStack, stop: asyncio.Event, hurry: asyncio.Event
) -> None:
    app, adapters, intake = opened.app, opened.adapters, opened.intake
    async with task_group() as tasks:
        await stack.enter_async_context(every(DAILY_MINUTES, lambda: forget(settings, opened.journal)))
        faults: list[Exception] = []
        bots = [list(group) for _, group in groupby(sorted(adapters, key=_platform), _platform)]
        listeners = [tasks.create_task(_listen(group, opened.feeds, intake, stop, faults)) for group in bots]
        async with _service_manager(tasks):
            logger(__name__).info("daemon.ready", platforms=[label_of(adapter) for adapter in adapters])
            tasks.create_task(app.warm_up())
            opened.monitor.stage = "ready"
            await stop.wait()
            opened.monitor.stage = "stopping"
            logger(__name__).info("daemon.stopping", grace_s=settings.run.grace_s)
            for listener in listeners:
                listener.cancel()
            await _drain(intake, settings.run.grace_s, hurry)
        if faults:
            raise faults[0]


def _platform(adapter: Adapter) -> str:
    return adapter.name


async def _listen(
    bots: Sequence[Adapter],
    feeds: Sequence[FeedFollower],
    intake: Intake,
    stop: asyncio.Event,
    faults: list[Exception],
) -> None:
    """Listen with all bots of one platform, and follow the feeds that they write about, until cancelled.

    A failure is noted and stops the daemon, in order: answers in the making go on.
    """
    try:
        await intake.resume(*bots)
        async with task_group() as tasks:
            for adapter in bots:
                tasks.create_task(adapter.listen(intake.receiver(adapter)))
                for feed in feeds:
                    if feed.adapter is adapter:
                        tasks.create_task(feed.listen(intake.receiver(adapter)))
    except Exception as fault:
        expected = isinstance(fault, KimasError)
        logger(__name__).error(
            "platform.failed", platform=bots[0].name, error=str(fault), exc_info=None if expected else fault
        )
        faults.append(fault)
        stop.set()


async def _drain(intake: Intake, grace_s: float, hurry: asyncio.Event) -> None:
    hurried = asyncio.create_task(hurry.wait())
    drained = asyncio.create_task(intake.drain(grace_s))
    await asyncio.wait((hurried, drained), return_when=asyncio.FIRST_COMPLETED)
    left = await (drained if drained.done() else intake.drain(0))
    hurried.cancel()
    await asyncio.gather(drained, hurried, return_exceptions=True)
    if left:
        logger(__name__).warning("daemon.handed_back", messages=left)


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
