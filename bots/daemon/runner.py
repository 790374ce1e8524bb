"""The daemon: adapters, workers and refreshes in one task group, from the start to an orderly stop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, TypeVar

from bots.daemon.adapters import name_platform
from bots.daemon.bootstrap import Daemon, open_daemon
from bots.daemon.monitor import open_monitor
from bots.daemon.operator_page import open_operator_page
from bots.daemon.sharing import ReloadFollower
from core.errors import JournalError, KimasError, PlatformError
from core.language.spelling import prepare_english_words
from core.messaging.commands.context import SettingsLoader
from core.messaging.drafts import SWEEP_MINUTES
from core.messaging.inbox import Inbox
from core.observability.logs import get_logger
from core.observability.tracing import open_tracing
from core.ports import Adapter
from core.runtime.left_over import remove_left_backups, remove_left_restores
from core.runtime.locks import daemon_lock
from core.runtime.tasks import iter_retry_delays, task_group
from core.runtime.timers import run_periodically
from core.settings import Settings
from core.storage.retention import erase_expired

if TYPE_CHECKING:
    from sdnotify import SystemdNotifier

    from bots.operator_page.setup_port import Setup

_log = get_logger(__name__)

DAILY_MINUTES = 24 * 60
CLOCK_MINUTES = 1.0
# How often it is looked whether another daemon has read its files again.
FOLLOW_MINUTES = 5 / 60
# How often the journal is tried again at the start: for four minutes.
RESUME_RETRIES = 20

Result = TypeVar("Result")


async def run(
    settings: Settings,
    *,
    dry_run: bool = False,
    reload_settings: SettingsLoader | None = None,
    make_setup: Callable[[], Setup] | None = None,
) -> int:
    """Run until SIGTERM, SIGINT or SIGHUP and return the exit code; a dry run logs what it would say and shows nothing.

    The first signal stops taking messages and gives unfinished answers `run.grace_s` seconds; the next start continues
    with the rest. A second signal ends the waiting. A platform that fails for good ends the daemon in the same way, and
    its error is raised afterwards. `reload_settings` reads the configuration again, for /reload; with `make_setup`
    the operator's page adds to it, except in a dry run: then such a platform is told there, and ends nothing else.
    Raises `StoreLocked` beside another daemon.
    """
    stop, force_stop = _install_signal_handlers()
    has_setup = settings.operator_page.port is not None and make_setup is not None and not dry_run
    async with AsyncExitStack() as stack:
        stack.enter_context(daemon_lock(settings.data_dir))
        for remove in (remove_left_restores, remove_left_backups):
            await asyncio.to_thread(remove, settings.data_dir)
        headers = {name: secret.value() for name, secret in settings.tracing.headers.items()}
        stack.enter_context(open_tracing(settings.tracing.endpoint, headers, settings.tracing.service))
        monitor = await stack.enter_async_context(open_monitor(settings))
        daemon = await _run_unless_stopped(
            stop, open_daemon(settings, stack, monitor, reload_settings, dry_run=dry_run, keeps_going=has_setup)
        )
        if daemon:
            # A dry run may try a configuration that lacks a source by mistake.
            await stack.enter_async_context(daemon.refresh_scheduler.run(purge_removed=not dry_run))
            await stack.enter_async_context(open_operator_page(settings, daemon, None if dry_run else make_setup))
            if not dry_run and settings.api.port is not None:
                from bots.api.server import serve_api

                parts = (daemon.live, daemon.answer, daemon.app.get_deps, settings.run.workers)
                await stack.enter_async_context(serve_api(settings.api, *parts, journal=daemon.journal))
            await _serve(settings, daemon, stack, (stop, force_stop), keeps_going=has_setup)
    _log.info("daemon.stopped")
    return 0


async def _run_unless_stopped(stop: asyncio.Event, coroutine: Coroutine[Any, Any, Result]) -> Result | None:
    """Return the coroutine's result, or None when `stop` came first; the coroutine is then cancelled and done."""
    work_task = asyncio.create_task(coroutine)
    stop_task = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((work_task, stop_task), return_when=asyncio.FIRST_COMPLETED)
        return await work_task if work_task.done() else None
    finally:
        work_task.cancel()
        stop_task.cancel()
        await asyncio.gather(work_task, stop_task, return_exceptions=True)


async def _serve(
    settings: Settings,
    daemon: Daemon,
    stack: AsyncExitStack,
    signals: tuple[asyncio.Event, asyncio.Event],
    *,
    keeps_going: bool,
) -> None:
    stop, force_stop = signals
    app = daemon.app
    adapters = daemon.adapters
    inbox = daemon.inbox
    async with task_group() as tasks:
        await stack.enter_async_context(
            run_periodically(DAILY_MINUTES, lambda: erase_expired(settings, daemon.journal))
        )
        await stack.enter_async_context(run_periodically(CLOCK_MINUTES, daemon.monitor.clock.look))
        await stack.enter_async_context(daemon.alerts.run())
        await stack.enter_async_context(daemon.gap_reporter.run())
        await stack.enter_async_context(run_periodically(SWEEP_MINUTES, inbox.drafts.sweep))
        if daemon.sharing:
            await stack.enter_async_context(run_periodically(FOLLOW_MINUTES, ReloadFollower(daemon.commands).look))
        errors: list[Exception] = []
        adapters_by_platform = [list(group) for _, group in groupby(sorted(adapters, key=_get_platform), _get_platform)]
        workers = [tasks.create_task(daemon.sharing.queue.run())] if daemon.sharing else []
        listeners = workers + [
            tasks.create_task(_listen(group, daemon, stop, errors, keeps_going=keeps_going))
            for group in adapters_by_platform
        ]
        async with _service_manager(tasks):
            _log.info("daemon.ready", platforms=[adapter.label for adapter in adapters])
            tasks.create_task(app.warm_up())
            tasks.create_task(prepare_english_words())
            daemon.monitor.stage = "ready"
            await stop.wait()
            daemon.monitor.stage = "stopping"
            _log.info("daemon.stopping", grace_s=settings.run.grace_s)
            for listener in listeners:
                listener.cancel()
            await _drain(inbox, settings.run.grace_s, force_stop)
        if errors:
            raise errors[0]


def _get_platform(adapter: Adapter) -> str:
    return adapter.name


async def _listen(
    adapters: Sequence[Adapter], daemon: Daemon, stop: asyncio.Event, errors: list[Exception], *, keeps_going: bool
) -> None:
    """Listen with all bots of one platform, and follow the feeds that they write about, until cancelled.

    It waits for a platform that cannot be reached yet. A failure is recorded and stops the daemon in order: unfinished
    answers continue. Where it `keeps_going`, what a platform refuses is told by the monitor, and the others go on.
    """
    try:
        for adapter in adapters:
            await daemon.adapters[adapter]
        inbox = daemon.inbox
        await _resume(inbox, adapters)
        async with task_group() as tasks:
            for adapter in adapters:
                receive = inbox.handler_for(adapter)
                listen = partial(adapter.listen, receive)
                sharing = daemon.sharing
                listening = sharing.listen(adapter, listen) if sharing else listen()
                tasks.create_task(name_platform(adapter, listening))
                for follower in daemon.feed_followers:
                    if follower.adapter is adapter:
                        follow = partial(follower.listen, receive)
                        following = sharing.follow(follower, follow) if sharing else follow()
                        tasks.create_task(name_platform(adapter, following))
    except Exception as error:
        is_expected = isinstance(error, KimasError)
        _log.error(
            "platform.failed", platform=adapters[0].name, error=str(error), exc_info=None if is_expected else error
        )
        if keeps_going and isinstance(error, PlatformError):
            for adapter in adapters:
                is_cause = adapter.label == error.platform
                daemon.monitor.record_failure(adapter.label, str(error) if is_cause else f"so has {error.platform}")
            return
        errors.append(error)
        stop.set()


async def _resume(inbox: Inbox, adapters: Sequence[Adapter]) -> None:
    """Continue what the last run left. Wait some minutes for a journal whose disk is full or whose lock is held."""
    for delay_s in islice(iter_retry_delays(), RESUME_RETRIES):
        try:
            await inbox.resume(*adapters)
        except JournalError as error:
            _log.error("journal.unavailable", error=str(error), retry_s=delay_s)
            await asyncio.sleep(delay_s)
        else:
            return
    await inbox.resume(*adapters)


async def _drain(inbox: Inbox, grace_s: float, force_stop: asyncio.Event) -> None:
    force_stop_task = asyncio.create_task(force_stop.wait())
    drain_task = asyncio.create_task(inbox.drain(grace_s))
    await asyncio.wait((force_stop_task, drain_task), return_when=asyncio.FIRST_COMPLETED)
    unfinished_count = await (drain_task if drain_task.done() else inbox.drain(0))
    force_stop_task.cancel()
    await asyncio.gather(drain_task, force_stop_task, return_exceptions=True)
    if unfinished_count:
        _log.warning("daemon.messages_left", messages=unfinished_count)


def _install_signal_handlers() -> tuple[asyncio.Event, asyncio.Event]:
    stop = asyncio.Event()
    force_stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        (force_stop if stop.is_set() else stop).set()

    # A terminal that is closed ends the daemon in order, too.
    for signal_number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(signal_number, on_signal)
    return stop, force_stop


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
